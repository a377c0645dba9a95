//! `lagstop fleet`

use std::{
    env,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args as ClapArgs, ValueEnum};
use humantime::format_duration;

use super::{
    Failure,
    connection::ConnectionArgs,
    output::ResultArgs,
    progress::Progress,
    values::{positive, share, written},
};
use crate::{
    client::{Connection, Secret},
    fleet::{
        Analysis, AssumedEffect, Client, FleetSettings, Matcher, Selector, UTILISATION_LIMIT, Window, WindowError,
        gather,
    },
    report::{
        fleet::{FleetReport, json, text},
        html,
    },
};

const EXAMPLES: &str = "\
Examples:
  lagstop fleet --prometheus http://prometheus:9090
  lagstop fleet --prometheus https://thanos.example --token-file token --window 30d --format html
                                            A page with charts, to standard output
  lagstop fleet --prometheus http://mimir/prometheus --header X-Scope-OrgID:a --match cluster=b
  lagstop fleet --prometheus http://prometheus:9090 --p99 20ms --max-utilisation 60%
                                            Number of nodes for these limits on waits and utilisation
  lagstop fleet --prometheus http://prometheus:9090 --format json | jq '.nodes[] | select(.overhead > 0.1).node'

The nodes must run `lagstop serve` and be scraped. Recording rules on the server make the queries faster.
docs/fleet.md explains each metric, docs/scale.md the cost of the queries.
The token can also be set in LAGSTOP_PROMETHEUS_TOKEN.";

/// Environment variable that may hold the token, instead of a file.
const TOKEN: &str = "LAGSTOP_PROMETHEUS_TOKEN";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// URL of Prometheus, or of a server with its HTTP API: Thanos, Mimir, VictoriaMetrics
    #[arg(long, value_name = "URL")]
    prometheus: String,

    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = positive)]
    window: Duration,

    /// End of the window in UTC, e.g. 2026-11-21T12:30:00Z [default: the last whole step]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<u64>,

    #[arg(long, value_name = "TIME", value_parser = positive, help = format!(
        "Length of a step; each node gives one point of the curves per step [default: {}, or 1/{} of a shorter --window]",
        format_duration(Duration::from_secs(Window::LONGEST_STEP)), Window::SHORT_STEPS,
    ))]
    step: Option<Duration>,

    /// Use only series with this label, e.g. cluster=prod or instance=~web-.+ (repeatable)
    #[arg(long = "match", value_name = "LABEL=VALUE", value_parser = Matcher::parse)]
    matchers: Vec<Matcher>,

    /// Query the exporter's own series even if recording rules exist, e.g. to verify the rules
    #[arg(long)]
    raw: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: ResultArgs,

    /// List at most this many nodes and workloads; JSON has all
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,

    /// Upper limit of the p99 run-queue wait [default: its value in the busiest steps]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    p99: Option<Duration>,

    #[arg(long, value_name = "SHARE", value_parser = share, help = format!(
        "Upper limit of CPU utilisation [default: {}, or its value in the busiest steps]", written(UTILISATION_LIMIT),
    ))]
    max_utilisation: Option<f64>,

    /// Assume that LAGS saves this share of the overhead (not measured); half of it is shown, too
    #[arg(long, value_name = "SHARE", default_value = "46%", value_parser = share)]
    lags_overhead: f64,

    /// Assume that LAGS saves this share of the p99 run-queue wait (not measured); half of it is shown, too
    #[arg(long, value_name = "SHARE", default_value = "75%", value_parser = share)]
    lags_wait: f64,

    /// How many times to resample nodes and blocks of steps, for the confidence intervals
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().draws, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    resamples: u32,

    /// Seed of the random draws; the same seed gives the same result
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().seed)]
    seed: u64,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// How long to wait for an answer from the server
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = positive)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A report for a terminal
    Text,
    /// One JSON document
    Json,
    /// A page with charts, for a browser
    Html,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let window = args.window()?;
    let output = args.output.open()?;
    let selector = Selector(args.matchers.clone());
    let mut client = Client::new(&args.connection()?, args.timeout)?;
    let mut progress = Progress::new("asking");
    let gathered = gather(&mut client, window, &selector, args.raw, &mut |done, all| progress.step(done, all))?;
    drop(progress);
    let settings = FleetSettings {
        wait_limit: args.p99.map(|wait| wait.as_secs_f64()),
        utilisation_limit: args.max_utilisation,
        prediction: AssumedEffect { overhead: args.lags_overhead, wait: args.lags_wait },
        draws: args.resamples,
        seed: args.seed,
    };
    let analysis = Analysis::new(&gathered, &settings);
    let report = FleetReport { server: client.url(), gathered: &gathered, analysis: &analysis, settings: &settings };
    let written = match args.format {
        Format::Text => text(&report, args.rows, output.options()),
        Format::Json => json(&report)?,
        Format::Html => html::render_fleet(&report),
    };
    output.write(&written)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn window(&self) -> Result<Window, WindowError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let window = Window::new(self.at.unwrap_or(now), self.window, self.step)?;
        // Whole steps are the same for every query, so servers can use cached answers.
        let end = self.at.unwrap_or(now / window.step * window.step);
        Ok(Window { end, ..window })
    }

    fn connection(&self) -> Result<Connection, Failure> {
        let mut connection = self.connection.to(&self.prometheus)?;
        if connection.secret.is_none() {
            let token = env::var(TOKEN).ok().map(|token| token.trim().to_owned());
            connection.secret = token.filter(|token| !token.is_empty()).map(Secret::Token);
        }
        Ok(connection)
    }
}

/// A point in time, in seconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map(|since| since.as_secs()).ok_or_else(|| "write a time in UTC, e.g. 2026-11-21T12:30:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const DOCS: &str = include_str!("../../../docs/fleet.md");

    #[test]
    fn what_can_be_chosen_is_documented() {
        let command = super::super::Cli::command();
        let command = command.find_subcommand("fleet").unwrap();
        for argument in command.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(DOCS.contains(&format!("--{argument}")) || argument == "config", "{argument}");
        }
        let defaults = AssumedEffect::default();
        assert!(DOCS.contains(&format!("o | {:.0} %", defaults.overhead * 100.0)));
        assert!(DOCS.contains(&format!("w | {:.0} %", defaults.wait * 100.0)));
        let given = |name: &str| {
            let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name)).unwrap();
            share(argument.get_default_values()[0].to_str().unwrap()).unwrap()
        };
        assert_eq!((given("lags-overhead"), given("lags-wait")), (defaults.overhead, defaults.wait));
    }

    #[test]
    fn what_is_chosen_is_checked() {
        assert_eq!(["0.8", "80 %", "0", "100%"].map(share), [Ok(0.8), Ok(0.8), Ok(0.0), Ok(1.0)]);
        for text in ["80", "-1%", "NaN", "inf", "", "much"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(1_700_000_000));
        assert!(moment("noon").is_err() && moment("1960-01-01T00:00:00Z").is_err());
    }
}
