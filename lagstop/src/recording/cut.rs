//! A part of a recording as a recording of its own.

use std::ops::Range;

use super::{
    CopyError, Epoch, Footer, Gap, ReadError, Reader, Writer,
    copy::{Transcript, epoch},
};
use crate::model::{Cgroup, Interval, Nanos, Selection};

/// What to take out of a recording.
#[derive(Clone, Debug, Default)]
pub struct Cut<F> {
    /// Intervals that began then or later, on the clock of the intervals.
    pub from: Option<Nanos>,
    /// Of those, the ones that began before.
    pub to: Option<Nanos>,
    /// The cgroups to keep separate. `None`: all.
    pub cgroups: Option<Wanted<F>>,
}

/// Some cgroups.
#[derive(Clone, Debug)]
pub struct Wanted<F> {
    pub is_wanted: F,
    /// What they are called for people.
    pub called: String,
}

impl<F: Fn(&Cgroup) -> bool> Cut<F> {
    /// Writes it to `writer`. `progress` hears how many of how many intervals are done.
    ///
    /// # Errors
    /// When `reader` cannot be read, there is nothing to take out of it, or `writer` does not take it.
    pub fn write(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<(), CopyError> {
        let epoch = epoch(reader.session())?;
        let range = self.range(reader, epoch)?;
        let first = reader.interval(range.start)?;
        let origin = (first.seq, first.start_ns);
        let mut selection = self.cgroups.as_ref().map(|wanted| Selection::new(&wanted.is_wanted));
        // A gap in front of the first interval, or behind the last, has nothing to do with them.
        let mut gaps = reader.gaps().to_vec();
        gaps.retain(|gap| gap.start_ns >= first.start_ns);
        let mut gaps = gaps.into_iter().peekable();

        let mut copy = Transcript::begin(writer, reader.session(), epoch.later(first.start_ns))?;
        for n in range.clone() {
            let interval = reader.interval(n)?;
            while let Some(gap) = gaps.next_if(|gap| gap.start_ns <= interval.start_ns) {
                copy.gap(Gap { start_ns: gap.start_ns.saturating_sub(origin.1), ..gap })?;
            }
            let interval = Interval {
                seq: interval.seq.saturating_sub(origin.0),
                start_ns: interval.start_ns.saturating_sub(origin.1),
                ..interval
            };
            copy.interval(match &mut selection {
                Some(selection) => selection.apply(interval),
                None => interval,
            })?;
            progress(n + 1 - range.start, range.len());
        }
        if selection.is_some_and(|selection| !selection.has_found()) {
            return Err(CopyError::NoCgroup);
        }
        // A part that goes on to the recording's end has the gaps there, too.
        if range.end == reader.len() {
            for gap in gaps {
                copy.gap(Gap { start_ns: gap.start_ns.saturating_sub(origin.1), ..gap })?;
            }
        }
        let reason = self.reason(reader, &range);
        copy.end(reason)
    }

    fn range(&self, reader: &mut Reader, epoch: Epoch) -> Result<Range<usize>, CopyError> {
        let start = self.from.map_or(Ok(0), |from| first_from(reader, from))?;
        let end = self.to.map_or(Ok(reader.len()), |to| first_from(reader, to))?;
        if start < end {
            return Ok(start..end);
        }
        let Some(last) = reader.len().checked_sub(1) else {
            return Err(CopyError::Empty);
        };
        let (first, last) = (reader.start_of(0)?, reader.interval(last)?);
        let (from, to) = (epoch.text(first), epoch.text(last.start_ns.saturating_add(last.duration_ns)));
        Err(CopyError::OutOfRange { from, to })
    }

    /// Why the part ends, and what was removed.
    fn reason(&self, reader: &Reader, range: &Range<usize>) -> String {
        let of_all = match reader.footer() {
            Some(Footer { reason, .. }) => reason.clone(),
            None => "cut off".to_owned(),
        };
        let mut said = Vec::new();
        if range.len() < reader.len() {
            said.push(format!("{} of {} intervals", range.len(), reader.len()));
        }
        if let Some(Wanted { called, .. }) = &self.cgroups {
            said.push(format!("cgroups but {called} summed as (other)"));
        }
        if said.is_empty() { of_all } else { format!("cut: {}; of all: {of_all}", said.join(", ")) }
    }
}

/// The first interval that began at `time` or later.
fn first_from(reader: &mut Reader, time: Nanos) -> Result<usize, ReadError> {
    let (mut below, mut from) = (0, reader.len());
    while below < from {
        let middle = below + (from - below) / 2;
        if reader.start_of(middle)? < time {
            below = middle + 1;
        } else {
            from = middle;
        }
    }
    Ok(from)
}

#[cfg(test)]
mod tests;
