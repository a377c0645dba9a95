//! `cargo xtask ebpf`: builds the committed eBPF objects, or checks them.

mod build;
mod error;
mod install;
mod manifest;
mod missing;
mod object;
mod rust_src;
mod strip;
mod toolchain;

use std::{fs, path::PathBuf};

pub(crate) use error::Error;
use manifest::Manifest;
pub(crate) use manifest::sha256;
pub(crate) use object::MEASURING;
use object::{OBJECTS, Object};
use toolchain::Toolchain;

use crate::workspace::Workspace;

/// Build lagstop's eBPF objects in lagstop/bpf/ and the manifests beside them.
///
/// The objects are committed, so that lagstop builds with nothing but stable Rust. Run this after every change in
/// lagstop-ebpf/ or lagstop-scheduler-ebpf/ and commit the object with its manifest.
#[derive(clap::Args)]
#[command(after_help = "Exit codes:
  0  built, or --check found the committed objects to be what their sources give
  1  the build failed, or --check found a difference
  2  wrong usage
  3  the toolchain is missing or, for --check, of another version: nothing was compared

Examples:
  cargo xtask ebpf                                  Build the objects
  cargo xtask ebpf --check                          Rebuild and compare, write nothing
  cargo xtask ebpf --install-toolchain              Get what is missing first
  cargo xtask ebpf --rust-src rust-src_1.95.0.deb   Take the standard library's source from a file first")]
pub(crate) struct Arguments {
    /// Rebuild and compare with the committed objects, byte by byte, without writing them
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
    let one = if arguments.check { check } else { write };
    OBJECTS.into_iter().try_for_each(|object| one(workspace, &toolchain, object))
}

fn write(workspace: &Workspace, toolchain: &Toolchain, object: Object) -> Result<(), Error> {
    let built = strip::strip(&build::build(workspace, toolchain, object)?)?;
    let manifest = Manifest::of(workspace, toolchain, object, &built)?.text(object);
    for (path, bytes) in [(object.path(workspace), &built[..]), (object.manifest_path(workspace), manifest.as_bytes())]
    {
        fs::write(&path, bytes).map_err(Error::file("written", &path))?;
    }
    println!("lagstop/bpf/{}: {} bytes, sha256 {}", object.file, built.len(), sha256(&built));
    println!("Commit it together with lagstop/bpf/{}.", object.manifest);
    Ok(())
}

fn check(workspace: &Workspace, toolchain: &Toolchain, object: Object) -> Result<(), Error> {
    let committed = Manifest::read(workspace, object)?;
    if let Some(built_with) = committed.get(manifest::RUSTC)
        && built_with != toolchain.rustc
    {
        return Err(Error::OtherCompiler { committed: built_with.to_owned(), here: toolchain.rustc.clone() });
    }
    let path = object.path(workspace);
    let bytes = fs::read(&path).map_err(Error::file("read", &path))?;
    let rebuilt = strip::strip(&build::build(workspace, toolchain, object)?)?;
    let differences = committed.differences(&Manifest::of(workspace, toolchain, object, &rebuilt)?);
    if bytes != rebuilt || !differences.is_empty() {
        let (committed, rebuilt) = (sha256(&bytes), sha256(&rebuilt));
        let Object { file, manifest, .. } = object;
        return Err(Error::Differs { file, manifest, committed, rebuilt, differences });
    }
    println!("lagstop/bpf/{} is what its sources give: sha256 {}", object.file, sha256(&bytes));
    Ok(())
}
