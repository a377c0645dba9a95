//! `lagstop diagnose`

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure, block_on,
    config::Config,
    listen,
    measure::{MeasureArgs, positive},
    say, terminal_options,
    thresholds::ThresholdArgs,
};
use crate::{
    diagnosis::Observations,
    plain::plain,
    report::{json, text},
    signals::Endings,
    source::Stream,
};

const EXAMPLES: &str = "\
Examples:
  lagstop diagnose
  lagstop diagnose --duration 5m --threshold overhead_warn=3% --format json

Measure while the host is as busy as when it hurts, and as quiet as it gets: the report compares the two.
docs/diagnose.md says how each verdict comes about. Ctrl-C ends the measurement early, and reports.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
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
    let observations = block_on(async {
        let mut endings = listen()?;
        let stream = args.measure.start(Some(args.duration), &config.measure)?;
        observe(stream, &mut endings, args.duration).await
    })?;
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
