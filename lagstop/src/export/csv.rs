//! Tables as comma-separated values.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{BufWriter, Write},
};

use super::{
    ExportError, Sink,
    row::{Cell, Value},
};
use crate::{display::display_name, recording::Epoch};

/// Writes the names of the columns first.
pub(super) struct Csv<W: Write> {
    writer: csv::Writer<BufWriter<W>>,
    field: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn begin(output: W, columns: &[Cell]) -> Result<Self, ExportError> {
        let mut writer = csv::Writer::from_writer(BufWriter::new(output));
        writer.write_record(columns.iter().map(Cell::column))?;
        Ok(Self { writer, field: String::new() })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), ExportError> {
        for cell in cells {
            self.field.clear();
            let field = match &cell.value {
                Value::Count(Some(count)) => write!(self.field, "{count}").map(|()| Cow::from(&*self.field)),
                Value::Real(Some(real)) => write!(self.field, "{real}").map(|()| Cow::from(&*self.field)),
                Value::Text(Some(text)) => Ok(harmless(text)),
                Value::Time(Some(unix)) => Ok(Epoch::UNIX.text(*unix).into()),
                Value::Count(None) | Value::Real(None) | Value::Text(None) | Value::Time(None) => Ok("".into()),
            };
            self.writer.write_field(field.unwrap_or_default().as_bytes())?;
        }
        Ok(self.writer.write_record(None::<&[u8]>)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        Ok(self.writer.flush()?)
    }
}

/// Makes `text` safe for terminals, and for spreadsheets, which would evaluate what begins like a formula (OWASP, "CSV
/// Injection").
fn harmless(text: &str) -> Cow<'_, str> {
    let shown = display_name(text);
    if shown.starts_with(['=', '+', '-', '@']) { Cow::Owned(format!("'{shown}")) } else { shown }
}
