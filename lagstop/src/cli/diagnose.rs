//! `lagstop diagnose`

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{
    Args as ClapArgs, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{
    Failure, block_on, config::Config, connect::ConnectArgs, listen, measure::MeasureArgs, opened::open,
    output::ResultArgs, progress::Progress, say, thresholds::ThresholdArgs, values::positive,
};
use crate::{
    diagnosis::{
        DiagnosedHost, Explanation, Hosts, Observations, Planned, Report, Rule, Severity, Strictness, Thresholds,
    },
    host::Identity,
    model::Session,
    recording::Reader,
    report::{explanation, hosts, html, json, markdown, plan, text},
    signals::Endings,
    source::{Begin, Stream},
};

const EXAMPLES: &str = "\
Examples:
  lagstop diagnose
  lagstop diagnose --duration 5m --threshold overhead_warn=3% --format json
  lagstop diagnose host.jsonl.zst           What a recording says, without measuring
  lagstop diagnose --format markdown --output report.md
                                            For a ticket; html is a page with charts
  lagstop diagnose host.jsonl.zst --explain lags_candidates
                                            How the figures of a finding came about
  lagstop diagnose node-*.jsonl.zst         One report on many hosts: where advice pays most
  lagstop diagnose --plan cpuset            Which CPUs cgroups with a quota should have
  lagstop diagnose --connect https://node:9185 --back 5m
                                            A host that runs `lagstop serve`, from five minutes ago on
  lagstop diagnose --fail-on warning        For a pipeline: exit code 3 when something is wrong

Measure both busy and quiet times: the report compares them. Ctrl-C ends the measurement early and prints the report.
docs/diagnose.md explains each finding.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recordings to read instead of measuring. Several hosts give one report
    #[arg(value_name = "FILE", conflicts_with_all = ["duration", "connect", "interval", "group_by", "max_cgroups", "load_credit_time", "hooks", "light", "btf"])]
    files: Vec<PathBuf>,

    /// Read every interval. By default, long recordings are read in merged intervals of up to 60, which hide short troubles
    #[arg(long, requires = "files")]
    full: bool,

    /// Show commands for recordings of other hosts and earlier boots, too
    #[arg(long, requires = "files")]
    commands: bool,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive)]
    duration: Duration,

    #[command(flatten)]
    output: ResultArgs,

    /// Show every finding with all figures, thresholds and caveats
    #[arg(short, long, conflicts_with_all = ["explain", "plan"])]
    verbose: bool,

    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Exit with code 3 when a finding is at least this severe
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,

    /// Explain how the metrics of a finding are computed: inputs, formula and source
    #[arg(long, value_name = "FINDING", value_parser = rule(), conflicts_with = "plan")]
    explain: Option<Rule>,

    /// Plan CPU sets for cgroups whose quota is smaller than the CPUs they see
    #[arg(long, value_name = "WHAT")]
    plan: Option<Plan>,

    /// What the plan does when there are too few CPUs
    #[arg(long, value_name = "POLICY", default_value = "principle-hard", requires = "plan")]
    plan_policy: PlanPolicy,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    #[command(flatten)]
    connect: ConnectArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// For a ticket or a wiki
    Markdown,
    /// One JSON document
    Json,
    /// One page with charts for a browser
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A finding worth acting on
    Warning,
    /// A finding that needs action now
    Critical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Plan {
    /// A CPU set for each cgroup
    Cpuset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlanPolicy {
    /// Leave a cgroup out if it cannot have CPUs of its own
    PrincipleHard,
    /// Let it share CPUs with others
    BestEffort,
}

/// Exit code: a finding is at least as severe as --fail-on asks for.
const FAILED: u8 = 3;

/// Parses the names of findings.
fn rule() -> impl TypedValueParser<Value = Rule> {
    PossibleValuesParser::new(Rule::ALL.map(Rule::name))
        .try_map(|name| Rule::ALL.into_iter().find(|rule| rule.name() == name).ok_or("no finding is called so"))
}

pub(super) fn run(args: &Args, config: &Config) -> Result<ExitCode, Failure> {
    if (args.plan.is_some() || args.explain.is_some()) && matches!(args.format, Format::Markdown | Format::Html) {
        return Err("--plan and --explain are written as text or JSON: leave --format out, or name one of these".into());
    }
    let output = args.output.open()?;
    let options = output.options();
    let hosts = match &args.files[..] {
        [] => vec![block_on(async {
            // A signal ends the wait for a server at once.
            let remote = args.connect.start_and_tell(Begin::Ago(Duration::ZERO), Some(args.duration))?;
            let mut endings = listen()?;
            let stream = match remote {
                Some(stream) => stream,
                None => args.measure.start(Some(args.duration), &config.measure)?,
            };
            observe(stream, &mut endings, args.duration).await
        })?],
        files => read_all(files, args.full)?,
    };
    let thresholds = args.thresholds.over(config.thresholds.0.clone());
    let commands = args.commands();
    let (written, worst) = match &hosts[..] {
        [host] => of_host(args, host, &thresholds, &commands, options)?,
        hosts => of_hosts(args, hosts, &thresholds, &commands, options)?,
    };
    output.write(&written)?;
    Ok(args.exit_code(worst))
}

impl Args {
    const fn depth(&self) -> text::Depth {
        if self.verbose { text::Depth::Verbose } else { text::Depth::Short }
    }

    fn exit_code(&self, worst: Severity) -> ExitCode {
        let is_bad = self.fail_on.is_some_and(|least| match least {
            FailOn::Warning => worst >= Severity::Warning,
            FailOn::Critical => worst >= Severity::Critical,
        });
        if is_bad { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
    }

    /// Commands for this boot of this host are shown. Those for other hosts and earlier boots need `--commands`.
    fn commands(&self) -> Commands {
        if self.files.is_empty() && !self.connect.is_given() || self.commands {
            Commands::All
        } else {
            Commands::OfBoot(Identity::read().ok().map(|identity| identity.boot_id))
        }
    }
}

/// Which commands are shown.
enum Commands {
    All,
    /// For the boot of this host, where its id is known.
    OfBoot(Option<String>),
}

impl Commands {
    fn of(&self, report: Report) -> Report {
        match self {
            Self::All => report,
            Self::OfBoot(id) => report.with_commands_only_of(id.as_deref()),
        }
    }

    fn of_plan(&self, plan: Planned, session: &Session) -> Planned {
        match self {
            Self::All => plan,
            Self::OfBoot(id) => plan.with_commands_only_of(session, id.as_deref()),
        }
    }
}

/// What was asked for of one host, and the severity of its worst finding.
fn of_host(
    args: &Args,
    host: &Observations,
    thresholds: &Thresholds,
    commands: &Commands,
    options: text::PageOptions,
) -> Result<(String, Severity), Failure> {
    let report = commands.of(host.diagnose(thresholds));
    let as_json = args.format == Format::Json;
    let written = if args.plan.is_some() {
        let strictness = match args.plan_policy {
            PlanPolicy::PrincipleHard => Strictness::PrincipleHard,
            PlanPolicy::BestEffort => Strictness::BestEffort,
        };
        let plan = commands.of_plan(host.plan_cpusets(thresholds, strictness), host.session());
        if as_json { json::document(&plan)? } else { plan::render(&plan, options) }
    } else if let Some(rule) = args.explain {
        let findings = report.findings.iter().filter(|finding| finding.rule == rule);
        let explanations: Vec<Explanation> = findings.map(|finding| host.explain(finding)).collect();
        if as_json { json::document(&explanations)? } else { explanation::render(&explanations, options) }
    } else {
        match args.format {
            Format::Text => text::render(&report, args.depth(), options),
            Format::Markdown => markdown::render(&report),
            Format::Json => json::render(&report)?,
            Format::Html => html::render(&report, &host.pictures(&report)),
        }
    };
    Ok((written, report.worst()))
}

/// The same of several hosts.
fn of_hosts(
    args: &Args,
    hosts: &[Observations],
    thresholds: &Thresholds,
    commands: &Commands,
    options: text::PageOptions,
) -> Result<(String, Severity), Failure> {
    if args.plan.is_some() || args.explain.is_some() {
        return Err(
            "--plan and --explain are about one host, and these recordings are of several: name those of one".into()
        );
    }
    let found = Hosts::new(hosts.iter().map(|host| commands.of(host.diagnose(thresholds))).collect());
    let written = match args.format {
        Format::Text => hosts::text(&found, options),
        Format::Markdown => hosts::markdown(&found),
        Format::Json => hosts::json(&found)?,
        Format::Html => {
            let of = |host: &DiagnosedHost| {
                let session = &host.report.session;
                let observed = hosts.iter().find(|other| other.session() == session);
                observed.map(|observed| observed.pictures(&host.report)).unwrap_or_default()
            };
            html::render_hosts(&found, &found.hosts.iter().map(of).collect::<Vec<_>>())
        }
    };
    Ok((written, found.worst()))
}

/// Reads recordings. Recordings of the same boot of one host are read as one, in order of time.
fn read_all(files: &[PathBuf], full: bool) -> Result<Vec<Observations>, Failure> {
    let mut readers: Vec<Reader> = files.iter().map(|file| open(file)).collect::<Result<_, _>>()?;
    readers.sort_by(|a, b| a.session().started_at.cmp(&b.session().started_at));
    let mut hosts: Vec<Observations> = Vec::new();
    for mut reader in readers {
        let is_of = |host: &&mut Observations| {
            let (a, b) = (host.session(), reader.session());
            (&a.hostname, &a.boot_id) == (&b.hostname, &b.boot_id)
        };
        match hosts.iter_mut().find(is_of) {
            Some(host) => read(&mut reader, full, host)?,
            None => {
                let mut host = Observations::new(reader.session().clone());
                read(&mut reader, full, &mut host)?;
                hosts.push(host);
            }
        }
    }
    Ok(hosts)
}

/// Reads a recording. A long one is read by the merged intervals that its chunks are written as, unless in `full`.
fn read(reader: &mut Reader, full: bool, observations: &mut Observations) -> Result<(), Failure> {
    observations.begin();
    let mut progress = Progress::new("reading");
    let (intervals, parts) = (reader.len(), reader.parts());
    if !full && reader.is_long()? {
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
    Ok(())
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
            let done = interval.start_ns.saturating_add(interval.duration_ns).seconds();
            let all = duration.as_secs_f64();
            say(format_args!("\r\x1b[Kmeasuring: {done:.0} s of {all:.0} s (Ctrl-C reports now)"));
        }
    }
    if progress {
        say(format_args!("\r\x1b[K"));
    }
    Ok(observations)
}
