//! What `lagstop serve` costs on a dense host: to take an interval in, and to encode what is scraped.
//!
//! `cargo bench --bench serve`. Budget: with 2,500 cgroups that all have series of their own a scrape takes less than 50 ms, and
//! measuring and scraping every 15 s together less than 1 % of a CPU.

mod dense;

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dense::{CGROUPS, DenseHost, resident_mib};
use flate2::{Compression, write::GzEncoder};
use lagstop::{
    metrics::{Accumulator, Exposition, MetricsSettings, MetricsSnapshot, encode},
    model::Nanos,
};

/// After so many intervals figures have as many digits as they get, and histograms as many buckets.
const INTERVALS: u64 = 30;

fn accumulator(host: &mut DenseHost, top: usize) -> Accumulator {
    let expiry = Nanos(600 * Nanos::SECOND.0);
    let mut accumulator =
        Accumulator::new(&host.session(), MetricsSettings { is_wanted: Box::new(|_| true), top, expiry });
    for _ in 0..INTERVALS {
        accumulator.add(&host.interval());
    }
    accumulator
}

fn taking_in(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("2,500 cgroups");
    for top in [500, CGROUPS as usize] {
        let mut host = DenseHost::new(CGROUPS, 1);
        let mut accumulator = accumulator(&mut host, top);
        println!("{} MiB with {INTERVALS} intervals in it", resident_mib("self", "VmRSS").unwrap_or(0));
        // As a server holds the last one.
        let mut last = Arc::new(accumulator.snapshot());
        group.bench_function(format!("take an interval in, {top} told apart"), |bencher| {
            bencher.iter_batched(
                || host.interval(),
                |interval| {
                    accumulator.add(&interval);
                    last = Arc::new(accumulator.snapshot());
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    for top in [500, CGROUPS as usize] {
        let mut host = DenseHost::new(CGROUPS, 1);
        let snapshot: Arc<MetricsSnapshot> = accumulator(&mut host, top).snapshot().into();
        let mut group = criterion.benchmark_group(format!("{top} of 2,500 cgroups told apart"));
        for format in Exposition::ALL {
            let body = encoded(format, &snapshot);
            let lines = body.iter().filter(|byte| **byte == b'\n').count();
            println!(
                "{format:?}: {} kB, {lines} lines, {} kB in gzip",
                body.len() / 1_000,
                compressed(format, &snapshot).len() / 1_000
            );
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(format!("encode as {format:?}"), |bencher| {
                bencher.iter(|| encoded(format, &snapshot));
            });
            group.bench_function(format!("encode as {format:?}, compressed"), |bencher| {
                bencher.iter(|| compressed(format, &snapshot));
            });
        }
        group.finish();
    }
}

fn encoded(format: Exposition, snapshot: &Arc<MetricsSnapshot>) -> Vec<u8> {
    let mut body = Vec::new();
    encode(format, snapshot, &mut body).unwrap_or_default();
    body
}

/// As Prometheus asks for it.
fn compressed(format: Exposition, snapshot: &Arc<MetricsSnapshot>) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let encoded = encode(format, snapshot, &mut gzip);
    encoded.and_then(|()| gzip.finish()).unwrap_or_default()
}

criterion_group!(benches, taking_in, encoding);
criterion_main!(benches);
