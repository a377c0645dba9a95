//! What recordings of a dense host cost: in bytes, to write, to look at and to summarise.
//!
//! `cargo bench --bench recording`. Budgets: 60 bytes a cgroup and interval compressed; of an hour of 2,500 busy cgroups at one
//! interval a second, `top --replay` shows the first screen within a second, and any other within 100 ms, in 80 MiB;
//! `diagnose` reports within five seconds, in memory that does not grow with the hour. Memory is what processes of their own
//! had at most (`VmHWM` in `/proc`).
//!
//! It makes the hour up first, which takes a minute or two. `LAGSTOP_BENCH_RECORDING=FILE` is a recording to take instead.

#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

mod dense;

use std::{
    cell::OnceCell,
    env,
    fs::File,
    hint::black_box,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use criterion::{BatchSize, Criterion};
use dense::{CGROUPS, DenseHost, Random, resident_mib};
use lagstop::{
    recording::{Footer, Line, Reader, SCHEMA, Writer},
    top::{App, TopSettings},
};
use ratatui::{Terminal, backend::TestBackend};
use tempfile::TempDir;

/// An hour.
const INTERVALS: u64 = 3_600;
const SIZE: (u16, u16) = (160, 45);

/// Where a recording is to be taken from.
const RECORDING: &str = "LAGSTOP_BENCH_RECORDING";
/// Tells the process that is to find out its own memory what to open.
const REPLAY: &str = "LAGSTOP_BENCH_REPLAY";

fn main() {
    if let Some(path) = env::var_os(REPLAY) {
        return look_around(Path::new(&path));
    }
    let mut criterion = Criterion::default().configure_from_args();
    writing(&mut criterion);
    reading(&mut criterion);
    criterion.final_summary();
}

/// What the recorder's writing costs in each interval.
fn writing(criterion: &mut Criterion) {
    for cgroups in [200, CGROUPS] {
        let mut group = criterion.benchmark_group(format!("{cgroups} cgroups"));
        for (form, compressed, samples) in [("plain", false, 10), ("compressed", true, 100)] {
            let mut host = DenseHost::new(cgroups, 1);
            let mut writer = writer(tempfile::tempfile().expect("there is room"), compressed);
            write(&mut writer, &header(&host));
            let mut intervals = 0;
            group.sample_size(samples).bench_function(format!("write an interval {form}"), |bencher| {
                bencher.iter_batched(
                    || Line::Interval(Box::new(host.interval())),
                    |line| {
                        write(&mut writer, &line);
                        intervals += 1;
                    },
                    BatchSize::PerIteration,
                );
            });
            if intervals > 0 {
                write(&mut writer, &Line::Footer(Footer::default()));
                let each = writer.written() as f64 / (intervals * cgroups) as f64;
                println!("{:24}size:   {each:.1} bytes a cgroup and interval", "");
            }
        }
        group.finish();
    }
}

/// What is read of an hour.
fn reading(criterion: &mut Criterion) {
    let hour = OnceCell::new();
    // Only where it is asked for.
    let path = || hour.get_or_init(Hour::take).path();
    let mut group = criterion.benchmark_group("an hour of 2,500 cgroups");
    group.sample_size(20);
    group.bench_function("open it as top does, drawn", |bencher| {
        let path = path();
        bencher.iter(|| Replay::open(path));
    });
    for (what, known) in [("go somewhere, drawn", false), ("go somewhere, drawn with all that led to it", true)] {
        group.sample_size(if known { 10 } else { 20 });
        let mut random = Random(7);
        group.bench_function(what, |bencher| {
            // The first visit to a chunk checks it; later visits find it checked.
            let mut replay = Replay::open(path());
            bencher.iter(|| {
                let n = random.below(replay.intervals);
                replay.go_to(n, known);
            });
        });
    }
    group.sample_size(10);
    group.bench_function("diagnose it", |bencher| {
        let path = path();
        bencher.iter(|| assert!(diagnose(path).status().expect("it was built").success(), "it reports"));
    });
    group.finish();
    if let Some(hour) = hour.get() {
        println!("peak of lagstop diagnose: {} MiB", peak_mib(&mut diagnose(hour.path())));
        let mut replay = Command::new(env::current_exe().expect("it is running"));
        println!(
            "peak of the screen, over ten minutes and 100 places: {} MiB",
            peak_mib(replay.env(REPLAY, hour.path()))
        );
    }
}

/// A recording that is in a file for as long as this lives.
struct Hour {
    path: PathBuf,
    _directory: Option<TempDir>,
}

impl Hour {
    fn take() -> Self {
        if let Some(path) = env::var_os(RECORDING) {
            return Self { path: path.into(), _directory: None };
        }
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("hour.jsonl.zst");
        let mut writer = writer(File::create_new(&path).expect("there is room"), true);
        println!("making an hour up");
        record(&mut DenseHost::new(CGROUPS, 1), INTERVALS, &mut writer);
        println!("{} MiB", writer.written() >> 20);
        Self { path, _directory: Some(directory) }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn writer(file: File, compressed: bool) -> Writer {
    let writer = Writer::to_file(file);
    if compressed { writer.compressed() } else { writer }
}

fn header(host: &DenseHost) -> Line {
    Line::Header { schema: SCHEMA, session: host.session() }
}

fn write(writer: &mut Writer, line: &Line) {
    writer.write(line).expect("there is room");
}

fn record(host: &mut DenseHost, intervals: u64, writer: &mut Writer) {
    write(writer, &header(host));
    for _ in 0..intervals {
        write(writer, &Line::Interval(Box::new(host.interval())));
    }
    write(writer, &Line::Footer(Footer { intervals, ..Footer::default() }));
}

/// `lagstop top --replay` without a terminal.
struct Replay {
    app: App,
    terminal: Terminal<TestBackend>,
    intervals: u64,
}

impl Replay {
    fn open(path: &Path) -> Self {
        let recording = Reader::open(path).expect("it is a recording");
        let intervals = recording.len() as u64;
        let app = App::replay(recording, &TopSettings::default()).expect("it can be read");
        let terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("it is memory alone");
        let mut this = Self { app, terminal, intervals };
        this.draw();
        this
    }

    fn draw(&mut self) {
        let drawn = self.terminal.draw(|frame| self.app.draw(frame)).expect("it is memory alone");
        black_box(drawn.count);
    }

    /// Draws an interval and, where `known`, draws it again once all that led to it is known.
    fn go_to(&mut self, n: u64, known: bool) {
        self.app.go_to(n.min(self.intervals - 1)).expect("it can be read");
        self.draw();
        if known {
            while self.app.is_behind() {
                self.app.catch_up().expect("it can be read");
            }
            self.draw();
        }
    }
}

/// Opens a recording, goes through ten minutes of it, and looks at many places.
fn look_around(path: &Path) {
    let (mut replay, mut random) = (Replay::open(path), Random(11));
    for minute in 1..=10 {
        replay.go_to(minute * 60, true);
    }
    for _ in 0..100 {
        let n = random.below(replay.intervals);
        replay.go_to(n, false);
    }
}

fn diagnose(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagstop"));
    command.arg("diagnose").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The most that a process has in memory, as the kernel keeps it: asked again and again until it ends, for then it is gone.
fn peak_mib(command: &mut Command) -> u64 {
    let mut child = command.spawn().expect("it was built");
    let mut peak = 0;
    while child.try_wait().expect("it is a child").is_none() {
        peak = resident_mib(&child.id().to_string(), "VmHWM").unwrap_or(0).max(peak);
        thread::sleep(Duration::from_millis(2));
    }
    peak
}
