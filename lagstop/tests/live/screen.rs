//! `lagstop top` as a person uses it: in a terminal multiplexer, by keys, under load; stopped and continued; as text.

use std::{
    fs,
    path::Path,
    process::{Child, Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    model::{Interval, Nanos, Session},
    source::{Stop, Stream},
    top::{self, TopSettings},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
    load,
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] =
    &[("top_is_driven_by_keys_in_tmux", driven), ("top_hears_a_key_that_comes_with_a_resize", resized)];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("top_stops_and_continues_with_its_terminal", stopped),
    ("top_gives_the_terminal_back_when_something_panics", panicked),
    ("top_prints_tables_for_scripts", printed),
];

/// A tmux server of its own, gone when the test ends.
pub(crate) struct Tmux(String);

impl Tmux {
    pub(crate) fn start(command: &str) -> Self {
        let tmux = Self(format!("lagstop-test-{}", std::process::id()));
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "32", command]);
        tmux
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-L", &self.0]).args(arguments).output();
        let output = output.expect("tmux is needed: apt-get install tmux");
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn press(&self, keys: &[&str]) {
        for key in keys {
            self.run(&["send-keys", key]);
        }
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows all of `texts`.
    pub(crate) fn shows(&self, texts: &[&str]) {
        let what = format!("{texts:?} on the screen");
        let shown = || texts.iter().all(|text| self.screen().contains(text));
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(&what, shown))).is_err() {
            panic!("{what} did not happen:\n{}", self.screen());
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

fn driven() {
    let parent = TestCgroup::new("seen");
    let names = ["light", "heavy", "odd\u{1b}[2J\u{202e}name"];
    let cgroups: Vec<TestCgroup> = names.iter().map(|name| parent.child(name)).collect();
    let mut loads: Vec<Load> =
        cgroups.iter().zip(["nap 600000", "spin 600000", "nap 600000"]).map(|(it, what)| it.start(what)).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    let tmux = Tmux::start(&format!("{} top --interval 300ms; echo; echo it ended with $?; cat", lagstop().display()));

    tmux.shows(&["lagstop top", "overhead", "seen/light", "cost %"]);
    tmux.shows(&["odd\u{fffd}[2J\u{fffd}name"]);
    tmux.press(&["f"]);
    tmux.run(&["send-keys", "-l", "seen"]);
    tmux.shows(&["filter: seen", "3 of "]);
    tmux.press(&["BSpace", "BSpace", "BSpace", "BSpace"]);
    tmux.run(&["send-keys", "-l", "/seen/(light|heavy)$"]);
    tmux.shows(&["filter: /seen/(light|heavy)$", "2 of "]);
    tmux.press(&["Enter", "t"]);
    tmux.shows(&["tree", "▾ "]);
    tmux.press(&["t", "Enter"]);
    tmux.shows(&["Why it waited", "This interval", "Load Credit"]);
    tmux.press(&["End"]);
    tmux.shows(&["Limits", "1 thread, by run-queue wait"]);
    tmux.press(&["Escape", "2"]);
    tmux.shows(&["NUMA node 0", "main users"]);
    tmux.press(&["3"]);
    tmux.shows(&["the fullest backlog first"]);
    tmux.press(&["1", "Space"]);
    tmux.shows(&["PAUSED"]);
    let held = tmux.screen();
    thread::sleep(Duration::from_secs(1));
    let rows = |screen: &str| screen.lines().skip(5).take(4).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&tmux.screen()), rows(&held), "a held view stays as it is");
    tmux.press(&["["]);
    tmux.shows(&["PAUSED −"]);
    tmux.press(&["Space", "?"]);
    tmux.shows(&["Keys", "this help"]);
    tmux.press(&["?", "c"]);
    tmux.shows(&["[x] cost %"]);
    tmux.press(&["Escape", "m"]);
    tmux.shows(&["How it is measured", "switch-cost"]);
    tmux.press(&["m"]);
    tmux.run(&["resize-window", "-x", "50", "-y", "12"]);
    tmux.shows(&["needs 60×15"]);
    tmux.run(&["resize-window", "-x", "60", "-y", "15"]);
    tmux.shows(&["seen/"]);
    tmux.press(&["q"]);
    tmux.shows(&["it ended with 0"]);
}

fn resized() {
    let mut terminal = Terminal::open();
    let mut child = terminal.run(Command::new(lagstop()).args(["top", "--interval", "10s"]));
    eventually("the screen", || terminal.shows("measuring"));
    // Time to begin to listen for signals, which is done when keys are waited for.
    thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::WINCH).unwrap();
    // Time for the signal's handler, but not for the thread that waits for keys.
    thread::sleep(Duration::from_millis(5));
    terminal.press(b"q");
    let ended = Instant::now() + Duration::from_secs(15);
    while child.try_wait().unwrap().is_none() && Instant::now() < ended {
        thread::sleep(Duration::from_millis(20));
    }
    // Does nothing where it has ended already.
    child.kill().unwrap();
    assert!(child.wait().unwrap().success(), "{}", terminal.last());
}

/// What a process is doing, as proc_pid_stat(5) says: `T` is stopped.
fn does(child: &Child) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

fn stopped() {
    for by_key in [true, false] {
        let mut terminal = Terminal::open();
        let modes = terminal.modes();
        let mut child = terminal.run(Command::new(lagstop()).args(["top", "--interval", "200ms"]));
        let send = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
        eventually("the table", || terminal.shows("switch/s"));
        if by_key {
            terminal.press(&[0x1a]);
        } else {
            send(Signal::TSTP);
        }
        eventually("the stop", || does(&child) == "T");
        assert_eq!(terminal.modes(), modes, "while it is stopped the terminal is as before");
        send(Signal::CONT);
        eventually("raw keys again", || terminal.modes() != modes);
        terminal.press(b"q");
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", terminal.last());
        assert_eq!(terminal.modes(), modes);
    }
}

/// The load that a panic is tried with: the screen over a stream in which nothing comes, and a thread that panics.
pub(crate) fn panics() -> ExitCode {
    let (sender, intervals) = tokio::sync::mpsc::channel(1);
    let session = Session { interval_ns: Nanos::SECOND, ..Session::default() };
    let stream = Stream { session, intervals, stop: Stop::new().0, looks: None, watched: None, link: None };
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        let fault = thread::spawn(|| panic!("a fault of its own"));
        assert!(fault.join().is_err());
        // The screen notices when it is to be drawn.
        while sender.blocking_send(Ok(Interval::default())).is_ok() {}
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(top::run(stream, &TopSettings::default())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn panicked() {
    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut child = terminal.run(Command::new(std::env::current_exe().unwrap()).args([load::FLAG, load::PANICS]));
    eventually("the screen", || terminal.shows("measuring"));
    assert_ne!(terminal.modes(), modes);
    eventually("the panic's message, on the usual screen", || {
        terminal.shows("a fault of its own") && terminal.shows("\u{1b}[?1049l")
    });
    let mut status = None;
    eventually("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(!status.unwrap().success());
    eventually("the reason", || terminal.shows("lagstop panicked and closed the screen"));
    assert_eq!(terminal.modes(), modes);
}

fn text(arguments: &[&str]) -> String {
    let output = Command::new(lagstop()).arg("top").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn printed() {
    let cgroup = TestCgroup::new("printed");
    let mut load = cgroup.start("nap 600000");
    load.line();
    load.go();
    let once = text(&["--once", "--interval", "500ms", "--filter", "/-printed$"]);
    let fields: Vec<&str> = once.lines().last().unwrap().split_whitespace().collect();
    let titles: Vec<&str> =
        once.lines().find(|line| line.trim_start().starts_with("cgroup")).unwrap().split_whitespace().collect();
    assert!(once.starts_with("lagstop top  ") && !once.contains('\u{1b}'), "{once}");
    let name = fields.iter().position(|field| field.ends_with("-printed")).unwrap();
    assert_eq!(fields.len() - name, titles.len(), "{once}");

    let batch = text(&["--batch", "--count", "3", "--interval", "200ms", "--rows", "2", "--columns", "cpu,load"]);
    assert_eq!(batch.matches("lagstop top").count(), 3);

    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dense.jsonl");
    // Only where the sources are.
    if recording.exists() {
        let replayed = text(&["--replay", recording.to_str().unwrap(), "--batch", "--ascii", "--rows", "3"]);
        assert!(replayed.matches("lagstop top  node-17").count() == 10 && replayed.is_ascii(), "{replayed}");
    }
    // A pipe that is closed early is no error.
    let mut child = Command::new(lagstop())
        .args(["top", "--batch", "--interval", "100ms"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
