//! `lagstop top`

use std::{
    env,
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure, block_on, config::Config, connect::ConnectArgs, measure::MeasureArgs, output::ResultArgs,
    thresholds::ThresholdArgs, values::positive,
};
use crate::{
    recording::Reader,
    source::{Begin, Stream, recorded},
    top::{self, Batch, BatchFormat, TopSettingError, TopSettings},
};

const EXAMPLES: &str = "\
Examples:
  lagstop top
  lagstop top --tree --filter shop          Cgroups with shop in their name, path, pod or namespace
  lagstop top --sort runq-wait-p99 --columns runq-wait-p99,wait-per-cpu,load-credit
  lagstop top --once --rows 10              The ten most expensive cgroups as text
  watch -n 5 lagstop top --once --sort load-credit
  lagstop top --once --format json | jq '.cgroups[0].path'
  lagstop top --replay host.jsonl           The same screens over a recording
  lagstop top --connect https://node:9185   The same screens of a host that runs `lagstop serve`

Press ? for the keys, m for the methods and missing measures, q to quit.
Without privileges, top reads /proc and cgroup files: CPU time, switches, waits, Load Credit.
docs/config.md describes how to change the defaults.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Show a recording instead of this host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connect", "interval", "group_by", "max_cgroups", "load_credit_time", "hooks", "light", "btf"])]
    replay: Option<PathBuf>,

    /// Print the host and its cgroups once, then exit
    #[arg(long)]
    once: bool,

    /// Print them for each interval
    #[arg(long, conflicts_with = "once")]
    batch: bool,

    /// With --batch: exit after this many tables
    #[arg(long, short = 'n', value_name = "NUMBER", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// With --once or --batch: print at most this many cgroups
    #[arg(long, value_name = "NUMBER")]
    rows: Option<usize>,

    /// With --once or --batch: output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: ResultArgs,

    #[command(flatten)]
    screen: ScreenArgs,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    #[command(flatten)]
    connect: ConnectArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for people
    Text,
    /// A line of JSON for each interval, as in a recording
    Json,
}

/// What the screen shows at first.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Screen")]
struct ScreenArgs {
    /// Columns, from left to right; docs/config.md lists them
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    columns: Option<Vec<String>>,

    /// Sort by this column, or by `name`; a leading - reverses the order
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,

    /// Show the tree of cgroups, each with the sum of its subtree; --no-tree shows a list
    #[arg(long, overrides_with = "no_tree")]
    tree: bool,

    /// Show the list of cgroups
    #[arg(long, overrides_with = "tree", hide = true)]
    no_tree: bool,

    /// Show only cgroups with this text in name, path, namespace, pod or container. A leading / starts a regular expression.
    /// A prefix selects one field: path: ns: pod: container:
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Start with this view: cgroups, cpus, listeners, alerts or waits
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,

    /// Show the worst alerts below the view; --no-alerts hides them
    #[arg(long, overrides_with = "no_alerts")]
    alerts: bool,

    /// Hide the alerts
    #[arg(long, overrides_with = "alerts", hide = true)]
    no_alerts: bool,

    /// Colours: dark or light (for this background), or none. NO_COLOR also turns colours off
    #[arg(long, value_name = "THEME")]
    theme: Option<String>,

    /// Draw with ASCII characters only (the default for locales other than UTF-8); --no-ascii uses all characters
    #[arg(long, overrides_with = "no_ascii")]
    ascii: bool,

    /// Draw with all characters
    #[arg(long, overrides_with = "ascii", hide = true)]
    no_ascii: bool,

    /// How much history to keep for stepping back
    #[arg(long, value_name = "TIME", value_parser = positive)]
    history: Option<Duration>,
}

impl Args {
    fn settings(&self, config: &Config) -> Result<TopSettings, TopSettingError> {
        let mut settings = TopSettings::default();
        config.top.apply(&mut settings)?;
        let screen = &self.screen;
        if let Some(columns) = &screen.columns {
            settings.set_columns(columns.iter().map(|name| name.trim()))?;
        }
        if let Some(sort) = &screen.sort {
            settings.set_sort(sort)?;
        }
        if let Some(filter) = &screen.filter {
            settings.set_filter(filter)?;
        }
        if let Some(view) = &screen.view {
            settings.set_view(view)?;
        }
        if let Some(theme) = &screen.theme {
            settings.set_theme(theme)?;
        }
        if let Some(history) = screen.history {
            settings.set_history(history);
        }
        if let Some(tree) = switched(screen.tree, screen.no_tree) {
            settings.set_tree(tree);
        }
        if let Some(alerts) = switched(screen.alerts, screen.no_alerts) {
            settings.set_alerts(alerts);
        }
        if let Some(rows) = self.rows {
            settings.set_rows(rows);
        }
        let ascii = switched(screen.ascii, screen.no_ascii).or(config.top.ascii);
        settings.set_ascii(ascii.unwrap_or_else(locale_is_not_utf8));
        settings.set_thresholds(self.thresholds.over(config.thresholds.0.clone()));
        Ok(settings)
    }
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let settings = args.settings(config)?;
    if args.once || args.batch {
        return print(args, config, &settings);
    }
    let needless = [
        ("--rows", args.rows.is_some()),
        ("--format json", args.format == Format::Json),
        ("--output", !args.output.is_stdout()),
    ];
    if let Some((flag, _)) = needless.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!("{flag} needs --once or --batch").into());
    }
    top::check_terminal()?;
    let recording = args.replay.as_deref().map(Reader::open).transpose()?;
    block_on(async {
        match recording {
            Some(recording) => top::replay(recording, &settings).await?,
            None => {
                let remote = args.connect.start(Begin::Oldest, None)?;
                top::run(remote.map_or_else(|| here(args, config), Ok)?, &settings).await?;
            }
        }
        Ok(())
    })
}

fn print(args: &Args, config: &Config, settings: &TopSettings) -> Result<(), Failure> {
    if args.format == Format::Json && settings.is_tree() {
        return Err("--format json has no tree: leave out --tree, or use --no-tree".into());
    }
    let output = args.output.open()?;
    let stdout = io::stdout();
    let width = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
    let is_terminal = args.output.is_stdout() && stdout.is_terminal();
    let batch = Batch {
        count: if args.once { Some(1) } else { args.count },
        format: match args.format {
            Format::Text => BatchFormat::Text,
            Format::Json => BatchFormat::Json,
        },
        width: width.filter(|width| *width > 0 && is_terminal),
    };
    block_on(async {
        let stream = match &args.replay {
            Some(file) => recorded(Reader::open(file)?),
            None => {
                let remote = args.connect.start_and_tell(Begin::Last, None)?;
                remote.map_or_else(|| here(args, config), Ok)?
            }
        };
        top::print(stream, settings, batch, &mut output.writer()?).await?;
        output.finish()
    })
}

/// The running host: measured in the kernel, or from files where that is not possible.
fn here(args: &Args, config: &Config) -> Result<Stream, Failure> {
    Ok(args.measure.start_or_read(&config.measure)?)
}

/// The value of a flag and its negation. clap keeps the last one given.
const fn switched(on: bool, off: bool) -> Option<bool> {
    match (on, off) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// Does the locale say that the terminal does not use UTF-8? Where no locale is set, most terminals use it.
fn locale_is_not_utf8() -> bool {
    let set = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    locale.is_some_and(|locale| {
        let locale = locale.to_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn settings(flags: &[&str], config: &str) -> String {
        let command = Command::try_parse_from(["top"].iter().chain(flags)).unwrap();
        let config: Config = toml::from_str(config).unwrap();
        format!("{:?}", command.args.settings(&config).unwrap())
    }

    #[test]
    fn flags_switch_off_what_the_file_switches_on() {
        for key in ["tree", "alerts", "ascii"] {
            let [on, off] = [format!("--{key}"), format!("--no-{key}")];
            let file = format!("[top]\n{key} = true\n");
            let with = |flags: &[&str]| settings(flags, &file).contains(&format!("{key}: true"));
            assert!(with(&[]), "{key}");
            assert!(!with(&[&off]), "{key}");
            assert!(with(&[&off, &on]), "the last one wins: {key}");
            assert!(!with(&[&on, &off]), "the last one wins: {key}");
        }
    }
}
