//! What is in a recording, to be written and compared.

use lagstop::{
    model::{Interval, Session, Tasks},
    recording::{Footer, Gap, Line, Reader, SCHEMA, Writer},
};

use crate::MemoryFile;

#[derive(Debug)]
pub struct Recording {
    session: Session,
    gaps: Vec<Gap>,
    intervals: Vec<Interval>,
    footer: Option<Footer>,
    /// What is read as one when an overview is wanted.
    merged: Vec<Interval>,
}

impl Recording {
    /// Reads the recording in `file`. `None` where something in it cannot be read.
    pub fn of(file: &MemoryFile) -> Option<Self> {
        let mut reader = Reader::open(&file.path()).ok()?;
        Some(Self {
            session: reader.session().clone(),
            gaps: reader.gaps().to_vec(),
            intervals: (0..reader.len()).map(|n| reader.interval(n).ok()).collect::<Option<_>>()?,
            footer: reader.footer().cloned(),
            merged: (0..reader.parts()).map(|part| reader.merged(part).ok()).collect::<Option<_>>()?,
        })
    }

    /// Writes it anew.
    pub fn plain(&self) -> MemoryFile {
        let file = MemoryFile::new();
        self.write(Writer::to_file(file.writable()));
        file
    }

    /// The same, packed and compressed.
    pub fn compressed(&self) -> MemoryFile {
        let file = MemoryFile::new();
        self.write(Writer::to_file(file.writable()).compressed());
        file
    }

    fn write(&self, mut writer: Writer) {
        let header = Line::Header { schema: SCHEMA, session: self.session.clone() };
        let gaps = self.gaps.iter().cloned().map(Line::Gap);
        let intervals = self.intervals.iter().cloned().map(|interval| Line::Interval(Box::new(interval)));
        let footer = self.footer.iter().cloned().map(Line::Footer);
        for line in std::iter::once(header).chain(gaps).chain(intervals).chain(footer) {
            writer.write(&line).expect("what can be read can be written");
        }
    }

    /// Panics where `other` says anything else.
    pub fn assert_is(&self, other: &Self) {
        assert_eq!(self.session, other.session);
        assert_eq!(self.gaps, other.gaps);
        assert_eq!(self.footer, other.footer);
        assert_same(&self.intervals, &other.intervals);
        assert_same(&self.merged, &other.merged);
    }
}

fn assert_same(these: &[Interval], others: &[Interval]) {
    assert_eq!(these.len(), others.len());
    for (this, other) in these.iter().zip(others) {
        assert_eq!(without_loads(this), without_loads(other));
        assert_eq!(this.cgroups.len(), other.cgroups.len());
        for (this, other) in this.cgroups.iter().zip(&other.cgroups) {
            assert_near(this.runnable_load, other.runnable_load);
            assert_near(this.load_credit, other.load_credit);
        }
    }
}

/// Loads are rounded where they are written.
fn without_loads(interval: &Interval) -> Interval {
    let mut interval = interval.clone();
    for cgroup in &mut interval.cgroups {
        (cgroup.runnable_load, cgroup.load_credit) = (None, None);
    }
    interval
}

fn assert_near(this: Option<Tasks>, other: Option<Tasks>) {
    const ROUNDING: f64 = 1e-6;
    match (this, other) {
        (Some(Tasks(a)), Some(Tasks(b))) => assert!((a - b).abs() <= ROUNDING * a.abs().max(1.0), "{a} is not {b}"),
        _ => assert_eq!(this, other),
    }
}
