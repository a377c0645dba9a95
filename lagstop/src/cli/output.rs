//! Output files: error messages if they cannot be written, and what happens to files that exist.

mod growing;
mod whole;

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use clap::Args;

pub(super) use self::{
    growing::GrowingFile,
    whole::{WholeFile, directory},
};
use super::Failure;
use crate::display::plain;

/// Where a result goes.
#[derive(Args, Clone, Debug)]
pub(super) struct OutputArgs {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl OutputArgs {
    /// Opens a file that does not exist or is empty: for commands whose `--force` means something else.
    pub(super) fn open_new(&self) -> Result<WholeFile, Failure> {
        if !is_stdout(&self.output) && fs::metadata(&self.output).is_ok_and(|file| holds_something(&file)) {
            return Err(format!("{} already exists. Name another file", self.output.display()).into());
        }
        WholeFile::create(&self.output, false)
    }
}

/// Where a result goes, and whether it replaces a file.
#[derive(Args, Clone, Debug)]
pub(super) struct ResultArgs {
    #[command(flatten)]
    to: OutputArgs,

    /// Overwrite the output file if it exists
    #[arg(long)]
    force: bool,
}

impl ResultArgs {
    pub(super) fn is_stdout(&self) -> bool {
        is_stdout(&self.to.output)
    }

    /// Opens it. Called before the work is done, so that an output that cannot be written is refused early.
    pub(super) fn open(&self) -> Result<WholeFile, Failure> {
        WholeFile::create(&self.to.output, self.force)
    }
}

/// Is it to be written to standard output?
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Does the name mean a compressed recording?
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
}

/// The existing file, if any. A file with content is refused without `force`.
fn before(path: &Path, force: bool) -> Result<Option<Metadata>, Failure> {
    let before = fs::metadata(path).ok();
    if !force && before.as_ref().is_some_and(holds_something) {
        let shown = path.display();
        return Err(format!("{shown} already exists. Name another file, or overwrite it with --force").into());
    }
    Ok(before)
}

fn holds_something(file: &Metadata) -> bool {
    file.is_file() && file.len() > 0
}

/// Mode of new files: only their owner may read them, because they name everybody who runs anything on the host, and
/// whom they talk to.
const MODE: u32 = 0o600;

/// Creates a file where nothing exists yet, not even a link.
fn make(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(MODE).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Opens an existing file for writing. Refuses a file that has replaced the one of `before` since.
fn open(path: &Path, before: &Metadata) -> io::Result<File> {
    let file = File::options().write(true).open(path)?;
    let now = file.metadata()?;
    let is_same = (now.dev(), now.ino()) == (before.dev(), before.ino());
    if is_same { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

/// Why `what` cannot be done with a file or a directory, and what to do.
pub(super) fn cannot(path: &Path, what: &str, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "Create its directory first",
        io::ErrorKind::IsADirectory => "Name a file in it",
        io::ErrorKind::AlreadyExists => "Another program just created it, or it is a dangling link. Name another file",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "Free some space, or name a file on another disk",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "Raise the limit of open files",
        _ => "Name a file that you may write to",
    };
    let file = if is_stdout(path) { "standard output".to_owned() } else { path.display().to_string() };
    format!("{file} cannot be {what}: {}. {remedy}", plain(error)).into()
}
