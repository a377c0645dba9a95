//! Gets the parts of the toolchain that are missing.

use std::{path::Path, process::Command};

use super::{
    Error,
    missing::{BPF_LINKER, Missing},
    rust_src,
    toolchain::{library, missing, release},
};
use crate::command::{run, stdout};

/// Installs what is missing: the standard library's source from `file`, if one is given; anything at all only when
/// `everything`.
pub(super) fn install(file: Option<&Path>, everything: bool) -> Result<(), Error> {
    if file.is_none() && !everything {
        return Ok(());
    }
    for part in missing()? {
        match (part, file) {
            (Missing::RustSrc { library, release }, Some(file)) => rust_src::unpack(file, &library, &release)?,
            (Missing::RustSrc { .. }, None) => install_rust_src()?,
            (Missing::BpfLinker { .. }, _) if everything => install_bpf_linker()?,
            (Missing::BpfLinker { .. }, _) => {}
        }
    }
    Ok(())
}

fn install_bpf_linker() -> Result<(), Error> {
    eprintln!("Installing bpf-linker {BPF_LINKER}; it takes a minute or more.");
    let crate_version = format!("bpf-linker@{BPF_LINKER}");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The target directory that is set for this project is not for the linker.
    cargo.env_remove("CARGO_TARGET_DIR").args(["install", &crate_version, "--locked", "--force"]);
    Ok(run(&mut cargo)?)
}

fn install_rust_src() -> Result<(), Error> {
    eprintln!("Asking rustup for rust-src.");
    let rustup = match stdout(Command::new("rustup").args(["component", "add", "rust-src"])) {
        Ok(_) if library()?.join("Cargo.lock").is_file() => return Ok(()),
        Ok(_) => "it reported success, but the source is not there".to_owned(),
        Err(error) => error.to_string(),
    };
    let release = release()?;
    eprintln!("Looking for Debian's package rust-src of version {release}.");
    debian(&release).map_err(|error| Error::NoRustSrc { release, rustup, debian: error.to_string() })
}

fn debian(release: &str) -> Result<(), Error> {
    let offered = stdout(Command::new("apt-cache").args(["madison", "rust-src"]))?;
    let absent =
        || Error::NoLibrary { path: "the package rust-src that apt offers".into(), release: release.to_owned() };
    let version = debian_version(&offered, release).ok_or_else(absent)?;
    let dir = tempfile::tempdir().map_err(Error::file("made", &std::env::temp_dir()))?;
    run(Command::new("apt-get").current_dir(dir.path()).args(["download", &format!("rust-src={version}")]))?;
    let entries = std::fs::read_dir(dir.path()).map_err(Error::file("read", dir.path()))?;
    let package = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "deb"));
    rust_src::unpack(&package.ok_or_else(absent)?, &library()?, release)
}

/// The version of the package in `apt-cache madison`'s table that is of this release.
fn debian_version<'a>(table: &'a str, release: &str) -> Option<&'a str> {
    table
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .find(|version| version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['+', '-', '~'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exactly_the_release_will_do() {
        let table = " rust-src | 1.95.1+dfsg1-1 | http://deb trixie/main amd64 Packages\n \
                     rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://deb trixie-backports/main amd64 Packages\n";
        assert_eq!(debian_version(table, "1.95.0"), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(debian_version(table, "1.9"), None);
    }
}
