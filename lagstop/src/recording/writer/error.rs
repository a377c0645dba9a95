//! Why an output does not take what is written to it: a recording, a part of one, or a table.

use std::io;

use thiserror::Error;

use crate::display::plain;

/// Why something cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The reader of the output is gone. This is not an error of lagstop.
    #[error("the reader has closed the output")]
    ReaderGone,
    #[error("the disk is full: {}. Free some space, or write to another disk", plain(.0))]
    DiskFull(#[source] io::Error),
    /// The file has no name any more: whatever is written to it is lost.
    #[error(
        "the file was removed while it was written; its contents are lost. Do not remove or rename it while recording"
    )]
    Removed,
    /// Anything else.
    #[error("cannot write the output: {}. Write to another file", plain(.0))]
    Other(#[source] io::Error),
    /// A line could not be made.
    #[error("cannot encode an interval as JSON: {0}")]
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
