//! `lagstop diagnose`

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure, block_on, listen,
    measure::{MeasureArgs, positive},
    say, terminal_options,
};
use crate::{
    diagnosis::{Observations, Thresholds},
    model::Nanos,
    plain::plain,
    report::{json, text},
    signals::Endings,
    source::Stream,
};

const EXAMPLES: &str = "\
Examples:
  lagstop diagnose
  lagstop diagnose --duration 5m --overhead-warn 3 --format json

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
    limits: Limits,

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

/// What figures are held against; what is not given is as in docs/diagnose.md.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Thresholds")]
struct Limits {
    /// Overhead worth a warning, per cent of all CPU time [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    overhead_warn: Option<f64>,

    /// Overhead that is critical, per cent of all CPU time [default: 10]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    overhead_critical: Option<f64>,

    /// Mean cost of a switch worth a warning [default: 10us]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    switch_cost_warn: Option<Duration>,

    /// Mean cost of a switch that is critical [default: 20us]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    switch_cost_critical: Option<Duration>,
}

impl Limits {
    fn thresholds(&self) -> Thresholds {
        let nanos = |time: Option<Duration>, default: Nanos| {
            time.map_or(default, |time| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
        };
        let default = Thresholds::default();
        Thresholds {
            overhead_warn: self.overhead_warn.unwrap_or(default.overhead_warn),
            overhead_critical: self.overhead_critical.unwrap_or(default.overhead_critical),
            mean_switch_cost_warn: nanos(self.switch_cost_warn, default.mean_switch_cost_warn),
            mean_switch_cost_critical: nanos(self.switch_cost_critical, default.mean_switch_cost_critical),
            ..default
        }
    }
}

/// A share, from per cent.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("it must be a number above 0 and up to 100".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let observations = block_on(async {
        let mut endings = listen()?;
        let stream = args.measure.start(Some(args.duration))?;
        observe(stream, &mut endings, args.duration).await
    })?;
    let report = observations.diagnose(&args.limits.thresholds());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_become_shares() {
        assert_eq!(percent("5"), Ok(0.05));
        assert_eq!(percent("12.5 %"), Ok(0.125));
        for wrong in ["0", "-1", "101", "NaN", "inf", "x", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
