//! A dense host that is made up: the same in each run.

use std::{fs, net::Ipv4Addr, sync::Arc};

use lagstop::model::{
    Bucket, Cgroup, CgroupId, Cpu, CpuTotals, Crowding, Distribution, Host, HostTimes, Interval, Level, Listener,
    ListenerTotals, Nanos, Place, Session, Tasks, Totals, WaitBehind,
};
use lagstop_ebpf::bucket_of;

/// The cgroups of a dense host.
pub(crate) const CGROUPS: u64 = 2_500;

/// Cgroups that are all busy: some 22 for each CPU, and some 12 for each listener.
pub(crate) struct DenseHost {
    random: Random,
    names: Vec<(Arc<str>, Arc<str>)>,
    levels: Vec<Arc<[Level]>>,
    cpus: u32,
    listeners: u16,
    seq: u64,
}

impl DenseHost {
    /// A host that is the same for the same `seed`.
    pub(crate) fn new(cgroups: u64, seed: u64) -> Self {
        let name = |n: u64| {
            let pod = n / 2;
            let path =
                format!("/kubepods.slice/kubepods-burstable.slice/pod{pod:08x}.slice/cri-containerd-{n:064x}.scope");
            (path.into(), format!("namespace-{}/function-{pod:08x}/container-{n}", pod % 40).into())
        };
        // Requests of CPU time are different from pod to pod, and the kubelet sets what goes with them.
        let levels = |n: u64| {
            let pod = n / 2;
            let of = |weight: u64| Level { weight: Some(weight as f64), ..Level::DEFAULT };
            let quota = pod.is_multiple_of(3).then_some((Nanos(50_000_000 * (1 + pod % 4)), Nanos(100_000_000)));
            let (quota_ns, period_ns) = quota.unzip();
            [of(79), of(38), Level { quota_ns, period_ns, ..of(1 + pod % 20) }, of(1 + n % 10)].into()
        };
        Self {
            random: Random(seed),
            names: (0..cgroups).map(name).collect(),
            levels: (0..cgroups).map(levels).collect(),
            cpus: (cgroups * 112 / CGROUPS) as u32,
            listeners: (cgroups * 2 / 25) as u16,
            seq: 0,
        }
    }

    pub(crate) fn session(&self) -> Session {
        Session {
            hostname: "dense".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            interval_ns: Nanos::SECOND,
            topology: (0..self.cpus).map(|cpu| Place { cpu, llc: cpu / 8 * 8, numa: cpu / 56 }).collect(),
            ..Session::default()
        }
    }

    /// The next second.
    pub(crate) fn interval(&mut self) -> Interval {
        let cgroups: Vec<Cgroup> = (0..self.names.len()).map(|n| self.cgroup(n)).collect();
        let mut totals = Totals { pick_ns: Some(Nanos(0)), swap_ns: Some(Nanos(0)), ..cgroups[0].totals };
        cgroups.iter().for_each(|cgroup| totals.add(&cgroup.totals));
        let seq = self.seq;
        self.seq += 1;
        Interval {
            seq,
            start_ns: Nanos(seq * Nanos::SECOND.0),
            duration_ns: Nanos::SECOND,
            switch_cost_way: Some("tracepoints".into()),
            host: Host {
                totals,
                cpus_online: self.cpus.into(),
                times: HostTimes {
                    busy_ns: Nanos(u64::from(self.cpus) * 900_000_000),
                    idle_ns: Nanos(u64::from(self.cpus) * 100_000_000),
                    steal_ns: None,
                },
                ..Host::default()
            },
            cgroups,
            cpus: (0..self.cpus).map(|n| self.cpu(n)).collect(),
            listeners: (0..self.listeners).map(|n| self.listener(n)).collect(),
            ..Interval::default()
        }
    }

    fn cgroup(&mut self, n: usize) -> Cgroup {
        let random = &mut self.random;
        let switches = 20 + random.below(40);
        let voluntary = random.below(switches);
        let cpu = Nanos(1_000_000 + random.below(40_000_000));
        let wait = Nanos(random.below(60_000_000));
        // Most of the wait is behind some dozens of other cgroups, and a little is for other reasons.
        let part = |of: u64, random: &mut Random| Nanos(random.below(wait.0 / of + 1));
        let [itself, kernel, idle, elsewhere] = [8, 16, 64, 16].map(|of| part(of, random));
        let causes: Nanos = [itself, kernel, idle, elsewhere].into_iter().sum();
        let others = wait.saturating_sub(causes);
        let culprits = self.names.len() as u64;
        let one = |nth: u64, random: &mut Random| {
            let thousandths = random.below(1_000 / (6 + 2 * nth));
            WaitBehind { id: CgroupId(1_000 + random.below(culprits)), wait_ns: Nanos(others.0 * thousandths / 1_000) }
        };
        let mut waits_behind: Vec<WaitBehind> = (0..WaitBehind::NAMED as u64).map(|nth| one(nth, random)).collect();
        waits_behind.sort_by_key(|one| std::cmp::Reverse(one.wait_ns));
        let (path, name) = &self.names[n];
        Cgroup {
            id: CgroupId(1_000 + n as u64),
            path: Arc::clone(path),
            name: Arc::clone(name),
            levels: Some(Arc::clone(&self.levels[n])),
            cpus: Some("0-111".into()),
            totals: Totals {
                switches,
                voluntary_switches: voluntary,
                involuntary_switches: switches - voluntary,
                cross_cgroup_switches: Some(random.below(switches)),
                cpu_ns: cpu,
                threads: 1 + random.below(8),
                schedule_calls: Some(switches + random.below(9)),
                pick_ns: Some(Nanos(switches * (2_000 + random.below(3_000)))),
                kept_ns: Some(Nanos(random.below(20_000))),
                swap_ns: Some(Nanos(switches * (1_000 + random.below(1_000)))),
                pick_function_ns: Some(Nanos(switches * (500 + random.below(800)))),
                runq_waits: Some(switches),
                runq_wait_ns: Some(wait),
                wait_behind_ns: Some(others),
                wait_self_ns: Some(itself),
                wait_kernel_ns: Some(kernel),
                wait_idle_ns: Some(idle),
                wait_throttled_ns: Some(Nanos(0)),
                wait_elsewhere_ns: Some(elsewhere),
                wait_unknown_ns: Some(Nanos(0)),
                migrations: Some(random.below(6)),
                migrations_cross_llc: Some(random.below(2)),
                migrations_cross_numa: Some(0),
                accepts: Some(0),
                accept_wait_ns: Some(Nanos(0)),
            },
            waits_behind,
            runnable_load: Some(Tasks(cpu.saturating_add(wait).cores(Nanos::SECOND).0)),
            load_credit: Some(Tasks(random.below(100_000) as f64 / 1e6)),
            switch_cost: Some(random.durations(switches, Nanos(4_000))),
            runq_wait: Some(random.durations(switches, Nanos(200_000))),
            accept_wait: Some(Distribution::default()),
            ..Cgroup::default()
        }
    }

    fn any_cgroup(&mut self) -> CgroupId {
        CgroupId(1_000 + self.random.below(self.names.len() as u64))
    }

    fn cpu(&mut self, cpu: u32) -> Cpu {
        let crowding = |_| Crowding {
            id: self.any_cgroup(),
            cpu_ns: Nanos(self.random.below(90_000_000)),
            runq_wait_ns: Some(Nanos(self.random.below(90_000_000))),
        };
        let crowd = (0..3).map(crowding).collect();
        let random = &mut self.random;
        let totals = CpuTotals {
            switches: Some(random.below(2_000)),
            pick_ns: Some(Nanos(random.below(9_000_000))),
            swap_ns: Some(Nanos(random.below(4_000_000))),
            runq_waits: Some(random.below(2_000)),
            runq_wait_ns: Some(Nanos(random.below(900_000_000))),
            busy_ns: Nanos(900_000_000),
            idle_ns: Nanos(100_000_000),
            ..CpuTotals::default()
        };
        Cpu { cpu, totals, crowd }
    }

    fn listener(&mut self, port: u16) -> Listener {
        Listener {
            cgroup: Some(self.any_cgroup()),
            sockets: Some(1),
            backlog: Some(self.random.below(20)),
            backlog_capacity: Some(129),
            drops: Some(0),
            totals: Some(ListenerTotals { accepts: self.random.below(50), ..ListenerTotals::default() }),
            ..Listener::new(1, (Ipv4Addr::LOCALHOST, 2_000 + port).into())
        }
    }
}

/// Numbers that look random and are the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// `count` durations in some ten buckets around that of `middle`, more or less as a normal distribution has them.
    fn durations(&mut self, count: u64, middle: Nanos) -> Distribution {
        const SHARES: [u64; 13] = [1, 2, 4, 7, 11, 14, 16, 14, 11, 7, 4, 2, 1];
        let all: u64 = SHARES.iter().sum();
        let mut left = count;
        let mut counts = SHARES.map(|share| {
            let about = (count * share * (60 + self.below(80)) / 100 + self.below(all)) / all;
            let this = about.min(left);
            left -= this;
            this as u32
        });
        counts[SHARES.len() / 2] += left as u32;
        let first = (bucket_of(middle.0) - SHARES.len() / 2) as Bucket + self.below(3) as Bucket;
        Distribution::from_buckets((first..).zip(counts).filter(|(_, count)| *count > 0)).unwrap_or_default()
    }
}

/// A size of this process as `/proc` has it: `VmRSS`, `VmHWM`.
pub(crate) fn resident_mib(process: &str, which: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib / 1_024)
}
