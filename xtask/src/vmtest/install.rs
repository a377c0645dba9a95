//! Installs Debian's packages without a change to the host's list of sources.

use std::{fs, path::Path, process::Command};

use super::{error::Error, package};
use crate::command::{run, stdout};

/// Installs packages of this release of Debian, or newer ones of its backports where its own will not do.
pub(super) fn install(packages: &[&str]) -> Result<(), Error> {
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| os.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_matches('"'));
    let (Some("debian"), Some(codename)) = (field("ID="), field("VERSION_CODENAME=")) else {
        return Err(Error::NotDebian(field("PRETTY_NAME=").unwrap_or("something else").to_owned()));
    };
    let dir = tempfile::tempdir().map_err(Error::file("made", &std::env::temp_dir()))?;
    let (list, lists) = (dir.path().join("sources.list"), dir.path().join("lists"));
    fs::write(&list, sources(&package::mirror(), codename)).map_err(Error::file("written", &list))?;
    fs::create_dir_all(lists.join("partial")).map_err(Error::file("made", &lists))?;
    // apt fetches as a user of its own.
    run(Command::new("chmod").arg("--recursive").arg("a+rX").arg(dir.path()))?;

    println!("installing {}", packages.join(", "));
    stdout(apt(&list, &lists).arg("update"))?;
    let mut install = apt(&list, &lists);
    install.args(["install", "--yes", "--no-install-recommends"]);
    if needs_backports(codename) {
        install.args(["--target-release", &format!("{codename}-backports")]);
    }
    stdout(install.args(packages))?;
    Ok(())
}

/// apt with sources of our own, so that the host's are as they were.
fn apt(list: &Path, lists: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    for (option, value) in [
        ("Dir::Etc::sourcelist", list.display().to_string()),
        ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
        ("Dir::State::lists", lists.display().to_string()),
        ("Dir::Cache::pkgcache", String::new()),
        ("Dir::Cache::srcpkgcache", String::new()),
    ] {
        apt.arg("--option").arg(format!("{option}={value}"));
    }
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// Debian 12 has QEMU 7.2.
fn needs_backports(codename: &str) -> bool {
    codename == "bookworm"
}

fn sources(mirror: &str, codename: &str) -> String {
    let keys = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
    let mut suites = vec![
        format!("debian {codename}"),
        format!("debian {codename}-updates"),
        format!("debian-security {codename}-security"),
    ];
    if needs_backports(codename) {
        suites.push(format!("debian {codename}-backports"));
    }
    suites.iter().map(|suite| format!("deb {keys} {mirror}/{suite} main\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_12_takes_from_backports() {
        let keys = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
        let lines = sources("http://mirror", "bookworm");
        assert!(lines.contains(&format!("deb {keys} http://mirror/debian bookworm-backports main\n")), "{lines}");
        assert!(
            lines.contains(&format!("deb {keys} http://mirror/debian-security bookworm-security main\n")),
            "{lines}"
        );
        assert!(!sources("http://mirror", "trixie").contains("backports"));
    }
}
