//! `lagstop record`

use std::{
    fs::{self, File},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use clap::Args as ClapArgs;

use super::{
    Failure, block_on,
    measure::{MeasureArgs, positive},
};
use crate::{
    model::Interval,
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
    measure: MeasureArgs,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let writer = open(&args.output, args.force)?;
    block_on(async move {
        let endings = Endings::listen()?;
        let stream = args.measure.start(args.duration)?;
        record(stream, writer, endings, &mut Progress::new(&args.output)).await
    })
}

/// Opens the output before anything is measured, so that nothing is measured in vain.
fn open(output: &Path, force: bool) -> Result<Writer, Failure> {
    if output == Path::new("-") {
        return Ok(Writer::to_stdout());
    }
    let shown = output.display();
    let is_recording = fs::metadata(output).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if is_recording && !force {
        return Err(format!("{shown} exists already: name another file, or overwrite it with --force").into());
    }
    let file = File::create(output).map_err(|error| {
        format!("{shown} cannot be written: {error}. Name a file in a directory that you may write to")
    })?;
    Ok(Writer::to_file(file))
}

async fn record(
    mut stream: Stream,
    mut writer: Writer,
    mut endings: Endings,
    progress: &mut Progress,
) -> Result<(), Failure> {
    progress.started();
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

    fn started(&self) {
        eprintln!("recording to {} (Ctrl-C ends)", self.output);
    }

    fn interval(&self, interval: &Interval, count: u64) {
        if self.live {
            let overhead = interval.host.overhead().map_or("n/a".to_owned(), |share| format!("{:.2} %", share * 100.0));
            eprint!("\r\x1b[K{count} intervals, {} cgroups, overhead {overhead}", interval.cgroups.len());
            let _ = io::stderr().flush();
        }
    }

    fn ended(&self, footer: &Footer) {
        if self.live {
            eprintln!("\r\x1b[K{} intervals in {}", footer.intervals, self.output);
        }
    }
}
