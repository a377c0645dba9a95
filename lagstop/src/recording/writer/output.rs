//! Where a recording goes.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
};

/// A file, or standard output.
#[derive(Debug)]
pub(super) enum Output {
    Stdout(io::Stdout),
    File {
        file: File,
        /// What it holds that is whole.
        written: u64,
    },
}

impl Output {
    /// Writes `bytes` at once. When that fails half-way, the half is taken back where the output allows it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::File { file, written } => {
                if let Err(error) = file.write_all(bytes) {
                    // Of no use where it is no regular file; then there is nothing to take back either.
                    let _ = file.set_len(*written).and_then(|()| file.seek(SeekFrom::Start(*written)));
                    return Err(error);
                }
                *written += bytes.len() as u64;
                Ok(())
            }
        }
    }
}
