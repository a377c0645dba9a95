//! `lagstop schedule`: what it does to those that are in no cgroup but the root, and to the kernel's own threads.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    Test,
    disruption::may_disrupt,
    fixture::{Load, TestCgroup, eventually},
    kernel_files::{KernelThread, cpu_ns, pid_of},
    lags::{Lags, is_back, is_possible},
    load::{Together, sleep_until},
    scheduling::{latencies, percentile, seconds},
};

pub(crate) const TESTS: &[Test] = &[
    ("the_hosts_own_tasks_get_their_part_and_do_not_wait_for_it", own),
    ("a_kernel_thread_that_computes_for_long_starves_nobody", computing),
];

/// What the host's own got beside ten cgroups that always want to run.
struct Own {
    /// Of all CPU time, the part of as many threads of the root cgroup's as there are CPUs. They never sleep.
    spinning: f64,
    /// The part of everything that is in none of the ten.
    all: f64,
    /// From when requests to another process there are due to when they are done, in milliseconds, ascending.
    latencies: Vec<f64>,
    /// How long a kernel thread waited each time, on average, in milliseconds.
    kernel_threads: f64,
}

impl Own {
    fn measured(cpus: usize) -> Self {
        const TIME: Duration = seconds(8);
        let together = Together::new(seconds(6), TIME);
        let cgroups: Vec<TestCgroup> = (0..10).map(|n| TestCgroup::new(&format!("heavy{n}"))).collect();
        let spins = format!("threads {cpus} 600000");
        let mut heavy: Vec<Load> = cgroups.iter().map(|cgroup| cgroup.start(&spins)).collect();
        let mut spinning = cgroups[0].start_in_root(&spins);
        let mut requests = cgroups[0].start_in_root(&format!("requests 1 20000 1000 {}", together.words()));
        heavy.iter_mut().chain([&mut spinning, &mut requests]).for_each(|load| assert_eq!(load.line(), "joined"));
        sleep_until(together.begin(seconds(1), heavy.iter_mut().chain([&mut spinning, &mut requests])));
        let read = || {
            let of_cgroups: u64 = cgroups.iter().map(TestCgroup::cpu_ns).sum();
            (KernelThread::all(), cpu_ns(spinning.pid()), of_cgroups, Instant::now())
        };
        let before = read();
        thread::sleep(TIME);
        let after = read();
        let whole = (after.3 - before.3).as_nanos() as f64 * cpus as f64;
        let kernel_threads = waited(&before.0, &after.0);
        let (of_spinning, all) = ((after.1 - before.1) as f64 / whole, 1.0 - (after.2 - before.2) as f64 / whole);
        let latencies = latencies(&mut requests);
        // Processes end before their cgroups are removed.
        drop((heavy, spinning, requests));
        Self { spinning: of_spinning, all, latencies, kernel_threads }
    }

    fn percentile(&self, part: f64) -> f64 {
        percentile(&self.latencies, part)
    }

    fn say(&self, name: &str) {
        println!(
            "{name:<10} threads of the root cgroup got {:.3}, and all that is in no other {:.3}; requests there: {}, p50 {:.2}, \
             p95 {:.2}, p99 {:.2} ms; kernel threads waited for {:.3} ms each time",
            self.spinning,
            self.all,
            self.latencies.len(),
            self.percentile(0.5),
            self.percentile(0.95),
            self.percentile(0.99),
            self.kernel_threads
        );
    }
}

/// How long kernel threads waited each time, on average, in milliseconds.
pub(crate) fn waited(before: &HashMap<u32, KernelThread>, after: &HashMap<u32, KernelThread>) -> f64 {
    let since = |(pid, after): (&u32, &KernelThread)| {
        let before = before.get(pid)?;
        // A number may be another thread's by now.
        Some((after.run_delay_ns.checked_sub(before.run_delay_ns)?, after.waits.checked_sub(before.waits)?))
    };
    let (ns, times) = after.iter().filter_map(since).fold((0, 0), |(ns, times), (more, n)| (ns + more, times + n));
    assert!(times > 50, "{times}");
    ns as f64 / times as f64 / 1e6
}

fn own() {
    if !is_possible() {
        return;
    }
    let cpus = thread::available_parallelism().unwrap().get();
    let kernels = Own::measured(cpus);
    kernels.say("kernel's");
    let lags = Lags::start(&[]);
    let own = Own::measured(cpus);
    own.say("LAGS");
    let (status, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
    // As the kernel has it: each of their threads weighs as much as a cgroup.
    let entitled = cpus as f64 / (10 + cpus) as f64;
    assert!((own.spinning / entitled - 1.0).abs() < 0.25, "{} is not {entitled}", own.spinning);
    assert!(own.percentile(0.95) < kernels.percentile(0.95), "requests waited for longer");
    assert!(own.kernel_threads < 5.0, "kernel threads waited for {} ms", own.kernel_threads);
}

/// The kernel's packet generator, which sends to the loopback device from the first CPU as fast as it can, as long as this is there.
struct Packets {
    /// Its thread.
    pid: u32,
}

impl Packets {
    const FILES: &str = "/proc/net/pktgen";

    fn start() -> Self {
        if !Path::new(Self::FILES).exists() {
            let loaded = Command::new("insmod").arg("/lib/pktgen.ko").status().unwrap();
            assert!(loaded.success(), "pktgen cannot be loaded");
        }
        Self::tell("kpktgend_0", "add_device lo");
        for what in ["count 0", "delay 0", "pkt_size 60", "dst 127.0.0.1"] {
            Self::tell("lo", what);
        }
        // This returns when it is stopped.
        thread::spawn(|| Self::tell("pgctrl", "start"));
        Self { pid: pid_of("kpktgend_0").unwrap() }
    }

    fn tell(file: &str, what: &str) {
        fs::write(Path::new(Self::FILES).join(file), what).unwrap_or_else(|error| panic!("{file}: {what}: {error}"));
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        let _ = fs::write(Path::new(Self::FILES).join("pgctrl"), "stop");
    }
}

/// The parts that a kernel thread which never sleeps, and two cgroups that may run on its CPU only, get of that one.
fn computing() {
    if !is_possible() {
        return;
    }
    if !may_disrupt() {
        println!("*** SKIPPED: others would feel that ***");
        return;
    }
    let cgroups = ["beside0", "beside1"].map(TestCgroup::new);
    let mut loads = cgroups.each_ref().map(|cgroup| cgroup.start("crowd 0 1 600000"));
    loads.iter_mut().for_each(|load| assert_eq!(load.line(), "joined"));
    loads.iter_mut().for_each(Load::go);
    let packets = Packets::start();
    let used = || [cgroups[0].cpu_ns(), cgroups[1].cpu_ns(), cpu_ns(packets.pid)];
    let parts = |name: &str| {
        thread::sleep(seconds(3));
        let before = used();
        thread::sleep(seconds(5));
        let after = used();
        let got = [0, 1, 2].map(|n| (after[n] - before[n]) as f64);
        let parts = got.map(|got_one| got_one / got.iter().sum::<f64>());
        println!("{name:<10} two cgroups and the kernel thread got {parts:.3?}");
        parts
    };
    parts("kernel's");
    let lags = Lags::start(&[]);
    let of_lags = parts("LAGS");
    lags.is_in_force();
    drop(packets);
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
    drop(loads);
    assert!(of_lags.iter().all(|part| *part > 0.2), "{of_lags:?}");
}
