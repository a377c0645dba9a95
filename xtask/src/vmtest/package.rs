//! Debian's packages: fetched once, checked at every use.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::error::Error;
use crate::command::{not_started, stdout};

/// Where packages come from, unless [`MIRROR_VARIABLE`] says otherwise.
const MIRROR: &str = "http://deb.debian.org";
/// Names another mirror that has `debian/` and `debian-security/`.
const MIRROR_VARIABLE: &str = "LAGSTOP_DEBIAN_MIRROR";

/// A package at its place in the mirror.
#[derive(Debug)]
pub(super) struct Package {
    archive: &'static str,
    path: &'static str,
    sha256: &'static str,
}

impl Package {
    /// One of `debian/`.
    pub(super) const fn main(path: &'static str, sha256: &'static str) -> Self {
        Self { archive: "debian", path, sha256 }
    }

    /// One of `debian-security/`.
    pub(super) const fn security(path: &'static str, sha256: &'static str) -> Self {
        Self { archive: "debian-security", path, sha256 }
    }

    fn url(&self) -> String {
        // `+` is for many servers another way to write a space.
        format!("{}/{}/{}", mirror(), self.archive, self.path.replace('+', "%2B"))
    }

    /// The package in `cache`, from the mirror where it is not there yet.
    pub(super) fn fetch(&self, cache: &Path) -> Result<PathBuf, Error> {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        let file = cache.join(name);
        if file.is_file() {
            if verify(&file, self.sha256).is_ok() {
                return Ok(file);
            }
            println!("{} is not what is pinned: fetching it anew", file.display());
        }
        fs::create_dir_all(cache).map_err(Error::file("made", cache))?;
        // Beside it first, under a name of our own, so that nobody finds half of a file.
        let part = cache.join(format!("{name}.{}.part", std::process::id()));
        let url = self.url();
        let got = stdout(
            Command::new("curl")
                .args(["--fail", "--silent", "--show-error", "--location", "--retry", "3", "--connect-timeout", "20"])
                .args(["--max-time", "600", "--output"])
                .arg(&part)
                .arg(&url),
        );
        let checked = got
            .map_err(|error| Error::Package(url, format!("{error}. {}", remedy())))
            .and_then(|_| verify(&part, self.sha256))
            .and_then(|()| fs::rename(&part, &file).map_err(Error::file("written", &file)));
        if checked.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&part);
        }
        checked.map(|()| file)
    }
}

/// The mirror, without a slash at its end.
pub(super) fn mirror() -> String {
    let mirror = std::env::var(MIRROR_VARIABLE).unwrap_or_else(|_| MIRROR.to_owned());
    mirror.trim_end_matches('/').to_owned()
}

fn remedy() -> String {
    format!(
        "If the mirror has dropped the package, pin its successor in xtask/src/vmtest/matrix.rs; another mirror can be \
         named by {MIRROR_VARIABLE}"
    )
}

/// Where packages are kept between runs and checkouts.
pub(super) fn cache() -> PathBuf {
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("lagstop/vmtest")
}

/// An error unless the file has this checksum.
fn verify(file: &Path, pinned: &str) -> Result<(), Error> {
    // The program, because xtask itself is not optimised.
    let line = stdout(Command::new("sha256sum").arg("--binary").arg(file))?;
    let found = line.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    if found == pinned {
        return Ok(());
    }
    Err(Error::Checksum { path: file.to_owned(), found: found.to_owned(), pinned: pinned.to_owned() })
}

/// Unpacks the one file of a package that the pattern fits.
pub(super) fn unpack(package: &Path, pattern: &str, to: &Path) -> Result<(), Error> {
    let mut unpacked = Command::new("dpkg-deb");
    unpacked.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut dpkg = unpacked.spawn().map_err(|source| not_started(&unpacked, source))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--to-stdout", "--wildcards", pattern]);
    if let Some(stdout) = dpkg.stdout.take() {
        tar.stdin(stdout);
    }
    let output = tar.stderr(Stdio::null()).output().map_err(|source| not_started(&tar, source));
    // It has ended with its reader, or is about to.
    let _ = dpkg.wait();
    let content = output?.stdout;
    if content.is_empty() {
        return Err(Error::NotInPackage { package: package.to_owned(), pattern: pattern.to_owned() });
    }
    let mut file = File::create(to).map_err(Error::file("made", to))?;
    file.write_all(&content).map_err(Error::file("written", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn another_checksum_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hello");
        fs::write(&file, "hello\n").unwrap();
        verify(&file, HELLO).unwrap();
        fs::write(&file, "hallo\n").unwrap();
        let error = verify(&file, HELLO).unwrap_err().to_string();
        assert!(error.contains(&format!("{HELLO} is pinned")), "{error}");
    }

    #[test]
    fn what_is_in_the_cache_is_used_and_what_is_spoilt_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let package = Package { archive: "debian", path: "pool/h/hello_1+2.deb", sha256: HELLO };
        fs::write(dir.path().join("hello_1+2.deb"), "hello\n").unwrap();
        assert_eq!(package.fetch(dir.path()).unwrap(), dir.path().join("hello_1+2.deb"));
        assert!(package.url().ends_with("/debian/pool/h/hello_1%2B2.deb"));
    }

    #[test]
    fn one_file_is_taken_out_of_a_package() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("boot")).unwrap();
        fs::write(
            tree.join("DEBIAN/control"),
            "Package: k\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n",
        )
        .unwrap();
        fs::write(tree.join("boot/vmlinuz-1"), "kernel").unwrap();
        let deb = dir.path().join("k.deb");
        stdout(Command::new("dpkg-deb").arg("--build").arg(&tree).arg(&deb)).unwrap();
        let kernel = dir.path().join("kernel");
        unpack(&deb, "*/vmlinuz*", &kernel).unwrap();
        assert_eq!(fs::read_to_string(&kernel).unwrap(), "kernel");
        let error = unpack(&deb, "*/busybox", &kernel).unwrap_err().to_string();
        assert!(error.contains("holds no file"), "{error}");
    }
}
