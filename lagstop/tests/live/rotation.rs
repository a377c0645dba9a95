//! Recordings in several files, and in memory.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use lagstop::recording::Reader;
use rustix::process::Signal;

use crate::{
    Test,
    fixture::{eventually, is_slow},
    recorder::{Recorder, Recording},
};

pub(crate) const TESTS: &[Test] = &[("a_ring_is_written_when_a_threshold_is_crossed", on_threshold)];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("a_recording_rotates_by_time_and_keeps_the_last_files", by_time),
    ("a_recording_rotates_by_size_and_nothing_is_missing", by_size),
    ("a_ring_is_written_on_sigusr1", on_signal),
];

/// The files in `directory`, in the order of their names, which is that of time.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn by_time() {
    const KEEP: usize = 2;
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl.zst");
    let mine = home.path().join("host.of-mine.jsonl.zst");
    fs::write(&mine, "is not touched").unwrap();
    let output = output.to_str().unwrap();
    let mut recorder =
        Recorder::start(&["--interval", "100ms", "--rotate", "400ms", "--keep", "2", "--output", output]);
    let mut seen = BTreeSet::new();
    eventually("five files", || {
        let mut now = files(home.path());
        now.retain(|file| *file != mine);
        // One is made just before the oldest goes.
        assert!(now.len() <= KEEP + 1, "{now:?}");
        seen.extend(now);
        seen.len() >= 5
    });
    recorder.interrupt();
    assert_eq!(fs::read_to_string(&mine).unwrap(), "is not touched");
    let mut kept = files(home.path());
    kept.retain(|file| *file != mine);
    seen.extend(kept.iter().cloned());
    assert!(seen.iter().rev().take(KEEP).rev().eq(&kept), "the last of {seen:?} are not {kept:?}");
    let mut began = Vec::new();
    for (n, file) in kept.iter().enumerate() {
        let recording = Recording::read(file);
        recording.is_without_holes();
        began.push(Reader::open(file).unwrap().session().started_at.clone());
        let is_last = n + 1 == kept.len();
        assert_eq!(recording.reason(), if is_last { "interrupted" } else { "rotated" });
        let without_last = recording.nanos() - recording.intervals.last().unwrap().duration_ns.0;
        assert!(without_last < 400_000_000, "it was full before");
        assert!(is_last || recording.nanos() >= 400_000_000, "it was not full");
    }
    assert!(began.is_sorted(), "{began:?}");
}

fn by_size() {
    const LIMIT: usize = 20_000;
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let output = output.to_str().unwrap();
    let mut recorder = Recorder::start(&["--interval", "50ms", "--rotate", "20kB", "--output", output]);
    let started = Instant::now();
    eventually("three files", || files(home.path()).len() >= 3);
    let took = started.elapsed();
    recorder.interrupt();
    let files = files(home.path());
    let mut recorded = 0;
    for (n, file) in files.iter().enumerate() {
        let text = fs::read_to_string(file).unwrap();
        let recording = Recording::read(file);
        recorded += recording.nanos();
        let lines: Vec<&str> = text.lines().collect();
        let (full, before) = (lines.len() - 1, lines.len() - 2);
        let size = |count: usize| lines[..count].iter().map(|line| line.len() + 1).sum::<usize>();
        assert!(size(before) < LIMIT, "it was full before");
        assert!(n + 1 == files.len() || size(full) >= LIMIT, "it was not full");
    }
    println!("{} files; {recorded} ns in them, of {took:?}", files.len());
    assert!(u128::from(recorded) >= took.as_nanos(), "nothing is missing between them");
}

fn on_signal() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("ring.jsonl.zst");
    let output = output.to_str().unwrap();
    let ring = ["--interval", "20ms", "--ring", "300ms", "--keep", "1", "--trigger", "signal", "--output", output];
    // No threshold counts.
    let mut recorder = Recorder::start(&[&ring[..], &["--threshold", "overhead_warn=0.00001%"]].concat());
    thread::sleep(Duration::from_millis(300));
    assert_eq!(files(home.path()), [] as [PathBuf; 0], "nobody asked for it");
    // It forgets by the chunk.
    let mut written = 0;
    eventually("a ring that has forgotten how it began", || {
        recorder.signal(Signal::USR1);
        written += 1;
        eventually("a file", || recorder.count("SIGUSR1: wrote") == written);
        let files = files(home.path());
        assert_eq!(files.len(), 1, "{files:?}");
        let recording = Recording::read(&files[0]);
        recording.is_without_holes();
        assert_eq!(recording.reason(), "SIGUSR1");
        assert_eq!(recording.footer.as_ref().unwrap().intervals, recording.intervals.len() as u64);
        thread::sleep(Duration::from_millis(200));
        recording.intervals.first().is_some_and(|first| first.seq > 0 && recording.nanos() >= 300_000_000)
    });
    let last = fs::read(&files(home.path())[0]).unwrap();
    let said = recorder.interrupt();
    assert_eq!(said.matches("SIGUSR1: wrote").count(), written, "{said}");
    assert_eq!(fs::read(&files(home.path())[0]).unwrap(), last, "nobody asked for more");
}

fn on_threshold() {
    let home = tempfile::tempdir().unwrap();
    let record = |name: &str, threshold: &str| {
        let directory = home.path().join(name);
        fs::create_dir(&directory).unwrap();
        let output = directory.join("ring.jsonl.zst");
        let ring = ["--interval", "100ms", "--ring", "1h", "--threshold", threshold, "--output"];
        (Recorder::start(&[&ring[..], &[output.to_str().unwrap()]].concat()), directory)
    };
    let (mut crossed, directory) = record("crossed", "overhead_warn=0.00001%");
    eventually("a file", || crossed.says("a threshold was crossed: wrote"));
    thread::sleep(Duration::from_millis(if is_slow() { 3_000 } else { 400 }));
    let said = crossed.interrupt();
    assert_eq!(said.matches("wrote").count(), 1, "nothing much is new: {said}");
    let files_there = files(&directory);
    assert_eq!(files_there.len(), 1);
    assert_eq!(Recording::read(&files_there[0]).reason(), "a threshold was crossed");

    let (mut quiet, directory) = record("quiet", "overhead_warn=100%");
    thread::sleep(Duration::from_millis(500));
    quiet.interrupt();
    assert_eq!(files(&directory), [] as [PathBuf; 0]);
}
