//! Compiles programs for BPF, so that the bytes depend on nothing but the sources and the toolchain.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Error, object::Object, toolchain::Toolchain};
use crate::{command::run, workspace::Workspace};

const TARGET: &str = "bpfel-unknown-none";

/// What the profile is to be for BPF, whatever it is for the host. Unoptimised programs do not pass the verifier, nor do those
/// that can panic, and bpf-linker does link-time optimisation itself.
pub(super) const PROFILE: &[(&str, &str)] = &[
    ("CODEGEN_UNITS", "1"),
    ("DEBUG", "2"),
    ("LTO", "off"),
    ("OPT_LEVEL", "3"),
    ("OVERFLOW_CHECKS", "false"),
    ("STRIP", "none"),
];

/// Flags for rustc. The debug information is what bpf-linker makes BTF from. aya-ebpf would ask the build machine for
/// the architecture; no program here depends on it.
pub(super) const FLAGS: &[&str] = &["-Cdebuginfo=2", "-Clink-arg=--btf", "--cfg=bpf_target_arch=\"x86_64\""];

/// Builds an object, debug sections and all.
pub(super) fn build(workspace: &Workspace, toolchain: &Toolchain, object: Object) -> Result<Vec<u8>, Error> {
    let target_dir = workspace.target().join("ebpf");
    // Unpacks the crates, so that the folder whose name is to be mapped away is there.
    run(cargo(workspace).args(["fetch", "--quiet", "--locked", "--target", TARGET]))?;
    run(cargo(workspace)
        .env("CARGO_ENCODED_RUSTFLAGS", encoded_flags(workspace.root(), &target_dir, &toolchain.sysroot))
        .args(["build", "--package", object.package, "--bin", object.package, "--features", "programs"])
        .args(["--release", "--locked", "--target", TARGET, "-Z", "build-std=core", "--target-dir"])
        .arg(&target_dir))?;
    let built = target_dir.join(TARGET).join("release").join(object.package);
    fs::read(&built).map_err(Error::file("read", &built))
}

/// Cargo, with what it inherits made the same everywhere.
fn cargo(workspace: &Workspace) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| leaks(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    for (setting, value) in PROFILE {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    cargo
        .current_dir(workspace.root())
        // Stable rustc, with what it holds back for nightly: -Z build-std and the target itself.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", "bpf-linker");
    cargo
}

/// True for variables of the caller that would change what cargo builds.
fn leaks(name: &str) -> bool {
    name.contains("RUSTFLAGS")
        || name.starts_with("CARGO_PROFILE_")
        || name.starts_with("CARGO_TARGET_BPFEL_")
        || name.starts_with("CARGO_UNSTABLE_")
        || matches!(name, "CARGO_INCREMENTAL" | "CARGO_BUILD_TARGET" | "CARGO_BUILD_INCREMENTAL")
        || (name.starts_with("RUSTC") && name.ends_with("WRAPPER"))
        || (name.starts_with("CARGO_BUILD_RUSTC") && name.ends_with("WRAPPER"))
}

/// The flags as cargo takes them, which allows for spaces in paths. Of several prefixes that fit, rustc takes the last.
fn encoded_flags(root: &Path, target_dir: &Path, sysroot: &Path) -> OsString {
    let mut prefixes = vec![(root.to_owned(), "/lagstop"), (target_dir.to_owned(), "/target")];
    prefixes.extend(registries().into_iter().map(|dir| (dir, "/registry")));
    prefixes.push((sysroot.to_owned(), "/rust"));
    let mut flags = OsString::from(FLAGS.join("\x1f"));
    for (path, name) in prefixes {
        let real = fs::canonicalize(&path).ok().filter(|real| *real != path);
        for path in std::iter::once(path).chain(real) {
            flags.push("\x1f--remap-path-prefix=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
        }
    }
    flags
}

/// Where cargo unpacks crates: one folder per registry, with a hash in its name.
fn registries() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .unwrap_or_default();
    let mut dirs: Vec<PathBuf> = fs::read_dir(home.join("registry/src"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    dirs.sort();
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_caller_stay_out() {
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "RUSTC_WRAPPER"] {
            assert!(leaks(name), "{name}");
        }
        for name in ["CARGO_PROFILE_RELEASE_LTO", "CARGO_TARGET_BPFEL_UNKNOWN_NONE_RUSTFLAGS"] {
            assert!(leaks(name), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "RUSTC", "CARGO_TARGET_DIR", "CARGO_HTTP_PROXY"] {
            assert!(!leaks(name), "{name}");
        }
    }

    #[test]
    fn every_path_is_given_another_name() {
        let flags = encoded_flags(Path::new("/a b/c"), Path::new("/t"), Path::new("/s"));
        let flags = flags.to_string_lossy();
        let flags: Vec<&str> = flags.split('\x1f').collect();
        assert!(flags.starts_with(FLAGS));
        for flag in ["/a b/c=/lagstop", "/t=/target", "/s=/rust"] {
            assert!(flags.contains(&format!("--remap-path-prefix={flag}").as_str()), "{flag} in {flags:?}");
        }
    }
}
