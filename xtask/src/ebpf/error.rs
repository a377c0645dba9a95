//! Why the object could not be built or compared.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::missing::Missing;
use crate::command::CommandError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the toolchain is incomplete, so nothing was built or compared.\n{}\n{}", list(.0), ALL)]
    Toolchain(Vec<Missing>),
    #[error(
        "the committed object was built with rustc {committed}, here is rustc {here}; two compilers do not give the \
         same bytes, so nothing was compared. Use the same version, or rebuild with `cargo xtask ebpf` and commit"
    )]
    OtherCompiler { committed: String, here: String },
    #[error(
        "lagstop/bpf/{} is not what its sources give.\n  committed: sha256 {committed}\n  rebuilt:   sha256 {rebuilt}\n\
         {}\nRun `cargo xtask ebpf` and commit lagstop/bpf/", .file, explain(.manifest, .differences)
    )]
    Differs { file: &'static str, manifest: &'static str, committed: String, rebuilt: String, differences: Vec<String> },
    #[error("{path} cannot be {what}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{path}, line {line}, is not `name = value`; run `cargo xtask ebpf` to write it anew")]
    Manifest { path: PathBuf, line: usize },
    #[error("the built object cannot be stripped of its debug sections: {0}")]
    Strip(#[from] object::build::Error),
    #[error("{path} holds no `library/` with the standard library's source of rustc {release}")]
    NoLibrary { path: PathBuf, release: String },
    #[error(
        "the source of rustc {release}'s standard library could not be had.\n- rustup: {rustup}\n- Debian: {debian}\n\
         Get the package rust-src of exactly this version and pass it: `cargo xtask ebpf --rust-src FILE`"
    )]
    NoRustSrc { release: String, rustup: String, debian: String },
    #[error(transparent)]
    Command(#[from] CommandError),
}

const ALL: &str = "Or let `cargo xtask ebpf --install-toolchain` do it.";

impl Error {
    /// An error that says of a failed file operation that `what` could not be done to `path`.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.to_owned(), source }
    }

    /// True when the question could not be answered here, as opposed to being answered with no.
    pub(crate) fn is_for_want_of_tools(&self) -> bool {
        matches!(self, Self::Toolchain(_) | Self::OtherCompiler { .. } | Self::NoRustSrc { .. })
    }
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(|one| format!("- {one}")).collect::<Vec<_>>().join("\n")
}

fn explain(manifest: &str, differences: &[String]) -> String {
    if differences.is_empty() {
        return "Sources, rustc and bpf-linker are those of the manifest: the build is not reproducible here."
            .to_owned();
    }
    let mut text = format!("Against lagstop/bpf/{manifest}:");
    for difference in differences {
        text.push_str("\n  ");
        text.push_str(difference);
    }
    text
}
