//! Tables as Apache Parquet.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};

use super::{
    ExportError, Sink,
    row::{Cell, Value},
};
use crate::model::{Nanos, Session};

/// Rows that are kept in memory until they are written together.
const GROUP: usize = 1 << 16;

/// Keeps a group of rows by their columns.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

/// A column of a group: the values that there are, and in which rows.
struct Column {
    values: Values,
    /// For each row, 1 if it has a value, otherwise 0: the definition levels of Parquet.
    levels: Vec<i16>,
}

enum Values {
    Counts(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file that says whose recording it is from.
    pub(super) fn begin(output: W, columns: &[Cell], session: &Session) -> Result<Self, ExportError> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("lagstop").with_fields(fields).build()?;
        let session = serde_json::to_string(session).map_err(|error| ExportError::Library(error.into()))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("lagstop ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new("lagstop".to_owned(), session)]))
            .build();
        let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
        Ok(Self { writer, columns: columns.iter().map(Column::of).collect(), rows: 0 })
    }

    /// Writes the rows that are kept.
    fn flush(&mut self) -> Result<(), ExportError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), ExportError> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(&cell.value);
        }
        self.rows += 1;
        if self.rows >= GROUP { self.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.writer.close()?;
        Ok(())
    }
}

/// What is in a column, for its readers.
fn field(cell: &Cell) -> Result<Arc<Type>, ExportError> {
    let (physical, logical) = match cell.value {
        Value::Count(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Value::Real(_) => (Physical::DOUBLE, None),
        Value::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Value::Time(_) => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
    };
    let field = Type::primitive_type_builder(&cell.column(), physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

impl Column {
    fn of(cell: &Cell) -> Self {
        let values = match cell.value {
            Value::Count(_) | Value::Time(_) => Values::Counts(Vec::new()),
            Value::Real(_) => Values::Reals(Vec::new()),
            Value::Text(_) => Values::Texts(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    fn push(&mut self, value: &Value) {
        /// Keeps the value, if there is one.
        fn keep<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let is_there = value.is_some();
            values.extend(value);
            is_there
        }
        let is_there = match (&mut self.values, value) {
            // Unsigned values are stored in the signed type with the same bits.
            (Values::Counts(counts), Value::Count(count)) => keep(counts, count.map(u64::cast_signed)),
            (Values::Counts(times), Value::Time(time)) => keep(times, time.map(|Nanos(unix)| unix.cast_signed())),
            (Values::Reals(reals), Value::Real(real)) => keep(reals, *real),
            (Values::Texts(texts), Value::Text(text)) => keep(texts, text.as_deref().map(ByteArray::from)),
            // A column has one kind of value.
            _ => false,
        };
        self.levels.push(is_there.into());
    }

    /// Writes it as the next column of `group`, and forgets its values.
    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ExportError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ExportError::Library("there are more columns than in the schema".into()));
        };
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            Values::Counts(counts) => {
                column.typed::<Int64Type>().write_batch(counts, levels, None)?;
                counts.clear();
            }
            Values::Reals(reals) => {
                column.typed::<DoubleType>().write_batch(reals, levels, None)?;
                reals.clear();
            }
            Values::Texts(texts) => {
                column.typed::<ByteArrayType>().write_batch(texts, levels, None)?;
                texts.clear();
            }
        }
        self.levels.clear();
        Ok(column.close()?)
    }
}
