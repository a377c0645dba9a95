//! Recordings as tables, for notebooks, databases and spreadsheets.

mod csv;
mod error;
#[cfg(feature = "parquet")]
mod parquet;
mod row;
mod table;

use std::io::Write;

pub use error::ExportError;
pub use table::TableKind;

use self::{
    csv::Csv,
    row::{Cell, Row},
};
use crate::{
    model::Session,
    recording::{Epoch, Reader},
};

/// What a table is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Comma-separated values, RFC 4180.
    Csv,
    Parquet,
}

/// Takes the rows of a table.
trait Sink {
    /// Takes the next row. All have the same columns.
    fn row(&mut self, cells: &[Cell]) -> Result<(), ExportError>;

    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// Writes `table` of all intervals of `reader`. `progress` hears how many of how many intervals are done.
///
/// # Errors
/// When an interval cannot be read, or `output` does not take it.
pub fn export(
    reader: &mut Reader,
    table: TableKind,
    format: TableFormat,
    output: impl Write + Send + 'static,
    mut progress: impl FnMut(usize, usize),
) -> Result<(), ExportError> {
    let session = reader.session().clone();
    let epoch = Epoch::of(&session);
    let columns = table.columns();
    let mut sink: Box<dyn Sink> = match format {
        TableFormat::Csv => Box::new(Csv::begin(output, columns.cells())?),
        TableFormat::Parquet => parquet(output, columns.cells(), &session)?,
    };
    let mut row = Row::default();
    for n in 0..reader.len() {
        let mut interval = reader.interval(n)?;
        interval.entitle(session.cgroup_mode());
        table.rows(&session, epoch, &interval, &mut row, |row| sink.row(row.cells()))?;
        progress(n + 1, reader.len());
    }
    sink.finish()
}

#[cfg(feature = "parquet")]
fn parquet(
    output: impl Write + Send + 'static,
    columns: &[Cell],
    session: &Session,
) -> Result<Box<dyn Sink>, ExportError> {
    Ok(Box::new(parquet::Parquet::begin(output, columns, session)?))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: impl Write, _: &[Cell], _: &Session) -> Result<Box<dyn Sink>, ExportError> {
    Err(ExportError::WithoutParquet)
}

#[cfg(test)]
#[cfg(feature = "parquet")]
mod tests;
