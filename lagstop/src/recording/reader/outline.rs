//! What all of a recording must be read for, and the order of its lines.

use super::{
    error::Problem,
    head::{self, Head},
};
use crate::{
    model::{Nanos, Session},
    recording::line::{Footer, Gap, OLDEST_SCHEMA, SCHEMA},
};

/// How a header begins, as lagstop writes it.
const HEADER: &[u8] = br#"{"kind":"header""#;

/// What is found out about a recording while its lines go by.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Of the header.
    pub(super) session: Option<Session>,
    pub(super) footer: Option<Footer>,
    pub(super) gaps: Vec<Gap>,
    /// Bytes of memory that gaps may still take.
    room_for_gaps: u64,
    pub(super) is_cut: bool,
    has_header: bool,
    last_start: Option<Nanos>,
}

impl Outline {
    /// Of a recording whose gaps may take this many bytes of memory.
    pub(super) fn with_room_for_gaps(room_for_gaps: u64) -> Self {
        Self { room_for_gaps, ..Self::default() }
    }

    /// Of what kind a line is, which may lack its end. `None` of one that was cut short.
    pub(super) fn parse(&mut self, line: &[u8], is_whole: bool) -> Result<Option<Head>, Problem> {
        match head::parse(line) {
            Ok(head) => Ok(Some(head)),
            Err(_) if !is_whole && (self.has_header || line.starts_with(HEADER)) => {
                self.is_cut = true;
                if self.has_header { Ok(None) } else { Err(Problem::CutHeader) }
            }
            Err(error) if self.has_header => Err(Problem::wrong("line", error)),
            Err(error) => Err(Problem::NoRecording(error)),
        }
    }

    /// Takes in a header, a gap or a footer.
    pub(super) fn line(&mut self, head: Head, line: &[u8]) -> Result<(), Problem> {
        match head {
            Head::Header if self.has_header => Err(Problem::SecondHeader),
            Head::Header => {
                self.session = Some(header(line)?);
                self.has_header = true;
                Ok(())
            }
            Head::Footer => {
                self.other()?;
                if self.footer.is_some() {
                    return Err(Problem::AfterFooter);
                }
                self.footer = Some(serde_json::from_slice(line).map_err(|error| Problem::wrong("footer", error))?);
                Ok(())
            }
            Head::Gap => {
                let gap = serde_json::from_slice(line).map_err(|error| Problem::wrong("gap", error))?;
                self.gap(gap)
            }
            _ => self.other(),
        }
    }

    pub(super) fn gap(&mut self, gap: Gap) -> Result<(), Problem> {
        self.other()?;
        let weight = (size_of::<Gap>() + gap.reason.len()) as u64;
        self.room_for_gaps = self.room_for_gaps.checked_sub(weight).ok_or(Problem::Bomb)?;
        self.gaps.push(gap);
        Ok(())
    }

    /// Takes in an interval that began at `start`.
    pub(super) fn interval(&mut self, start: Nanos) -> Result<(), Problem> {
        self.other()?;
        if self.footer.is_some() {
            return Err(Problem::AfterFooter);
        }
        if self.last_start.is_some_and(|last| last >= start) {
            return Err(Problem::OutOfOrder);
        }
        self.last_start = Some(start);
        Ok(())
    }

    /// Takes in a line of another kind.
    pub(super) const fn other(&self) -> Result<(), Problem> {
        if self.has_header { Ok(()) } else { Err(Problem::NoHeader) }
    }
}

/// What a header tells, where it is of a format that is known.
fn header(line: &[u8]) -> Result<Session, Problem> {
    let schema = head::schema(line).map_err(|error| Problem::wrong("header", error))?;
    if (u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA)).contains(&schema) {
        serde_json::from_slice(line).map_err(|error| Problem::wrong("header", error))
    } else {
        Err(Problem::schema(schema, line))
    }
}
