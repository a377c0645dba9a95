use super::*;
use crate::{
    model::{fixture, merge},
    recording::{Footer, Line, SCHEMA},
};

const SECOND: u64 = Nanos::SECOND.0;

/// A recording of intervals `from` to `to` of a second each, that began `late` ns later than they say.
fn recorded(from: u64, to: u64, late: u64, change: impl Fn(&mut Session)) -> (PathBuf, Reader) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap()).compressed();
    let mut session = fixture::session();
    session.started_at = epoch(&session).unwrap().text(Nanos(from * SECOND + late));
    change(&mut session);
    writer.write(&Line::Header { schema: SCHEMA, session }).unwrap();
    for interval in &fixture::overloaded(20)[from as usize..to as usize] {
        let interval = Interval {
            seq: interval.seq - from,
            start_ns: interval.start_ns.saturating_sub(Nanos(from * SECOND)),
            ..interval.clone()
        };
        writer.write(&Line::Interval(Box::new(interval))).unwrap();
    }
    writer.write(&Line::Footer(Footer { reason: "rotated".to_owned(), ..Footer::default() })).unwrap();
    (format!("{from}.zst").into(), Reader::open(file.path()).unwrap())
}

fn part(from: u64, to: u64) -> (PathBuf, Reader) {
    recorded(from, to, 0, |_| {})
}

fn merged(recordings: Vec<(PathBuf, Reader)>, seconds: Option<u64>) -> Result<Reader, CopyError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    let interval = seconds.map(|seconds| Nanos(seconds * SECOND));
    Merge { interval }.write(recordings, &mut writer, |_, _| {})?;
    Ok(Reader::open(file.path()).unwrap())
}

fn all(reader: &mut Reader) -> Vec<Interval> {
    (0..reader.len()).map(|n| reader.interval(n).unwrap()).collect()
}

#[test]
fn parts_in_any_order_are_the_whole() {
    let mut whole = merged(vec![part(0, 20)], None).unwrap();
    // Each says a little late when it began, the last one a little early.
    let parts = vec![recorded(14, 20, 300_000_000, |_| {}), part(0, 6), recorded(6, 14, 400_000_000, |_| {})];
    let mut back = merged(parts, None).unwrap();
    assert_eq!(all(&mut back), all(&mut whole));
    assert_eq!((back.session(), back.gaps().len()), (whole.session(), 0));
    assert_eq!(whole.footer().unwrap().reason, "rotated");
    let footer = back.footer().unwrap();
    assert_eq!((footer.intervals, footer.reason.as_str()), (20, "merged: 3 recordings; of the last: rotated"));
    assert_eq!(footer.ended_at, whole.footer().unwrap().ended_at);
}

#[test]
fn the_time_between_is_a_gap() {
    let mut back = merged(vec![part(12, 14), part(0, 5)], None).unwrap();
    let [gap] = back.gaps() else { panic!("{:?}", back.gaps()) };
    assert_eq!((gap.start_ns, gap.duration_ns), (Nanos(5 * SECOND), Nanos(7 * SECOND)));
    let last: Vec<(u64, Nanos)> = all(&mut back)[5..].iter().map(|i| (i.seq, i.start_ns)).collect();
    assert_eq!(last, [(5, Nanos(12 * SECOND)), (6, Nanos(13 * SECOND))]);
}

#[test]
fn longer_intervals_are_what_fewer_readings_would_have_told() {
    let mut back = merged(vec![part(0, 5), part(12, 20)], Some(3)).unwrap();
    let intervals = all(&mut back);
    let shape: Vec<_> = intervals.iter().map(|i| (i.seq, i.start_ns.0 / SECOND, i.merged + 1)).collect();
    assert_eq!(shape, [(0, 0, 3), (3, 3, 2), (5, 12, 3), (8, 15, 3), (11, 18, 2)]);
    let expected = merge(back.session().load_credit_time_ns, &fixture::overloaded(20)[15..18]).unwrap();
    assert_eq!(intervals[3].host, expected.host);
    assert_eq!(intervals[3].cgroups[0].totals, expected.cgroups[0].totals);
    assert_eq!(intervals[3].cgroups[0].runq_wait, expected.cgroups[0].runq_wait);
    assert_eq!(back.session().interval_ns, Nanos(3 * SECOND));
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let error = |second: (PathBuf, Reader)| merged(vec![part(0, 6), second], None).unwrap_err().to_string();
    assert!(
        error(part(4, 9))
            .contains("4.zst starts at 2026-08-03T10:00:04.000Z, before 0.zst ends at 2026-08-03T10:00:06")
    );
    assert!(error(part(0, 6)).contains("Omit one"));
    let differs = |change: fn(&mut Session)| error(recorded(6, 9, 0, change));
    assert!(
        differs(|session| session.hostname = "node-8".to_owned())
            .contains("cannot merge 0.zst and 6.zst: different hosts")
    );
    assert!(differs(|session| session.boot_id = "c".to_owned()).contains("different boots"));
    assert!(differs(|session| session.group_by = crate::model::GroupBy::Leaf).contains("--group-by"));
    assert!(differs(|session| session.hooks[0].way = None).contains("different measurement methods"));
    assert!(differs(|session| session.interval_ns = Nanos(1)).contains("--interval"));
    assert!(differs(|session| session.started_at = "once".to_owned()).contains("\"once\""));
    let shorter = Merge { interval: Some(Nanos(1)) }.write(
        vec![part(0, 2)],
        &mut Writer::to_file(tempfile::tempfile().unwrap()),
        |_, _| {},
    );
    assert!(shorter.unwrap_err().to_string().contains("cannot shorten intervals from 1.00 s"));
}
