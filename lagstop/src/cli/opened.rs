//! Opening a recording that may have no end.

use std::path::Path;

use super::{Failure, say};
use crate::recording::Reader;

/// Opens a recording. If it has no end, that is said, and it is read as far as it goes.
pub(super) fn open(file: &Path) -> Result<Reader, Failure> {
    let reader = Reader::open(file)?;
    if reader.footer().is_none() {
        let shown = file.display();
        say(format_args!("lagstop: {shown} was cut off, or is still being written: read as far as it goes\n"));
    }
    Ok(reader)
}
