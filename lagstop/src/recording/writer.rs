//! Writing a recording so that what is in it is always whole lines.

mod chunks;
mod error;
mod output;

use std::{fs::File, io};

use self::output::Output;
use super::line::Line;
pub use chunks::Chunks;
pub use error::WriteError;

/// Where lines go.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    form: Form,
    written: u64,
}

/// How lines are written.
#[derive(Debug)]
enum Form {
    Plain { line: Vec<u8> },
    Compressed(Box<Chunks>),
}

impl Writer {
    pub fn to_stdout() -> Self {
        Self::new(Output::Stdout(io::stdout()))
    }

    /// Writes to an empty file.
    pub fn to_file(file: File) -> Self {
        Self::new(Output::file(file))
    }

    fn new(output: Output) -> Self {
        Self { output, form: Form::Plain { line: Vec::new() }, written: 0 }
    }

    /// Packs and compresses what is written from now on, the first line first.
    #[must_use]
    pub fn compressed(self) -> Self {
        Self { form: Form::Compressed(Box::new(Chunks::new())), ..self }
    }

    /// Bytes written so far.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Writes one line, at once. When that fails half-way, the half is taken back where the output allows it.
    ///
    /// # Errors
    /// When the output does not take it.
    pub fn write(&mut self, line: &Line) -> Result<(), WriteError> {
        match &mut self.form {
            Form::Plain { line: text } => {
                text.clear();
                serde_json::to_writer(&mut *text, line)?;
                text.push(b'\n');
                self.output.append(text)?;
                self.written += text.len() as u64;
            }
            Form::Compressed(chunks) => {
                let bytes = chunks.compress(line)?;
                self.output.append(&bytes)?;
                self.written += bytes.len() as u64;
            }
        }
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
        assert!(matches!(error, WriteError::DiskFull(_)), "{error:?}");
    }

    #[test]
    fn a_file_that_was_removed_takes_nothing_more() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.jsonl");
        let mut writer = Writer::to_file(File::create(&path).unwrap());
        let line = Line::Footer(Footer::default());
        writer.write(&line).unwrap();
        fs::rename(&path, home.path().join("moved")).unwrap();
        writer.write(&line).unwrap();
        fs::remove_file(home.path().join("moved")).unwrap();
        assert!(matches!(writer.write(&line), Err(WriteError::Removed)));
        // One that never had a name has nothing to lose.
        Writer::to_file(tempfile::tempfile().unwrap()).write(&line).unwrap();
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
