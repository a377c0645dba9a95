//! The programs that run in the guest: lagstop and its live tests, linked so that they need no libraries there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sha2::{Digest, Sha256};

use super::{error::Error, matrix::Arch};
use crate::{command::stdout, workspace::Workspace};

/// What the guest runs.
pub(super) struct GuestBinaries {
    pub(super) lagstop: Vec<u8>,
    pub(super) live: Vec<u8>,
    /// A hash of both programs.
    pub(super) build: String,
}

impl Arch {
    /// Rust's name of the target whose C library is linked statically.
    pub(super) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// What to build it with where that is not what everything is built with: there is no compiler for musl on Arm, and none
    /// is needed but for zstd's C.
    const fn cross(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Amd64 => &[],
            Self::Arm64 => &[
                ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
                (
                    "CARGO_ENCODED_RUSTFLAGS",
                    "-Ctarget-feature=+crt-static\x1f-Clinker=rust-lld\x1f-Clink-self-contained=yes",
                ),
            ],
        }
    }
}

impl GuestBinaries {
    /// Builds them, with what `.ci/run` builds anyway. `lagstop` is to be tried instead of the one that is built.
    pub(super) fn build(workspace: &Workspace, arch: Arch, lagstop: Option<&Path>) -> Result<Self, Error> {
        println!("building lagstop and its live tests for {}", arch.target());
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(workspace.root())
            .envs(arch.cross().iter().copied())
            .args(["test", "--no-run", "--quiet", "--locked", "--workspace", "--test", "live", "--profile", "ci"])
            .args(["--message-format", "json-render-diagnostics", "--target", arch.target()])
            .stderr(Stdio::inherit());
        let messages = stdout(&mut cargo)?;
        let built = |name: &'static str| executable(&messages, name).ok_or(Error::NotBuilt(name));
        let read = |path: &Path| fs::read(path).map_err(Error::file("read", path));
        let lagstop = read(&lagstop.map_or_else(|| built("lagstop"), |other| Ok(other.to_owned()))?)?;
        let live = read(&built("live")?)?;
        let build = Sha256::new().chain_update(&lagstop).chain_update(&live).finalize();
        let build = build.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { lagstop, live, build })
    }
}

/// The program of this name among cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == name;
        is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_libraries() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"lagstop","kind":["lib"]},"executable":null}
{"reason":"compiler-artifact","target":{"name":"lagstop","kind":["bin"]},"executable":"/t/debug/lagstop"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "lagstop"), Some(PathBuf::from("/t/debug/lagstop")));
        assert_eq!(executable(messages, "live"), None);
    }
}
