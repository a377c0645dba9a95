//! How long `lagstop fleet` takes over a large fleet, and how much memory it and Prometheus need for that.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::Value;

use super::{Fleet, FleetError, model::KNEE, write};
use crate::{
    command::{self, not_started},
    machine,
    workspace::Workspace,
};

/// Measure what `lagstop fleet` takes over a made-up fleet in a real Prometheus.
///
/// Makes the fleet up, backfills it with promtool, two hours at a time, starts Prometheus over it, and asks three times by
/// the recorded series and once by the raw ones. Needs Debian's package `prometheus`, some gigabytes in the temporary directory,
/// and minutes. Fails where the answer takes too long, or does not have the knee that was put in.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    fleet: Fleet,
    /// Seconds that an answer may take
    #[arg(long, default_value_t = 30)]
    budget: u64,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), FleetError> {
    let Arguments { fleet, budget } = arguments;
    let lagstop = workspace.released()?;
    let home = tempfile::Builder::new()
        .prefix("lagstop-fleet-")
        .tempdir()
        .map_err(FleetError::file("a temporary directory"))?;
    let data = home.path().join("data");

    let machine::Machine { kernel, cpu, cpus } = machine::describe();
    println!("Linux {kernel}, {cpu}, {cpus} CPUs; {}", version()?);
    println!("{} nodes with {} pods each, {} hours, seed {}", fleet.nodes, fleet.pods, fleet.hours, fleet.seed);
    let begun = Instant::now();
    let mut samples = 0;
    for block in write::blocks(fleet) {
        let path = home.path().join("block.om");
        samples += write::write(fleet, &block, &path)?;
        let mut promtool = Command::new("promtool");
        promtool.args(["tsdb", "create-blocks-from", "--quiet", "openmetrics"]).args([&path, &data]);
        command::stdout(&mut promtool)?;
        fs::remove_file(&path).map_err(FleetError::file(&path))?;
    }
    println!("backfilled {samples} samples in {:.0} s", begun.elapsed().as_secs_f64());
    Blocks::of(&data)?.print();

    let server = Prometheus::start(home.path(), &data)?;
    println!("{:>24} {:>10} {:>12} {:>14}", "", "time", "lagstop", "Prometheus");
    let mut slowest = Duration::ZERO;
    let mut report = Value::Null;
    for (name, more) in [("first", &[][..]), ("second", &[]), ("third", &[]), ("raw series", &["--raw"])] {
        let asked = ask(&lagstop, &server.url, fleet, more)?;
        let of_server = most_memory(server.child.id()).unwrap_or(0);
        println!(
            "{name:>24} {:>8.2} s {:>8.0} MiB {:>10.0} MiB",
            asked.took.as_secs_f64(),
            asked.memory as f64 / 1024.0,
            of_server as f64 / 1024.0
        );
        if more.is_empty() {
            slowest = slowest.max(asked.took);
            report = asked.report;
        }
    }
    let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
    println!("{} requests, {} bytes\n{}", report["requests"], report["bytes"], text("verdict"));
    for knee in ["overhead_knee", "wait_knee"] {
        println!("{knee}: {}", report["density"][knee]);
        let at = |field: &str| report["density"][knee][field].as_f64().unwrap_or(f64::NAN);
        let is_near = (at("density") - KNEE).abs() < 1.0;
        if !is_near {
            return Err(FleetError::Wrong(format!("the {knee} is at {}, and {KNEE} was put in", at("density"))));
        }
    }
    if slowest > Duration::from_secs(*budget) {
        return Err(FleetError::OverBudget { took: slowest.as_secs_f64(), budget: *budget });
    }
    Ok(())
}

fn version() -> Result<String, FleetError> {
    let said = command::stdout(Command::new("prometheus").arg("--version"))?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// What a question took.
struct Asked {
    took: Duration,
    /// KiB.
    memory: u64,
    report: Value,
}

fn ask(lagstop: &Path, url: &str, fleet: &Fleet, more: &[&str]) -> Result<Asked, FleetError> {
    let (at, window) = (rfc3339(fleet.end)?, format!("{}h", fleet.hours));
    let mut command = Command::new(lagstop);
    command.args(["fleet", "--prometheus", url, "--at", &at, "--window", &window, "--format", "json"]).args(more);
    let begun = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| not_started(&command, source))?;
    // The output is read while the process is watched: a full pipe would stop it.
    let reader = child.stdout.take().map(|mut out| {
        thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).map(|_| text)
        })
    });
    let mut memory = 0;
    while child.try_wait().map_err(FleetError::file("lagstop"))?.is_none() {
        memory = memory.max(most_memory(child.id()).unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    let text = reader.and_then(|reader| reader.join().ok()).and_then(Result::ok).unwrap_or_default();
    let mut errors = String::new();
    if let Some(mut said) = child.stderr.take() {
        let _ = said.read_to_string(&mut errors);
    }
    let report = serde_json::from_str(&text).map_err(|_| FleetError::Wrong(format!("lagstop fleet says: {errors}")))?;
    Ok(Asked { took, memory, report })
}

/// A moment, in UTC, as `date` writes it.
fn rfc3339(seconds: u64) -> Result<String, FleetError> {
    Ok(command::stdout(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date", &format!("@{seconds}")]))?)
}

/// The most that a process ever had, in KiB.
fn most_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

struct Prometheus {
    child: Child,
    url: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    const PATIENCE: Duration = Duration::from_secs(120);

    fn start(home: &Path, data: &Path) -> Result<Self, FleetError> {
        let config = home.join("prometheus.yml");
        fs::write(&config, "").map_err(FleetError::file(&config))?;
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let address = listener.map_err(FleetError::file("127.0.0.1"))?.to_string();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--storage.tsdb.retention.time=100y", "--log.level=error"])
            // Otherwise it would compact blocks while it is measured.
            .args(["--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|source| not_started(&command, source))?;
        let server = Self { child, url: format!("http://{address}") };
        let begun = Instant::now();
        while !is_ready(&address) {
            if begun.elapsed() > Self::PATIENCE {
                return Err(FleetError::NotReady(Self::PATIENCE.as_secs()));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }
}

fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.split(' ').nth(1) == Some("200")
}

/// What Prometheus keeps on disk.
#[derive(Default)]
struct Blocks {
    blocks: u64,
    samples: u64,
    /// Of the block with most.
    series: u64,
    chunks: u64,
    index: u64,
}

impl Blocks {
    fn of(data: &Path) -> Result<Self, FleetError> {
        let mut all = Self::default();
        for entry in fs::read_dir(data).map_err(FleetError::file(data))?.flatten() {
            let path = entry.path();
            let Ok(meta) = fs::read_to_string(path.join("meta.json")) else { continue };
            let meta: Value = serde_json::from_str(&meta).unwrap_or_default();
            let number = |name: &str| meta["stats"][name].as_u64().unwrap_or(0);
            all.blocks += 1;
            all.samples += number("numSamples");
            all.series = all.series.max(number("numSeries"));
            all.index += fs::metadata(path.join("index")).map_or(0, |file| file.len());
            let chunks = fs::read_dir(path.join("chunks")).into_iter().flatten().flatten();
            all.chunks += chunks.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>();
        }
        Ok(all)
    }

    fn print(&self) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{} blocks with {} series at most: chunks {:.0} MiB ({:.2} bytes a sample), indexes {:.0} MiB ({:.0} bytes a series and block)",
            self.blocks,
            self.series,
            mib(self.chunks),
            self.chunks as f64 / self.samples.max(1) as f64,
            mib(self.index),
            self.index as f64 / self.series.max(1) as f64 / self.blocks.max(1) as f64
        );
    }
}
