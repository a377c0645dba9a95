//! What a recording is written into.

use std::path::PathBuf;

use super::{
    Rotation,
    ring::{Cause, Ring},
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
    /// Begins a recording.
    pub(super) fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Single(single) => single.begin(session),
            Self::Rotation(rotation) => rotation.begin(session),
            Self::Ring(ring) => ring.begin(session),
        }
    }

    /// Adds the next interval, and a time after it of which nothing is known.
    pub(super) fn interval(&mut self, interval: Interval, gap: Option<Gap>) -> Result<(), Failure> {
        match self {
            Self::Single(single) => Ok(single.interval(interval, gap)?),
            Self::Rotation(rotation) => rotation.interval(interval, gap),
            Self::Ring(ring) => Ok(ring.interval(interval, gap)?),
        }
    }

    /// Ends the recording.
    pub(super) fn end(&mut self, footer: &Footer) -> Result<(), Failure> {
        let footer = Footer { ended_at: now(), ..footer.clone() };
        match self {
            Self::Single(single) => Ok(single.end(footer)?),
            Self::Rotation(rotation) => Ok(rotation.end(&footer.reason)?),
            // What is in memory was not asked for.
            Self::Ring(_) => Ok(()),
        }
    }

    /// Does it keep only what was last?
    pub(super) const fn is_ring(&self) -> bool {
        matches!(self, Self::Ring(_))
    }

    /// Writes what is in memory, if that is where it goes and it was not written a moment ago. Gives the file.
    pub(super) fn dump(&mut self, why: Cause) -> Result<Option<PathBuf>, Failure> {
        match self {
            Self::Ring(ring) => ring.dump(why),
            Self::Single(_) | Self::Rotation(_) => Ok(None),
        }
    }
}
