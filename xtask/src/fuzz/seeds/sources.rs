//! Small recordings of every form, in which nothing is wrong.

use lagstop::{
    model::{Interval, Nanos, Session, Totals, merge},
    recording::{Chunks, Footer, Gap, Line, Reader, SCHEMA, WriteError},
};
use serde_json::Value;

use super::Files;
use crate::{fuzz::FuzzError, workspace::Workspace};

/// Numbers that say where something is, and not how much of it: they stay as they are.
const PLACES: [&str; 8] = ["id", "cgroup", "cpu", "netns", "seq", "start_ns", "cpus_online", "merged"];

/// What is cut out of a real recording.
pub(super) struct Sources {
    session: Session,
    intervals: Vec<Interval>,
}

impl Sources {
    /// Cuts it out.
    pub(super) fn of(workspace: &Workspace) -> Result<Self, FuzzError> {
        const INTERVALS: usize = 2;
        let path = workspace.root().join("lagstop/tests/fixtures/dense.jsonl");
        let error = |why: &dyn std::fmt::Display| FuzzError::Fixture { path: path.clone(), why: why.to_string() };
        let mut reader = Reader::open(&path).map_err(|why| error(&why))?;
        let mut session = reader.session().clone();
        session.hooks.truncate(2);
        let intervals = (0..INTERVALS).map(|n| reader.interval(n).map(small)).collect::<Result<_, _>>();
        Ok(Self { session, intervals: intervals.map_err(|why| error(&why))? })
    }

    /// What lines begin with.
    pub(super) fn header(&self) -> Line {
        Line::Header { schema: SCHEMA, session: self.session.clone() }
    }

    /// A recording with a line of each kind.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = self.with_header(self.intervals.clone());
        let gap = Gap { start_ns: Nanos(1), duration_ns: Nanos::SECOND, reason: "suspended".to_owned() };
        lines.insert(2, Line::Gap(gap));
        lines.push(Line::Footer(Footer { intervals: 2, reason: "duration".to_owned(), ..Footer::default() }));
        lines
    }

    /// A recording of more than one chunk: its intervals have nothing in them but one cgroup.
    pub(super) fn long(&self) -> Vec<Line> {
        let some = |n: u64| {
            let first = self.intervals[0].clone();
            let (seq, start_ns) = (n, Nanos(n * Nanos::SECOND.0));
            let mut bare = Interval { seq, start_ns, cpus: Vec::new(), listeners: Vec::new(), ..first };
            bare.cgroups.truncate(1);
            bare
        };
        self.with_header((0..62).map(some).collect())
    }

    /// One of each form, as plain lines.
    pub(super) fn plain_files(&self) -> Files {
        let packed = decompressed(&compressed(&self.lines()));
        let all = [
            ("plain", text(&self.lines())),
            ("packed", packed),
            ("merged", text(&self.with_header(merge(Nanos::SECOND, &self.intervals).into_iter().collect()))),
            ("older", self.older()),
            ("not-measured", text(&self.with_header(vec![not_measured(self.intervals[1].clone())]))),
            ("one-id-twice", text(&self.with_header(vec![one_id_twice(self.intervals[1].clone())]))),
            ("largest-numbers", self.largest_numbers()),
            ("header-only", text(&[self.header()])),
        ];
        all.into_iter().map(|(name, text)| (format!("{name}.jsonl"), text.into_bytes())).collect()
    }

    fn with_header(&self, intervals: Vec<Interval>) -> Vec<Line> {
        let intervals = intervals.into_iter().map(|interval| Line::Interval(Box::new(interval)));
        std::iter::once(self.header()).chain(intervals).collect()
    }

    /// Without what the first versions did not write.
    fn older(&self) -> String {
        const NEWER: [&str; 7] = [
            "cpus",
            "topology",
            "load_credit_time_ns",
            "cgroup_mount",
            "network_namespaces",
            "switch_cost_way",
            "pick_function_way",
        ];
        changed(&self.with_header(self.intervals.clone()), |line| {
            NEWER.iter().for_each(|field| drop(line.as_object_mut().and_then(|line| line.remove(*field))));
            if let Some(schema) = line.get_mut("schema") {
                *schema = 1.into();
            }
        })
    }

    fn largest_numbers(&self) -> String {
        changed(&self.with_header(self.intervals[..2].to_vec()), |line| {
            if line["kind"] == "interval" {
                enlarge(line);
            }
        })
    }
}

/// The interval with only some of what is in it.
fn small(mut interval: Interval) -> Interval {
    interval.cgroups.truncate(2);
    interval.listeners.truncate(1);
    interval.network_namespaces.truncate(1);
    interval
}

fn not_measured(mut interval: Interval) -> Interval {
    (interval.switch_cost_way, interval.pick_function_way) = (None, None);
    for cgroup in &mut interval.cgroups {
        cgroup.totals = Totals { switches: 5, voluntary_switches: 5, ..Totals::default() };
        (cgroup.runnable_load, cgroup.load_credit) = (None, None);
        (cgroup.switch_cost, cgroup.runq_wait, cgroup.accept_wait) = (None, None, None);
    }
    for listener in &mut interval.listeners {
        (listener.sockets, listener.drops, listener.totals) = (None, None, None);
    }
    interval
}

/// An interval that cannot be packed.
fn one_id_twice(mut interval: Interval) -> Interval {
    interval.cgroups[1].id = interval.cgroups[0].id;
    interval
}

/// Makes every amount in `value` the largest there is.
fn enlarge(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_u64() => *value = u64::MAX.into(),
        Value::Array(values) => values.iter_mut().for_each(enlarge),
        Value::Object(fields) => {
            fields
                .iter_mut()
                .filter(|(name, _)| !PLACES.contains(&name.as_str()))
                .for_each(|(_, value)| enlarge(value));
        }
        _ => {}
    }
}

/// The lines as text, each changed.
fn changed(lines: &[Line], change: impl Fn(&mut Value)) -> String {
    let line = |line: &str| {
        let mut value = serde_json::from_str(line).unwrap_or_default();
        change(&mut value);
        format!("{value}\n")
    };
    text(lines).lines().map(line).collect()
}

/// The lines as they are written.
pub(super) fn text(lines: &[Line]) -> String {
    // What could not be put into JSON would be missing, and the test of what is committed fail.
    lines.iter().filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect()
}

/// The lines packed and compressed.
pub(super) fn compressed(lines: &[Line]) -> Vec<u8> {
    compressed_by(Chunks::new(), lines)
}

/// The same, as a server sends them.
pub(super) fn followed(lines: &[Line]) -> Vec<u8> {
    compressed_by(Chunks::to_follow(), lines)
}

fn compressed_by(mut chunks: Chunks, lines: &[Line]) -> Vec<u8> {
    let all = lines.iter().map(|line| chunks.compress(line)).collect::<Result<Vec<_>, WriteError>>();
    let end = chunks.end_chunk();
    [all.unwrap_or_default().concat(), end.unwrap_or_default()].concat()
}

/// As `zstd -d` does.
pub(super) fn decompressed(bytes: &[u8]) -> String {
    String::from_utf8(zstd::stream::decode_all(bytes).unwrap_or_default()).unwrap_or_default()
}
