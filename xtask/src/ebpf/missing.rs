//! What the toolchain may lack, and how to get it.

use std::{fmt, path::PathBuf};

/// The newest bpf-linker that builds without a system LLVM, and reads the bitcode of this project's rustc.
pub(super) const BPF_LINKER: &str = "0.10.4";

/// A part of the toolchain that is not there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The standard library's source, of this release of rustc.
    RustSrc { library: PathBuf, release: String },
    /// The linker, or this version of it.
    BpfLinker { found: Option<String> },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RustSrc { library, release } => write!(
                f,
                "The standard library's source is not in {}. Run `rustup component add rust-src`; without rustup, get \
                 Debian's package rust-src of version {release} and run `cargo xtask ebpf --rust-src FILE`",
                library.display()
            ),
            Self::BpfLinker { found: None } => {
                write!(f, "bpf-linker is not in PATH. Run `cargo install bpf-linker@{BPF_LINKER} --locked`")
            }
            Self::BpfLinker { found: Some(found) } => write!(
                f,
                "bpf-linker is {found}, the object is built with {BPF_LINKER}. Run `cargo install \
                 bpf-linker@{BPF_LINKER} --locked --force`"
            ),
        }
    }
}
