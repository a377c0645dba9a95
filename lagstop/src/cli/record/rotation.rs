//! A recording in several files, one after the other.

mod files;

use std::{path::Path, str::FromStr, time::Duration};

pub(super) use self::files::{Files, Made};
use crate::{
    cli::{Failure, values::positive},
    model::{Interval, Nanos, Session},
    recording::{Footer, Gap, Line, SCHEMA, WriteError, Writer, now},
};

/// When a file is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RotationLimit {
    Time(Duration),
    Bytes(u64),
}

/// A time such as `1h`, or a size such as `100MB`.
pub(super) fn limit(text: &str) -> Result<RotationLimit, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    for (unit, bytes) in UNITS {
        if let Some(number) = text.strip_suffix(unit) {
            let number =
                u64::from_str(number.trim()).map_err(|error| format!("{error}; write a size such as 100MB"))?;
            return match number.checked_mul(bytes) {
                None | Some(0) => Err("the size must be above 0 and below 2^64 bytes".to_owned()),
                Some(bytes) => Ok(RotationLimit::Bytes(bytes)),
            };
        }
    }
    positive(text).map(RotationLimit::Time).map_err(|error| format!("{error}, or a size such as 100MB"))
}

/// Writes each file as a recording of its own.
pub(super) struct Rotation {
    files: Files,
    limit: RotationLimit,
    compress: bool,
    session: Session,
    open: Option<Open>,
}

/// The file that is written.
struct Open {
    writer: Writer,
    footer: Footer,
    /// Its first interval, which is number 0 there and begins at 0.
    seq: u64,
    start: Nanos,
}

impl Rotation {
    pub(super) fn new(base: &Path, limit: RotationLimit, keep: Option<usize>, compress: bool) -> Result<Self, Failure> {
        Ok(Self { files: Files::new(base, keep)?, limit, compress, session: Session::default(), open: None })
    }

    pub(super) fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        self.session = session.clone();
        self.files.check()
    }

    /// Writes an interval, and a gap after it, into the current file or a new one.
    pub(super) fn interval(&mut self, mut interval: Interval, gap: Option<Gap>) -> Result<(), Failure> {
        let (seq, start) = (interval.seq, interval.start_ns);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.next(&interval)?,
        };
        interval.seq = seq.saturating_sub(open.seq);
        interval.start_ns = start.saturating_sub(open.start);
        let end = interval.start_ns.saturating_add(interval.duration_ns);
        open.footer.intervals += 1;
        open.footer.lost.add(&interval.host.lost);
        open.writer.write(&Line::Interval(Box::new(interval)))?;
        if let Some(gap) = gap {
            open.writer.write(&Line::Gap(Gap { start_ns: gap.start_ns.saturating_sub(open.start), ..gap }))?;
        }
        let is_full = match self.limit {
            RotationLimit::Time(time) => u128::from(end.0) >= time.as_nanos(),
            RotationLimit::Bytes(bytes) => open.writer.written() >= bytes,
        };
        self.open = Some(open);
        if is_full { Ok(self.end("rotated")?) } else { Ok(()) }
    }

    /// Begins a file whose first interval is `first`, which is already over.
    fn next(&mut self, first: &Interval) -> Result<Open, Failure> {
        let Made { file, began, .. } = self.files.make(Duration::from_nanos(first.duration_ns.0))?;
        let mut writer = file.recording(self.compress)?;
        let session = Session { started_at: began, ..self.session.clone() };
        writer.write(&Line::Header { schema: SCHEMA, session })?;
        self.files.prune()?;
        Ok(Open { writer, footer: Footer::default(), seq: first.seq, start: first.start_ns })
    }

    /// Ends the file that is written.
    pub(super) fn end(&mut self, reason: &str) -> Result<(), WriteError> {
        let Some(Open { mut writer, footer, .. }) = self.open.take() else { return Ok(()) };
        writer.write(&Line::Footer(Footer { ended_at: now(), reason: reason.to_owned(), ..footer }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Reader;

    #[test]
    fn limits_are_times_or_sizes() {
        assert_eq!(limit("1h"), Ok(RotationLimit::Time(Duration::from_secs(3_600))));
        assert_eq!(limit("100MB"), Ok(RotationLimit::Bytes(100_000_000)));
        assert_eq!(limit("64 MiB"), Ok(RotationLimit::Bytes(64 << 20)));
        for text in ["0s", "0MB", "MB", "-1MB", "99999999999TB", "soon", ""] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_file_is_a_recording_and_the_oldest_go() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join("host.jsonl.zst");
        let other = home.path().join("host.notes.jsonl.zst");
        std::fs::write(&other, "mine").unwrap();
        let limit = RotationLimit::Time(Duration::from_secs(2));
        let mut rotation = Rotation::new(&base, limit, Some(2), true).unwrap();
        rotation.begin(&Session::default()).unwrap();
        for seq in 0..9 {
            let interval = Interval {
                seq,
                start_ns: Nanos(seq * Nanos::SECOND.0),
                duration_ns: Nanos::SECOND,
                ..Interval::default()
            };
            // Each file is full with its second interval, at whose end nothing is known of a time.
            let gap = Gap { start_ns: Nanos((seq + 1) * Nanos::SECOND.0), ..Gap::default() };
            rotation.interval(interval, (seq > 6).then_some(gap)).unwrap();
        }
        rotation.end("interrupted").unwrap();
        let mut found: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| *path != other);
        found.sort();
        assert_eq!(found.len(), 2, "{found:?}");
        let [mut first, mut last] = [&found[0], &found[1]].map(|path| Reader::open(path).unwrap());
        assert_eq!((first.len(), last.len()), (2, 1));
        assert_eq!(first.footer().unwrap().reason, "rotated");
        assert_eq!(first.interval(1).unwrap().start_ns, Nanos::SECOND);
        assert_eq!((last.interval(0).unwrap().seq, last.footer().unwrap().intervals), (0, 1));
        assert_eq!(first.gaps()[0].start_ns, Nanos(2 * Nanos::SECOND.0), "in the file that it was found in");
        assert_eq!(last.gaps()[0].start_ns, Nanos::SECOND);
        assert!(other.exists());
    }
}
