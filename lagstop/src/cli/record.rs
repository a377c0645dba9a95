//! `lagstop record`

mod clocks;
mod command;
mod output;
mod progress;
mod ring;
mod rotation;
mod sink;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

pub(super) use command::{KEEP, keep_command};

use self::{
    clocks::Clocks,
    command::Command,
    output::{Output, is_compressed},
    progress::Progress,
    ring::{Cause, Ring},
    rotation::{Limit, Rotation, limit},
    sink::Sink,
};
use super::{
    Failure, block_on,
    config::Config,
    listen,
    measure::{MeasureArgs, positive},
    thresholds::ThresholdArgs,
};
use crate::{
    diagnosis::{AlertSubject, Thresholds, alerts},
    model::Interval,
    recording::{Footer, WriteError},
    signals::{Dumps, Endings},
    source::Stream,
};

const EXAMPLES: &str = "\
Examples:
  lagstop record --duration 30s --output host.jsonl
  lagstop record --interval 100ms --duration 5s | jq '.cgroups[]? | {name, pick_ns, swap_ns}'
  lagstop record --output host.jsonl.zst          A tenth of the size; all of lagstop reads it
  lagstop record --output host.jsonl.zst --rotate 1h --keep 24
                                                  A file an hour, the last day's
  lagstop record --output host.jsonl.zst --ring 10m
                                                  Nothing, until kill -USR1 or the host's overhead
                                                  crosses its threshold: then the ten minutes before
  lagstop record --output build.jsonl.zst --attach-cmd -- make -j8
                                                  While a command runs, in a cgroup of its own

docs/recording.md defines every field. Ctrl-C ends a recording: it is whole.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to record; until Ctrl-C if not given
    #[arg(long, value_name = "TIME", value_parser = positive)]
    duration: Option<Duration>,

    /// Where to: a file, or - for standard output. What ends in `.zst` is compressed
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Compress, whatever the file is called
    #[arg(long)]
    compress: bool,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    /// Begin a new file after this time or size (1h, 100MB); the files have the time in their names
    #[arg(long, value_name = "TIME|SIZE", value_parser = limit, conflicts_with = "ring")]
    rotate: Option<Limit>,

    /// With --rotate or --ring: keep only that many of the files
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    /// Keep only the last so long in memory, and write them on SIGUSR1 or when a threshold is crossed
    #[arg(long, value_name = "TIME", value_parser = positive)]
    ring: Option<Duration>,

    /// With --ring: whose threshold it takes to write
    #[arg(long, value_name = "WHOSE", default_value = "host", requires = "ring")]
    trigger: Trigger,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    /// Run COMMAND in a cgroup of its own, record while it runs, and end with its status
    #[arg(long, requires = "command", conflicts_with_all = ["duration", "ring"])]
    attach_cmd: bool,

    /// What to run
    #[arg(last = true, value_name = "COMMAND", requires = "attach_cmd")]
    command: Vec<std::ffi::OsString>,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Trigger {
    /// The host's overhead
    Host,
    /// Any alert that `lagstop top` would show
    Any,
    /// SIGUSR1 alone
    Signal,
}

impl Trigger {
    /// Does `interval` set it off?
    fn is_set_off(self, interval: &Interval, thresholds: &Thresholds) -> bool {
        let mut alerts = alerts(interval, thresholds).into_iter();
        match self {
            Self::Host => alerts.any(|alert| alert.subject == AlertSubject::Host),
            Self::Any => alerts.next().is_some(),
            Self::Signal => false,
        }
    }
}

pub(super) fn run(args: Args, config: &Config) -> Result<ExitCode, Failure> {
    let compress = args.compress || is_compressed(&args.output);
    let to_stdout = args.output == Path::new("-");
    if to_stdout && (args.rotate.is_some() || args.ring.is_some()) {
        return Err("--rotate and --ring write several files: name the first with --output".into());
    }
    if args.keep.is_some() && args.rotate.is_none() && args.ring.is_none() {
        return Err("--keep counts the files of --rotate or --ring: give one of them".into());
    }
    let keep = args.keep.map(|keep| keep as usize);
    // What can be refused is looked at before anything is started.
    let place = match (args.rotate, args.ring) {
        (Some(limit), _) => Place::Ready(Sink::Rotation(Rotation::new(&args.output, limit, keep, compress)?.into())),
        (None, Some(time)) => Place::Ready(Sink::Ring(Ring::new(&args.output, time, keep)?.into())),
        (None, None) => Place::File(Output::open(&args.output, args.force)?),
    };
    block_on(async {
        let (endings, dumps) = (listen()?, Dumps::listen()?);
        let (stream, command) = start(&args, config).inspect_err(|_| place.discard())?;
        let sink = place.begin(compress)?;
        let recording = Recording {
            sink,
            endings,
            dumps,
            trigger: args.trigger,
            thresholds: args.thresholds.over(config.thresholds.0.clone()),
            clocks: Clocks::read(),
            footer: Footer { reason: "duration".to_owned(), ..Footer::default() },
        };
        recording.run(stream, &mut Progress::new(&args.output), command).await
    })
}

/// Where a recording goes that has not begun.
enum Place {
    Ready(Sink),
    /// It keeps what it held before until there is something to write.
    File(Output),
}

impl Place {
    fn discard(&self) {
        if let Self::File(output) = self {
            output.discard();
        }
    }

    fn begin(self, compress: bool) -> Result<Sink, Failure> {
        match self {
            Self::Ready(sink) => Ok(sink),
            Self::File(output) => {
                let writer = output.begin()?;
                Ok(Sink::One(if compress { writer.compressed() } else { writer }))
            }
        }
    }
}

/// Starts to measure, and has the command ready to run.
fn start(args: &Args, config: &Config) -> Result<(Stream, Option<Command>), Failure> {
    let command = args.attach_cmd.then(|| Command::prepare(&args.command)).transpose()?;
    Ok((args.measure.start(args.duration, &config.measure)?, command))
}

/// A recording that goes on.
struct Recording {
    sink: Sink,
    endings: Endings,
    dumps: Dumps,
    trigger: Trigger,
    thresholds: Thresholds,
    clocks: Clocks,
    footer: Footer,
}

impl Recording {
    async fn run(
        mut self,
        mut stream: Stream,
        progress: &mut Progress,
        command: Option<Command>,
    ) -> Result<ExitCode, Failure> {
        progress.started(&stream.session);
        let mut running = command.map(Command::start).transpose()?;
        let written = self.write_all(&mut stream, progress, &mut running).await;
        progress.ended(&self.footer);
        let code = match running {
            Some(running) => running.end().await?,
            None => ExitCode::SUCCESS,
        };
        match written {
            Err(error) if matches!(error.downcast_ref(), Some(WriteError::ReaderGone)) => Ok(code),
            other => other.map(|()| code),
        }
    }

    async fn write_all(
        &mut self,
        stream: &mut Stream,
        progress: &mut Progress,
        running: &mut Option<command::Running>,
    ) -> Result<(), Failure> {
        self.sink.begin(&stream.session)?;
        let mut failure = None;
        loop {
            let interval = tokio::select! {
                interval = stream.intervals.recv() => interval,
                () = self.endings.wait() => {
                    "interrupted".clone_into(&mut self.footer.reason);
                    stream.stop.stop();
                    continue;
                }
                () = self.dumps.wait() => {
                    self.dump(Cause::Signal, progress)?;
                    continue;
                }
                () = command::ended(running) => {
                    "the command ended".clone_into(&mut self.footer.reason);
                    stream.stop.stop();
                    continue;
                }
            };
            match interval {
                None => break,
                Some(Ok(interval)) => self.write(interval, progress)?,
                Some(Err(error)) => {
                    self.footer.reason = error.to_string();
                    failure = Some(error);
                }
            }
        }
        self.sink.end(&self.footer)?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn write(&mut self, interval: Interval, progress: &mut Progress) -> Result<(), Failure> {
        self.footer.intervals += 1;
        self.footer.lost.add(&interval.host.lost);
        let gap = self.clocks.gap(interval.start_ns.plus(interval.duration_ns));
        progress.interval(&interval, self.footer.intervals);
        let is_set_off = self.sink.is_ring() && self.trigger.is_set_off(&interval, &self.thresholds);
        self.sink.interval(interval)?;
        if let Some(gap) = gap {
            progress.gap(&gap);
            self.sink.gap(gap)?;
        }
        if is_set_off { self.dump(Cause::Threshold, progress) } else { Ok(()) }
    }

    fn dump(&mut self, why: Cause, progress: &Progress) -> Result<(), Failure> {
        if let Some(path) = self.sink.dump(why)? {
            progress.dumped(&path, why);
        }
        Ok(())
    }
}
