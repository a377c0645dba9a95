//! A recording in one file.

use crate::{
    cli::{Failure, output::GrowingFile},
    model::{Interval, Session},
    recording::{Footer, Gap, Line, SCHEMA, WriteError, Writer},
};

/// Writes everything into one file.
pub(in crate::cli) struct Single {
    file: GrowingFile,
    compress: bool,
    writer: Option<Writer>,
}

impl Single {
    pub(in crate::cli) const fn new(file: GrowingFile, compress: bool) -> Self {
        Self { file, compress, writer: None }
    }

    pub(in crate::cli) fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        self.writer = Some(self.file.recording(self.compress)?);
        Ok(self.write(&Line::Header { schema: SCHEMA, session: session.clone() })?)
    }

    pub(in crate::cli) fn interval(&mut self, interval: Interval, gap: Option<Gap>) -> Result<(), WriteError> {
        self.write(&Line::Interval(Box::new(interval)))?;
        gap.map_or(Ok(()), |gap| self.write(&Line::Gap(gap)))
    }

    pub(in crate::cli) fn end(&mut self, footer: Footer) -> Result<(), WriteError> {
        self.write(&Line::Footer(footer))
    }

    fn write(&mut self, line: &Line) -> Result<(), WriteError> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(line))
    }
}
