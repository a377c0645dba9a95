//! `lagstop diff`

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{Failure, output::ResultArgs, say, values::part};
use crate::{
    diff::{DiffSettings, DiffSide, compare},
    display::display_name,
    recording::Reader,
    report::{diff::json, diff::text},
};

const EXAMPLES: &str = "\
Examples:
  lagstop record --duration 2m --output before.jsonl
  lagstop record --duration 2m --output after.jsonl     After a change of the host
  lagstop diff before.jsonl after.jsonl
  lagstop diff --format json before.jsonl after.jsonl | jq '.cgroups[] | select(.changes[].verdict == \"worse\").name'
  lagstop diff --fail-on worse before.jsonl after.jsonl

Record the same load for a minute or more each time. Longer recordings reveal smaller changes.
docs/diff.md explains the method and the verdicts.
Exit code: 0; with --fail-on worse, 3 if anything on the host or in a cgroup got significantly worse.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recording made before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// Recording made after the change
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: ResultArgs,

    #[arg(long, alias = "cgroups", value_name = "NUMBER", help = format!("List at most this many cgroups, largest change first [default: {SHOWN}; all in JSON]"))]
    rows: Option<usize>,

    /// List all cgroups
    #[arg(long, conflicts_with = "rows")]
    all: bool,

    /// Confidence level of the intervals
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    confidence: f64,

    /// How many times to resample each recording; more make the confidence intervals slightly more precise
    #[arg(long, value_name = "NUMBER", default_value_t = DiffSettings::default().resamples, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    resamples: u32,

    /// Seed of the random draws; the same seed gives the same result
    #[arg(long, value_name = "NUMBER", default_value_t = DiffSettings::default().seed)]
    seed: u64,

    /// Exit with code 3 on this result
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for a terminal
    Text,
    /// One JSON document
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Anything on the host or in a cgroup got significantly worse
    Worse,
}

/// Exit code: what --fail-on names has happened.
const FAILED: u8 = 3;
/// Cgroups that people are shown by default.
const SHOWN: usize = 10;

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let output = args.output.open()?;
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let settings = DiffSettings { confidence: args.confidence, resamples: args.resamples, seed: args.seed };
    let mut comparison = compare(&before, &after, &settings);
    let most = args.rows.or_else(|| (args.format == Format::Text && !args.all).then_some(SHOWN));
    if let Some(most) = most {
        comparison.keep(most);
    }
    let written = match args.format {
        Format::Text => text::render(&comparison, output.options()),
        Format::Json => json::render(&comparison)?,
    };
    output.write(&written)?;
    Ok(match args.fail_on {
        Some(FailOn::Worse) if comparison.is_worse() => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    })
}

/// Reads a recording, an interval at a time.
fn read(path: &Path) -> Result<DiffSide, Failure> {
    /// Steps of the progress. More would only take time.
    const STEPS: usize = 100;
    let mut reader = Reader::open(path)?;
    let count = reader.len();
    let is_whole = reader.footer().is_some() && !reader.is_cut();
    let mut side = DiffSide::new(reader.session().clone(), count, is_whole);
    let progress = io::stderr().is_terminal();
    for n in 0..count {
        if progress && n % (count / STEPS).max(1) == 0 {
            let name = path.to_string_lossy();
            say(format_args!("\r\x1b[Kreading {}: {} %", display_name(&name), n * 100 / count));
        }
        let interval = reader.interval(n);
        if progress && (n + 1 == count || interval.is_err()) {
            say(format_args!("\r\x1b[K"));
        }
        side.add(&interval?);
    }
    Ok(side)
}

/// A share between 0.5 and 1, as in 0.95 or 95%.
fn confidence(text: &str) -> Result<f64, String> {
    const LEAST: f64 = 0.5;
    const MOST: f64 = 0.999;
    part(text)
        .filter(|share| (LEAST..=MOST).contains(share))
        .ok_or_else(|| format!("the share must be from {LEAST} to {MOST}, e.g. 0.95 or 95%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_are_shares() {
        assert_eq!(["0.95", "99 %", "50%"].map(confidence), [Ok(0.95), Ok(0.99), Ok(0.5)]);
        for text in ["1", "95", "0", "-0.9", "NaN", "inf", "sure", ""] {
            assert!(confidence(text).is_err(), "{text}");
        }
    }
}
