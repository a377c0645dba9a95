//! Where a recording is written to.

use std::path::PathBuf;

use super::{
    Rotation,
    ring::{DumpCause, Ring},
    single::Single,
};
use crate::{
    cli::Failure,
    model::{Interval, Session},
    recording::{Footer, Gap, now},
};

/// One file, several in turn, or memory.
pub(super) enum Sink {
    Single(Single),
    Rotation(Box<Rotation>),
    Ring(Box<Ring>),
}

impl Sink {
    pub(super) fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Single(single) => single.begin(session),
            Self::Rotation(rotation) => rotation.begin(session),
            Self::Ring(ring) => ring.begin(session),
        }
    }

    /// Adds the next interval, and the gap after it.
    pub(super) fn interval(&mut self, interval: Interval, gap: Option<Gap>) -> Result<(), Failure> {
        match self {
            Self::Single(single) => Ok(single.interval(interval, gap)?),
            Self::Rotation(rotation) => rotation.interval(interval, gap),
            Self::Ring(ring) => Ok(ring.interval(interval, gap)?),
        }
    }

    pub(super) fn end(&mut self, footer: &Footer) -> Result<(), Failure> {
        let footer = Footer { ended_at: now(), ..footer.clone() };
        match self {
            Self::Single(single) => Ok(single.end(footer)?),
            Self::Rotation(rotation) => Ok(rotation.end(&footer.reason)?),
            // The content of the memory is only written on request.
            Self::Ring(_) => Ok(()),
        }
    }

    /// Does it keep only the most recent time span?
    pub(super) const fn is_ring(&self) -> bool {
        matches!(self, Self::Ring(_))
    }

    /// Writes the content of the memory. Returns the file. `None` if this is no ring, or if a threshold asks too soon.
    pub(super) fn dump(&mut self, why: DumpCause) -> Result<Option<PathBuf>, Failure> {
        match self {
            Self::Ring(ring) => ring.dump(why),
            Self::Single(_) | Self::Rotation(_) => Ok(None),
        }
    }
}
