//! Why a table cannot be written.

use std::io;

#[cfg(feature = "parquet")]
use parquet::errors::ParquetError;
use thiserror::Error;

use crate::recording::{ReadError, WriteError};

/// Why a table cannot be written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output does not take it.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// This build has no Parquet.
    #[error(
        "this build of lagstop has no Parquet support. Use a release, build with --features parquet, or use --format csv"
    )]
    #[cfg(not(feature = "parquet"))]
    WithoutParquet,
    #[error("cannot create the table: {0}. This is a bug in lagstop. Please report it")]
    Library(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<csv::Error> for ExportError {
    fn from(error: csv::Error) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => error.into(),
            other => Self::Library(format!("{other:?}").into()),
        }
    }
}

#[cfg(feature = "parquet")]
impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => (*error).into(),
                Err(error) => Self::Library(error),
            },
            other => Self::Library(other.into()),
        }
    }
}
