//! Where a recording goes.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::{cli::Failure, plain::plain, recording::Writer};

/// Where a recording goes. Opened before anything is measured, so that nothing is measured in vain; what it held before
/// stays until there is something to write.
pub(super) enum Output {
    Stdout,
    File { file: File, path: PathBuf, is_new: bool },
}

impl Output {
    pub(super) fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let shown = path.display();
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(|before| before.is_file() && before.len() > 0) && !force {
            return Err(format!("{shown} exists already: name another file, or overwrite it with --force").into());
        }
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => "its directory has to exist",
                io::ErrorKind::IsADirectory => "name a file in it",
                _ => "name a file that you may write to",
            };
            format!("{shown} cannot be written: {}: {remedy}", plain(&error))
        })?;
        Ok(Self::File { file, path: path.to_owned(), is_new: before.is_none() })
    }

    /// Leaves nothing behind that was not there before.
    pub(super) fn discard(&self) {
        if let Self::File { path, is_new: true, .. } = self {
            let _ = fs::remove_file(path);
        }
    }

    /// Empties it. Of no use for what is no regular file.
    pub(super) fn begin(self) -> Result<Writer, Failure> {
        match self {
            Self::Stdout => Ok(Writer::to_stdout()),
            Self::File { file, path, .. } => {
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    file.set_len(0)
                        .map_err(|error| format!("{} cannot be overwritten: {}", path.display(), plain(&error)))?;
                }
                Ok(Writer::to_file(file))
            }
        }
    }
}

/// Is a recording to be compressed whose file is called so?
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
}
