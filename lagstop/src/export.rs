//! Recordings as tables, for notebooks, databases and spreadsheets.

mod csv;
mod error;
mod parquet;
mod row;
mod table;

use std::io::Write;

pub use error::ExportError;
pub use table::Table;

use self::{
    csv::Csv,
    parquet::Parquet,
    row::{Cell, Row},
};
use crate::recording::{Epoch, Reader};

/// What a table is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, RFC 4180.
    Csv,
    /// Apache Parquet.
    Parquet,
}

/// Takes the rows of a table.
trait Sink {
    /// Takes the next row. All have the same columns.
    fn row(&mut self, cells: &[Cell]) -> Result<(), ExportError>;

    /// Ends the table.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// Writes `table` of all intervals of `reader`. `progress` hears how many of how many intervals are done.
///
/// # Errors
/// When an interval cannot be read, or `output` does not take it.
pub fn export(
    reader: &mut Reader,
    table: Table,
    format: Format,
    output: impl Write + Send + 'static,
    mut progress: impl FnMut(usize, usize),
) -> Result<(), ExportError> {
    let session = reader.session().clone();
    let epoch = Epoch::of(&session);
    let columns = table.columns();
    let mut sink: Box<dyn Sink> = match format {
        Format::Csv => Box::new(Csv::begin(output, columns.cells())?),
        Format::Parquet => Box::new(Parquet::begin(output, columns.cells(), &session)?),
    };
    let mut row = Row::default();
    for n in 0..reader.len() {
        let interval = reader.interval(n)?;
        table.rows(&session, epoch, &interval, &mut row, |row| sink.row(row.cells()))?;
        progress(n + 1, reader.len());
    }
    sink.finish()
}

#[cfg(test)]
mod tests;
