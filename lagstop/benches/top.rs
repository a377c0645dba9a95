//! What the screen of `lagstop top` costs on a dense host: 2,500 busy cgroups on 112 CPUs.
//!
//! `cargo bench --bench top`. Budgets: 5 ms to build and draw a frame, 50 ms from key to screen, 80 MiB resident with ten
//! minutes of history at one interval a second.

#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

mod dense;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use dense::{CGROUPS, DenseHost, Random, resident_mib};
use lagstop::top::{App, Key, TopSettings};
use ratatui::{Terminal, backend::TestBackend};

/// Ten minutes.
const HISTORY: u64 = 600;
const SIZE: (u16, u16) = (160, 45);

fn app(intervals: u64) -> App {
    app_of(&mut DenseHost::new(CGROUPS, 1), intervals)
}

fn app_of(host: &mut DenseHost, intervals: u64) -> App {
    let mut app = App::live(&host.session(), &TopSettings::default());
    for _ in 0..intervals {
        app.on_interval(host.interval()).expect("it is kept");
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
    let mut random = Random(2);
    // The tree of the same cgroups, and of cgroups of which others are idle each time.
    for (view, keys, idle) in [("flat", "", 0), ("tree", "t", 0), ("another tree", "t", 10)] {
        let mut host = DenseHost::new(CGROUPS, 2);
        let (mut app, mut terminal) = (app_of(&mut host, 8), terminal());
        press(&mut app, keys);
        group.bench_function(format!("take in an interval and draw {view}"), |bencher| {
            bencher.iter_batched(
                || {
                    let mut interval = host.interval();
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
        resident_mib("self", "VmRSS").unwrap_or(0)
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

// The memory first: later it would hold what the others left behind.
criterion_group!(benches, opened, frames);
criterion_main!(benches);
