//! What is taken out of recordings, written as one of its own.

use std::path::PathBuf;

use thiserror::Error;

use super::{Epoch, Footer, Gap, Line, ReadError, SCHEMA, WriteError, Writer};
use crate::model::{Interval, Nanos, Session};

/// Why no recording can be made of others.
#[derive(Debug, Error)]
pub enum CopyError {
    /// One cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output does not take it.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The header says no time.
    #[error(
        "its header has an invalid start time, {0:?}, so the output would have no start time. Use the recording as it was \
         written"
    )]
    NoTime(String),
    /// There is nothing to copy.
    #[error("no intervals were recorded. Record for longer than one interval")]
    Empty,
    /// None lies in the part that was asked for.
    #[error("no interval lies in that time range: the recording covers {from} to {to}")]
    OutOfRange {
        /// RFC 3339.
        from: String,
        /// RFC 3339.
        to: String,
    },
    /// No cgroup is left.
    #[error("no cgroup matches. Use `lagstop top --replay` to see the names; * matches any characters")]
    NoCgroup,
    /// They cannot be one.
    #[error(
        "cannot merge {} and {}: {differs}. Merge recordings of one boot of one host with the same measurement options",
        other.display(),
        file.display()
    )]
    Different {
        /// The one that does not fit.
        file: PathBuf,
        differs: &'static str,
        /// The first.
        other: PathBuf,
    },
    /// Two are of the same time.
    #[error(
        "{} starts at {begins}, before {} ends at {ends}. Omit one, or remove the overlap: lagstop cut --from {ends}",
        file.display(),
        other.display()
    )]
    Overlap {
        /// The one that begins later.
        file: PathBuf,
        /// RFC 3339.
        begins: String,
        /// The one before.
        other: PathBuf,
        /// RFC 3339.
        ends: String,
    },
    /// Intervals cannot be made shorter.
    #[error("cannot shorten intervals from {is} to {wanted}. Use a longer --interval")]
    Shorter { is: Nanos, wanted: Nanos },
}

/// Writes a recording, and keeps what its footer says.
pub(super) struct Transcript<'w> {
    writer: &'w mut Writer,
    epoch: Epoch,
    end: Nanos,
    footer: Footer,
}

impl<'w> Transcript<'w> {
    /// Begins one like `session`, whose clock is 0 at `epoch`.
    pub(super) fn begin(writer: &'w mut Writer, session: &Session, epoch: Epoch) -> Result<Self, CopyError> {
        let session = Session { started_at: epoch.text(Nanos::ZERO), ..session.clone() };
        writer.write(&Line::Header { schema: SCHEMA, session })?;
        Ok(Self { writer, epoch, end: Nanos::ZERO, footer: Footer::default() })
    }

    pub(super) fn interval(&mut self, interval: Interval) -> Result<(), CopyError> {
        self.footer.intervals += 1;
        self.footer.lost.add(&interval.host.lost);
        self.end = interval.start_ns.saturating_add(interval.duration_ns);
        Ok(self.writer.write(&Line::Interval(Box::new(interval)))?)
    }

    pub(super) fn gap(&mut self, gap: Gap) -> Result<(), CopyError> {
        Ok(self.writer.write(&Line::Gap(gap))?)
    }

    pub(super) fn end(self, reason: String) -> Result<(), CopyError> {
        let footer = Footer { ended_at: self.epoch.text(self.end), reason, ..self.footer };
        Ok(self.writer.write(&Line::Footer(footer))?)
    }
}

/// When a recording's clock was 0.
pub(super) fn epoch(session: &Session) -> Result<Epoch, CopyError> {
    Epoch::of(session).ok_or_else(|| CopyError::NoTime(session.started_at.clone()))
}
