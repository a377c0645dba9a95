//! `lagstop record`

mod attached;
mod clocks;
mod progress;
mod ring;
mod rotation;
mod single;
mod sink;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};

use self::{
    attached::Running,
    progress::RecordProgress,
    ring::{DumpCause, Ring},
    rotation::{Rotation, RotationLimit, limit},
    sink::Sink,
};
pub(super) use self::{clocks::Clocks, single::Single};
use super::{
    Failure, block_on,
    command::{Command, Otherwise},
    config::Config,
    connect::ConnectArgs,
    listen,
    measure::MeasureArgs,
    output::{GrowingFile, is_compressed, is_stdout},
    sentinel::SentinelArgs,
    thresholds::ThresholdArgs,
    values::positive,
};
use crate::{
    diagnosis::{AlertKind, Thresholds, alerts},
    model::{Interval, Nanos},
    recording::{Footer, Gap, WriteError},
    signals::{Dumps, Endings},
    source::{Begin, Stream, changed},
};

const EXAMPLES: &str = "\
Examples:
  lagstop record --duration 30s --output host.jsonl
  lagstop record --interval 100ms --duration 5s | jq '.cgroups[]? | {name, pick_ns, swap_ns}'
  lagstop record --output host.jsonl.zst          Compressed: 1/20 of the size
  lagstop record --output host.jsonl.zst --rotate 1h --keep 24
                                                  One file an hour; keep the last 24
  lagstop record --output host.jsonl.zst --ring 10m
                                                  Write the last ten minutes on kill -USR1, or when
                                                  the host's overhead crosses its threshold
  lagstop record --output node.jsonl.zst --connect https://node:9185
                                                  Record a host that runs `lagstop serve`

To record while a command runs, use lagstop run --record FILE. docs/recording.md defines every field. Ctrl-C ends a recording and leaves a complete file.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to record [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    duration: Option<Duration>,

    /// Output file, or - for standard output. A name ending in .zst means compressed. New files are readable by their owner
    /// only
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Compress the output, whatever its name
    #[arg(long)]
    compress: bool,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    /// Start a new file after this time or size (1h, 100MB); file names contain the start time
    #[arg(long, value_name = "TIME|SIZE", value_parser = limit, conflicts_with = "ring")]
    rotate: Option<RotationLimit>,

    /// With --rotate or --ring: keep only this many files
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    /// Keep the last TIME in memory; write it on SIGUSR1 or when a threshold is crossed
    #[arg(long, value_name = "TIME", value_parser = positive)]
    ring: Option<Duration>,

    #[command(flatten)]
    sentinel: SentinelArgs,

    /// With --ring: which thresholds cause a write
    #[arg(long, value_name = "WHICH", default_value = "host", requires = "ring")]
    trigger: Trigger,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    /// Run COMMAND in its own cgroup, record while it runs, and exit with its status
    #[arg(long, hide = true, requires = "command", conflicts_with_all = ["duration", "ring", "connect"])]
    attach_cmd: bool,

    /// Command to run
    #[arg(last = true, hide = true, value_name = "COMMAND", requires = "attach_cmd")]
    command: Vec<std::ffi::OsString>,

    #[command(flatten)]
    connect: ConnectArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Trigger {
    /// The host's overhead threshold
    Host,
    /// Any threshold that raises an alert in `lagstop top`
    Any,
    /// None: write on SIGUSR1 only
    Signal,
}

impl Trigger {
    /// Does `interval` cross one of its thresholds?
    fn is_set_off(self, interval: &Interval, thresholds: &Thresholds) -> bool {
        let mut alerts = alerts(interval, thresholds).into_iter();
        match self {
            Self::Host => alerts.any(|alert| alert.kind == AlertKind::Overhead),
            Self::Any => alerts.next().is_some(),
            Self::Signal => false,
        }
    }
}

pub(super) fn run(args: Args, config: &Config) -> Result<ExitCode, Failure> {
    if is_stdout(&args.output) && (args.rotate.is_some() || args.ring.is_some()) {
        return Err("--rotate and --ring write several files. Give their base name with --output".into());
    }
    if args.sentinel.linger().is_some() && args.ring.is_none() {
        return Err("--sentinel needs --ring".into());
    }
    if args.sentinel.linger().is_some() && args.connect.is_given() {
        return Err("--sentinel is for this host. Start lagstop serve --sentinel on the other one".into());
    }
    if args.keep.is_some() && args.rotate.is_none() && args.ring.is_none() {
        return Err("--keep needs --rotate or --ring".into());
    }
    // What can be refused is checked before anything is started.
    let sink = sink(&args)?;
    block_on(async {
        // A signal ends the wait for a server at once.
        let remote = args.connect.start_and_tell(Begin::Ago(Duration::ZERO), args.duration)?;
        let (endings, dumps) = (listen()?, Dumps::listen()?);
        let watches = args.sentinel.linger().is_some();
        let clocks = remote.as_ref().map_or_else(Clocks::read, |_| Clocks::of_another_host());
        let (stream, command) = match remote {
            Some(stream) => (stream, None),
            None => start(&args, config)?,
        };
        let recording = Recording {
            sink,
            endings,
            dumps,
            trigger: args.trigger,
            thresholds: args.thresholds.over(config.thresholds.0.clone()),
            clocks,
            footer: Footer { reason: "duration".to_owned(), ..Footer::default() },
            watches,
            was_calm: false,
            end: Nanos::ZERO,
            progress: RecordProgress::new(&args.output),
        };
        recording.run(stream, command).await
    })
}

fn sink(args: &Args) -> Result<Sink, Failure> {
    let compress = args.compress || is_compressed(&args.output);
    let keep = args.keep.map(|keep| keep as usize);
    Ok(match (args.rotate, args.ring) {
        (Some(limit), _) => Sink::Rotation(Rotation::new(&args.output, limit, keep, compress)?.into()),
        (None, Some(time)) => Sink::Ring(Ring::new(&args.output, time, keep)?.into()),
        (None, None) => Sink::Single(Single::new(GrowingFile::open(&args.output, args.force)?, compress)),
    })
}

/// Starts to measure, and prepares the command.
fn start(args: &Args, config: &Config) -> Result<(Stream, Option<Command>), Failure> {
    let group_by = args.measure.group_by(&config.measure);
    let command = args.attach_cmd.then(|| Command::prepare(&args.command, group_by, Otherwise::Nothing)).transpose()?;
    let stream = match args.sentinel.linger() {
        Some(linger) => args.measure.start_sentinel(args.duration, linger, &config.measure),
        None => args.measure.start(args.duration, &config.measure),
    };
    Ok((stream?, command))
}

/// A recording in progress.
struct Recording {
    sink: Sink,
    endings: Endings,
    dumps: Dumps,
    trigger: Trigger,
    thresholds: Thresholds,
    clocks: Clocks,
    footer: Footer,
    /// Does it measure only while something is wrong?
    watches: bool,
    /// Did a sentinel on another host only watch since the last interval?
    was_calm: bool,
    /// Where the last interval ended.
    end: Nanos,
    progress: RecordProgress,
}

impl Recording {
    async fn run(mut self, mut stream: Stream, command: Option<Command>) -> Result<ExitCode, Failure> {
        if command.is_some() && self.endings.have_come().await {
            return Err("interrupted before the recording started; the command was not run".into());
        }
        // A recording that cannot be begun must not start the command.
        self.sink.begin(&stream.session).map_err(|error| self.failure(error))?;
        self.progress.started(&stream.session);
        let mut running = command.map(Running::start).transpose()?;
        let written = self.write_all(&mut stream, &mut running).await;
        // Measuring ends here, even if the command goes on.
        drop(stream);
        self.progress.ended(&self.footer);
        let written = match written {
            Err(error) if matches!(error.downcast_ref(), Some(WriteError::ReaderGone)) => Ok(()),
            other => other.map_err(|error| self.failure(error)),
        };
        match (running, written) {
            (Some(running), Err(error)) if running.goes_on() => {
                self.progress.failed_while_the_command_runs(&error);
                running.end().await.map(|_| ExitCode::FAILURE)
            }
            (_, Err(error)) => Err(error),
            (Some(running), Ok(())) => running.end().await,
            (None, Ok(())) => Ok(ExitCode::SUCCESS),
        }
    }

    /// Why the recording ends, and what became of it.
    fn failure(&self, error: Failure) -> Failure {
        let output = self.progress.output();
        match error.downcast_ref() {
            Some(WriteError::Removed) => format!("{output}: {error}").into(),
            Some(_) if self.footer.intervals > 0 => {
                format!("{output}: {error}. Everything recorded until then is intact").into()
            }
            Some(_) => format!("{output}: {error}. Nothing was recorded").into(),
            None => error,
        }
    }

    async fn write_all(&mut self, stream: &mut Stream, running: &mut Option<Running>) -> Result<(), Failure> {
        let mut failure = None;
        let (mut watched, mut link) = (stream.watched.take(), stream.link.take());
        loop {
            let interval = tokio::select! {
                interval = stream.intervals.recv() => interval,
                Some(now) = changed(&mut watched) => {
                    self.progress.watched(&now);
                    continue;
                }
                Some(now) = changed(&mut link) => {
                    self.was_calm |= now.is_calm;
                    continue;
                }
                () = self.endings.wait() => {
                    "interrupted".clone_into(&mut self.footer.reason);
                    stream.stop.stop();
                    continue;
                }
                () = self.dumps.wait() => {
                    self.dump(DumpCause::Signal);
                    continue;
                }
                () = attached::ended(running) => {
                    "the command ended".clone_into(&mut self.footer.reason);
                    stream.stop.stop();
                    continue;
                }
            };
            match interval {
                None => break,
                Some(Ok(interval)) => self.write(interval)?,
                Some(Err(error)) => {
                    self.footer.reason = error.to_string();
                    failure = Some(error);
                }
            }
        }
        self.sink.end(&self.footer)?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn write(&mut self, interval: Interval) -> Result<(), Failure> {
        let was_calm = std::mem::take(&mut self.was_calm) || self.watches;
        let calm = (was_calm && interval.start_ns > self.end)
            .then(|| Gap::calm(self.end, interval.start_ns.saturating_sub(self.end)));
        self.end = interval.start_ns.saturating_add(interval.duration_ns);
        let unseen = self.clocks.gap(&interval);
        let is_set_off = self.sink.is_ring() && self.trigger.is_set_off(&interval, &self.thresholds);
        let lost = interval.host.lost;
        self.progress.interval(&interval, self.footer.intervals + 1);
        if let (None, Some(gap)) = (&calm, &unseen) {
            self.progress.gap(gap);
        }
        self.sink.interval(interval, calm.or(unseen))?;
        self.footer.intervals += 1;
        self.footer.lost.add(&lost);
        if is_set_off {
            self.dump(DumpCause::Threshold);
        }
        Ok(())
    }

    /// Writes the content of the memory. If that fails, it is kept, and recording goes on.
    fn dump(&mut self, why: DumpCause) {
        match self.sink.dump(why) {
            Ok(Some(path)) => self.progress.dumped(&path, why),
            Ok(None) => {}
            Err(error) => self.progress.not_dumped(why, &error),
        }
    }
}
