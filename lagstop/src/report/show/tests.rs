use super::*;
use crate::{
    model::{HookState, Interval, Nanos, fixture},
    recording::{Footer, Gap, Line, Reader, SCHEMA, Writer},
};

/// A recording of `intervals`, with a gap before the fourth.
fn found(intervals: &[Interval], is_whole: bool, is_compressed: bool) -> Contents {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    if is_compressed {
        writer = writer.compressed();
    }
    let mut session = fixture::session();
    session.hooks.extend(fixture::session_without_cost().hooks);
    writer.write(&Line::Header { schema: SCHEMA, session }).unwrap();
    for (n, interval) in intervals.iter().enumerate() {
        if n == 3 {
            let reason = "the host slept\u{1b}[2J".to_owned();
            let gap = Gap { start_ns: Nanos(3 * Nanos::SECOND.0), duration_ns: Nanos(90 * Nanos::SECOND.0), reason };
            writer.write(&Line::Gap(gap)).unwrap();
        }
        writer.write(&Line::Interval(Box::new(interval.clone()))).unwrap();
    }
    if is_whole {
        let footer = Footer { intervals: intervals.len() as u64, reason: "duration".to_owned(), ..Footer::default() };
        writer.write(&Line::Footer(footer)).unwrap();
    }
    // What a file of this many cgroups would be: how small it gets is tested elsewhere.
    Contents::of(&mut Reader::open(file.path()).unwrap(), 123_456, |_, _| {}).unwrap()
}

fn intervals() -> Vec<Interval> {
    fixture::overloaded(40).into_iter().filter(|interval| ![7, 8].contains(&interval.seq)).collect()
}

#[test]
fn a_recording_reads_like_this() {
    insta::assert_snapshot!("whole", render("host.jsonl", &found(&intervals(), true, false), PageOptions::default()));
}

#[test]
fn one_that_was_cut_off_in_a_narrow_terminal_reads_like_this() {
    let mut few = found(&intervals()[..2], false, true);
    (few.is_cut, few.summed_intervals, few.missing_intervals) = (true, 1, None);
    insta::assert_snapshot!("cut_off", render("x\u{9b}.zst", &few, PageOptions { width: 50, colour: true }));
}

#[test]
fn both_forms_and_both_ways_to_read_tell_the_same() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap()).compressed();
    writer.write(&Line::Header { schema: SCHEMA, session: fixture::session() }).unwrap();
    for interval in fixture::overloaded(150) {
        writer.write(&Line::Interval(Box::new(interval))).unwrap();
    }
    let of = |bytes| Contents::of(&mut Reader::open(file.path()).unwrap(), bytes, |_, _| {}).unwrap();
    let (one_by_one, by_parts) = (of(1), of(1 << 30));
    assert_eq!((one_by_one.cgroups.counted_intervals, by_parts.cgroups.counted_intervals), (150, 16));
    assert_eq!(one_by_one.by_switch_cost, by_parts.by_switch_cost);
    assert_eq!(one_by_one.host, by_parts.host);
    assert_eq!((one_by_one.span_ns, one_by_one.summed_intervals), (by_parts.span_ns, by_parts.summed_intervals));
}

#[test]
fn an_empty_recording_has_nothing_in_it() {
    let empty = found(&[], true, false);
    assert_eq!((empty.host.clone(), empty.cgroups.ever, empty.span_ns), (None, 0, Nanos::ZERO));
    assert!(render("x", &empty, PageOptions::default()).contains("0 of 1 s"));
}

#[test]
fn programs_get_the_same() {
    let text = to_json(&found(&intervals(), true, false)).unwrap();
    assert!(!text.contains('\u{1b}'));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["missing_intervals"], 2);
    assert_eq!(value["gaps"][0]["began_at"], "2026-08-03T10:00:03.000Z");
    assert_eq!(value["gaps"][0]["duration_ns"], 90_000_000_000u64);
    assert_eq!(value["session"]["hooks"][1]["state"], serde_json::to_value(HookState::Off).unwrap());
    assert_eq!(value["form"], "plain");
}
