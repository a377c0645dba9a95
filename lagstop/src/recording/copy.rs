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
        "its header says no time at which it began, but {0:?}: what is taken out of it would have none either. \
         Take it as it was recorded"
    )]
    NoTime(String),
    /// No interval is left.
    #[error("nothing of it lies in that time: {0}")]
    Nothing(String),
    /// No cgroup is left.
    #[error("no cgroup in it is called so: `lagstop top --replay` shows what they are called. * stands for anything")]
    NoCgroup,
    /// They cannot be one.
    #[error(
        "{} is {differs} than {}. Merge recordings of one boot of one host that were measured alike",
        file.display(),
        other.display()
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
        "{} begins at {begins}, before {} ends at {ends}. Leave one out, or cut it there: lagstop cut --from {ends}",
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
    #[error("intervals are {is} long already, and cannot be made {wanted}. Give a longer --interval")]
    Shorter {
        /// What they are.
        is: Nanos,
        /// What they should be.
        wanted: Nanos,
    },
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
