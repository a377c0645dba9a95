//! `lagstop diagnose`

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure, block_on,
    config::Config,
    listen,
    measure::{MeasureArgs, positive},
    progress::Progress,
    say, terminal_options,
    thresholds::ThresholdArgs,
};
use crate::{
    diagnosis::Observations,
    plain::plain,
    recording::{ReadError, Reader},
    report::{json, text},
    signals::Endings,
    source::Stream,
};

const EXAMPLES: &str = "\
Examples:
  lagstop diagnose
  lagstop diagnose --duration 5m --threshold overhead_warn=3% --format json
  lagstop diagnose host.jsonl.zst           What a recording says, without measuring

Measure while the host is as busy as when it hurts, and as quiet as it gets: the report compares the two.
docs/diagnose.md says how each verdict comes about. Ctrl-C ends the measurement early, and reports.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A recording to read instead of measuring
    #[arg(value_name = "FILE", conflicts_with_all = ["duration", "interval", "group_by", "max_cgroups", "load_credit_time", "hooks", "light", "btf"])]
    files: Vec<PathBuf>,

    /// Read every interval of a recording, however long it is, and not up to sixty of a long one as one
    #[arg(long, requires = "files")]
    full: bool,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive)]
    duration: Duration,

    /// For people or for programs
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A report to read
    Text,
    /// One JSON document
    Json,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let observations = match &args.files[..] {
        [] => block_on(async {
            let mut endings = listen()?;
            let stream = args.measure.start(Some(args.duration), &config.measure)?;
            observe(stream, &mut endings, args.duration).await
        })?,
        [file] => read(file, args.full)?,
        _ => {
            return Err("diagnose reads one recording at a time. Name one; those of one boot of one host can be made \
                        one with lagstop merge"
                .into());
        }
    };
    let report = observations.diagnose(&args.thresholds.over(config.thresholds.0.clone()));
    let written = match args.format {
        Format::Text => text::render(&report, terminal_options()),
        Format::Json => json::render(&report)?,
    };
    match io::stdout().write_all(written.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| {
            format!("the report cannot be written: {}. Send it to where there is room", plain(&error)).into()
        }),
    }
}

/// Cgroups in all intervals, from which on a recording is not read one by one where they are written as longer ones,
/// too: it takes some seconds.
const MANY: usize = 1_000_000;

/// Reads a recording: by the intervals that its chunks are written as, where it is long and is not to be read in `full`.
fn read(file: &Path, full: bool) -> Result<Observations, Failure> {
    let mut reader = Reader::open(file)?;
    let mut observations = Observations::new(reader.session().clone());
    let mut progress = Progress::new("reading");
    let (intervals, parts) = (reader.len(), reader.parts());
    if !full && is_long(&mut reader)? {
        say(format_args!(
            "reading {intervals} intervals as {parts} merged ones, for there are many; --full reads them one by one\n"
        ));
        for part in 0..parts {
            observations.add(&reader.merged(part)?);
            progress.step(part + 1, parts);
        }
    } else {
        for n in 0..intervals {
            observations.add(&reader.interval(n)?);
            progress.step(n + 1, intervals);
        }
    }
    Ok(observations)
}

/// Are there many cgroups in many intervals, going by the one in the middle; and is there a shorter way?
fn is_long(reader: &mut Reader) -> Result<bool, ReadError> {
    if !reader.is_compressed() || reader.is_empty() {
        return Ok(false);
    }
    let middle = reader.interval(reader.len() / 2)?;
    Ok(middle.cgroups.len().saturating_mul(reader.len()) > MANY)
}

/// Measures until the time is up, or somebody ends it.
async fn observe(mut stream: Stream, endings: &mut Endings, duration: Duration) -> Result<Observations, Failure> {
    let mut observations = Observations::new(stream.session.clone());
    let progress = io::stderr().is_terminal();
    loop {
        let interval = tokio::select! {
            interval = stream.intervals.recv() => interval,
            () = endings.wait() => {
                stream.stop.stop();
                continue;
            }
        };
        let Some(interval) = interval else { break };
        let interval = interval?;
        observations.add(&interval);
        if progress {
            let done = (interval.start_ns + interval.duration_ns).seconds();
            let all = duration.as_secs_f64();
            say(format_args!("\r\x1b[Kmeasuring: {done:.0} s of {all:.0} s (Ctrl-C reports now)"));
        }
    }
    if progress {
        say(format_args!("\r\x1b[K"));
    }
    Ok(observations)
}
