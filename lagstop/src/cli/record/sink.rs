//! What a recording is written into.

use std::path::PathBuf;

use super::{
    Rotation,
    ring::{Cause, Ring},
};
use crate::{
    cli::Failure,
    model::{Interval, Session},
    recording::{Footer, Gap, Line, SCHEMA, WriteError, Writer, now},
};

/// One file, several in turn, or memory.
pub(super) enum Sink {
    One(Writer),
    Rotation(Box<Rotation>),
    Ring(Box<Ring>),
}

impl Sink {
    /// Begins a recording.
    pub(super) fn begin(&mut self, session: &Session) -> Result<(), WriteError> {
        match self {
            Self::One(writer) => writer.write(&Line::Header { schema: SCHEMA, session: session.clone() }),
            Self::Rotation(rotation) => {
                rotation.begin(session);
                Ok(())
            }
            Self::Ring(ring) => ring.begin(session),
        }
    }

    /// Adds the next interval.
    pub(super) fn interval(&mut self, interval: Interval) -> Result<(), Failure> {
        match self {
            Self::One(writer) => Ok(writer.write(&Line::Interval(Box::new(interval)))?),
            Self::Rotation(rotation) => rotation.interval(interval),
            Self::Ring(ring) => Ok(ring.interval(interval)?),
        }
    }

    /// Adds a time of which nothing is known.
    pub(super) fn gap(&mut self, gap: Gap) -> Result<(), WriteError> {
        match self {
            Self::One(writer) => writer.write(&Line::Gap(gap)),
            Self::Rotation(rotation) => rotation.gap(gap),
            Self::Ring(ring) => ring.gap(gap),
        }
    }

    /// Ends the recording.
    pub(super) fn end(&mut self, footer: &Footer) -> Result<(), WriteError> {
        let footer = Footer { ended_at: now(), ..footer.clone() };
        match self {
            Self::One(writer) => writer.write(&Line::Footer(footer)),
            Self::Rotation(rotation) => rotation.end(&footer.reason),
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
            Self::One(_) | Self::Rotation(_) => Ok(None),
        }
    }
}
