//! Where a recording goes.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
};

use super::WriteError;

/// A file, or standard output.
#[derive(Debug)]
pub(super) enum Output {
    Stdout(io::Stdout),
    File {
        file: File,
        /// What it holds that is whole.
        written: u64,
        /// Some files never have one: what is to be moved into its place, or a pipe.
        had_name: bool,
    },
}

impl Output {
    /// An empty file.
    pub(super) fn file(file: File) -> Self {
        let had_name = has_name(&file);
        Self::File { file, written: 0, had_name }
    }

    /// Writes `bytes` at once. When that fails half-way, the half is taken back where the output allows it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        match self {
            Self::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                stdout.write_all(bytes)?;
                Ok(stdout.flush()?)
            }
            // The kernel would keep accepting data that cannot be read any more.
            Self::File { file, had_name: true, .. } if !has_name(file) => Err(WriteError::Removed),
            Self::File { file, written, .. } => {
                if let Err(error) = file.write_all(bytes) {
                    // Fails if it is no regular file; then there is nothing to take back either.
                    let _ = file.set_len(*written).and_then(|()| file.seek(SeekFrom::Start(*written)));
                    return Err(error.into());
                }
                *written += bytes.len() as u64;
                Ok(())
            }
        }
    }
}

/// Is it in any directory? Where that cannot be told, it is.
fn has_name(file: &File) -> bool {
    file.metadata().map_or(true, |metadata| metadata.nlink() > 0)
}
