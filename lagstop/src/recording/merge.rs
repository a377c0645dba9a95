//! Recordings one after the other as one, or in longer intervals.

use std::path::PathBuf;

use super::{
    CopyError, Epoch, Gap, Reader, Writer,
    copy::{Transcript, epoch},
};
use crate::model::{Hook, Interval, Merger, Nanos, Session};

/// How to merge recordings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Merge {
    /// Length of an interval, as near as whole ones come to it; `None` leaves them as they are.
    pub interval: Option<Nanos>,
}

/// A recording that has intervals, and where it is in what comes out.
struct Piece {
    path: PathBuf,
    reader: Reader,
    epoch: Epoch,
    /// When its first interval began and its last ended, on its own clock.
    start: Nanos,
    end: Nanos,
    /// Number of its first interval.
    seq: u64,
    /// When its first interval begins in what comes out, and whether nothing is known of the time before.
    begins: Nanos,
    after_gap: bool,
}

/// Two recordings whose ends are nearer than this follow on each other: the clocks by which they are compared may be off by that
/// much. The kernel corrects the time of day by at most 500 µs a second (kernel/time/ntp.c, MAXFREQ), and a recording says when
/// it began as soon as it came to it.
fn inexactness(earlier: &Piece, interval: Nanos) -> Nanos {
    const LEAST: Nanos = Nanos(10_000_000);
    let length = earlier.end.saturating_sub(earlier.start);
    LEAST.max(Nanos(interval.0 / 2)).saturating_add(Nanos(length.0 / 2_000))
}

impl Merge {
    /// Writes `recordings` to `writer` in the order of time. `progress` hears how many of how many intervals are done.
    ///
    /// # Errors
    /// When they are not of one boot of one host and measured alike, when two are of the same time, when one cannot be read,
    /// or when `writer` does not take it.
    pub fn write(
        self,
        recordings: Vec<(PathBuf, Reader)>,
        writer: &mut Writer,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<(), CopyError> {
        let count = recordings.len();
        let cut_off = recordings.iter().filter(|(_, reader)| reader.footer().is_none()).count();
        let mut pieces = pieces(recordings)?;
        let Some(first) = pieces.first() else {
            return Err(CopyError::Empty);
        };
        let mut session = first.reader.session().clone();
        if let Some(interval) = self.interval {
            if interval < session.interval_ns {
                return Err(CopyError::Shorter { is: session.interval_ns, wanted: interval });
            }
            session.interval_ns = interval;
        }
        self.place(&mut pieces)?;

        let all = pieces.iter().map(|piece| piece.reader.len()).sum();
        let transcript = Transcript::begin(writer, &session, pieces[0].epoch.later(pieces[0].start))?;
        let mut longer = Longer { transcript, interval: self.interval, merger: merger(&session), last: None };
        let (mut done, mut seq) = (0, 0);
        let count_pieces = pieces.len();
        for (n, piece) in pieces.iter_mut().enumerate() {
            seq = piece.write(seq, n + 1 == count_pieces, &mut longer, |_| {
                done += 1;
                progress(done, all);
            })?;
        }
        longer.flush()?;
        longer.transcript.end(reason(&pieces, count, cut_off))
    }

    /// Finds out where each begins in the output.
    fn place(self, pieces: &mut [Piece]) -> Result<(), CopyError> {
        let origin = unix_start(&pieces[0]);
        // When the one before ends in what comes out.
        let mut end = pieces[0].end.saturating_sub(pieces[0].start);
        for n in 1..pieces.len() {
            let (before, after) = pieces.split_at_mut(n);
            let (first, before, piece) = (&before[0], &before[n - 1], &mut after[0]);
            self.compare(first, piece)?;
            let begins = unix_start(piece).saturating_sub(origin);
            let inexact = inexactness(before, piece.reader.session().interval_ns);
            if begins.saturating_add(inexact) < end {
                return Err(CopyError::Overlap {
                    file: piece.path.clone(),
                    begins: piece.epoch.text(piece.start),
                    other: before.path.clone(),
                    ends: before.epoch.text(before.end),
                });
            }
            piece.after_gap = begins > end.saturating_add(inexact);
            piece.begins = if piece.after_gap { begins } else { end };
            end = piece.begins.saturating_add(piece.end.saturating_sub(piece.start));
        }
        Ok(())
    }

    /// Can `piece` follow on `first`?
    fn compare(self, first: &Piece, piece: &Piece) -> Result<(), CopyError> {
        let (a, b) = (first.reader.session(), piece.reader.session());
        let ways = |session: &Session| -> Vec<_> {
            let way = |hook: &Hook| (hook.name.clone(), hook.state, hook.way.clone());
            session.hooks.iter().map(way).collect()
        };
        let differs = if a.hostname != b.hostname {
            "different hosts"
        } else if a.boot_id != b.boot_id {
            "different boots of the host"
        } else if (a.group_by, a.cgroup_version, &a.cgroup_mount) != (b.group_by, b.cgroup_version, &b.cgroup_mount) {
            "different grouping of tasks (--group-by)"
        } else if a.excluded_cpus != b.excluded_cpus {
            "different CPUs excluded (--exclude-cpus)"
        } else if a.load_credit_time_ns != b.load_credit_time_ns {
            "different time constants of Load Credit"
        } else if ways(a) != ways(b) || a.restricted.is_some() != b.restricted.is_some() {
            "different measurement methods (lagstop show lists them)"
        } else if self.interval.is_none() && a.interval_ns != b.interval_ns {
            "different lengths of intervals (use --interval to make them equal)"
        } else {
            return Ok(());
        };
        Err(CopyError::Different { file: piece.path.clone(), differs, other: first.path.clone() })
    }
}

/// Those of `recordings` that have intervals, in the order of time.
fn pieces(recordings: Vec<(PathBuf, Reader)>) -> Result<Vec<Piece>, CopyError> {
    let mut pieces = Vec::with_capacity(recordings.len());
    for (path, mut reader) in recordings {
        let Some(last) = reader.len().checked_sub(1) else { continue };
        let epoch = epoch(reader.session())?;
        let last = reader.interval(last)?;
        let first = reader.interval(0)?;
        let end = last.start_ns.saturating_add(last.duration_ns);
        let (begins, after_gap) = (Nanos::ZERO, false);
        pieces.push(Piece { path, reader, epoch, start: first.start_ns, end, seq: first.seq, begins, after_gap });
    }
    pieces.sort_by_key(unix_start);
    Ok(pieces)
}

fn unix_start(piece: &Piece) -> Nanos {
    piece.epoch.unix(piece.start)
}

fn merger(session: &Session) -> Merger {
    Merger::new(session.load_credit_time_ns)
}

/// Why it ends where it does.
fn reason(pieces: &[Piece], count: usize, cut_off: usize) -> String {
    let last = pieces.last().and_then(|piece| piece.reader.footer());
    let last = last.map_or("cut off", |footer| &footer.reason);
    if count == 1 {
        return last.to_owned();
    }
    let cut_off = if cut_off > 0 { format!(", {cut_off} of them cut off") } else { String::new() };
    format!("merged: {count} recordings{cut_off}; of the last: {last}")
}

impl Piece {
    /// Writes it, its intervals numbered from `seq` on. Gives the number that comes next.
    fn write(
        &mut self,
        seq: u64,
        is_last: bool,
        longer: &mut Longer<'_>,
        mut done: impl FnMut(usize),
    ) -> Result<u64, CopyError> {
        if self.after_gap {
            longer.gap_before(self.begins)?;
        }
        let at = |time: Nanos| self.begins.saturating_add(time.saturating_sub(self.start));
        // What is in front of the first interval, or behind the last, is between the recordings.
        let mut gaps = self.reader.gaps().to_vec();
        gaps.retain(|gap| gap.start_ns >= self.start && (is_last || gap.start_ns < self.end));
        let mut gaps = gaps.into_iter().map(|gap| Gap { start_ns: at(gap.start_ns), ..gap }).peekable();
        let mut next = seq;
        for n in 0..self.reader.len() {
            let interval = self.reader.interval(n)?;
            let interval = Interval {
                seq: interval.seq.saturating_sub(self.seq).saturating_add(seq),
                start_ns: at(interval.start_ns),
                ..interval
            };
            while let Some(gap) = gaps.next_if(|gap| gap.start_ns <= interval.start_ns) {
                longer.gap(gap)?;
            }
            next = interval.seq.saturating_add(interval.merged).saturating_add(1);
            longer.interval(interval)?;
            done(n);
        }
        gaps.try_for_each(|gap| longer.gap(gap))?;
        Ok(next)
    }
}

/// Writes intervals, longer ones where that is wanted.
struct Longer<'w> {
    transcript: Transcript<'w>,
    interval: Option<Nanos>,
    merger: Merger,
    /// When the last interval ended, and the length of those that are not written yet.
    last: Option<(Nanos, Nanos)>,
}

impl Longer<'_> {
    fn interval(&mut self, interval: Interval) -> Result<(), CopyError> {
        let duration = interval.duration_ns;
        let end = interval.start_ns.saturating_add(duration);
        let Some(wanted) = self.interval else {
            self.last = Some((end, Nanos::ZERO));
            return self.transcript.interval(interval);
        };
        // A merged interval never reaches across a time without intervals.
        let half = Nanos(duration.0 / 2);
        if self.last.is_some_and(|(last, _)| interval.start_ns > last.saturating_add(half)) {
            self.flush()?;
        }
        // Where cgroups come and go all the time, an interval gets no longer than what can be read again.
        if !self.merger.has_room_for(&interval) {
            self.flush()?;
        }
        let length = self.last.map_or(Nanos::ZERO, |(_, length)| length).saturating_add(duration);
        self.merger.add(&interval);
        self.last = Some((end, length));
        if length.saturating_add(half) >= wanted { self.flush() } else { Ok(()) }
    }

    fn gap(&mut self, gap: Gap) -> Result<(), CopyError> {
        self.flush()?;
        self.transcript.gap(gap)
    }

    /// Between two recordings.
    fn gap_before(&mut self, start: Nanos) -> Result<(), CopyError> {
        let Some((end, _)) = self.last else { return Ok(()) };
        let reason = "between two of the recordings that were merged".to_owned();
        self.gap(Gap { start_ns: end, duration_ns: start.saturating_sub(end), reason })
    }

    /// Writes what is merged so far.
    fn flush(&mut self) -> Result<(), CopyError> {
        if let Some((_, length)) = &mut self.last {
            *length = Nanos::ZERO;
        }
        match self.merger.take() {
            Some(merged) => self.transcript.interval(merged),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
