//! Files that are written: what is said where they cannot be, and when one that exists is in the way.

mod growing;
mod whole;

use std::{
    fs::{self, Metadata},
    io,
    path::Path,
};

pub(super) use self::{growing::GrowingFile, whole::WholeFile};
use super::Failure;
use crate::plain::plain;

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

/// Why `what` cannot be done with a file or a directory, and what to do.
pub(super) fn cannot(path: &Path, what: &str, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "its directory has to exist",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or name one where there is room",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "raise the limit of open files",
        _ => "name one that you may write to",
    };
    format!("{} cannot be {what}: {}: {remedy}", path.display(), plain(error)).into()
}
