//! What becomes of a recording when its place fails it, or the recorder is kept from its work.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::Signal,
};
use tempfile::TempDir;

use crate::{
    Test,
    command::lagstop,
    fixture::eventually,
    recorder::{Recorder, Recording},
    rotation::files,
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] = &[("a_recorder_that_is_stopped_misses_nothing", stalled)];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("a_full_disk_ends_a_recording_that_stays_readable", full),
    ("a_disk_that_is_full_from_the_start_gets_no_recording", full_from_the_start),
    ("a_full_disk_ends_a_rotation_whose_files_stay_readable", full_rotation),
    ("a_ring_outlives_a_full_disk", full_ring),
    ("a_recording_that_is_removed_ends", removed),
    ("progress_is_for_terminals", progress),
];

/// A small file system, gone when the test ends; with the process at the latest, as the tests have mounts of their own.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        mount("lagstop-test", home.path(), "tmpfs", MountFlags::empty(), c"size=4m").unwrap();
        Self(home)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room that there is.
    fn fill(&self) -> PathBuf {
        let ballast = self.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
        ballast
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Waits for a recorder that is to end for want of room.
fn ends_full(mut recorder: Recorder) {
    let (status, said) = recorder.end();
    assert!(!status.success(), "{said}");
    assert!(
        said.contains("full: No space left on device") || said.contains("created: No space left on device"),
        "{said}"
    );
    assert!(said.to_lowercase().contains("free some space"), "{said}");
}

fn full() {
    for name in ["host.jsonl", "host.jsonl.zst"] {
        let disk = Disk::new();
        let output = disk.path().join(name);
        let recorder = Recorder::start(&["--interval", "20ms", "--output", output.to_str().unwrap()]);
        eventually("some intervals", || Recording::read(&output).intervals.len() > 2);
        disk.fill();
        ends_full(recorder);
        let recording = Recording::read(&output);
        println!("{name}: {} intervals", recording.intervals.len());
        assert!(recording.intervals.len() > 2 && recording.footer.is_none());
        recording.is_without_holes();
    }
}

fn full_from_the_start() {
    let disk = Disk::new();
    disk.fill();
    let output = disk.path().join("host.jsonl");
    let mut recorder = Recorder::run(Command::new(lagstop()).args(["record", "--output"]).arg(&output));
    let (status, said) = recorder.end();
    assert!(!status.success() && said.contains("Nothing was recorded") && !said.contains("recording to"), "{said}");
    assert!(!output.exists());
}

fn full_rotation() {
    let disk = Disk::new();
    let output = disk.path().join("host.jsonl.zst");
    let rotate = ["--interval", "20ms", "--rotate", "4kB", "--output", output.to_str().unwrap()];
    let recorder = Recorder::start(&rotate);
    eventually("some files", || files(disk.path()).len() > 2);
    let ballast = disk.fill();
    ends_full(recorder);
    fs::remove_file(ballast).unwrap();
    let files = files(disk.path());
    assert!(files.len() > 2, "{files:?}");
    let cut_off = files.iter().filter(|file| Recording::read(file).footer.is_none()).count();
    assert!(cut_off <= 1, "{cut_off}");
}

/// What it has in memory outgrows the one page that is free.
fn full_ring() {
    let disk = Disk::new();
    let ballast = disk.fill();
    let room = fs::metadata(&ballast).unwrap().len() - 4_096;
    fs::File::options().write(true).open(&ballast).unwrap().set_len(room).unwrap();
    let output = disk.path().join("ring.jsonl.zst");
    let ring = ["--interval", "20ms", "--ring", "1h", "--trigger", "signal", "--output", output.to_str().unwrap()];
    let mut recorder = Recorder::start(&[&ring[..], &["--keep", "1"]].concat());
    eventually("a complaint", || {
        recorder.signal(Signal::USR1);
        recorder.says("The intervals stay in memory")
    });
    assert!(recorder.says("No space left on device. Free some space"));
    let mut before = files(disk.path());
    before.retain(|file| *file != ballast);
    // The one before is there still, where it fitted in, and nothing is left of the other.
    assert!(before.len() <= 1, "{before:?}");
    before.iter().for_each(|file| assert!(Recording::read(file).footer.is_some()));
    fs::remove_file(&ballast).unwrap();
    let written = recorder.count("SIGUSR1: wrote");
    recorder.signal(Signal::USR1);
    eventually("a file", || recorder.count("SIGUSR1: wrote") > written);
    recorder.interrupt();
    let files = files(disk.path());
    let recording = Recording::read(&files[0]);
    assert_eq!((files.len(), recording.reason(), recording.intervals[0].seq), (1, "SIGUSR1", 0));
    recording.is_without_holes();
}

fn removed() {
    let home = tempfile::tempdir().unwrap();
    for (name, rotate) in [("single", &[][..]), ("rotation", &["--rotate", "1h"])] {
        let directory = home.path().join(name);
        fs::create_dir(&directory).unwrap();
        let output = directory.join("host.jsonl");
        let arguments = ["--interval", "50ms", "--output", output.to_str().unwrap()];
        let mut recorder = Recorder::start(&[&arguments[..], rotate].concat());
        let written = || files(&directory).first().map_or(0, |file| fs::metadata(file).unwrap().len());
        eventually("some intervals", || written() > 10_000);
        fs::remove_dir_all(&directory).unwrap();
        let (status, said) = recorder.end();
        assert!(!status.success() && said.contains("the file was removed while it was written"), "{said}");
    }
    // A ring writes no file there until it is asked to.
    let directory = home.path().join("ring");
    fs::create_dir(&directory).unwrap();
    let output = directory.join("ring.jsonl.zst");
    let ring = ["--interval", "50ms", "--ring", "1h", "--trigger", "signal", "--output", output.to_str().unwrap()];
    let mut recorder = Recorder::start(&ring);
    fs::remove_dir_all(&directory).unwrap();
    recorder.signal(Signal::USR1);
    eventually("a complaint", || recorder.says("Create its directory first"));
    recorder.interrupt();
    assert_eq!(files(home.path()), [] as [PathBuf; 0]);
}

/// The kernel goes on counting: intervals get longer, and none is missing.
fn stalled() {
    const STALL: Duration = Duration::from_millis(1_200);
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let mut recorder = Recorder::start(&["--interval", "100ms", "--output", output.to_str().unwrap()]);
    thread::sleep(Duration::from_millis(300));
    recorder.signal(Signal::STOP);
    thread::sleep(STALL);
    recorder.signal(Signal::CONT);
    thread::sleep(Duration::from_millis(300));
    recorder.interrupt();
    let recording = Recording::read(&output);
    recording.is_without_holes();
    assert_eq!(recording.gaps, 0, "its clock went on");
    let longest = recording.intervals.iter().max_by_key(|interval| interval.duration_ns).unwrap();
    println!("{} intervals, the longest {}", recording.intervals.len(), longest.duration_ns);
    // The reading before may have come a whole interval before the stop, and the reading that ends it comes at once.
    assert!(u128::from(longest.duration_ns.0) >= STALL.as_nanos());
    let capacity = longest.host.capacity().0;
    let clock = longest.duration_ns.0 * longest.host.cpus_online;
    assert!(capacity.abs_diff(clock) < clock / 10, "{capacity} ns of the CPUs' time in {clock} ns");
}

fn progress() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let arguments = ["record", "--interval", "100ms", "--duration", "500ms", "--force", "--output"];
    let command = || {
        let mut command = Command::new(lagstop());
        command.args(arguments).arg(&output);
        command
    };
    let terminal = Terminal::open();
    let mut child = terminal.run(&mut command());
    assert!(child.wait().unwrap().success());
    eventually("progress", || terminal.shows(" cgroups, overhead "));
    eventually("the end", || terminal.shows(" intervals in "));
    let (status, said) = Recorder::run(&mut command()).end();
    assert!(status.success());
    assert_eq!(said.lines().count(), 1, "{said}");
}
