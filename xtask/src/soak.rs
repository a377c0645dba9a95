//! `cargo xtask soak`: `lagstop serve` and `lagstop record` on a host that never rests, and everything that happens to them.

mod churn;
mod clients;
mod error;
mod judge;
mod subject;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use lagstop::recording::Reader;
use rustix::process::Signal;

pub(crate) use self::error::Error;
use self::{
    churn::{Offline, churn},
    clients::{Hostile, scrape},
    subject::Subject,
};
use crate::{interrupt::Interrupt, recorder::released, workspace::Workspace};

/// Run lagstop for long on a host that never rests.
///
/// Serves metrics and records with rotation while cgroups, threads, listeners and CPU sets come and go, while it is scraped
/// and harassed, stopped and continued, killed and started again, while CPUs go offline where this machine lets them, and while
/// another recorder fills its disk. Fails where memory, BPF maps, descriptors or threads grow, where something is lost, where a
/// scrape or a recording is broken, and where cgroups or mounts are left behind. Needs root and a machine of its own.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask soak               Twenty minutes
  cargo xtask soak --for 8h      A night
  cargo xtask soak --for 90s     As .ci/run has it: too short to tell whether memory grows")]
pub(crate) struct Arguments {
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "20m", value_parser = time)]
    time: Duration,
    /// The lagstop to take; without it, what is released is built
    #[arg(long, value_name = "PATH")]
    lagstop: Option<PathBuf>,
}

/// How long a round takes: everything that happens, happens once in each round.
const ROUND: Duration = Duration::from_secs(20 * 60);
const TICK: Duration = Duration::from_secs(1);
/// How long a process is stopped, and a CPU offline.
const PAUSE: Duration = Duration::from_secs(3);
/// How long it takes until a server has measured something.
const MEASURED: Duration = Duration::from_secs(3);
/// Files of the rotation.
const KEEP: usize = 3;
/// Losses that this host may cause and that lagstop counts (docs/measures.md, docs/recording.md), with the most in a
/// second: switches of tasks for which some virtual machines do not fire the tracepoints, and events that come while
/// the same program handles another.
const EXPLAINED: [(&str, f64); 2] = [("switches", 100.0), ("missed_runs", 1.0)];
/// What happens, and when, as a share of a round.
const INCIDENTS: [(f64, Incident); 7] = [
    (0.10, Incident::StopServer),
    (0.20, Incident::StopRecorder),
    (0.30, Incident::CpuOffline),
    (0.50, Incident::KillServer),
    (0.50, Incident::KillRecorder),
    (0.70, Incident::CpuOffline),
    (0.80, Incident::StopServer),
];

#[derive(Clone, Copy, Debug)]
enum Incident {
    StopServer,
    StopRecorder,
    KillServer,
    KillRecorder,
    CpuOffline,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let lagstop = match &arguments.lagstop {
        Some(lagstop) => std::path::absolute(lagstop).map_err(Error::file(lagstop.to_string_lossy()))?,
        None => released(workspace)?,
    };
    let home = tempfile::tempdir().map_err(Error::file("a temporary directory"))?;
    let interrupt = Interrupt::listen().map_err(Error::file("signals"))?;
    let before = left_behind()?;
    let mut soak = Soak::start(&lagstop, home.path())?;
    let done = thread::scope(|scope| {
        let churning = scope.spawn(|| churn(&interrupt));
        let done = soak.run(arguments.time, &interrupt);
        interrupt.come();
        let cgroups = churning.join().map_err(|_| Error::Panicked)?;
        done.map(|()| cgroups)
    });
    let cgroups = done??;
    soak.end(home.path())?;
    let Soak { mut failures, scrapes, most_series, full_disks, incidents, explained, .. } = soak;
    let after = left_behind()?;
    if after != before {
        failures.push(format!("cgroups and mounts: {before:?} before, {after:?} after"));
    }
    println!(
        "{cgroups} cgroups came and went, {scrapes} scrapes of at most {most_series} series, {full_disks} full disks, \
         {incidents} incidents"
    );
    for (kind, lost) in explained {
        println!("at most {lost} {kind} were lost to one server, which this host explains");
    }
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    if failures.is_empty() { Ok(()) } else { Err(Error::Failed(failures.len())) }
}

/// What runs, and what came of it.
struct Soak {
    server: Subject,
    recorder: Subject,
    /// A recorder whose disk is too small.
    filler: Subject,
    hostile: Hostile,
    failures: Vec<String>,
    scrapes: usize,
    most_series: usize,
    full_disks: usize,
    incidents: usize,
    /// The most that one server lost of each kind that is explained.
    explained: BTreeMap<&'static str, f64>,
    /// The kinds of all other losses.
    lost: BTreeSet<String>,
}

impl Soak {
    fn start(lagstop: &Path, home: &Path) -> Result<Self, Error> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let keep = KEEP.to_string();
        let output = text(home.join("host.jsonl.zst"));
        let full = text(home.join("full"));
        fs::create_dir(&full).map_err(Error::file(&full))?;
        // A mount that nobody else sees, and that disappears with the process.
        let fill = format!(
            "mount -t tmpfs -o size=1m lagstop-soak '{full}' && exec '{}' record --interval 50ms --output '{full}/host.jsonl'",
            lagstop.display()
        );
        Ok(Self {
            server: Subject::start(
                "lagstop serve",
                lagstop,
                &["serve", "--listen", "127.0.0.1:0", "--interval", "1s"],
                "serving http://",
            )?,
            recorder: Subject::start(
                "lagstop record",
                lagstop,
                &["record", "--output", &output, "--rotate", "10s", "--keep", &keep],
                "recording to",
            )?,
            filler: Subject::start(
                "lagstop record on a full disk",
                Path::new("unshare"),
                &["--mount", "sh", "-c", &fill],
                "recording to",
            )?,
            hostile: Hostile::default(),
            failures: Vec::new(),
            scrapes: 0,
            most_series: 0,
            full_disks: 0,
            incidents: 0,
            explained: BTreeMap::new(),
            lost: BTreeSet::new(),
        })
    }

    /// Where the server listens.
    fn address(&self) -> String {
        let rest = self.server.began.split("http://").nth(1).unwrap_or_default();
        rest.split('/').next().unwrap_or_default().to_owned()
    }

    fn run(&mut self, time: Duration, interrupt: &Interrupt) -> Result<(), Error> {
        let (began, round) = (Instant::now(), time.min(ROUND));
        let mut due = 0;
        while began.elapsed() < time && !interrupt.has_come() {
            self.tick()?;
            let (rounds, nth) = (due / INCIDENTS.len(), due % INCIDENTS.len());
            let (part, incident) = INCIDENTS[nth];
            if began.elapsed() >= round.mul_f64(rounds as f64 + part) {
                due += 1;
                self.suffer(incident)?;
            }
            interrupt.sleep(TICK);
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Error> {
        self.server.look()?;
        self.recorder.look()?;
        if self.filler.look().is_err() {
            // It says that the disk is full, and fails.
            self.filler.wait(false)?;
            self.full_disks += 1;
            self.filler.start_again()?;
        }
        let address = self.address();
        self.hostile.harass(&address);
        if self.server.age() < MEASURED {
            return Ok(());
        }
        match scrape(&address) {
            Ok(scrape) => {
                self.scrapes += 1;
                self.most_series = self.most_series.max(scrape.series);
                let seconds = self.server.age().as_secs_f64();
                for (kind, lost) in scrape.lost {
                    let explained =
                        EXPLAINED.iter().find(|(explained, often)| kind == *explained && lost <= often * seconds);
                    if let Some((kind, _)) = explained {
                        let most = self.explained.entry(kind).or_default();
                        *most = most.max(lost);
                    } else if self.lost.insert(kind.clone()) {
                        self.fail(format!("the server has lost {lost} {kind} in {seconds:.0} s"));
                    }
                }
            }
            Err(error) => self.fail(error.to_string()),
        }
        Ok(())
    }

    /// Reports a failure; the same one only once.
    fn fail(&mut self, why: String) {
        if !self.failures.contains(&why) {
            println!("FAILED: {why}");
            self.failures.push(why);
        }
    }

    fn suffer(&mut self, incident: Incident) -> Result<(), Error> {
        let pause = |subject: &Subject| {
            subject.signal(Signal::STOP)?;
            thread::sleep(PAUSE);
            subject.signal(Signal::CONT)
        };
        match incident {
            Incident::StopServer => pause(&self.server)?,
            Incident::StopRecorder => pause(&self.recorder)?,
            Incident::KillServer => {
                self.judge();
                self.hostile = Hostile::default();
                self.server.kill_and_start()?;
            }
            Incident::KillRecorder => {
                self.judge();
                self.recorder.kill_and_start()?;
            }
            Incident::CpuOffline => match Offline::last() {
                Some(offline) => {
                    thread::sleep(PAUSE);
                    drop(offline);
                }
                None => println!("SKIPPED: this machine does not let its CPUs go offline"),
            },
        }
        self.incidents += 1;
        Ok(())
    }

    /// Judges whether the processes that are about to end have grown.
    fn judge(&mut self) {
        for subject in [&self.server, &self.recorder] {
            let grown = judge::growth(&subject.looks);
            let last = subject.looks.last().copied().unwrap_or_default();
            let known = if grown.is_some() { "" } else { " (too short a life to tell growth)" };
            println!(
                "{}: {} KiB, {} KiB of BPF maps, {} descriptors, {} sockets, {} threads after {} s{known}",
                subject.name,
                last.memory_kib,
                last.maps_kib,
                last.descriptors,
                last.sockets,
                last.threads,
                last.age.as_secs()
            );
            self.failures.extend(grown.iter().flatten().map(|growth| format!("{}: {growth}", subject.name)));
        }
    }

    /// Ends all of it, and reads what was recorded.
    fn end(&mut self, home: &Path) -> Result<(), Error> {
        self.judge();
        self.hostile = Hostile::default();
        self.server.end()?;
        self.recorder.end()?;
        let is_recording = |path: &PathBuf| path.to_string_lossy().ends_with(".jsonl.zst");
        let entries = fs::read_dir(home).map_err(Error::file("the recordings"))?;
        let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_recording).collect();
        if files.is_empty() || files.len() > KEEP + 1 {
            self.fail(format!("{} recordings are there, where {KEEP} are kept", files.len()));
        }
        for file in files {
            if let Err(why) = read(&file) {
                self.fail(format!("{}: {why}", file.display()));
            }
        }
        Ok(())
    }
}

/// Reads all of a recording.
fn read(file: &Path) -> Result<(), String> {
    let mut reader = Reader::open(file).map_err(|error| error.to_string())?;
    for n in 0..reader.len() {
        let interval = reader.interval(n).map_err(|error| error.to_string())?;
        if interval.host.lost.cgroup_overflows > 0 {
            return Err(format!("interval {n} has lost switches of {} cgroups", interval.host.lost.cgroup_overflows));
        }
    }
    Ok(())
}

/// Cgroups of a soak, and mounts.
fn left_behind() -> Result<(usize, usize), Error> {
    let mounts = fs::read("/proc/self/mountinfo").map_err(Error::file("/proc/self/mountinfo"))?;
    let hierarchy = lagstop::host::Hierarchy::find(lagstop::model::GroupBy::Scheduler)
        .map_err(|error| Error::file("cgroups")(io::Error::other(error)))?;
    let cgroups = fs::read_dir(&hierarchy.mount).map_err(Error::file("cgroups"))?.flatten();
    let ours = cgroups.filter(|entry| entry.file_name().to_string_lossy().starts_with("lagstop-soak")).count();
    Ok((ours, mounts.split(|byte| *byte == b'\n').count()))
}

/// A number of seconds, minutes or hours.
fn time(text: &str) -> Result<Duration, String> {
    let unit = |unit: &str, seconds: u64| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds).filter(|&seconds| seconds >= 30)
    };
    let seconds = unit("h", 3_600).or_else(|| unit("m", 60)).or_else(|| unit("s", 1));
    seconds.map(Duration::from_secs).ok_or_else(|| "a time such as 90s, 20m or 8h, of at least 30s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_people_write_them() {
        assert_eq!(["90s", "20m", "8h"].map(|text| time(text).unwrap().as_secs()), [90, 1_200, 28_800]);
        assert!(["", "5", "1s", "-1m", "99999999999999999999h"].iter().all(|text| time(text).is_err()));
    }
}
