//! `lagstop schedule`: what it refuses, who notices it, and that the kernel's own scheduler is back however it ends.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    kernel::loaded_scheduler,
    schedule::{NAME, ScheduleState, SchedulerStatus},
};
use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_setaffinity},
};

use crate::{
    Test,
    command::lagstop,
    disruption::{self, Offline, Sleep},
    fixture::{Load, TestCgroup, eventually, is_slow},
    lags::{Lags, beside_real_time_tasks, is_back, is_possible, names_real_time, spin_in_real_time, status},
    scheduling::seconds,
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] = &[
    ("lags_starts_again_when_cpus_come_or_go", hotplug),
    ("lags_gets_through_suspend", suspend),
    ("the_kernels_own_scheduler_is_back_however_lags_ends", ends),
    ("why_the_kernel_ended_lags_is_said", by_kernel),
    ("lags_comes_and_goes_two_hundred_times", again_and_again),
    ("lags_refuses_quotas_and_a_second_scheduler", refusals),
    ("lags_keeps_away_from_real_time_tasks_that_could_hang_the_host", real_time),
    ("who_would_go_first_is_said_before_anything_is_changed", dry_run),
    ("a_scheduler_that_comes_later_is_noticed", noticed),
    ("lags_says_when_it_prefers_nobody_any_more", without_groups),
];

/// The kernel ends a scheduler that has other CPUs in mind.
fn hotplug() {
    if !is_possible() {
        return;
    }
    if !disruption::may_disrupt() {
        println!("*** SKIPPED: others would feel that a CPU is taken away ***");
        return;
    }
    let busy = TestCgroup::new("busy");
    let mut load = busy.start("threads 6 600000");
    assert_eq!(load.line(), "joined");
    load.go();
    let mut lags = Lags::start(&["--learn", "0s"]);
    let _offline = Offline;
    for online in ["0", "1"] {
        Offline::set(online).unwrap();
        lags.waits_for("A CPU went online or offline. Restarting LAGS");
        eventually("LAGS is in force again", || loaded_scheduler().as_deref() == Some(NAME));
        let before = busy.cpu_ns();
        thread::sleep(seconds(1));
        assert!(busy.cpu_ns() > before, "the load gets on");
    }
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
    drop(load);
}

/// Tasks are frozen, devices sleep, CPUs are taken away and given back, and clocks jump.
fn suspend() {
    if !is_possible() {
        return;
    }
    let ways = if disruption::may_disrupt() { Sleep::all() } else { Err("others would feel suspend".to_owned()) };
    let ways = match ways {
        Ok(ways) => ways,
        Err(why) => {
            println!("*** SKIPPED: {why} ***");
            return;
        }
    };
    // How often a scheduler was put into force since the host was booted.
    let enabled = || fs::read_to_string("/sys/kernel/sched_ext/enable_seq").unwrap().trim().parse::<u64>().unwrap();
    let spinning = ["a", "b", "c"].map(|name| {
        let cgroup = TestCgroup::new(&format!("suspend-{name}"));
        let mut load = cgroup.start("threads 1 7200000");
        assert_eq!(load.line(), "joined");
        load.go();
        (load, cgroup)
    });
    let used = || spinning.each_ref().map(|(_, cgroup)| cgroup.cpu_ns());
    let mut lags = Lags::start(&["--learn", "0s"]);
    let runs = format!("LAGS schedules this host (process {0}). To stop it: sudo kill -INT {0}.", lags.child.id());
    let mut times = enabled();
    for way in ways {
        eventually("the status says that it schedules", || status().contains(&runs));
        let dispatched = SchedulerStatus::read().unwrap().counted.dispatched;
        way.fall_asleep();
        let awake = Instant::now();
        if way.takes_cpus {
            lags.waits_for("A CPU went online or offline. Restarting LAGS");
            // All that is looked for at a start takes long where everything is slow and others spin.
            while enabled() == times {
                assert!(awake.elapsed() < seconds(if is_slow() { 300 } else { 15 }), "LAGS is not in force again");
                thread::sleep(Duration::from_millis(20));
            }
            times += 1;
            eventually("LAGS is in force again", || loaded_scheduler().as_deref() == Some(NAME));
            println!("{}: LAGS was in force again after {:.1} s", way.name, awake.elapsed().as_secs_f64());
        }
        lags.is_in_force();
        let before = used();
        thread::sleep(seconds(5));
        let after = used();
        let got: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        println!("{}: then they got {got:?} ns in 5 s", way.name);
        let whole: u64 = got.iter().sum();
        assert!(got.iter().all(|got| got * 6 > whole), "one got less than half of its part: {got:?} ns");
        eventually("the status says that it schedules", || status().contains(&runs));
        let now = SchedulerStatus::read().unwrap();
        assert!(
            now.state == ScheduleState::Schedules && now.counted.dispatched > dispatched,
            "after {dispatched}: {now:?}"
        );
        for (_, cgroup) in &spinning {
            assert!(now.groups.iter().any(|group| group.path == cgroup.path), "{now:?}");
        }
        // It was not ended, or once.
        assert_eq!(enabled(), times, "{}", way.name);
    }
    println!("{}", status());
    let (status_of_end, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status_of_end.success() && said.contains("LAGS has ended: asked to end"), "{said}");
    assert!(said.contains("The kernel's own scheduler is back"), "{said}");
    eventually("the kernel's own is back", is_back);
    let at_last = status();
    assert!(
        at_last
            .contains("The last run of lagstop schedule ended: asked to end.\nThe kernel's own scheduler is in force"),
        "{at_last}"
    );
    drop(spinning);
}

/// Six threads that never sleep, for so many milliseconds. The load is dropped before its cgroup.
fn busy(ms: u64) -> (Load, TestCgroup) {
    let cgroup = TestCgroup::new("busy");
    let mut load = cgroup.start(&format!("threads 6 {ms}"));
    assert_eq!(load.line(), "joined");
    load.go();
    (load, cgroup)
}

fn ends() {
    if !is_possible() {
        return;
    }
    let _busy = busy(60000);
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let lags = Lags::start(&["--learn", "0s"]);
        thread::sleep(Duration::from_millis(300));
        let (status, said) = lags.end(signal);
        assert_eq!(status.success(), signal != Signal::KILL, "{signal:?}: {said}");
        eventually("the kernel's own is back", is_back);
    }
    let status = status();
    assert!(status.contains("was killed") && status.contains("kernel's own scheduler is in force"), "{status}");
    let timed = Command::new(lagstop()).args(["schedule", "--learn", "0s", "--duration", "1s"]).output().unwrap();
    let said = String::from_utf8_lossy(&timed.stderr).into_owned();
    assert!(timed.status.success() && said.contains("the time is over"), "{said}");
    eventually("the kernel's own is back", is_back);
}

/// By SysRq, and because a task could not run for 10 s.
fn by_kernel() {
    if !is_possible() {
        return;
    }
    if !disruption::may_disrupt() {
        println!("*** SKIPPED: the key of SysRq ends whatever scheduler is loaded ***");
        return;
    }
    let ended = |lags: Lags, whys: &[&str]| {
        let (code, said) = lags.ended();
        println!("{said}");
        assert_eq!(code.code(), Some(1), "{said}");
        assert!(said.contains("The kernel's own scheduler is back"), "{said}");
        let last = status();
        for why in whys {
            assert!(said.contains(why) && last.contains(why), "{why}: {said}\n{last}");
        }
        eventually("the kernel's own is back", is_back);
    };
    let lags = Lags::start(&["--learn", "0s"]);
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    ended(lags, &["SysRq"]);
    let Some(keeps_time) = beside_real_time_tasks() else { return };
    if keeps_time {
        println!("*** SKIPPED: this kernel keeps time for a task beside real-time ones ***");
        return;
    }
    // On the second CPU, one that has to wait for the other.
    let [stuck, real_time] = ["stuck", "real-time"].map(TestCgroup::new);
    let mut waits = stuck.start("crowd 1 1 60000");
    assert_eq!(waits.line(), "joined");
    let lags = Lags::start(&["--learn", "0s", "--ignore-real-time"]);
    let spins = spin_in_real_time(&real_time);
    let mut second = CpuSet::new();
    second.set(1);
    sched_setaffinity(Some(Pid::from_raw(spins.pid().cast_signed()).unwrap()), &second).unwrap();
    waits.go();
    ended(lags, &["failed to run for"]);
    drop((waits, spins));
}

/// Before Linux 7.0 nobody but them gets on where they take all CPUs, and the kernel's own scheduler cannot come back.
fn real_time() {
    if !is_possible() {
        return;
    }
    let Some(keeps_time) = beside_real_time_tasks() else { return };
    let cgroup = TestCgroup::new("real-time");
    let spin = || spin_in_real_time(&cgroup);
    // One CPU is left: everybody gets on.
    let load = spin();
    let mut command = Command::new(lagstop());
    let started = command.args(["schedule", "--learn", "2s", "--duration", "2s"]).output().unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    println!("{said}");
    assert_eq!(started.status.success(), keeps_time, "{said}");
    assert_eq!(names_real_time(&load, &said), !keeps_time, "{said}");
    assert!(is_back());
    drop(load);
    // One that begins while it schedules ends it; else LAGS goes on.
    let mut lags = Lags::start(&["--learn", "0s"]);
    let load = spin();
    if keeps_time {
        thread::sleep(seconds(12));
        lags.is_in_force();
        assert!(lags.end(Signal::INT).0.success());
    } else {
        lags.waits_for("real-time tasks use");
        assert_eq!(lags.child.wait().unwrap().code(), Some(1));
    }
    eventually("the kernel's own is back", is_back);
    drop(load);
}

/// Programs and maps in the kernel.
fn loaded() -> (usize, usize) {
    (aya::programs::loaded_programs().flatten().count(), aya::maps::loaded_maps().flatten().count())
}

/// What the kernel has allocated for itself and cannot take back at will, in kB.
fn kernel_memory() -> i64 {
    const ITS_OWN: [&str; 5] = ["SUnreclaim:", "KernelStack:", "PageTables:", "VmallocUsed:", "Percpu:"];
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let of = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(*name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<i64>().unwrap()
    };
    ITS_OWN.iter().map(of).sum()
}

/// Takes ten to twenty minutes where everything is emulated.
fn again_and_again() {
    if !is_possible() {
        return;
    }
    let _busy = busy(7200000);
    let before = loaded();
    let (mut memory, start) = (0, Instant::now());
    for time in 1..=200 {
        let signal = [Signal::INT, Signal::TERM, Signal::KILL][time % 3];
        let (status, said) = Lags::start(&["--learn", "0s"]).end(signal);
        assert_eq!(status.success(), signal != Signal::KILL, "{signal:?}: {said}");
        eventually("the kernel's own is back", is_back);
        eventually("all is freed", || loaded() == before);
        // What is kept for the next time is there after the first ones.
        if time == 20 {
            memory = kernel_memory();
        }
        if time % 20 == 0 {
            println!(
                "{time} times in {} s, the kernel has {} kB more than after the 20th",
                start.elapsed().as_secs(),
                kernel_memory() - memory
            );
        }
    }
    // Some is freed after a while. A leak of 12 kB each time would be more.
    eventually("the kernel has no more memory than after the 20th time", || kernel_memory() - memory < 2_048);
}

fn refusals() {
    if !is_possible() {
        return;
    }
    let refused = |flags: &[&str], why: &str| {
        let output = Command::new(lagstop()).arg("schedule").args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(said.lines().count() < 5, "{said}");
    };
    let limited = TestCgroup::new("limited");
    limited.limit_to_half_a_cpu();
    let quota = format!("{} has a CPU quota", limited.path);
    refused(&["--dry-run"], &quota);
    assert!(!status().contains(&quota), "{}", status());
    refused(&[], &quota);
    assert!(status().contains(&format!("The last start of lagstop schedule was refused: {quota}")), "{}", status());
    let lags = Lags::start(&["--learn", "0s", "--ignore-quotas"]);
    refused(&["--ignore-quotas"], "LAGS schedules it already");
    assert!(status().starts_with("LAGS schedules this host (process"), "{}", status());
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success() && said.contains("asked to end"), "{said}");
    eventually("the kernel's own is back", is_back);
    limited.lift_the_limit();
    let dry = Command::new(lagstop()).args(["schedule", "--dry-run"]).output().unwrap();
    let said = String::from_utf8(dry.stdout).unwrap();
    assert!(said.contains("LAGS can schedule this host"), "{said}");
    println!("{said}");
    assert!(is_back());
    // One that is set while it schedules ends it.
    let mut lags = Lags::start(&["--learn", "0s"]);
    limited.limit_to_half_a_cpu();
    lags.waits_for(&quota);
    assert_eq!(lags.child.wait().unwrap().code(), Some(1));
    eventually("the kernel's own is back", is_back);
    limited.lift_the_limit();
}

/// A light cgroup and a heavy one are told apart before anything is changed.
fn dry_run() {
    if !is_possible() {
        return;
    }
    let [light, heavy] = ["light", "heavy"].map(TestCgroup::new);
    let mut loads = [light.start("sparse 60000"), heavy.start("threads 4 60000")];
    loads.iter_mut().for_each(|load| assert_eq!(load.line(), "joined"));
    loads.iter_mut().for_each(Load::go);
    thread::sleep(seconds(1));
    let output = Command::new(lagstop()).args(["schedule", "--dry-run", "--learn", "4s"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    println!("{said}");
    let (first, others) = said.split_once("These would wait for them:").unwrap();
    assert!(first.contains(&format!("{}: used", light.path)) && others.contains(&format!("{}: used", heavy.path)));
    assert!(is_back());
}

/// Who measures notices a scheduler that comes later, and systemd is told once it is in force.
fn noticed() {
    if !is_possible() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(seconds(60))).unwrap();
    let recording = home.path().join("host.jsonl");
    let mut record = Command::new(lagstop())
        .args(["record", "--interval", "500ms", "--output"])
        .arg(&recording)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let intervals = |name: &str| {
        let text = fs::read_to_string(&recording).unwrap_or_default();
        text.matches(&format!("\"sched_ext\":\"{name}\",\"host\"")).count()
    };
    eventually("intervals under the kernel's own scheduler", || intervals("") > 0);
    let lags = Lags::start_with(&["--learn", "0s"], |command| _ = command.env("NOTIFY_SOCKET", &socket));
    let mut told = [0; 256];
    let length = systemd.recv(&mut told).unwrap();
    assert!(told[..length].starts_with(b"READY=1"), "{}", String::from_utf8_lossy(&told[..length]));
    eventually("intervals under LAGS", || intervals(NAME) > 2);
    let terminal = Terminal::open();
    let mut top = terminal.run(Command::new(lagstop()).args(["top", "--interval", "200ms"]));
    eventually("the screen names LAGS", || terminal.shows(&format!("scheduler {NAME}")));
    kill_process(Pid::from_child(&top), Signal::INT).unwrap();
    assert!(top.wait().unwrap().success());
    assert!(lags.end(Signal::INT).0.success());
    eventually("the kernel's own is back", is_back);
    kill_process(Pid::from_child(&record), Signal::INT).unwrap();
    assert!(record.wait().unwrap().success());
    let diagnosed = Command::new(lagstop()).arg("diagnose").arg(&recording).output().unwrap();
    let said = String::from_utf8(diagnosed.stdout).unwrap();
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains("sched_ext scheduler “lags” in"), "{said}");
}

/// The files of `directory` and of those inside by which the cpu controller is enabled.
fn controllers_of(directory: &Path) -> Vec<PathBuf> {
    let file = directory.join("cgroup.subtree_control");
    if !fs::read_to_string(&file).is_ok_and(|enabled| enabled.split_whitespace().any(|name| name == "cpu")) {
        return Vec::new();
    }
    let inside = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    std::iter::once(file).chain(inside.flat_map(|path| controllers_of(&path))).collect()
}

/// Somebody takes the cpu controller away from all cgroups, and with it what tells them apart.
fn without_groups() {
    if !is_possible() {
        return;
    }
    if !disruption::may_disrupt() {
        println!("*** SKIPPED: others would feel that the cpu controller is taken away ***");
        return;
    }
    let [light, heavy] = ["light", "heavy"].map(TestCgroup::new);
    let mut load = heavy.start("threads 2 60000");
    assert_eq!(load.line(), "joined");
    load.go();
    let mut lags = Lags::start(&["--learn", "0s"]);
    // From the inside to the outside, and back.
    let mut enabled = controllers_of(light.directories()[0].parent().unwrap());
    enabled.reverse();
    enabled.iter().for_each(|file| fs::write(file, "-cpu").unwrap());
    lags.waits_for(
        "LAGS does not prefer light cgroups any more, because the cpu controller was disabled in all cgroups",
    );
    lags.is_in_force();
    eventually("the status names no cgroup", || !status().contains(&heavy.path));
    enabled.iter().rev().for_each(|file| fs::write(file, "+cpu").unwrap());
    // Cgroups are ranked again.
    eventually("the status names them", || status().contains(&heavy.path));
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
    // Processes end before their cgroups are removed.
    drop(load);
}
