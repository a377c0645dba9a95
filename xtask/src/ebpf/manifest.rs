//! The manifests in lagstop/bpf/: what the committed objects were built from, one `name = value` a line, sorted.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{
    Error,
    build::{FLAGS, PROFILE},
    object::Object,
    toolchain::Toolchain,
};
use crate::workspace::Workspace;

pub(super) const RUSTC: &str = "rustc";
const BPF_LINKER: &str = "bpf-linker";

pub(super) struct Manifest(BTreeMap<String, String>);

impl Manifest {
    /// What `built` was built from just now.
    pub(super) fn of(
        workspace: &Workspace,
        toolchain: &Toolchain,
        object: Object,
        built: &[u8],
    ) -> Result<Self, Error> {
        let mut entries = sources(workspace, object)?;
        entries.insert(RUSTC.to_owned(), toolchain.rustc.clone());
        entries.insert(BPF_LINKER.to_owned(), toolchain.bpf_linker.clone());
        entries.insert(entry(object), sha256(built));
        Ok(Self(entries))
    }

    /// The committed one.
    pub(super) fn read(workspace: &Workspace, object: Object) -> Result<Self, Error> {
        let path = object.manifest_path(workspace);
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        parse(&text).map(Self).map_err(|line| Error::Manifest { path, line })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What differs in `now`, each in a line.
    pub(super) fn differences(&self, now: &Self) -> Vec<String> {
        differences(&self.0, &now.0)
    }

    /// The manifest as it is committed.
    pub(super) fn text(&self, object: Object) -> String {
        let heading =
            format!("# What {} was built from. `cargo xtask ebpf` writes this; do not edit it.\n", object.file);
        self.0.iter().fold(heading, |text, (name, value)| text + &format!("{name} = {value}\n"))
    }
}

/// The name of the entry that has the object's own hash.
fn entry(object: Object) -> String {
    format!("object {}", object.file)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The entry of a line that failed to parse, counted from 1.
fn parse(text: &str) -> Result<BTreeMap<String, String>, usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|(index, line)| {
            // Values hold no " = "; names do, in flags.
            let (name, value) = line.rsplit_once(" = ").ok_or(index + 1)?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines: Vec<String> = before
        .iter()
        .filter_map(|(name, was)| match now.get(name) {
            None => Some(format!("{name}: gone")),
            Some(is) if is != was => Some(format!("{name}: {was} in the manifest, {is} now")),
            Some(_) => None,
        })
        .collect();
    lines.extend(now.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("{name}: new")));
    lines
}

/// Everything in the repository that determines the object.
fn sources(workspace: &Workspace, object: Object) -> Result<BTreeMap<String, String>, Error> {
    let root = workspace.root();
    let read = |path: &Path| fs::read_to_string(path).map_err(Error::file("read", path));
    let mut entries = BTreeMap::new();
    let profiles = read(&root.join("Cargo.toml"))?;
    let mut files = Vec::new();
    for package in object.linked.iter().chain([&object.package]) {
        entries.extend(package_profile(&profiles, package));
        let package = root.join(package);
        files.push(package.join("Cargo.toml"));
        rust_files(&package.join("src"), &mut files)?;
    }
    for file in files {
        let bytes = fs::read(&file).map_err(Error::file("read", &file))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        entries.insert(format!("source {name}"), sha256(&bytes));
    }
    entries.extend(crates(&read(&root.join("Cargo.lock"))?));
    for (setting, value) in PROFILE {
        entries.insert(format!("profile {}", setting.to_lowercase().replace('_', "-")), (*value).to_owned());
    }
    entries.insert("flags".to_owned(), FLAGS.join(" "));
    Ok(entries)
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let path = entry.map_err(Error::file("read", dir))?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Versions of the crates that are linked into the object.
fn crates(lock: &str) -> impl Iterator<Item = (String, String)> {
    lock.split("[[package]]").filter_map(|package| {
        let field = |name: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
            Some(value.trim_matches('"').to_owned())
        };
        let name = field("name")?;
        let linked = name.starts_with("aya-ebpf") || name.starts_with("bytemuck");
        linked.then_some((format!("crate {name}"), field("version")?))
    })
}

/// The workspace's settings for the package, which go before the profile's own.
fn package_profile<'a>(cargo_toml: &'a str, package: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    let heading = format!("[profile.release.package.{package}]");
    let lines = cargo_toml.lines().skip_while(move |line| *line != heading).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(move |(name, value)| (format!("profile of {package}, {name}"), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{
        super::object::{MEASURING, OBJECTS},
        *,
    };

    /// An object that is committed must be the one that its sources give. `cargo xtask ebpf --check` proves it; this
    /// notices a forgotten rebuild without the toolchain for BPF.
    #[test]
    fn the_committed_objects_are_not_stale() {
        let workspace = Workspace::here();
        for object in OBJECTS {
            let committed = Manifest::read(&workspace, object).unwrap();
            let mut now = sources(&workspace, object).unwrap();
            now.insert(entry(object), sha256(&fs::read(object.path(&workspace)).unwrap()));
            for tool in [RUSTC, BPF_LINKER] {
                now.insert(tool.to_owned(), committed.get(tool).unwrap().to_owned());
            }
            let differences = differences(&committed.0, &now);
            assert!(
                differences.is_empty(),
                "lagstop/bpf/{} does not belong to its sources:\n  {}\nRun `cargo xtask ebpf` and commit lagstop/bpf/.",
                object.file,
                differences.join("\n  ")
            );
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = [("flags", "-Ca=b"), ("source a.rs", "00ff"), ("rustc", "1.95.0 (59807616e 2026-04-14)")];
        let manifest = Manifest(entries.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(parse(&manifest.text(MEASURING)), Ok(manifest.0));
        assert_eq!(parse("# heading\na = b\nnonsense\n"), Err(3));
    }

    #[test]
    fn differences_name_what_changed() {
        let map = |entries: &[(&str, &str)]| entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let before = map(&[("rustc", "1"), ("source a.rs", "aa"), ("source b.rs", "bb")]);
        let now = map(&[("rustc", "1"), ("source a.rs", "ab"), ("source c.rs", "cc")]);
        let expected = ["source a.rs: aa in the manifest, ab now", "source b.rs: gone", "source c.rs: new"];
        assert_eq!(differences(&before, &now), expected);
    }

    #[test]
    fn versions_come_from_the_lock_file_and_settings_from_the_workspace() {
        let lock = "[[package]]\nname = \"aya\"\nversion = \"0.14.0\"\n\n[[package]]\nname = \"aya-ebpf\"\nversion = \
                    \"0.2.1\"\n";
        assert_eq!(crates(lock).collect::<Vec<_>>(), [("crate aya-ebpf".to_owned(), "0.2.1".to_owned())]);
        let toml = "[profile.release]\nlto = \"thin\"\n\n[profile.release.package.lagstop-ebpf]\nopt-level = 3\n";
        let settings: Vec<_> = package_profile(toml, "lagstop-ebpf").collect();
        assert_eq!(settings, [("profile of lagstop-ebpf, opt-level".to_owned(), "3".to_owned())]);
    }
}
