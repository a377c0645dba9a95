//! What happens to a machine: CPUs that come and go, steps of its clock, suspend. Others on it would feel that, so these tests
//! run only where the machine is theirs: in the guests of `cargo xtask vmtest`, or where LAGSTOP_TEST_DISRUPT is set.
//! Elsewhere they count as ignored.

use std::{fs, thread, time::Duration};

use lagstop::{kernel::KernelSnapshot, model::Measure};
use rustix::{
    thread::{CpuSet, Pid, sched_setaffinity},
    time::{ClockId, Timespec, clock_gettime, clock_settime},
};

use crate::{
    Test,
    fixture::{Probes, Setup, TestCgroup, at_least, eventually, is_slow, kernel, tolerance},
    recorder::{Recorder, Recording},
};

pub(crate) const TESTS: &[Test] = &[
    ("a_cpu_that_goes_and_comes_back_is_no_hole_in_a_recording", hotplug),
    ("a_step_of_the_clock_is_a_gap_in_a_recording", step),
    ("a_cpu_that_was_away_when_timing_ended_misses_nothing", away_when_timing_ends),
];

/// Is the machine ours?
pub(crate) fn may_disrupt() -> bool {
    std::env::var_os("LAGSTOP_TEST_DISRUPT").is_some()
}

/// The second CPU, offline as long as this is there.
pub(crate) struct Offline;

impl Offline {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";

    pub(crate) fn set(text: &str) -> std::io::Result<()> {
        fs::write(Self::SWITCH, text)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // The kernel may be busy with another change for a moment.
        for _ in 0..100 {
            if Self::set("1").is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("*** CPU 1 STAYS OFFLINE: echo 1 > {} ***", Self::SWITCH);
    }
}

/// A way for the machine to fall asleep and to come back by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    pub(crate) name: &'static str,
    /// For /sys/power/state.
    state: &'static str,
    /// How far the kernel goes before it turns back after 5 s (/sys/power/pm_test). `none`: to the end, and the alarm of its
    /// clock wakes the machine.
    until: &'static str,
    /// Are all CPUs but the first taken away meanwhile?
    pub(crate) takes_cpus: bool,
}

impl Sleep {
    const IDLE: Self = Self { name: "s2idle, without its end", state: "freeze", until: "platform", takes_cpus: false };
    const DEVICES: Self =
        Self { name: "suspend, up to the devices", state: "mem", until: "platform", takes_cpus: false };
    const CORE: Self = Self { name: "suspend, without its end", state: "mem", until: "core", takes_cpus: true };
    const DEEP: Self = Self { name: "suspend to RAM", state: "mem", until: "none", takes_cpus: true };

    const TEST: &str = "/sys/power/pm_test";
    const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
    const SUCCESSES: &str = "/sys/power/suspend_stats/success";

    /// Those that this machine can do, or why there are none.
    pub(crate) fn all() -> Result<Vec<Self>, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let states = read("/sys/power/state");
        if !states.split_whitespace().any(|state| state == "mem") {
            return Err(format!("this kernel cannot suspend: /sys/power/state has {:?}", states.trim()));
        }
        let mut ways = Vec::new();
        if read(Self::TEST).contains("core") {
            ways.extend([Self::IDLE, Self::DEVICES, Self::CORE]);
        } else {
            println!("*** SKIPPED: rehearsals of suspend: this kernel has no {} ***", Self::TEST);
        }
        // A real machine might not wake up, and nobody may be there to push its button.
        if is_slow() && read("/sys/power/mem_sleep").contains("[deep]") && fs::exists(Self::ALARM).unwrap() {
            ways.push(Self::DEEP);
        } else {
            println!("*** SKIPPED: suspend to RAM to its end, which only guests with an alarm do ***");
        }
        if ways.is_empty() { Err("there is no way to suspend and to come back".to_owned()) } else { Ok(ways) }
    }

    /// Comes back when the machine does.
    pub(crate) fn fall_asleep(self) {
        struct Tested;
        impl Drop for Tested {
            fn drop(&mut self) {
                let _ = fs::write(Sleep::TEST, "none");
            }
        }
        let write = |path: &str, text: &str| {
            fs::write(path, text).unwrap_or_else(|error| panic!("{}: {path} does not take {text}: {error}", self.name));
        };
        let successes = || fs::read_to_string(Self::SUCCESSES).unwrap().trim().parse::<u64>().unwrap();
        let asleep = || {
            let [all, awake] = [ClockId::Boottime, ClockId::Monotonic].map(clock_gettime);
            (all.tv_sec - awake.tv_sec) as f64 + (all.tv_nsec - awake.tv_nsec) as f64 / 1e9
        };
        let (before, slept) = (successes(), asleep());
        let tested = Tested;
        if self.until == "none" {
            write(Self::ALARM, "0");
            // Later than it takes to fall asleep: who misses it does not wake up.
            write(Self::ALARM, "+20");
        } else {
            write(Self::TEST, self.until);
        }
        write("/sys/power/state", self.state);
        drop(tested);
        println!("{}: the clock stood still for {:.1} s", self.name, asleep() - slept);
        assert_eq!(successes(), before + 1, "{}", self.name);
        assert!(self.until != "none" || asleep() - slept > 2.0, "it was not asleep");
    }
}

fn hotplug() {
    Offline::set("1").unwrap_or_else(|error| panic!("{} cannot be written: {error}", Offline::SWITCH));
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    // Where several readings are late in a row, there is a hole, and rightly so.
    let interval = if is_slow() { "500ms" } else { "100ms" };
    let mut recorder = Recorder::start(&["--interval", interval, "--output", output.to_str().unwrap()]);
    let online = |count: u64| {
        let recording = Recording::read(&output);
        recording.intervals.iter().rev().take(10).filter(|interval| interval.host.cpus_online == count).count() == 10
    };
    let all = lagstop::host::Cpus::read().unwrap().online.len() as u64;
    eventually("intervals before", || online(all));
    let offline = Offline;
    Offline::set("0").unwrap();
    eventually("intervals without it", || online(all - 1));
    drop(offline);
    eventually("intervals with it again", || online(all));
    recorder.interrupt();

    let recording = Recording::read(&output);
    recording.is_without_holes();
    assert_eq!(recording.gaps, 0);
    // A guest that is stopped between the clock's reading and a CPU's moves time from one interval to the next: what has
    // to agree is the time of all of them.
    let (mut alone, mut time_alone, mut expected) = (0, 0, 0);
    for interval in &recording.intervals {
        let time = interval.cpus.iter().map(|cpu| cpu.totals.busy_ns.0 + cpu.totals.idle_ns.0).sum::<u64>();
        assert_eq!(time, interval.host.capacity().0);
        // Where it was there for a part of the interval, so is that part of its time.
        if interval.cpus.iter().all(|cpu| cpu.cpu != 1) {
            alone += 1;
            assert_eq!(interval.host.cpus_online, all - 1);
            time_alone += time;
            expected += interval.duration_ns.0 * (all - 1);
        }
    }
    println!("{alone} of {} intervals without it", recording.intervals.len());
    assert!(alone >= 8);
    let off = (time_alone as f64 - expected as f64).abs() / expected as f64;
    assert!(off <= tolerance(2.0) / 100.0, "{time_alone} ns of the CPUs' time, {expected} expected");
}

/// The time of day, put right again by what passed meanwhile.
struct Wall {
    stepped_by: i64,
}

impl Wall {
    fn step(seconds: i64) -> Self {
        let wall = Self { stepped_by: seconds };
        wall.shift(seconds);
        wall
    }

    fn shift(&self, seconds: i64) {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
        clock_settime(ClockId::Realtime, Timespec { tv_sec: tv_sec + seconds, tv_nsec }).unwrap();
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        self.shift(-self.stepped_by);
    }
}

fn step() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl.zst");
    let mut recorder = Recorder::start(&["--interval", "100ms", "--output", output.to_str().unwrap()]);
    eventually("an interval before", || !Recording::read(&output).intervals.is_empty());
    let wall = Wall::step(-3_600);
    eventually("a gap", || recorder.says("gap in the recording: the clock was set by -"));
    drop(wall);
    eventually("another", || recorder.says("gap in the recording: the clock was set by +"));
    recorder.interrupt();
    let recording = Recording::read(&output);
    recording.is_without_holes();
    assert_eq!(recording.gaps, 2);
}

fn away_when_timing_ends() {
    Offline::set("1").unwrap_or_else(|error| panic!("{} cannot be written: {error}", Offline::SWITCH));
    let cgroup = TestCgroup::new("away");
    let mut probes = Probes::with(&Setup { samples_cost: true, ..Setup::default() });
    assert!(probes.reader.measures(Measure::SwitchCost));
    if !probes.reader.samples_cost() {
        assert!(kernel() < (5, 13), "a program can be attached to a function again");
        println!("every switch is timed");
        return;
    }
    let mut load = cgroup.start("nap 60000");
    load.line();
    let offline = Offline;
    Offline::set("0").unwrap();
    probes.reader.time_next(false);
    // The CPU does not hear of it.
    let before = probes.snapshot();
    drop(offline);
    let mut there = CpuSet::new();
    there.set(1);
    sched_setaffinity(Pid::from_raw(load.pid().cast_signed()), &there).unwrap();
    load.go();
    thread::sleep(Duration::from_secs(1));
    probes.reader.time_next(true);
    let after = probes.snapshot();
    assert!(!after.switches_timed);
    let switches = |snapshot: &KernelSnapshot| snapshot.cpus[1].totals.switches.unwrap();
    let there = switches(&after) - switches(&before);
    println!("{there} switches there");
    assert!(there > at_least(200), "the load was to switch");
    let missed = [after.lost.entries - before.lost.entries, after.lost.exits - before.lost.exits];
    // Not those of the CPU that was away, which would be as many as its switches. A function that slept while the programs were
    // attached again ends without them: a few of the other CPU's may, before all is read.
    assert!(missed.iter().all(|&missed| missed * 20 < there), "{missed:?} entries and exits are missed");
    // It has heard by now, and its switches are timed.
    thread::sleep(Duration::from_millis(300));
    let timed = probes.snapshot();
    assert!(timed.switches_timed);
    let (there, missed) = (switches(&timed) - switches(&after), timed.lost.entries - after.lost.entries);
    println!("{there} more, {missed} entries missed");
    assert!(there > at_least(60) && missed * 5 < there, "{missed} of {there} are not timed");
}
