use super::*;
use crate::{
    model::fixture,
    recording::{Contents, Line, SCHEMA},
};

type IsWanted = fn(&Cgroup) -> bool;

/// A recording of ten intervals of a second each with a gap before the sixth.
fn recorded(is_compressed: bool) -> tempfile::NamedTempFile {
    let (file, mut writer) = output(is_compressed);
    writer.write(&Line::Header { schema: SCHEMA, session: fixture::session() }).unwrap();
    for mut interval in fixture::overloaded(10) {
        if interval.seq >= 5 {
            interval.start_ns = interval.start_ns.saturating_add(Nanos::SECOND);
        }
        if interval.seq == 5 {
            let gap = Gap { start_ns: Nanos(5_000_000_000), duration_ns: Nanos::SECOND, reason: "asleep".to_owned() };
            writer.write(&Line::Gap(gap)).unwrap();
        }
        writer.write(&Line::Interval(Box::new(interval))).unwrap();
    }
    let footer = Footer { intervals: 10, reason: "duration".to_owned(), ..Footer::default() };
    writer.write(&Line::Footer(footer)).unwrap();
    file
}

fn output(is_compressed: bool) -> (tempfile::NamedTempFile, Writer) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Writer::to_file(file.reopen().unwrap());
    (file, if is_compressed { writer.compressed() } else { writer })
}

fn cut(from: Option<u64>, to: Option<u64>, cgroups: Option<IsWanted>) -> Result<Reader, CopyError> {
    let cut = Cut {
        from: from.map(Nanos),
        to: to.map(Nanos),
        cgroups: cgroups.map(|is_wanted| Wanted { is_wanted, called: "those".to_owned() }),
    };
    let source = recorded(true);
    let (file, mut writer) = output(false);
    cut.write(&mut Reader::open(source.path()).unwrap(), &mut writer, |_, _| {})?;
    Ok(Reader::open(file.path()).unwrap())
}

fn all(reader: &mut Reader) -> Vec<Interval> {
    (0..reader.len()).map(|n| reader.interval(n).unwrap()).collect()
}

#[test]
fn the_other_form_says_the_same() {
    let source = recorded(false);
    let mut plain = Reader::open(source.path()).unwrap();
    let mut back = cut(None, None, None).unwrap();
    assert_eq!(all(&mut back), all(&mut plain));
    assert_eq!(back.gaps(), plain.gaps());
    let footer = back.footer().unwrap();
    assert_eq!((footer.intervals, footer.reason.as_str()), (10, "duration"));
    assert_eq!(footer.ended_at, "2026-08-03T10:00:11.000Z");
}

#[test]
fn times_stay_true_and_the_clock_begins_anew() {
    let mut part = cut(Some(3_500_000_000), Some(8_000_000_000), None).unwrap();
    assert_eq!(part.session().started_at, "2026-08-03T10:00:04.000Z");
    let intervals = all(&mut part);
    let starts: Vec<(u64, u64)> = intervals.iter().map(|i| (i.seq, i.start_ns.0 / Nanos::SECOND.0)).collect();
    assert_eq!(starts, [(0, 0), (1, 2), (2, 3)]);
    assert_eq!(part.gaps()[0].start_ns, Nanos::SECOND);
    let footer = part.footer().unwrap();
    assert_eq!(footer.ended_at, "2026-08-03T10:00:08.000Z");
    assert_eq!(footer.reason, "cut: 3 of 10 intervals; of all: duration");
}

#[test]
fn two_parts_are_the_whole() {
    let [mut front, mut back] =
        [cut(None, Some(6_000_000_000), None), cut(Some(6_000_000_000), None, None)].map(Result::unwrap);
    assert_eq!((front.len(), back.len()), (5, 5));
    assert_eq!((front.gaps().len(), back.gaps().len()), (0, 0));
    let sum = |intervals: Vec<Interval>| intervals.iter().map(|i| i.host.totals.switches).sum::<u64>();
    let of_all = sum(all(&mut cut(None, None, None).unwrap()));
    assert_eq!(sum(all(&mut front)) + sum(all(&mut back)), of_all);
}

#[test]
fn only_some_cgroups_are_told_apart() {
    let mut part = cut(None, None, Some(|cgroup| &*cgroup.name == "web")).unwrap();
    let contents = Contents::of(&mut part, 1, |_, _| {}).unwrap();
    assert_eq!(contents.cgroups.ever, 2);
    assert!(part.footer().unwrap().reason.contains("cgroups but those summed as (other)"));
    assert!(matches!(cut(None, None, Some(|_| false)), Err(CopyError::NoCgroup)));
}

#[test]
fn where_there_is_nothing_it_says_where_there_is_something() {
    let error = cut(Some(60_000_000_000), None, None).unwrap_err().to_string();
    assert!(error.contains("covers 2026-08-03T10:00:00.000Z to 2026-08-03T10:00:11.000Z"), "{error}");
}
