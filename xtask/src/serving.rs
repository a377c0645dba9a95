//! `cargo xtask serving`: what `lagstop serve` costs where there are thousands of cgroups, and how long a scrape takes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use crate::{
    machine,
    recorder::{Crowd, Error, Pause, Process, released},
    workspace::Workspace,
};

/// Measure what `lagstop serve` costs with thousands of cgroups.
///
/// Makes them, each with a process that wakes up for a moment now and then: a tenth of them in a second, and then three times a
/// second each. Serves their metrics, and scrapes them as Prometheus does: every 15 seconds, compressed, as OpenMetrics and as
/// messages by turns. CPU time is the process's own from /proc: during a scrape, and in a second for measuring and serving
/// together. What a scrape takes beyond its CPU time it waits for a CPU. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask serving                   Some nine minutes, a table
  cargo xtask serving --cgroups 500     On a small machine")]
pub(crate) struct Arguments {
    /// Cgroups to make, beside those that are there
    #[arg(long, default_value_t = 2_490, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cgroups: u32,
    /// Cgroups that are told apart at most; once for each
    #[arg(long, default_values_t = [500, 2_500])]
    top: Vec<usize>,
    /// Scrapes to measure
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..))]
    scrapes: u32,
}

/// Between two scrapes.
const EVERY: Duration = Duration::from_secs(15);
/// Before the first: cgroups that are new cost more. Scrapes come between two readings then.
const WARM_UP: Duration = Duration::from_secs(22);
/// CPU time in a second.
const CPU_BUDGET: Duration = Duration::from_millis(10);
/// For a scrape.
const TIME_BUDGET: Duration = Duration::from_millis(50);
/// What is asked for by turns.
const FORMATS: [&str; 2] = [
    "application/openmetrics-text;version=1.0.0",
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
];

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let lagstop = released(workspace)?;
    let machine::Machine { kernel, cpu, cpus } = machine::describe();
    println!(
        "{} cgroups beside the host's, scraped every {EVERY:?}; Linux {kernel}, {cpu}, {cpus} CPUs",
        arguments.cgroups
    );
    let mut keeps = true;
    for (pause, how_often) in [(Pause::LONG, "in ten seconds"), (Pause::SHORT, "three times a second")] {
        println!("Each wakes up {how_often}:");
        println!(
            "{:>12} {:>14} {:>10} {:>10} {:>10} {:>10} {:>18} {:>12}",
            "told apart", "format", "size", "median", "longest", "CPU time", "CPU time a second", "most memory"
        );
        let crowd = Crowd::start(arguments.cgroups, pause)?;
        for &top in &arguments.top {
            keeps &= measure(&lagstop, top, arguments.scrapes)?;
        }
        drop(crowd);
    }
    println!("{:>12} {:>14} {:>10} {:>10} {TIME_BUDGET:>10.1?} {:>10} {CPU_BUDGET:>18.1?}", "budget", "", "", "", "");
    if keeps { Ok(()) } else { Err(Error::OverBudget) }
}

/// What a scrape took.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Scrape {
    time: Duration,
    cpu: Duration,
    size: usize,
}

/// Whether it keeps within the budgets.
fn measure(lagstop: &std::path::Path, top: usize, scrapes: u32) -> Result<bool, Error> {
    let (mut server, address) = Process::serve(lagstop, top)?;
    thread::sleep(WARM_UP);
    let (before, began) = (server.cpu_time()?, Instant::now());
    let mut took: [Vec<Scrape>; FORMATS.len()] = Default::default();
    for (scrape, turn) in (0..scrapes).zip((0..FORMATS.len()).cycle()) {
        thread::sleep((EVERY * (scrape + 1)).saturating_sub(began.elapsed()));
        let before = server.cpu_time_of_threads()?;
        let (time, size) = fetch(&address, FORMATS[turn])?;
        took[turn].push(Scrape { time, cpu: server.cpu_time_of_threads()?.saturating_sub(before), size });
    }
    let cpu = server.cpu_time()?.saturating_sub(before).div_f64(began.elapsed().as_secs_f64());
    let memory = server.most_memory()?;
    server.end()?;
    let mut longest = Duration::ZERO;
    for (format, mut took) in ["OpenMetrics", "messages"].into_iter().zip(took) {
        took.sort_unstable();
        let (Some(median), Some(last)) = (took.get(took.len() / 2), took.last()) else { continue };
        longest = longest.max(last.time);
        println!(
            "{top:>12} {format:>14} {:>7} kB {:>10.1?} {:>10.1?} {:>10.1?} {:>15.1} ms {:>8.1} MiB",
            last.size / 1_000,
            median.time,
            last.time,
            median.cpu,
            cpu.as_secs_f64() * 1e3,
            memory as f64 / 1024.0
        );
    }
    Ok(longest <= TIME_BUDGET && cpu <= CPU_BUDGET)
}

/// How long a scrape took, from connecting to its last byte, and how long it was.
fn fetch(address: &str, accept: &str) -> Result<(Duration, usize), Error> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).map_err(Error::file("the server"))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: lagstop\r\nAccept: {accept}\r\nAccept-Encoding: gzip\r\n\r\n")
        .map_err(Error::file("the server"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(Error::file("the server"))?;
    let took = began.elapsed();
    if answer.starts_with(b"HTTP/1.1 200") {
        Ok((took, answer.len()))
    } else {
        Err(Error::Scrape(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()))
    }
}
