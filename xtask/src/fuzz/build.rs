//! Builds the targets for libFuzzer, with stable Rust and without cargo-fuzz.

use std::{path::PathBuf, process::Command};

use super::FuzzError;
use crate::{
    command::{run, stdout},
    workspace::Workspace,
};

/// Flags for rustc, as cargo-fuzz gives them: LLVM counts what is reached and shows what is compared. Arithmetic that
/// overflows is a finding. The sanitizers are left out: they take nightly's rustc, and there is next to no `unsafe` here.
const FLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
];

/// Builds them, and gives the folder in which they are.
pub(super) fn build(workspace: &Workspace) -> Result<PathBuf, FuzzError> {
    let target_dir = workspace.target().join("fuzz");
    let host = host()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
        .current_dir(workspace.root().join("fuzz"))
        // It goes before RUSTFLAGS.
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env("CARGO_INCREMENTAL", "0")
        // With a target named, build scripts and macros are built without these flags.
        .args(["build", "--quiet", "--release", "--bins", "--locked", "--target", &host, "--target-dir"])
        .arg(&target_dir))?;
    Ok(target_dir.join(host).join("release"))
}

/// What rustc calls this machine.
fn host() -> Result<String, FuzzError> {
    let said = stdout(Command::new("rustc").arg("-vV"))?;
    Ok(said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned())
}
