//! `lagstop fleet`

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args as ClapArgs, ValueEnum};
use thiserror::Error;

use super::{
    Failure,
    headers::{header, headers_in},
    print,
    progress::Progress,
    say, terminal_options,
    values::{part, positive},
};
use crate::{
    display::plain,
    fleet::{
        Analysis, Client, Connection, FleetSettings, Matcher, Prediction, Selector, TlsFiles, Window, WindowError,
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
                                            A page with pictures, to standard output
  lagstop fleet --prometheus http://mimir/prometheus --header X-Scope-OrgID:a --match cluster=b
  lagstop fleet --prometheus http://prometheus:9090 --p99 20ms --max-utilisation 60%
                                            How many nodes if waits may be so long, and CPUs so full
  lagstop fleet --prometheus http://prometheus:9090 --format json | jq '.nodes[] | select(.overhead > 0.1).node'

The nodes run `lagstop serve` and are scraped. With the recording rules the server has what is asked for already; without
them it computes it, which takes it longer. docs/fleet.md says how each figure comes about, docs/scale.md what it costs.
The token can be in LAGSTOP_PROMETHEUS_TOKEN as well.";

/// Where a token may be, beside a file.
const TOKEN: &str = "LAGSTOP_PROMETHEUS_TOKEN";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The server, or what has its HTTP API: Thanos, Mimir, VictoriaMetrics
    #[arg(long, value_name = "URL")]
    prometheus: String,

    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = positive)]
    window: Duration,

    /// Where the window ends, in UTC as in 2026-11-21T12:30:00Z [default: the last whole step]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<u64>,

    /// Length of a step: a node in a step is a point of the curves [default: 1h; a 24th of less than a day]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    step: Option<Duration>,

    /// Only series with this label, as in cluster=prod or instance=~web-.+
    #[arg(long = "match", value_name = "LABEL=VALUE", value_parser = Matcher::parse)]
    matchers: Vec<Matcher>,

    /// Ask for the exporter's own series, even where recording rules have written others: to hold the rules against them
    #[arg(long)]
    raw: bool,

    /// How to write the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// List this many nodes and workloads; JSON has all
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,

    /// How long the p99 run-queue wait may get [default: as long as it is in the busiest steps]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    p99: Option<Duration>,

    /// How full CPUs may get [default: 80%, or as full as they are in the busiest steps]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_utilisation: Option<f64>,

    /// Assume that LAGS spares this part of the overhead (not measured); half of it is shown, too
    #[arg(long, value_name = "SHARE", default_value = "46%", value_parser = share)]
    lags_overhead: f64,

    /// Assume that LAGS spares this part of the p99 run-queue wait (not measured); half of it is shown, too
    #[arg(long, value_name = "SHARE", default_value = "75%", value_parser = share)]
    lags_wait: f64,

    /// How many times to resample nodes and blocks of steps, for the confidence intervals
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().draws, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    resamples: u32,

    /// What the draws begin with: the same one gives the same answer
    #[arg(long, value_name = "NUMBER", default_value_t = FleetSettings::default().seed)]
    seed: u64,

    /// A file with the token to show to the server
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A header for the server, as in X-Scope-OrgID:team
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,

    /// Read headers for the server from this file, one per line as NAME: VALUE
    #[arg(long, value_name = "FILE")]
    header_file: Option<PathBuf>,

    /// CA certificates to verify the server, in PEM [default: those that this host trusts]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// A certificate to show to the server, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// Trust any certificate, and send tokens and passwords unencrypted
    #[arg(long)]
    insecure: bool,

    /// How long the server may take for an answer
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = positive)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A report to read in a terminal
    Text,
    /// One JSON document
    Json,
    /// One page for a browser, with pictures
    Html,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let window = args.window()?;
    let selector = Selector(args.matchers.clone());
    if args.insecure {
        say(format_args!("lagstop: --insecure: whoever answers is trusted\n"));
    }
    let mut client = Client::new(&args.connection()?)?;
    let mut progress = Progress::new("asking");
    let gathered = gather(&mut client, window, &selector, args.raw, &mut |done, all| progress.step(done, all))?;
    drop(progress);
    let settings = FleetSettings {
        wait_limit: args.p99.map(|wait| wait.as_secs_f64()),
        utilisation_limit: args.max_utilisation,
        prediction: Prediction { overhead: args.lags_overhead, wait: args.lags_wait },
        draws: args.resamples,
        seed: args.seed,
    };
    let analysis = Analysis::new(&gathered, &settings);
    let report = FleetReport { server: client.url(), gathered: &gathered, analysis: &analysis, settings: &settings };
    let written = match args.format {
        Format::Text => text(&report, args.rows, terminal_options()),
        Format::Json => json(&report)?,
        Format::Html => html::render_fleet(&report),
    };
    Ok(print(&written))
}

impl Args {
    fn window(&self) -> Result<Window, WindowError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let window = Window::new(self.at.unwrap_or(now), self.window, self.step)?;
        // Whole steps are the same for everybody who asks: servers keep their answers.
        let end = self.at.unwrap_or(now / window.step * window.step);
        Ok(Window { end, ..window })
    }

    fn connection(&self) -> Result<Connection, Failure> {
        let token = match &self.token_file {
            Some(path) => Some(token(path)?),
            None => env::var(TOKEN).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
        };
        let in_file = self.header_file.as_deref().map_or(Ok(Vec::new()), headers_in)?;
        Ok(Connection {
            url: self.prometheus.clone(),
            token,
            headers: [self.headers.clone(), in_file].concat(),
            tls: TlsFiles { ca: self.ca_file.clone(), client: self.client_cert.clone().zip(self.client_key.clone()) },
            insecure: self.insecure,
            timeout: self.timeout,
        })
    }
}

/// Why there is no token.
#[derive(Debug, Error)]
enum TokenError {
    #[error("the token in {} cannot be read: {}", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("there is no token in {}", .0.display())]
    Empty(PathBuf),
}

fn token(path: &Path) -> Result<String, TokenError> {
    let text = fs::read_to_string(path).map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
    let token = text.trim();
    if token.is_empty() { Err(TokenError::Empty(path.to_owned())) } else { Ok(token.to_owned()) }
}

/// A point in time, in seconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map(|since| since.as_secs()).ok_or_else(|| "write it as 2026-11-21T12:30:00Z, in UTC".to_owned())
}

/// Between none and all, as in 0.8 or 80%.
fn share(text: &str) -> Result<f64, String> {
    part(text)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "it must be 0 to 1, as in 0.8 or 80%".to_owned())
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
        let defaults = Prediction::default();
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
