//! The programs that vmtest needs, and whether they are recent enough.

use std::{path::Path, process::Command};

use super::{error::Error, install, matrix::Arch};
use crate::command::{CommandError, run, stdout};

/// QEMU 7.2 corrupts guests in which eBPF programs are attached and detached: they oops or hang.
const LEAST_QEMU: u32 = 8;

/// Programs, and Debian's packages of them.
const PROGRAMS: &[(&str, &str)] =
    &[("curl", "curl"), ("dpkg-deb", "dpkg"), ("tar", "tar"), ("sha256sum", "coreutils"), ("musl-gcc", "musl-tools")];

impl Arch {
    /// QEMU's program for it, and Debian's package of that.
    pub(super) const fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Self::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Self::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }
}

/// Makes sure that all is there, by installing it if `may_install`.
pub(super) fn require(archs: &[Arch], may_install: bool) -> Result<(), Error> {
    let first = missing(archs)?;
    if first.is_empty() {
        return Ok(());
    }
    if may_install {
        let packages: Vec<_> = first.iter().filter_map(|missing| missing.package).collect();
        if !packages.is_empty() {
            install::install(&packages)?;
        }
        for target in first.iter().filter_map(|missing| missing.target) {
            run(Command::new("rustup").args(["target", "add", target]))?;
        }
        let still = missing(archs)?;
        return if still.is_empty() { Ok(()) } else { Err(error(&still)) };
    }
    Err(error(&first))
}

fn error(missing: &[Missing]) -> Error {
    Error::Tools(missing.iter().map(|missing| format!("- {}", missing.why)).collect())
}

/// What is missing; exactly one of the two is set.
struct Missing {
    /// Debian's name of it.
    package: Option<&'static str>,
    /// A standard library of Rust's.
    target: Option<&'static str>,
    why: String,
}

fn missing(archs: &[Arch]) -> Result<Vec<Missing>, Error> {
    let mut all = Vec::new();
    for &(program, package) in PROGRAMS {
        if version(program)?.is_none() {
            let why = format!("{program}: `apt-get install {package}`");
            all.push(Missing { package: Some(package), target: None, why });
        }
    }
    for arch in archs {
        let (program, package) = arch.qemu();
        let text = version(program)?;
        let found = text.as_deref().map(major);
        if found.flatten().is_some_and(|major| major >= LEAST_QEMU) {
            continue;
        }
        let have = match (text, found.flatten()) {
            (None, _) => "it is not in PATH".to_owned(),
            (Some(_), Some(major)) => format!("here is version {major}, which corrupts guests with eBPF programs"),
            (Some(text), None) => format!("its version cannot be read from `{}`", text.lines().next().unwrap_or("")),
        };
        let why = format!(
            "{program} of version {LEAST_QEMU} or later; {have}. On Debian 12: `apt-get install -t bookworm-backports \
             {package}`, later `apt-get install {package}`"
        );
        all.push(Missing { package: Some(package), target: None, why });
    }
    for target in archs.iter().map(|arch| arch.target()) {
        let print = ["--print", "target-libdir", "--target", target];
        let libraries = stdout(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).args(print))?;
        if !Path::new(&libraries).is_dir() {
            let why = format!("Rust's standard library for {target}: `rustup target add {target}`");
            all.push(Missing { package: None, target: Some(target), why });
        }
    }
    Ok(all)
}

/// What the program says of itself; `None` where it is not in PATH.
fn version(program: &str) -> Result<Option<String>, Error> {
    match stdout(Command::new(program).arg("--version")) {
        Ok(text) => Ok(Some(text)),
        Err(CommandError::Absent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The first number of `QEMU emulator version 10.0.2 (Debian ...)`.
fn major(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("version ")?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_qemu_is_read() {
        assert_eq!(major("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright"), Some(7));
        assert_eq!(major("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)"), Some(10));
        assert_eq!(major("something else"), None);
    }

    #[test]
    fn what_is_missing_comes_with_what_to_run() {
        let why = "qemu-system-x86_64: `apt-get install qemu-system-x86`".to_owned();
        let error = error(&[Missing { package: Some("qemu-system-x86"), target: None, why }]).to_string();
        assert!(error.contains("- qemu-system-x86_64") && error.contains("cargo xtask vmtest --install"), "{error}");
    }
}
