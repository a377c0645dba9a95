//! What the screen of `lagstop top` costs on a dense host: 2,500 busy cgroups on 112 CPUs.
//!
//! `cargo bench --bench top`. Budgets: 5 ms to build and draw a frame, 50 ms from key to screen, 80 MiB resident with ten
//! minutes of history at one interval a second.

#![allow(missing_docs, reason = "criterion's macros")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

use std::{fs, hint::black_box, sync::Arc};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lagstop::{
    model::{
        Cgroup, CgroupId, Cpu, Crowding, Distribution, Host, Interval, Listener, ListenerTotals, Nanos, Place, Session,
        Tasks, Totals,
    },
    top::{App, Key, Settings},
};
use ratatui::{Terminal, backend::TestBackend};

const CGROUPS: u64 = 2_500;
const CPUS: u32 = 112;
const LISTENERS: u16 = 200;
/// Ten minutes.
const HISTORY: u64 = 600;
const SIZE: (u16, u16) = (160, 45);

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// `count` durations around `middle`, each up to 16 times longer or shorter, in bins of a quarter of an octave.
    fn durations(&mut self, count: u64, middle: u64) -> Distribution {
        let mut bins = std::collections::BTreeMap::new();
        for _ in 0..count {
            // The sum of four is nearly normal.
            let quarters = (0..4).map(|_| self.below(9)).sum::<u64>();
            let octave = middle >> 4 << (quarters / 4);
            *bins.entry(Nanos(octave + octave / 4 * (quarters % 4) + octave / 8)).or_insert(0) += 1;
        }
        Distribution::of(bins)
    }
}

struct Names(Vec<(Arc<str>, Arc<str>)>);

impl Names {
    fn new() -> Self {
        let name = |n: u64| {
            let pod = n / 2;
            let path =
                format!("/kubepods.slice/kubepods-burstable.slice/pod{pod:08x}.slice/cri-containerd-{n:064x}.scope");
            (path.into(), format!("namespace-{}/function-{pod:08x}/container-{n}", pod % 40).into())
        };
        Self((0..CGROUPS).map(name).collect())
    }
}

fn interval(random: &mut Random, names: &Names, seq: u64) -> Interval {
    let cgroup = |n: u64, random: &mut Random| {
        let switches = 20 + random.below(40);
        let voluntary = random.below(switches);
        let cpu = Nanos(1_000_000 + random.below(40_000_000));
        let wait = Nanos(random.below(60_000_000));
        let (path, name) = &names.0[n as usize];
        Cgroup {
            id: CgroupId(1_000 + n),
            path: Arc::clone(path),
            name: Arc::clone(name),
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
                migrations: Some(random.below(6)),
                migrations_cross_llc: Some(random.below(2)),
                migrations_cross_numa: Some(0),
                accepts: Some(0),
                accept_wait_ns: Some(Nanos(0)),
            },
            runnable_load: Some(Tasks((cpu + wait).cores(Nanos::SECOND).0)),
            load_credit: Some(Tasks(random.below(100_000) as f64 / 1e6)),
            switch_cost: Some(random.durations(switches, 4_000)),
            runq_wait: Some(random.durations(switches, 200_000)),
            accept_wait: Some(Distribution::default()),
            ..Cgroup::default()
        }
    };
    let cgroups: Vec<Cgroup> = (0..CGROUPS).map(|n| cgroup(n, random)).collect();
    let mut totals = Totals { pick_ns: Some(Nanos(0)), swap_ns: Some(Nanos(0)), ..cgroups[0].totals };
    cgroups.iter().for_each(|cgroup| totals.add(&cgroup.totals));
    let cpu = |cpu: u32, random: &mut Random| Cpu {
        cpu,
        switches: Some(random.below(2_000)),
        pick_ns: Some(Nanos(random.below(9_000_000))),
        swap_ns: Some(Nanos(random.below(4_000_000))),
        runq_waits: Some(random.below(2_000)),
        runq_wait_ns: Some(Nanos(random.below(900_000_000))),
        busy_ns: Nanos(900_000_000),
        idle_ns: Nanos(100_000_000),
        crowd: (0..3)
            .map(|_| Crowding {
                id: CgroupId(1_000 + random.below(CGROUPS)),
                cpu_ns: Nanos(random.below(90_000_000)),
                runq_wait_ns: Some(Nanos(random.below(90_000_000))),
            })
            .collect(),
    };
    let listener = |port: u16, random: &mut Random| Listener {
        cgroup: Some(CgroupId(1_000 + random.below(CGROUPS))),
        sockets: Some(1),
        backlog: Some(random.below(20)),
        backlog_capacity: Some(129),
        drops: Some(0),
        totals: Some(ListenerTotals { accepts: random.below(50), ..ListenerTotals::default() }),
        ..Listener::new(1, (std::net::Ipv4Addr::LOCALHOST, 2_000 + port).into())
    };
    Interval {
        seq,
        start_ns: Nanos(seq * Nanos::SECOND.0),
        duration_ns: Nanos::SECOND,
        host: Host {
            totals,
            cpus_online: CPUS.into(),
            busy_ns: Nanos(u64::from(CPUS) * 900_000_000),
            idle_ns: Nanos(u64::from(CPUS) * 100_000_000),
            ..Host::default()
        },
        cgroups,
        cpus: (0..CPUS).map(|n| cpu(n, random)).collect(),
        listeners: (0..LISTENERS).map(|n| listener(n, random)).collect(),
        ..Interval::default()
    }
}

fn session() -> Session {
    Session {
        hostname: "dense".to_owned(),
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        topology: (0..CPUS).map(|cpu| Place { cpu, llc: cpu / 8 * 8, numa: cpu / 56 }).collect(),
        ..Session::default()
    }
}

fn app(intervals: u64) -> App {
    let (mut random, names) = (Random(1), Names::new());
    let mut app = App::live(&session(), &Settings::default());
    for seq in 0..intervals {
        app.on_interval(interval(&mut random, &names, seq)).expect("it is kept");
    }
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        app.on_key(Key::Char(key)).expect("nothing is read");
    }
}

fn terminal() -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("it is memory alone")
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("2,500 cgroups");
    for (view, keys) in [
        ("flat", ""),
        ("tree", "t"),
        ("filtered", "ffunction-0000004"),
        ("alerts", "a"),
        ("CPUs", "2"),
        ("listeners", "3"),
    ] {
        let (mut app, mut terminal) = (app(8), terminal());
        press(&mut app, keys);
        group.bench_function(format!("draw {view}"), |bencher| {
            bencher.iter(|| terminal.draw(|frame| app.draw(frame)).map(|drawn| black_box(drawn.count)));
        });
    }
    // What a key costs until it is seen. Twice the same key, or one and its opposite, so that each time there is the same to do.
    for (what, before, keys) in [
        ("sort by the next column", "", ['s', 's']),
        ("sort the tree by the next column", "t", ['s', 's']),
        ("to the tree and back", "", ['t', 't']),
        ("step back and forth", "", ['[', ']']),
        ("step back and forth in the tree", "t", ['[', ']']),
    ] {
        let (mut app, mut terminal) = (app(8), terminal());
        press(&mut app, before);
        group.bench_function(format!("two keys, drawn: {what}"), |bencher| {
            bencher.iter(|| {
                for key in keys {
                    press(&mut app, &key.to_string());
                    terminal
                        .draw(|frame| app.draw(frame))
                        .map(|drawn| black_box(drawn.count))
                        .expect("it is memory alone");
                }
            });
        });
    }
    let (mut random, names) = (Random(2), Names::new());
    // The tree of the same cgroups, and of cgroups of which others are idle each time.
    for (view, keys, idle) in [("flat", "", 0), ("tree", "t", 0), ("another tree", "t", 10)] {
        let (mut app, mut terminal) = (app(8), terminal());
        press(&mut app, keys);
        let mut seq = 8;
        group.bench_function(format!("take in an interval and draw {view}"), |bencher| {
            bencher.iter_batched(
                || {
                    seq += 1;
                    let mut interval = interval(&mut random, &names, seq);
                    interval.cgroups.retain(|_| random.below(100) >= idle);
                    interval
                },
                |interval| {
                    app.on_interval(interval).expect("it is kept");
                    terminal.draw(|frame| app.draw(frame)).map(|drawn| black_box(drawn.count))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn opened(criterion: &mut Criterion) {
    let (mut app, mut terminal) = (app(HISTORY), terminal());
    println!(
        "resident with {HISTORY} intervals of {CGROUPS} cgroups, the benchmark's own included: {} MiB",
        resident_mib()
    );
    let mut group = criterion.benchmark_group("2,500 cgroups, ten minutes");
    group.sample_size(20);
    group.bench_function("open a cgroup, drawn", |bencher| {
        bencher.iter(|| {
            app.on_key(Key::Enter).expect("nothing is read");
            terminal.draw(|frame| app.draw(frame)).map(|drawn| black_box(drawn.count)).expect("it is memory alone");
            app.on_key(Key::Esc).expect("nothing is read");
        });
    });
    group.finish();
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1_024
}

// The memory first: later it would hold what the others left behind.
criterion_group!(benches, opened, frames);
criterion_main!(benches);
