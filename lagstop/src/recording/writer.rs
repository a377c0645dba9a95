//! Writing a recording so that what is in it is always whole lines.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
};

use thiserror::Error;

use super::line::Line;
use crate::plain::plain;

/// Where lines go.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    /// Bytes of whole lines in the file.
    written: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Output {
    Stdout(io::Stdout),
    File(File),
}

/// Why a line could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Who read the output has gone. No fault of anybody's.
    #[error("nobody reads the output any more")]
    ReaderGone,
    /// The disk is full.
    #[error("the disk is full. What was recorded so far is whole; free some space, or record elsewhere")]
    DiskFull,
    /// Anything else.
    #[error("the output cannot be written: {}. What was recorded so far is whole", plain(.0))]
    Other(io::Error),
    /// A line could not be made.
    #[error("an interval cannot be put into JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Other(error),
        }
    }
}

impl Writer {
    /// Writes to standard output.
    pub fn to_stdout() -> Self {
        Self::new(Output::Stdout(io::stdout()))
    }

    /// Writes to an empty file.
    pub fn to_file(file: File) -> Self {
        Self::new(Output::File(file))
    }

    fn new(output: Output) -> Self {
        Self { output, written: 0, buffer: Vec::new() }
    }

    /// Writes one line, at once. When that fails half-way, the half is taken back where the output allows it.
    ///
    /// # Errors
    /// When the output does not take it.
    pub fn write(&mut self, line: &Line) -> Result<(), WriteError> {
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, line)?;
        self.buffer.push(b'\n');
        match &mut self.output {
            Output::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                stdout.write_all(&self.buffer)?;
                stdout.flush()?;
            }
            Output::File(file) => {
                if let Err(error) = file.write_all(&self.buffer) {
                    // Of no use where it is no regular file; then there is nothing to take back either.
                    let _ = file.set_len(self.written).and_then(|()| file.seek(SeekFrom::Start(self.written)));
                    return Err(error.into());
                }
            }
        }
        self.written += self.buffer.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::recording::Footer;

    #[test]
    fn a_full_device_is_called_full() {
        let mut writer = Writer::to_file(File::options().write(true).open("/dev/full").unwrap());
        let error = writer.write(&Line::Footer(Footer::default())).unwrap_err();
        assert!(matches!(error, WriteError::DiskFull), "{error:?}");
    }

    #[test]
    fn lines_are_written_one_by_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::to_file(file.reopen().unwrap());
        for _ in 0..2 {
            writer.write(&Line::Footer(Footer::default())).unwrap();
        }
        assert_eq!(fs::read_to_string(file.path()).unwrap().lines().count(), 2);
    }
}
