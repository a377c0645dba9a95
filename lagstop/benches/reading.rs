//! What it costs to read what the programs counted, on hosts of several sizes that are made up in memory.
//!
//! `cargo bench --bench reading`. Budgets, of 2,500 cgroups: 5 ms on 112 CPUs where one in ten ran, 15 ms on 512; 60 ms on 512
//! where all of them ran on all. The running tasks' time, which a program books on each CPU before, comes on top.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use lagstop::kernel::MadeUpHost;

const CGROUPS: u32 = 2_500;

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read 2,500 cgroups");
    group.sample_size(30);
    for (cpus, every, ran) in
        [(112, 10, "one in ten ran"), (512, 10, "one in ten ran"), (112, 1, "all ran"), (512, 1, "all ran")]
    {
        let mut host = MadeUpHost::new(CGROUPS, cpus);
        group.bench_function(format!("{cpus} CPUs, {ran}"), |bencher| {
            bencher.iter_custom(|times| {
                let mut read = Duration::ZERO;
                for _ in 0..times {
                    host.run(every);
                    let began = Instant::now();
                    black_box(host.read());
                    read += began.elapsed();
                }
                read
            });
        });
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);
