use std::{fs, io::Write as _, process::Command};

use proptest::prelude::*;
use tempfile::{NamedTempFile, TempDir};

use super::*;
use crate::{
    model::{Cgroup, CgroupId, Cpu, Distribution, Hook, Listener, Measure, NetworkNamespace, Totals, merge},
    recording::{
        Chunks, Line, SCHEMA, Writer,
        chunk::{INDEX_MAGIC, Index},
    },
};

fn session() -> Session {
    let hook = Hook::new(Measure::Switches, Some("files"), String::new());
    Session {
        lagstop_version: "0.1.0".to_owned(),
        hostname: "h\u{1b}".to_owned(),
        hooks: vec![hook],
        ..Session::default()
    }
}

fn interval(seq: u64, start: u64, waits: &[(u64, u32)]) -> Interval {
    let runq_wait = Distribution::of(waits.iter().map(|&(wait, count)| (Nanos(wait), count)));
    let totals = Totals { switches: seq * 3, runq_waits: Some(runq_wait.count()), ..Totals::default() };
    let cgroup = Cgroup {
        id: CgroupId(seq + 2),
        path: format!("/a\n{seq}").into(),
        totals,
        runq_wait: Some(runq_wait),
        ..Cgroup::default()
    };
    Interval { seq, start_ns: Nanos(start), duration_ns: Nanos(7), cgroups: vec![cgroup], ..Interval::default() }
}

fn header() -> Line {
    Line::Header { schema: SCHEMA, session: session() }
}

fn body(starts: &[u64]) -> Vec<Line> {
    (0..).zip(starts).map(|(seq, &start)| Line::Interval(Box::new(interval(seq, start, &[(1_000, 2)])))).collect()
}

fn whole(starts: &[u64]) -> Vec<Line> {
    let footer = Footer { intervals: starts.len() as u64, reason: "duration".to_owned(), ..Footer::default() };
    [vec![header()], body(starts), vec![Line::Footer(footer)]].concat()
}

fn written(lines: &[Line]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    lines.iter().for_each(|line| writer.write(line).unwrap());
    file
}

fn compressed_lines(lines: &[Line]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap()).compressed();
    lines.iter().for_each(|line| writer.write(line).unwrap());
    file
}

/// A recording of several chunks, and what is in it.
fn long() -> (Vec<u8>, Vec<Line>) {
    let starts: Vec<u64> = (1..151).collect();
    let lines = whole(&starts);
    (fs::read(compressed_lines(&lines).path()).unwrap(), lines)
}

fn text(lines: &[Line]) -> String {
    fs::read_to_string(written(lines).path()).unwrap()
}

fn open(bytes: impl AsRef<[u8]>) -> Result<Reader, ReadError> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes.as_ref()).unwrap();
    // Open, it can be read on when its name is gone.
    Reader::open(file.path())
}

/// What is said about a file with these bytes.
fn said(bytes: impl AsRef<[u8]>) -> String {
    let error = open(bytes).unwrap_err().to_string();
    let (_, said) = error.split_once([',', ':']).unwrap();
    said.trim().to_owned()
}

#[test]
fn intervals_are_read_in_any_order() {
    let mut reader = Reader::open(written(&whole(&[0, 5, 9])).path()).unwrap();
    assert_eq!((reader.len(), reader.is_empty(), reader.is_cut()), (3, false, false));
    assert_eq!(*reader.session(), session());
    assert_eq!(reader.footer().unwrap().intervals, 3);
    for n in [2, 0, 1, 1] {
        assert_eq!(reader.start_of(n).unwrap(), Nanos([0, 5, 9][n]));
        assert_eq!(reader.interval(n).unwrap().seq, n as u64);
    }
    let error = reader.interval(3).unwrap_err().to_string();
    assert!(error.ends_with("no interval 3: the recording has 3 intervals, counted from 0"), "{error}");
}

#[test]
fn a_recording_that_was_cut_off_is_good_up_to_there() {
    let all = text(&whole(&[0, 5, 9]));
    let ends: Vec<usize> = all.match_indices('\n').map(|(at, _)| at).collect();
    for cut in ends[0] + 1..all.len() {
        let mut reader = open(&all[..cut]).unwrap();
        // A line that lacks its end alone is whole.
        let lines = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(reader.len(), lines.min(3), "{cut}");
        assert_eq!(reader.is_cut(), !ends.contains(&cut) && !ends.contains(&(cut - 1)), "{cut}");
        assert_eq!(reader.footer().is_some(), lines == 4);
        assert!((0..reader.len()).all(|n| reader.interval(n).is_ok()));
    }
    for cut in 17..ends[0] {
        assert!(said(&all[..cut]).starts_with("line 1: the recording ends within its header"), "{cut}");
    }
    // As a file system may leave it after a power cut.
    let mut reader = open(all[..ends[1] + 1].to_owned() + &"\0".repeat(4_096)).unwrap();
    assert_eq!((reader.len(), reader.is_cut(), reader.interval(0).is_ok()), (1, true, true));
}

#[test]
fn what_is_not_known_is_left_out() {
    let header = text(&[header()]).replacen('{', r#"{"colour":[{"a":1}],"#, 1);
    let intervals = text(&body(&[3, 4]));
    let (first, second) = intervals.split_once('\n').unwrap();
    // In another order, as other programs write it.
    let value: serde_json::Value = serde_json::from_str(first).unwrap();
    let first =
        format!(r#"{{"zzz":null,"start_ns":3,{}"#, value.to_string().replace(r#""start_ns":3,"#, "")[1..].to_owned());
    let reader = open(format!("{header}\r\n{first}\r\n{{\"kind\":\"remark\",\"start_ns\":\"now\"}}\n\n{second}"));
    let mut reader = reader.unwrap();
    let starts: Vec<Nanos> = (0..reader.len()).map(|n| reader.start_of(n).unwrap()).collect();
    assert_eq!(starts, [Nanos(3), Nanos(4)]);
    assert_eq!((reader.interval(0).unwrap().seq, reader.interval(1).unwrap().seq), (0, 1));
}

#[test]
fn each_fault_has_a_sentence_with_its_line_and_what_to_do() {
    let header = text(&[header()]);
    let (one, two) = (text(&body(&[5])), text(&body(&[4])));
    let footer = text(&[Line::Footer(Footer::default())]);
    let changed = |from: &str, to: &str| header.replacen(from, to, 1);
    for (bytes, expected) in [
        (String::new(), "the file is empty. Record again"),
        ("\n".to_owned(), "the file is empty"),
        ("hello\n".to_owned(), "line 1: not a recording of lagstop: expected value at byte 1 of the line. Name a file"),
        ("[1]\n".to_owned(), "line 1: not a recording of lagstop"),
        ("{\"a\":1}".to_owned(), "line 1: not a recording of lagstop: missing field `kind`"),
        (one.clone(), "line 1: the header of the recording is missing"),
        (changed(r#""schema":2"#, r#""schema":9"#), "line 1: written by a newer lagstop, 0.1.0: its format is 9"),
        (
            changed(r#""schema":2,"lagstop_version":"0.1.0""#, r#""schema":9,"lagstop_version":"\u001b[2J""#),
            "line 1: written by a newer lagstop, \\u{1b}[2J: its format is 9, and this version supports 2. Update lagstop",
        ),
        (changed(r#""schema":2"#, r#""schema":0"#), "line 1: cannot parse the header: unknown format 0"),
        (changed(r#""schema":2"#, r#""schema":"1""#), "line 1: cannot parse the header: invalid type: string"),
        (changed(r#""hostname""#, r#""host""#), "line 1: cannot parse the header: missing field `hostname`"),
        (format!("{header}{one}{header}"), "line 3: second header"),
        (format!("{header}{footer}{one}"), "line 3: data after the footer"),
        (format!("{header}{footer}{footer}"), "line 3: data after the footer"),
        (format!("{header}{one}{two}"), "line 3: the interval does not start after the previous one"),
        (format!("{header}{one}{one}"), "line 3: the interval does not start after the previous one"),
        (format!("{header}{one}oops\n{two}"), "line 3: cannot parse the line: expected value at byte 1"),
        (format!("{header}{{\"kind\":\"interval\"}}\n"), "line 2: cannot parse the line: missing field `start_ns`"),
        (format!("{header}{{\"kind\":\"footer\"}}\n"), "line 2: cannot parse the footer: missing field"),
    ] {
        let said = said(&bytes);
        assert!(said.starts_with(expected), "{said}");
    }
    assert!(said(b"\x1f\x8b\x08\0").starts_with("it is compressed with gzip. Decompress it first"));
}

#[test]
fn a_fault_inside_an_interval_shows_when_it_is_asked_for() {
    let good = text(&whole(&[5, 6, 7]));
    let deep = format!(r#""seq":1,"start_ns":6,"x":{}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (from, to, expected) in [
        (r#""switches":3"#, r#""switches":-3"#, "cannot parse the interval: invalid value: integer `-3`"),
        (r#""switches":3"#, r#""switches":"\u001b[2J""#, "cannot parse the interval: invalid type: string"),
        (r#""runq_wait":""#, r#""runq_wait":"x"#, "cannot parse the interval: the distribution is"),
        (r#""path":"/a\n1""#, r#""path":5"#, "cannot parse the interval: invalid type: integer `5`"),
        (
            r#""cgroups":[{"id":3"#,
            &format!(r#""cgroups":[{{"x":{},"id":3"#, "[".repeat(100_000)),
            "cannot parse the interval",
        ),
        (r#""switches":3"#, r#""switches":3}"#, "cannot parse the interval"),
    ] {
        let lines: Vec<&str> = good.split_inclusive('\n').collect();
        assert!(lines[2].contains(from), "{from}");
        let mut reader =
            open([lines[..2].concat(), lines[2].replacen(from, to, 1), lines[3..].concat()].concat()).unwrap();
        assert!(reader.interval(0).is_ok() && reader.interval(2).is_ok());
        let error = reader.interval(1).unwrap_err();
        assert_eq!(error.line(), Some(3));
        let error = error.to_string();
        assert!(error.contains(expected) && error.ends_with("or remove the line"), "{error}");
        assert!(!error.contains(char::is_control) && error.len() < 600, "{error}");
    }
    // What is not known may be as deep as it likes where nothing is kept of it.
    assert!(open(good.replacen(r#""seq":1,"start_ns":6"#, &deep, 1)).unwrap().interval(1).is_ok());
}

#[test]
fn a_line_has_a_limit() {
    let file = written(&whole(&[5]));
    let error = Reader::open_with(file.path(), 100).unwrap_err();
    assert_eq!(error.line(), Some(1));
    assert!(error.to_string().contains("too long for a recording"), "{error}");
}

#[test]
fn only_files_are_read() {
    let home = TempDir::new().unwrap();
    let pipe = home.path().join("pipe");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (path, expected) in [
        (home.path(), "it is a directory. Name a file in it"),
        (&pipe, "not a regular file"),
        (Path::new("/dev/null"), "not a regular file"),
        (&home.path().join("none"), "cannot open it: No such file or directory. Check the path"),
    ] {
        let error = Reader::open(path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: {expected}", path.display())), "{error}");
    }
    // What is piped in is no file either.
    let mut child = Command::new("sleep").arg("9").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let error = Reader::open(&PathBuf::from(format!("/proc/{}/fd/0", child.id()))).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn a_file_that_grows_or_shrinks_meanwhile_is_no_trouble() {
    let file = written(&[vec![header()], body(&[1, 2])].concat());
    let mut reader = Reader::open(file.path()).unwrap();
    let mut end = File::options().append(true).open(file.path()).unwrap();
    end.write_all(text(&body(&[3])).as_bytes()).unwrap();
    assert_eq!((reader.len(), reader.interval(1).unwrap().seq), (2, 1));
    end.set_len(10).unwrap();
    // What was read ahead may still be there: one that begins elsewhere is not.
    let _ = reader.interval(0);
    let error = reader.interval(1).unwrap_err().to_string();
    assert!(error.contains("the file has changed since it was opened"), "{error}");
}

/// Asks for everything.
fn read_all(bytes: &[u8]) {
    let Ok(mut reader) = open(bytes) else { return };
    for n in 0..=reader.len() {
        let _ = (reader.start_of(n), reader.interval(n));
    }
}

/// Some bytes that are others, and perhaps an end too early.
#[derive(Clone, Debug)]
struct Harm {
    bytes: Vec<(prop::sample::Index, u8)>,
    end: Option<prop::sample::Index>,
}

fn harm() -> impl Strategy<Value = Harm> {
    let bytes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let end = prop::option::of(any::<prop::sample::Index>());
    (bytes, end).prop_map(|(bytes, end)| Harm { bytes, end })
}

impl Harm {
    fn done_to(self, mut recording: Vec<u8>) -> Vec<u8> {
        for (at, byte) in self.bytes {
            let at = at.index(recording.len());
            recording[at] = byte;
        }
        if let Some(end) = self.end {
            recording.truncate(end.index(recording.len()));
        }
        recording
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        intervals in prop::collection::vec((1u64..1_000, prop::collection::vec((1u64..1 << 37, 1u32..9), 0..5)), 0..9),
        ends in any::<bool>(),
        compressed in any::<bool>(),
    ) {
        let mut lines = vec![header()];
        let mut start = 0;
        for (seq, (more, waits)) in intervals.iter().enumerate() {
            start += more;
            let mut waits = waits.clone();
            waits.sort_unstable();
            lines.push(Line::Interval(Box::new(interval(seq as u64, start, &waits))));
        }
        if ends {
            lines.push(Line::Footer(Footer { reason: "interrupted".to_owned(), ..Footer::default() }));
        }
        let file = if compressed { compressed_lines(&lines) } else { written(&lines) };
        let mut reader = Reader::open(file.path()).unwrap();
        let mut back = vec![Line::Header { schema: SCHEMA, session: reader.session().clone() }];
        for n in 0..reader.len() {
            let interval = reader.interval(n).unwrap();
            prop_assert_eq!(reader.start_of(n).unwrap(), interval.start_ns);
            back.push(Line::Interval(Box::new(interval)));
        }
        back.extend(reader.footer().cloned().map(Line::Footer));
        prop_assert_eq!(back, lines);
    }

    #[test]
    fn any_bytes_are_a_recording_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        read_all(&[text(&[header()]).as_bytes(), &bytes].concat());
    }

    #[test]
    fn a_damaged_recording_is_an_error_or_less_of_a_recording(harm in harm()) {
        read_all(&harm.done_to(text(&whole(&[1, 2])).into_bytes()));
    }
}

fn intervals_of(lines: &[Line]) -> Vec<Interval> {
    let interval = |line: &Line| if let Line::Interval(interval) = line { Some((**interval).clone()) } else { None };
    lines.iter().filter_map(interval).collect()
}

#[test]
fn a_compressed_recording_is_read_in_any_order() {
    let (bytes, lines) = long();
    let mut reader = open(&bytes).unwrap();
    let expected = intervals_of(&lines);
    assert_eq!((reader.len(), reader.is_cut(), reader.footer().unwrap().intervals), (150, false, 150));
    for n in [149, 0, 1, 2, 60, 59, 61, 120, 119, 7, 7] {
        assert_eq!(reader.start_of(n).unwrap(), expected[n].start_ns);
        assert_eq!(reader.interval(n).unwrap(), expected[n]);
    }
}

#[test]
fn a_part_is_its_intervals_merged() {
    let (bytes, lines) = long();
    let expected = intervals_of(&lines);
    let plain = written(&lines);
    for mut reader in [open(&bytes).unwrap(), Reader::open(plain.path()).unwrap()] {
        let parts: Vec<Interval> = (0..reader.parts()).map(|part| reader.merged(part).unwrap()).collect();
        assert_eq!(parts.iter().map(|part| part.merged + 1).collect::<Vec<_>>(), [60, 60, 30]);
        for (part, expected) in parts.iter().zip(expected.chunks(60)) {
            let mut expected = merge(session().load_credit_time_ns, expected).unwrap();
            for (expected, part) in expected.cgroups.iter_mut().zip(&part.cgroups) {
                // Loads are rounded where they are written.
                (expected.runnable_load, expected.load_credit) = (part.runnable_load, part.load_credit);
            }
            assert_eq!(*part, expected);
        }
    }
}

#[test]
fn what_was_followed_into_a_file_is_a_recording_with_an_index() {
    let (_, lines) = long();
    let expected = intervals_of(&lines);
    let mut chunks = Chunks::to_follow();
    let mut bytes: Vec<u8> = lines[..lines.len() - 1].iter().flat_map(|line| chunks.compress(line).unwrap()).collect();
    bytes.extend(chunks.end_chunk().unwrap());
    let decompressed = String::from_utf8(zstd::stream::decode_all(&*bytes).unwrap()).unwrap();
    assert!(!decompressed.contains(r#""kind":"merged""#));
    assert_eq!(decompressed.matches(r#"{"kind":"chunk_end"}"#).count(), 3);
    for bytes in [&*bytes, decompressed.as_bytes()] {
        let mut reader = open(bytes).unwrap();
        assert_eq!((reader.len(), reader.parts()), (150, 3));
        assert!([149, 0, 60, 59, 61].into_iter().all(|n| reader.interval(n).unwrap() == expected[n]));
        assert_eq!(reader.merged(1).unwrap().merged, 59);
    }
    // The index is what is gone by.
    let index = Index { lines_before: 1, start_ns: vec![Nanos(1), Nanos(3)], gaps: Vec::new() };
    let error = open(with_index(&bytes, &index)).unwrap().interval(1).unwrap_err().to_string();
    assert!(error.contains("the index of the chunk does not match"), "{error}");
}

#[test]
fn a_compressed_recording_that_was_killed_is_good_up_to_the_last_interval() {
    let file = NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap()).compressed();
    let lines = whole(&(1..70).collect::<Vec<_>>());
    let expected = intervals_of(&lines);
    // Where the file ended when each line was written.
    let ends: Vec<u64> = lines
        .iter()
        .map(|line| {
            writer.write(line).unwrap();
            writer.written()
        })
        .collect();
    let bytes = fs::read(file.path()).unwrap();
    for (n, &end) in ends.iter().enumerate().take(70) {
        let mut reader = open(&bytes[..end as usize]).unwrap();
        assert_eq!((reader.len(), reader.footer()), (n, None), "after line {n}");
        assert!((0..n).all(|n| reader.interval(n).unwrap() == expected[n]));
    }
    for cut in (ends[0] as usize..bytes.len()).step_by(7) {
        let mut reader = open(&bytes[..cut]).unwrap();
        let whole = ends[1..70].iter().filter(|end| **end <= cut as u64).count();
        assert!(reader.len() == whole || reader.len() == whole + 1, "{} of {whole} at {cut}", reader.len());
        assert!((0..reader.len()).all(|n| reader.interval(n).unwrap() == expected[n]));
    }
}

#[test]
fn what_other_tools_compressed_or_decompressed_is_read() {
    let (bytes, lines) = long();
    let expected = intervals_of(&lines);
    let all = zstd::stream::decode_all(&*bytes).unwrap();
    let plain = text(&lines).into_bytes();
    let again = |bytes: &[u8]| zstd::stream::encode_all(bytes, 3).unwrap();
    let two = [again(&plain[..plain.len() / 2]), again(&plain[plain.len() / 2..])].concat();
    // Standard tools go over the indexes: what comes out is lines.
    for bytes in [&all, &again(&all), &again(&plain)] {
        let mut reader = open(bytes).unwrap();
        assert_eq!((reader.len(), reader.parts()), (150, 3));
        for n in [149, 0, 75] {
            assert_eq!(reader.interval(n).unwrap(), expected[n]);
        }
    }
    assert!(open(two).is_err(), "a line goes from one frame to the next");
}

#[test]
fn damage_to_a_compressed_recording_is_told_and_never_read() {
    let (bytes, lines) = long();
    let expected = intervals_of(&lines);
    let mut faults = 0;
    for at in (0..bytes.len()).step_by(97) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let Ok(mut reader) = open(&bytes) else {
            faults += 1;
            continue;
        };
        let mut has_fault = false;
        for (n, expected) in expected.iter().enumerate().take(reader.len()) {
            match reader.interval(n) {
                Ok(interval) => assert_eq!(interval, *expected, "{at}"),
                Err(error) => {
                    assert!(error.line().is_some(), "{error}");
                    has_fault = true;
                }
            }
        }
        faults += usize::from(has_fault);
    }
    // Else it hit what is written twice.
    assert!(faults > bytes.len() / 97 / 2, "{faults}");
}

/// `bytes` with another index in the place of the first.
fn with_index(bytes: &[u8], index: &Index) -> Vec<u8> {
    let at = bytes.windows(4).position(|bytes| bytes == INDEX_MAGIC).unwrap();
    let length = u32::from_le_bytes(*bytes[at + 4..].first_chunk().unwrap()) as usize;
    [&bytes[..at], &index.frame().unwrap(), &bytes[at + 8 + length..]].concat()
}

#[test]
fn an_index_of_other_lines_is_told() {
    let bytes = fs::read(compressed_lines(&whole(&[1, 2])).path()).unwrap();
    let of =
        |starts: &[u64]| Index { lines_before: 1, start_ns: starts.iter().copied().map(Nanos).collect(), gaps: vec![] };
    for (starts, wrong) in [(&[1, 3][..], 1), (&[1, 2, 3], 2)] {
        let mut reader = open(with_index(&bytes, &of(starts))).unwrap();
        assert!(reader.interval(wrong - 1).is_ok());
        let error = reader.interval(wrong).unwrap_err().to_string();
        assert!(error.contains("the index of the chunk does not match"), "{error}");
    }
}

#[test]
fn an_index_that_tells_of_more_lines_than_there_can_be_is_passed_over() {
    let lines = whole(&[1, 2]);
    let bytes = fs::read(compressed_lines(&lines).path()).unwrap();
    let index = Index { lines_before: u64::MAX, start_ns: vec![Nanos(1), Nanos(2)], gaps: Vec::new() };
    let mut reader = open(with_index(&bytes, &index)).unwrap();
    assert_eq!(reader.len(), 2);
    assert_eq!(reader.interval(1).unwrap(), intervals_of(&lines)[1]);
}

/// A frame of `mebibytes` of blank lines behind `header`.
fn mebibytes(header: &str, mebibytes: usize) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(header.as_bytes()).unwrap();
    let blank = " ".repeat(1 << 20) + "\n";
    for _ in 0..mebibytes {
        encoder.write_all(blank.as_bytes()).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn a_bomb_is_refused() {
    let header = text(&[header()]);
    let pieces = [mebibytes(&header, 550), mebibytes("", 550)].concat();
    for bomb in [mebibytes(&header, 1_100), pieces] {
        assert!(bomb.len() < 1 << 20);
        let said = said(bomb);
        assert!(said.contains("decompression bomb"), "{said}");
    }
}

/// A recording of one interval, plain and in columns, as lines of text.
fn plain_and_packed() -> [String; 2] {
    let lines = whole(&[5]);
    let packed = zstd::stream::decode_all(&*fs::read(compressed_lines(&lines).path()).unwrap()).unwrap();
    [text(&lines), String::from_utf8(packed).unwrap()]
}

fn compressed_text(text: &str) -> Vec<u8> {
    zstd::stream::encode_all(text.as_bytes(), 1).unwrap()
}

/// What is said of the interval in a recording.
fn said_of_the_interval(bytes: impl AsRef<[u8]>) -> String {
    open(bytes).unwrap().interval(0).unwrap_err().to_string()
}

/// Two bytes of text became a cgroup of hundreds, and 4 kB of file took 7 GB.
#[test]
fn columns_of_more_cgroups_than_there_can_be_are_refused() {
    let [_, packed] = plain_and_packed();
    let with = |ids: &str| {
        let text = packed.replacen("\"cgroups\":{\"id\":[2]", &format!("\"cgroups\":{{\"id\":[{ids}]"), 1);
        text.replacen("\"runq_wait\":\"", "\"later\":\"", 1)
    };
    assert!(open(with("2")).unwrap().interval(0).is_ok());
    for (ids, expected) in [
        (format!("2{}", ",0".repeat(9)), "the ids of its cgroups do not ascend: after 2 comes 2"),
        (format!("2{}", ",1".repeat(102_400)), "it has more than 102400 cgroups, too many for a recording"),
        (format!("2{}", ",0".repeat(200_000)), "it has more than 102400 cgroups, too many for a recording"),
    ] {
        for bytes in [with(&ids).into_bytes(), compressed_text(&with(&ids))] {
            let error = said_of_the_interval(bytes);
            let is_of_it = error.contains(", line 3: cannot parse the interval: ");
            assert!(is_of_it && error.contains(expected), "{error}");
        }
    }
    // 16 million of them: the line alone is more than the file explains.
    let bomb = compressed_text(&with(&format!("2{}", ",0".repeat(16 << 20))));
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    let said = said(bomb);
    assert!(said.starts_with("line 3: it expands to far more than its size explains"), "{said}");
}

#[test]
fn lists_that_are_longer_than_any_hosts_are_refused_in_either_form() {
    let cpu = serde_json::to_string(&Cpu::default()).unwrap();
    let listener = serde_json::to_string(&Listener::new(1, "127.0.0.1:1".parse().unwrap())).unwrap();
    let namespace = serde_json::to_string(&NetworkNamespace::default()).unwrap();
    for (field, item, most, what) in [
        ("cpus", cpu, bounded::CPUS, "CPUs"),
        ("listeners", listener, bounded::LISTENERS, "listeners"),
        ("network_namespaces", namespace, bounded::NAMESPACES, "network namespaces"),
    ] {
        for (text, line) in plain_and_packed().iter().zip([2, 3]) {
            let with = |count: usize| {
                let items = vec![item.as_str(); count].join(",");
                text.replacen(&format!("\"{field}\":[]"), &format!("\"{field}\":[{items}]"), 1)
            };
            assert!(open(with(1)).unwrap().interval(0).is_ok(), "{field}");
            let error = said_of_the_interval(with(most + 1));
            let expected = format!(", line {line}: cannot parse the interval: it has more than {most} {what}");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn names_are_no_more_than_the_file_explains() {
    let [_, packed] = plain_and_packed();
    let (header, rest) = packed.split_once('\n').unwrap();
    let names = |ids: Range<u64>, path: &str| {
        let name = |id| format!("{{\"id\":{id},\"path\":\"{path}\",\"name\":\"\"}}");
        let all: Vec<String> = ids.map(name).collect();
        format!("{{\"kind\":\"names\",\"cgroups\":[{}]}}", all.join(","))
    };
    let with = |lines: &[String]| format!("{header}\n{}\n{rest}", lines.join("\n"));
    assert!(open(compressed_text(&with(&[names(10..20, "/a")]))).unwrap().interval(0).is_ok());
    let error = said(with(&[names(0..102_401, "/a")]));
    assert!(error.starts_with("line 2: cannot parse the line of names: it has more than 102400 na"), "{error}");
    // 40 MB of paths that are all the same, in lines of which none is too long.
    let path = "a".repeat(4_096);
    let fat: Vec<String> = (0..50).map(|n| names(1_000 + n * 200..1_000 + (n + 1) * 200, &path)).collect();
    let bomb = compressed_text(&with(&fat));
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    let error = said_of_the_interval(bomb);
    assert!(error.contains("it expands to far more than its size explains"), "{error}");
}

#[test]
fn gaps_are_no_more_than_the_file_explains() {
    let gap = text(&[Line::Gap(Gap { reason: "suspended".to_owned(), ..Gap::default() })]);
    let with = |count: usize| format!("{}{}", text(&[header()]), gap.repeat(count));
    assert_eq!(open(compressed_text(&with(1_000))).unwrap().gaps().len(), 1_000);
    let bomb = compressed_text(&with(300_000));
    assert!(bomb.len() < 20_000, "{}", bomb.len());
    let error = said(bomb);
    assert!(error.contains("it expands to far more than its size explains"), "{error}");
    // What is plain says it all itself.
    assert_eq!(open(with(300_000)).unwrap().gaps().len(), 300_000);
}

/// What is merged of a chunk has all of its cgroups, and must be read again.
#[test]
fn a_chunk_ends_before_it_has_more_cgroups_than_can_be_read() {
    let interval = |seq: u64| {
        // Names differ as those of containers do: what expands further is taken for a bomb.
        let name = |id: u64| format!("/{:x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let cgroup = |id| Cgroup { id: CgroupId(id), path: name(id).into(), ..Cgroup::default() };
        let cgroups = (1 + seq * 60_000..=(seq + 1) * 60_000).map(cgroup).collect();
        Line::Interval(Box::new(Interval { seq, start_ns: Nanos(seq + 1), cgroups, ..Interval::default() }))
    };
    let again = |of: Line, seq: u64| match of {
        Line::Interval(of) => Line::Interval(Box::new(Interval { seq, start_ns: Nanos(seq + 1), ..*of })),
        other => other,
    };
    // Those of the first are there twice: they are no more for that.
    let lines = [header(), interval(0), again(interval(0), 1), again(interval(1), 2), Line::Footer(Footer::default())];
    let mut reader = Reader::open(compressed_lines(&lines).path()).unwrap();
    assert_eq!((reader.len(), reader.parts()), (3, 2));
    for n in 0..3 {
        assert_eq!(reader.interval(n).unwrap().cgroups.len(), 60_000);
    }
    for n in 0..2 {
        assert_eq!(reader.merged(n).unwrap().cgroups.len(), 60_000);
    }
}

proptest! {
    #[test]
    fn damage_to_a_compressed_recording_never_makes_it_panic(harm in harm()) {
        read_all(&harm.done_to(fs::read(compressed_lines(&whole(&[1, 2])).path()).unwrap()));
    }
}

#[test]
fn what_the_parser_said_is_kept() {
    let said = serde_json::from_str::<Gap>("{").unwrap_err();
    let error = ReadError::new(Path::new("a.jsonl"), Some(3), Problem::wrong("gap", said));
    let mut chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    assert!(chain.any(|error| error.is::<serde_json::Error>()), "{error}");
}
