//! `cargo xtask ebpf`: builds the committed eBPF object, or checks it.

mod build;
mod error;
mod install;
mod manifest;
mod rust_src;
mod strip;
mod toolchain;

use std::{fs, path::PathBuf};

pub(crate) use error::Error;
use manifest::Manifest;
pub(crate) use manifest::sha256;
use toolchain::Toolchain;

use crate::workspace::Workspace;

/// Build lagstop's eBPF object, lagstop/bpf/lagstop.bpf.o, and the manifest beside it.
///
/// The object is committed, so that lagstop builds with nothing but stable Rust. Run this after every change in
/// lagstop-ebpf/ and commit both files.
#[derive(clap::Args)]
#[command(after_help = "Exit codes:
  0  built, or --check found the committed object to be what its sources give
  1  the build failed, or --check found a difference
  2  wrong usage
  3  the toolchain is missing or, for --check, of another version: nothing was compared

Examples:
  cargo xtask ebpf                                  Build the object
  cargo xtask ebpf --check                          Rebuild and compare, write nothing
  cargo xtask ebpf --install-toolchain              Get what is missing first
  cargo xtask ebpf --rust-src rust-src_1.95.0.deb   Take the standard library's source from a file first")]
pub(crate) struct Arguments {
    /// Rebuild and compare with the committed object, byte by byte, without writing it
    #[arg(long)]
    check: bool,
    /// Install what is missing: bpf-linker by `cargo install`, the standard library's source by rustup or else from
    /// Debian's package rust-src
    #[arg(long)]
    install_toolchain: bool,
    /// Unpack this file into the sysroot when the standard library's source is missing there: a .tar.xz or .tar.gz of
    /// `library/`, or Debian's rust-src package, of exactly rustc's version
    #[arg(long, value_name = "FILE")]
    rust_src: Option<PathBuf>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    install::install(arguments.rust_src.as_deref(), arguments.install_toolchain)?;
    let toolchain = Toolchain::find()?;
    if arguments.check { check(workspace, &toolchain) } else { write(workspace, &toolchain) }
}

fn write(workspace: &Workspace, toolchain: &Toolchain) -> Result<(), Error> {
    let object = strip::strip(&build::build(workspace, toolchain)?)?;
    let manifest = Manifest::of(workspace, toolchain, &object)?;
    for (path, bytes) in [(workspace.object(), &object[..]), (workspace.manifest(), manifest.to_string().as_bytes())] {
        fs::write(&path, bytes).map_err(Error::file("written", &path))?;
    }
    println!("lagstop/bpf/lagstop.bpf.o: {} bytes, sha256 {}", object.len(), sha256(&object));
    println!("Commit it together with lagstop/bpf/manifest.txt.");
    Ok(())
}

fn check(workspace: &Workspace, toolchain: &Toolchain) -> Result<(), Error> {
    let committed = Manifest::read(workspace)?;
    if let Some(built_with) = committed.get(manifest::RUSTC)
        && built_with != toolchain.rustc
    {
        return Err(Error::OtherCompiler { committed: built_with.to_owned(), here: toolchain.rustc.clone() });
    }
    let path = workspace.object();
    let object = fs::read(&path).map_err(Error::file("read", &path))?;
    let rebuilt = strip::strip(&build::build(workspace, toolchain)?)?;
    let differences = committed.differences(&Manifest::of(workspace, toolchain, &rebuilt)?);
    if object != rebuilt || !differences.is_empty() {
        return Err(Error::Differs { committed: sha256(&object), rebuilt: sha256(&rebuilt), differences });
    }
    println!("lagstop/bpf/lagstop.bpf.o is what its sources give: sha256 {}", sha256(&object));
    Ok(())
}
