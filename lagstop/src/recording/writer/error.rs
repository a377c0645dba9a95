//! Why an output does not take what is written to it: a recording, a part of one, or a table.

use std::io;

use thiserror::Error;

use crate::display::plain;

/// Why something cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Who read the output has gone. No fault of anybody's.
    #[error("nobody reads the output any more")]
    ReaderGone,
    /// There is no room.
    #[error("the disk is full: {}. Free some space, or write to where there is room", plain(.0))]
    DiskFull(io::Error),
    /// The file has no name any more: whatever is written to it is lost.
    #[error("the file was removed while it was written, and what was in it is gone. Leave it in its place")]
    Removed,
    /// Anything else.
    #[error("the output cannot be written: {}. Write to another place", plain(.0))]
    Other(io::Error),
    /// A line could not be made.
    #[error("an interval cannot be put into JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(error),
            _ => Self::Other(error),
        }
    }
}
