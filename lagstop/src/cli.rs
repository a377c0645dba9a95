//! The command line: one file a subcommand.

mod bench;
mod check;
mod command;
mod config;
mod connect;
mod connection;
mod cut;
mod diagnose;
mod diff;
mod export;
mod fleet;
mod headers;
mod hooks;
mod mcp;
mod measure;
mod merge;
mod opened;
mod output;
mod policy;
mod progress;
mod record;
mod renamed;
mod run;
mod schedule;
mod sentinel;
mod serve;
mod show;
mod thresholds;
mod top;
mod trial;
mod unprivileged;
mod values;
mod when;
#[cfg(test)]
mod words;

use std::{
    error::Error,
    fmt,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[doc(hidden)]
pub use config::{ConfigError, check_config};

use command::keeper;
use config::Config;
use unprivileged::Files;

use crate::{display::plain, display::short_name, report::text::PageOptions, signals::Endings};

const ABOUT: &str =
    "Measures the cost of the scheduler itself on densely packed Linux hosts, per cgroup, and recommends remedies";

const EXAMPLES: &str = "\
Examples:
  lagstop top                          Live view: cost of switches and waits per cgroup
  lagstop diagnose --duration 1m       Report on costs, waits and remedies
  lagstop record --duration 30s --output host.jsonl
                                       Record 30 seconds to a file
  lagstop run -- cargo bench           Whether other work disturbed a command
  lagstop record | jq .host.switches   Intervals for a script
  lagstop serve                        Metrics for Prometheus, on 127.0.0.1:9185
  lagstop diff before.jsonl after.jsonl
                                       Compare two recordings
  lagstop fleet --prometheus http://prometheus:9090
                                       Scheduling cost of all nodes of a Prometheus server
  lagstop check                        Report missing kernel features and privileges
  lagstop show host.jsonl              Describe a recording
  lagstop mcp host.jsonl               Answer an AI assistant about it

Measuring needs root, or CAP_BPF and CAP_PERFMON. Without them only `lagstop top` and `lagstop run` work, and tell less: they \
read /proc and cgroup files.";

#[derive(Debug, Parser)]
#[command(name = "lagstop", version, about = ABOUT, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Read the configuration from FILE [default: ~/.config/lagstop/config.toml]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show switches, their cost and waits of every cgroup, live
    Top(top::Args),
    /// Record switches, their cost and waits of every cgroup, as one JSON line per interval
    Record(record::Args),
    /// Run a command, and report whether other work on the host disturbed it
    Run(run::Args),
    /// Serve switches, their cost and waits of every cgroup as metrics for Prometheus
    Serve(serve::Args),
    /// Measure, then report the cost of scheduling, its causes, and the waits of each cgroup
    Diagnose(diagnose::Args),
    /// Report the cost of scheduling on all nodes of a Prometheus server, and estimate how few nodes suffice
    Fleet(fleet::Args),
    /// Compare two recordings and test each change for statistical significance
    Diff(diff::Args),
    /// Run functions under load, each in its own cgroup, and measure the scheduler's cost (CFS-LAGS paper, §3.1)
    Bench(bench::Args),
    /// Apply a recommendation for a while, measure its effect, and undo it
    Trial(trial::Args),
    /// Schedule this host by LAGS until Ctrl-C: cgroups that used little CPU time lately run first (CFS-LAGS paper, §4)
    Schedule(schedule::Args),
    /// Report what this kernel and these privileges support, and how to enable the rest
    Check(check::Args),
    /// Describe the contents of a recording
    Show(show::Args),
    /// Extract a time range or some cgroups from a recording; compress or decompress it
    Cut(cut::Args),
    /// Merge several recordings into one, or shorter intervals into longer ones
    Merge(merge::Args),
    /// Convert a recording to a table, for notebooks, databases and spreadsheets
    Export(export::Args),
    /// Answer AI assistants about a host or recordings, by the Model Context Protocol
    Mcp(mcp::Args),
    /// Run a command in its own cgroup, on a signal from the recorder, and clean up after it
    #[command(name = keeper::KEEP, hide = true)]
    Keep(keeper::Args),
    /// Undo the changes of a trial that has died or hangs
    #[command(name = crate::trial::watchdog::WATCHDOG, hide = true)]
    Watchdog(trial::WatchdogArgs),
    /// Serve the requests of a benchmark
    #[command(name = crate::bench::FUNCTION, hide = true)]
    Function,
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let given = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&given) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut Cli::command()).exit(),
    };
    for hint in given.subcommand_name().into_iter().flat_map(|command| renamed::hints(command, std::env::args_os())) {
        say(format_args!("lagstop: {hint}\n"));
    }
    if let Some(list) = cli.command.list() {
        return print(&list);
    }
    match cli.run(Files::of(&Cli::command(), &given)) {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("lagstop: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The command line as manuals and shells see it: without the hidden subcommands, with which lagstop starts itself.
pub fn command() -> clap::Command {
    let whole = Cli::command();
    let shown: Vec<_> = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    // clap cannot remove a subcommand from a command, so the others are copied.
    clap::Command::new("lagstop")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .args(whole.get_arguments().cloned())
        .subcommands(shown)
        .subcommand_required(true)
        .arg_required_else_help(true)
}

impl Cli {
    /// `files` are the files that the command reads, if reading files is all that it does.
    fn run(self, files: Option<Files>) -> Result<ExitCode, Failure> {
        // The configuration is loaded late, so that a broken file does not stop commands that need no settings.
        let config = || Config::load(self.config.as_deref());
        let confine = || files.as_ref().map_or(Ok(()), Files::give_up_the_rest);
        if matches!(
            self.command,
            Command::Top(_) | Command::Record(_) | Command::Run(_) | Command::Serve(_) | Command::Check(_)
        ) {
            trial::say_left();
        }
        match self.command {
            Command::Top(args) => top::run(&args, &config()?).map(|()| ExitCode::SUCCESS),
            Command::Record(args) => record::run(args, &config()?),
            Command::Run(args) => Ok(run::run(&args, config)),
            Command::Serve(args) => serve::run(&args, &config()?).map(|()| ExitCode::SUCCESS),
            Command::Diagnose(args) => confine().and_then(|()| diagnose::run(&args, &config()?)),
            Command::Fleet(args) => confine().and_then(|()| fleet::run(&args)),
            Command::Diff(args) => confine().and_then(|()| diff::run(&args)),
            Command::Check(args) => check::run(&args),
            Command::Show(args) => confine().and_then(|()| show::run(&args)),
            Command::Cut(args) => confine().and_then(|()| cut::run(&args)),
            Command::Merge(args) => confine().and_then(|()| merge::run(&args)),
            Command::Export(args) => confine().and_then(|()| export::run(&args)),
            Command::Mcp(args) => confine().and_then(|()| mcp::run(&args, &config()?)),
            Command::Keep(args) => keeper::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Trial(args) => trial::run(&args),
            Command::Schedule(args) => schedule::run(&args),
            Command::Watchdog(args) => trial::watch(&args),
            Command::Function => Ok(crate::bench::function::serve().map(|()| ExitCode::SUCCESS)?),
        }
    }
}

impl Command {
    /// The list that was asked for instead of a measurement.
    fn list(&self) -> Option<String> {
        match self {
            Self::Top(args) => args.measure.list(),
            Self::Record(args) => args.measure.list(),
            Self::Run(args) => args.measure.list(),
            Self::Serve(args) => args.measure.list(),
            Self::Diagnose(args) => args.measure.list(),
            Self::Mcp(args) => args.measure.list(),
            Self::Check(args) => args.hooks.list(),
            Self::Fleet(_)
            | Self::Diff(_)
            | Self::Show(_)
            | Self::Cut(_)
            | Self::Merge(_)
            | Self::Export(_)
            | Self::Keep(_)
            | Self::Bench(_)
            | Self::Trial(_)
            | Self::Schedule(_)
            | Self::Watchdog(_)
            | Self::Function => None,
        }
    }
}

/// Writes to standard output. If a reader closes it early, that is no error.
fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(format_args!("lagstop: cannot write to standard output: {}\n", plain(&error)));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn terminal_options() -> PageOptions {
    let stdout = io::stdout();
    let default = PageOptions::default();
    let columns = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
    PageOptions {
        width: columns.filter(|columns| *columns > 0).unwrap_or(default.width).min(default.width),
        colour: stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// What ends a subcommand early: a sentence for the user.
type Failure = Box<dyn Error>;

/// Runs `task` on a runtime of its own.
fn block_on<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(task)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| {
        format!("cannot start the event loop: {}. Raise the limit of open files", plain(&error)).into()
    })
}

/// Listens for the signals that ask to end.
fn listen() -> Result<Endings, Failure> {
    Endings::listen()
        .map_err(|error| format!("cannot listen for signals: {}. Raise the limit of open files", plain(&error)).into())
}

/// Writes a message to standard error. If that fails, lagstop goes on: perhaps nobody is there to read it.
fn say(text: fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(harmless(&text.to_string()).as_bytes());
    let _ = stderr.flush();
}

/// What is said behind something else, if anything is.
fn behind(said: Option<String>) -> String {
    said.map_or_else(String::new, |said| format!("; {said}"))
}

/// Clears the line, for what is said there next.
const CLEAR: &str = "\r\x1b[K";
/// Characters of a line that are said.
const MOST_OF_A_LINE: usize = 2_000;

/// Makes text safe for a terminal, because servers, files and cgroups put words into it. Line by line, after [`CLEAR`].
fn harmless(text: &str) -> String {
    let (clear, text) = text.strip_prefix(CLEAR).map_or(("", text), |rest| (CLEAR, rest));
    let line = |line: &str| match line.strip_suffix('\n') {
        Some(line) => format!("{}\n", short_name(line, MOST_OF_A_LINE)),
        None => short_name(line, MOST_OF_A_LINE).into_owned(),
    };
    clear.to_owned() + &text.split_inclusive('\n').map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_said_moves_the_cursor() {
        let said = harmless("lagstop: the server refuses: \x1b]0;pwned\x07\x1b[2J\u{202e}evil\rgone\nnext\x1b[31m\n");
        assert_eq!(said, "lagstop: the server refuses: �]0;pwned��[2J�evil�gone\nnext�[31m\n");
        assert_eq!(harmless("\r\x1b[K12 intervals\x1b[K"), "\r\x1b[K12 intervals�[K", "its own, and no other");
        let long = harmless(&format!("{}\nend\n", "x".repeat(60_000)));
        assert!(long.chars().count() < MOST_OF_A_LINE + 10 && long.ends_with("\nend\n"));
    }

    const TOOLS: &str = include_str!("../../docs/tools.md");
    const METRICS: &str = include_str!("../../docs/metrics.md");
    const README: &str = include_str!("../../README.md");

    /// The words of a command as a shell tells them apart.
    fn words(command: &str) -> Vec<String> {
        let quoted = command.split('\'').enumerate();
        quoted.fold(vec![String::new()], |mut words, (n, part)| {
            if n % 2 == 1 {
                *words.last_mut().unwrap() += part;
                return words;
            }
            for (n, word) in part.split(' ').enumerate() {
                if n > 0 {
                    words.push(String::new());
                }
                *words.last_mut().unwrap() += word;
            }
            words
        })
    }

    fn examples(text: &str) -> impl Iterator<Item = &str> {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with("lagstop "));
        // What follows is a pipe, a file, or what it does.
        lines.map(|line| [" | ", " > ", "  "].into_iter().fold(line, |line, end| line.split(end).next().unwrap()))
    }

    #[test]
    fn examples_are_commands_that_there_are() {
        // Independent of the width of the terminal in which this test runs.
        let help = |command: &clap::Command| command.clone().term_width(0).render_help().to_string();
        let mut helps: Vec<String> = Cli::command().get_subcommands().map(help).collect();
        helps.extend([TOOLS, METRICS].map(str::to_owned));
        let mut tried = 0;
        for example in helps.iter().flat_map(|text| examples(text)) {
            let words: Vec<String> = words(example).into_iter().filter(|word| !word.is_empty()).collect();
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{example}: {error}");
            }
            tried += 1;
        }
        assert!(tried > 10, "{tried}");
    }

    #[test]
    fn what_is_done_with_recordings_is_documented() {
        for name in ["show", "cut", "merge", "export"] {
            let command = Cli::command();
            let command = command.find_subcommand(name).unwrap();
            assert!(README.contains(&format!("| `lagstop {name} ")), "{name}");
            assert!(TOOLS.contains(&format!("\nlagstop {name} ")), "{name}");
            for argument in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let flag = format!("--{argument}");
                assert!(TOOLS.contains(&flag) || argument == "config", "{name} {flag}");
            }
        }
    }
}
