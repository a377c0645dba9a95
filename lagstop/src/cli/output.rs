//! Files that are written: what is said where they cannot be, and when one that exists is in the way.

mod growing;
mod whole;

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

pub(super) use self::{growing::GrowingFile, whole::WholeFile};
use super::Failure;
use crate::display::plain;

/// Is it to be written to standard output?
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Is a recording to be compressed whose file is called so?
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
}

/// What is there now. A file with something in it is overwritten by `force` alone.
fn before(path: &Path, force: bool) -> Result<Option<Metadata>, Failure> {
    let before = fs::metadata(path).ok();
    if !force && before.as_ref().is_some_and(|before| before.is_file() && before.len() > 0) {
        let shown = path.display();
        return Err(format!("{shown} exists already: name another file, or overwrite it with --force").into());
    }
    Ok(before)
}

/// Who may read what is written: its owner. It names everybody who runs anything on the host, and to whom they talk.
const MODE: u32 = 0o600;

/// Makes a file where nothing is, not even a link.
fn make(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(MODE).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Opens what is there, to be written to: that which was looked at `before`, and not what has taken its place since.
fn open(path: &Path, before: &Metadata) -> io::Result<File> {
    let file = File::options().write(true).open(path)?;
    let now = file.metadata()?;
    let is_same = (now.dev(), now.ino()) == (before.dev(), before.ino());
    if is_same { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

/// Why `what` cannot be done with a file or a directory, and what to do.
pub(super) fn cannot(path: &Path, what: &str, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "its directory has to exist",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::AlreadyExists => "something else made it just now, or it is a dangling link: name another",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or name one where there is room",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "raise the limit of open files",
        _ => "name one that you may write to",
    };
    format!("{} cannot be {what}: {}: {remedy}", path.display(), plain(error)).into()
}
