//! `lagstop record`

use std::{
    fs::{self, File},
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use clap::Args as ClapArgs;

use super::{
    Failure, block_on,
    config::Config,
    listen,
    measure::{MeasureArgs, positive},
    say,
};
use crate::{
    model::{Interval, Session},
    plain::plain,
    recording::{Footer, Line, SCHEMA, WriteError, Writer},
    signals::Endings,
    source::Stream,
};

const EXAMPLES: &str = "\
Examples:
  lagstop record --duration 30s --output host.jsonl
  lagstop record --interval 100ms --duration 5s | jq '.cgroups[]? | {name, pick_ns, swap_ns}'

docs/recording.md defines every field. Ctrl-C ends a recording: it is whole.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to record; until Ctrl-C if not given
    #[arg(long, value_name = "TIME", value_parser = positive)]
    duration: Option<Duration>,

    /// Where to: a file, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

pub(super) fn run(args: Args, config: &Config) -> Result<(), Failure> {
    let output = Output::open(&args.output, args.force)?;
    block_on(async move {
        let endings = listen()?;
        let stream = args.measure.start(args.duration, &config.measure).inspect_err(|_| output.discard())?;
        record(stream, output.begin()?, endings, &mut Progress::new(&args.output)).await
    })
}

/// Where a recording goes. Opened before anything is measured, so that nothing is measured in vain; what it held before
/// stays until there is something to write.
enum Output {
    Stdout,
    File { file: File, path: PathBuf, is_new: bool },
}

impl Output {
    fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let shown = path.display();
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(|before| before.is_file() && before.len() > 0) && !force {
            return Err(format!("{shown} exists already: name another file, or overwrite it with --force").into());
        }
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => "its directory has to exist",
                io::ErrorKind::IsADirectory => "name a file in it",
                _ => "name a file that you may write to",
            };
            format!("{shown} cannot be written: {}: {remedy}", plain(&error))
        })?;
        Ok(Self::File { file, path: path.to_owned(), is_new: before.is_none() })
    }

    /// Leaves nothing behind that was not there before.
    fn discard(&self) {
        if let Self::File { path, is_new: true, .. } = self {
            let _ = fs::remove_file(path);
        }
    }

    /// Empties it. Of no use for what is no regular file.
    fn begin(self) -> Result<Writer, Failure> {
        match self {
            Self::Stdout => Ok(Writer::to_stdout()),
            Self::File { file, path, .. } => {
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    file.set_len(0)
                        .map_err(|error| format!("{} cannot be overwritten: {}", path.display(), plain(&error)))?;
                }
                Ok(Writer::to_file(file))
            }
        }
    }
}

async fn record(
    mut stream: Stream,
    mut writer: Writer,
    mut endings: Endings,
    progress: &mut Progress,
) -> Result<(), Failure> {
    progress.started(&stream.session);
    let mut footer = Footer { reason: "duration".to_owned(), ..Footer::default() };
    let written = write_all(&mut stream, &mut writer, &mut endings, &mut footer, progress).await;
    progress.ended(&footer);
    match written {
        Err(error) if matches!(error.downcast_ref(), Some(WriteError::ReaderGone)) => Ok(()),
        other => other,
    }
}

async fn write_all(
    stream: &mut Stream,
    writer: &mut Writer,
    endings: &mut Endings,
    footer: &mut Footer,
    progress: &mut Progress,
) -> Result<(), Failure> {
    writer.write(&Line::Header { schema: SCHEMA, session: stream.session.clone() })?;
    let mut failure = None;
    loop {
        let interval = tokio::select! {
            interval = stream.intervals.recv() => interval,
            () = endings.wait() => {
                footer.reason = "interrupted".to_owned();
                stream.stop.stop();
                continue;
            }
        };
        match interval {
            None => break,
            Some(Ok(interval)) => {
                footer.intervals += 1;
                footer.lost.add(&interval.host.lost);
                progress.interval(&interval, footer.intervals);
                writer.write(&Line::Interval(Box::new(interval)))?;
            }
            Some(Err(error)) => {
                footer.reason = error.to_string();
                failure = Some(error);
            }
        }
    }
    footer.ended_at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    writer.write(&Line::Footer(footer.clone()))?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// What the person at the terminal sees while it goes on.
struct Progress {
    output: String,
    /// Only a terminal gets more than a line at the beginning.
    live: bool,
}

impl Progress {
    fn new(output: &Path) -> Self {
        let to_terminal = output == Path::new("-") && io::stdout().is_terminal();
        let output = if output == Path::new("-") { "standard output".to_owned() } else { output.display().to_string() };
        Self { output, live: io::stderr().is_terminal() && !to_terminal }
    }

    fn started(&self, session: &Session) {
        let missing: Vec<&str> = session.missing_hooks().map(|hook| hook.measures.as_str()).collect();
        let missing = match missing.join("; ") {
            none if none.is_empty() => none,
            some => format!("; not measured: {some}"),
        };
        say(format_args!("recording to {} (Ctrl-C ends){missing}\n", self.output));
    }

    fn interval(&self, interval: &Interval, count: u64) {
        if self.live {
            let overhead = interval.host.overhead().map_or("n/a".to_owned(), |share| format!("{:.2} %", share * 100.0));
            let cgroups = interval.cgroups.len();
            say(format_args!("\r\x1b[K{count} intervals, {cgroups} cgroups, overhead {overhead}"));
        }
    }

    fn ended(&self, footer: &Footer) {
        if self.live {
            say(format_args!("\r\x1b[K{} intervals in {}\n", footer.intervals, self.output));
        }
    }
}
