//! Recordings of every version of the format are read as what they say.
//!
//! A file in `tests/fixtures` is never rewritten, and never taken away: there are recordings of its version that cannot be made
//! again. A new version, or a kind of line that none of them has, gets a file of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use lagstop::{
    model::{CgroupId, Interval, Nanos},
    recording::Reader,
};

/// What is known of a fixture.
struct Fixture {
    name: &'static str,
    schema: u64,
    /// Kinds of lines that are in it.
    kinds: &'static [&'static str],
    /// Size of the file, which must not change.
    bytes: u64,
    intervals: usize,
    /// Number of different cgroups, and of cgroups summed over all intervals.
    cgroups: (usize, usize),
    /// Of the host, over all intervals.
    switches: u64,
    /// Of the cgroups, over all intervals.
    cpu_ns: Nanos,
    /// Run-queue waits in the distributions.
    waits: u64,
    gaps: &'static [(Nanos, Nanos)],
    ended: &'static str,
}

/// A recording of a crowded host whose name was changed, with a hostile name and a quota; as it was written, and packed. And one
/// of a very crowded host and, after a while, of a quiet one, of which most cgroups were summed; packed, and a part of it plain.
const FIXTURES: &[Fixture] = &[
    Fixture {
        name: "dense.jsonl",
        schema: 1,
        kinds: &["header", "interval", "footer"],
        bytes: 290_177,
        intervals: 10,
        cgroups: (24, 240),
        switches: 74_283,
        cpu_ns: Nanos(19_951_245_160),
        waits: 74_234,
        gaps: &[],
        ended: "duration",
    },
    Fixture {
        name: "dense-2.jsonl.zst",
        schema: 2,
        kinds: &["header", "names", "packed", "merged", "footer"],
        bytes: 33_381,
        intervals: 10,
        cgroups: (24, 240),
        switches: 74_283,
        cpu_ns: Nanos(19_951_245_160),
        waits: 74_234,
        gaps: &[],
        ended: "duration",
    },
    Fixture {
        name: "gap-2.jsonl",
        schema: 2,
        kinds: &["header", "interval", "gap", "footer"],
        bytes: 47_481,
        intervals: 9,
        cgroups: (12, 40),
        switches: 10_139,
        cpu_ns: Nanos(2_044_381_065),
        waits: 9_875,
        gaps: &[(Nanos(719_018_789), Nanos(3_670_439_321))],
        ended: "cut: 9 of 73 intervals; of all: merged: 2 recordings; of the last: duration",
    },
    Fixture {
        name: "gap-2.jsonl.zst",
        schema: 2,
        kinds: &["header", "names", "packed", "gap", "merged", "footer"],
        bytes: 36_347,
        intervals: 73,
        cgroups: (12, 245),
        switches: 69_024,
        cpu_ns: Nanos(17_117_879_001),
        waits: 67_671,
        gaps: &[(Nanos(4_533_560_679), Nanos(3_670_439_321))],
        ended: "merged: 2 recordings; of the last: duration",
    },
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(name: &str) -> (Reader, Vec<Interval>) {
    let mut reader = Reader::open(&path(name)).unwrap();
    let intervals = (0..reader.len()).map(|n| reader.interval(n).unwrap()).collect();
    (reader, intervals)
}

/// Its lines, decompressed.
fn lines(name: &str) -> Vec<serde_json::Value> {
    let bytes = fs::read(path(name)).unwrap();
    let bytes = if name.ends_with(".zst") { zstd::decode_all(&*bytes).unwrap() } else { bytes };
    String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_version_says_what_it_said() {
    let found: BTreeSet<String> =
        fs::read_dir(path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, FIXTURES.iter().map(|fixture| fixture.name.to_owned()).collect());
    for fixture in FIXTURES {
        let Fixture { name, gaps, .. } = fixture;
        assert_eq!(fs::metadata(path(name)).unwrap().len(), fixture.bytes, "{name} was rewritten");
        let lines = lines(name);
        let kinds: BTreeSet<&str> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
        assert_eq!(kinds, fixture.kinds.iter().copied().collect(), "{name}");
        assert_eq!(lines[0]["schema"], fixture.schema, "{name}");

        let (reader, intervals) = open(name);
        let cgroups: Vec<_> = intervals.iter().flat_map(|interval| &interval.cgroups).collect();
        let different: BTreeSet<CgroupId> = cgroups.iter().map(|cgroup| cgroup.id).collect();
        assert_eq!((intervals.len(), different.len(), cgroups.len()), {
            let (different, all) = fixture.cgroups;
            (fixture.intervals, different, all)
        });
        let switches: u64 = intervals.iter().map(|interval| interval.host.totals.switches).sum();
        let cpu_ns: Nanos = cgroups.iter().map(|cgroup| cgroup.totals.cpu_ns).sum();
        let waits: u64 = cgroups.iter().filter_map(|cgroup| Some(cgroup.runq_wait.as_ref()?.count())).sum();
        assert_eq!((switches, cpu_ns, waits), (fixture.switches, fixture.cpu_ns, fixture.waits), "{name}");
        let found: Vec<_> = reader.gaps().iter().map(|gap| (gap.start_ns, gap.duration_ns)).collect();
        assert_eq!(found, *gaps, "{name}");
        let footer = reader.footer().unwrap();
        assert_eq!((footer.intervals, &*footer.reason), (fixture.intervals as u64, fixture.ended), "{name}");
        assert_eq!(reader.session().hostname, "node-17", "{name}");
    }
}

/// As it is written: a load that follows from other figures has more digits when it is computed.
fn json(value: impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn the_same_data_is_the_same_in_every_version() {
    let (plain, packed) = (open("dense.jsonl"), open("dense-2.jsonl.zst"));
    assert_eq!(plain.0.session(), packed.0.session());
    assert_eq!(json(&plain.1), json(&packed.1));

    let (part, all) = (open("gap-2.jsonl").1, open("gap-2.jsonl.zst").1);
    let first = all.iter().position(|interval| interval.duration_ns == part[0].duration_ns).unwrap();
    for (of_part, of_all) in part.iter().zip(&all[first..]) {
        let placed = Interval { seq: of_part.seq, start_ns: of_part.start_ns, ..of_all.clone() };
        assert_eq!(json(of_part), json(&placed));
    }
}

#[test]
fn chunks_are_also_one_interval_each() {
    let (mut reader, intervals) = open("gap-2.jsonl.zst");
    assert_eq!(reader.parts(), 2);
    let merged: Vec<Interval> = (0..2).map(|part| reader.merged(part).unwrap()).collect();
    assert_eq!(merged.iter().map(|part| part.merged).collect::<Vec<_>>(), [59, 12]);
    let switches = |intervals: &[Interval]| intervals.iter().map(|it| it.host.totals.switches).sum::<u64>();
    assert_eq!(switches(&merged), switches(&intervals));
}
