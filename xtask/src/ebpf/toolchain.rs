//! What it takes to build for BPF beyond stable Rust.

use std::{path::PathBuf, process::Command};

use super::{
    Error,
    missing::{BPF_LINKER, Missing},
};
use crate::command::{CommandError, stdout};

/// A complete toolchain.
pub(super) struct Toolchain {
    /// As in `rustc --version`, without its first word.
    pub(super) rustc: String,
    pub(super) bpf_linker: String,
    pub(super) sysroot: PathBuf,
}

impl Toolchain {
    /// The toolchain, when it is complete.
    pub(super) fn find() -> Result<Self, Error> {
        let missing = missing()?;
        if !missing.is_empty() {
            return Err(Error::Toolchain(missing));
        }
        let rustc = stdout(rustc().arg("--version"))?;
        Ok(Self {
            rustc: rustc.strip_prefix("rustc ").unwrap_or(&rustc).to_owned(),
            bpf_linker: BPF_LINKER.to_owned(),
            sysroot: sysroot()?,
        })
    }
}

pub(super) fn missing() -> Result<Vec<Missing>, Error> {
    let mut missing = Vec::new();
    let library = library()?;
    if !library.join("Cargo.lock").is_file() {
        missing.push(Missing::RustSrc { library, release: release()? });
    }
    let found = bpf_linker()?;
    if found.as_deref() != Some(BPF_LINKER) {
        missing.push(Missing::BpfLinker { found });
    }
    Ok(missing)
}

/// Where cargo looks for the standard library's source.
pub(super) fn library() -> Result<PathBuf, Error> {
    Ok(sysroot()?.join("lib/rustlib/src/rust/library"))
}

/// The version number of rustc alone.
pub(super) fn release() -> Result<String, Error> {
    let version = stdout(rustc().arg("--version"))?;
    Ok(version.split_whitespace().nth(1).unwrap_or_default().to_owned())
}

fn sysroot() -> Result<PathBuf, Error> {
    Ok(stdout(rustc().args(["--print", "sysroot"]))?.into())
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn bpf_linker() -> Result<Option<String>, Error> {
    match stdout(Command::new("bpf-linker").arg("--version")) {
        Ok(version) => Ok(Some(version.trim_start_matches("bpf-linker ").to_owned())),
        Err(CommandError::Absent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_what_to_run() {
        let absent = Missing::BpfLinker { found: None }.to_string();
        assert!(absent.contains("`cargo install bpf-linker@0.10.4 --locked`"), "{absent}");
        let older = Missing::BpfLinker { found: Some("0.9.0".to_owned()) }.to_string();
        assert!(older.contains("is 0.9.0") && older.contains("--force"), "{older}");
        let source = Missing::RustSrc { library: "/s/library".into(), release: "1.95.0".to_owned() };
        let error = Error::Toolchain(vec![source]);
        assert!(error.is_for_want_of_tools());
        assert!(error.to_string().contains("rustup component add rust-src"), "{error}");
    }
}
