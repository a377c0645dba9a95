//! `lagstop trial`

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};
use globset::{Glob, GlobSet, GlobSetBuilder};
use humantime::format_duration;

use super::{
    Failure, block_on, listen,
    output::OutputArgs,
    policy::PolicyOrNone,
    progress::StatusLine,
    say,
    values::{glob, positive},
};
use crate::{
    host::Hierarchy,
    model::GroupBy,
    report,
    trial::{
        self, Event, Journal, Kernel, Policy, PreparedTrial, Restored, SwitchSettings, TrialPlace, TrialSettings,
        Tried,
        watchdog::{self, WatchedTrial},
    },
    units::{countdown, ending},
};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop trial --policy weight            Print what it would change
  sudo lagstop trial --policy weight --apply    Apply it in alternating blocks for a minute, then undo it
  sudo lagstop trial --policy idle --duration 2m --light '/apps.slice/web*' --apply
                                                Prioritise these instead of what diagnose finds
  sudo lagstop trial --policy lags --apply      Schedule the host by LAGS in every other block (docs/schedule.md)
  sudo lagstop trial --policy scx:scx_lavd --apply -- --performance
                                                Schedule it by what this program loads, started with --performance
  sudo lagstop trial --policy none --apply      Change nothing, to see what chance does on this host
  sudo lagstop trial --restore                  Undo what an interrupted trial changed
  sudo lagstop trial --forget                   Undo what can be undone, then delete the journal

If lagstop dies, its watchdog process undoes the changes. It also ends a trial that is stopped (Ctrl-Z). If the watchdog
was killed too, run --restore. docs/trial.md explains how a trial is measured and lists the changes that stay.";

/// Blocks of a trial, and the shortest one, unless --block says how long they are.
const BLOCKS: u32 = 13;
const SHORTEST_BLOCK: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Policy to try
    #[arg(long, value_name = "POLICY", required_unless_present_any = ["restore", "forget"])]
    policy: Option<PolicyOrNone>,

    /// Length of the trial, with and without the policy together
    #[arg(long, alias = "for", value_name = "TIME", default_value = "60s", value_parser = long_enough)]
    duration: Duration,

    #[arg(long, value_name = "TIME", value_parser = long_enough, help = format!(
        "Length of one block [default: 1/{BLOCKS} of --duration, at least {}]", format_duration(SHORTEST_BLOCK),
    ))]
    block: Option<Duration>,

    /// How long to measure before the trial, to find light and heavy cgroups and to predict the effect
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = long_enough)]
    before: Duration,

    /// Treat the cgroups whose paths match GLOB as light (repeatable). With lags and scx:PROGRAM, the scheduler still ranks all
    /// cgroups by itself
    #[arg(long, value_name = "GLOB", value_parser = glob, conflicts_with = "from_diagnose")]
    light: Vec<Glob>,

    /// Treat the cgroups as light that diagnose finds light and waiting (the default without --light)
    #[arg(long)]
    from_diagnose: bool,

    /// End the trial when a runnable cgroup gets less CPU time than this, in cores
    #[arg(long, value_name = "CORES", default_value = "0.01", value_parser = cpus)]
    floor: f64,

    /// How long a cgroup may stay below --floor
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = positive)]
    patience: Duration,

    /// Use --policy lags although cgroups have CPU quotas. They are not enforced in the blocks with the policy
    #[arg(long)]
    ignore_quotas: bool,

    /// Use --policy lags or scx:PROGRAM even while real-time tasks use half of a CPU or more. Before Linux 7.0, the host
    /// hangs under such a scheduler if they take all CPUs
    #[arg(long)]
    ignore_real_time: bool,

    /// Apply the policy. Without this flag, only print the planned changes and the predicted effect
    #[arg(long)]
    apply: bool,

    /// Apply the policy even in a container. Undo is not guaranteed: if the container ends, the changes stay on the host
    #[arg(long, requires = "apply")]
    force: bool,

    /// Undo what an interrupted trial changed
    #[arg(long, conflicts_with_all = ["policy", "apply"])]
    restore: bool,

    /// Undo what can be undone, list the rest, and delete the journal
    #[arg(long, conflicts_with_all = ["policy", "apply", "restore"])]
    forget: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: OutputArgs,

    /// File that lists the changes to undo
    #[arg(long, value_name = "FILE", default_value = Journal::PATH, hide = true)]
    journal: PathBuf,

    /// Arguments of the program of --policy scx:PROGRAM. No shell sees them
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// What lagstop gives to its own watchdog.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct WatchdogArgs {
    #[arg(last = true, value_name = "WATCHED")]
    watched: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for a terminal
    Text,
    /// One JSON document
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let path = &args.journal;
    if args.restore {
        let restored = Journal::restore(path)?;
        watchdog::sweep();
        return say_restored(&restored);
    }
    if args.forget {
        return say_forgotten(&Journal::forget(path)?);
    }
    let Some(PolicyOrNone(policy)) = args.policy else {
        return Err("no policy given. Choose one with --policy".into());
    };
    let settings = args.settings(policy)?;
    let output = args.output.open_new()?;
    let kernel = Kernel::here(Hierarchy::find(GroupBy::Scheduler)?);
    if args.apply {
        // Checked before waiting for anything.
        refuse_elsewhere(path, policy, args.force)?;
        Journal::begin(path, policy)?.end(&mut || {});
    }
    let is_apply = args.apply;
    let result = block_on(async {
        let mut endings = listen()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let mut running = tokio::task::spawn_blocking(move || {
            // The terminal is only waited for at the end, when everything is undone.
            let tell = &mut tell(policy);
            let prepared = trial::prepare(&settings, &kernel, tell, &seen)?;
            if is_apply {
                trial::run(&settings, &kernel, prepared, tell, &seen).map(|tried| Answer::Tried(Box::new(tried)))
            } else {
                Ok(Answer::Plan(Box::new(prepared)))
            }
        });
        loop {
            tokio::select! {
                ended = &mut running => return Ok(ended??),
                () = endings.wait() => stop.store(true, Ordering::Relaxed),
            }
        }
    });
    let answer = result?;
    let written = match (&answer, args.format) {
        (Answer::Plan(prepared), Format::Text) => report::trial::plan(policy, prepared, output.options()),
        (Answer::Plan(prepared), Format::Json) => report::trial::plan_json(policy, prepared)?,
        (Answer::Tried(tried), Format::Text) => report::trial::text(tried, output.options()),
        (Answer::Tried(tried), Format::Json) => report::trial::json(tried)?,
    };
    output.write(&written)?;
    Ok(answer.exit_code())
}

/// Refuses to make changes where they cannot be undone if this process dies.
fn refuse_elsewhere(journal: &Path, policy: Option<Policy>, force: bool) -> Result<(), Failure> {
    if policy.is_none() {
        return Ok(());
    }
    let place = TrialPlace::look(journal);
    if let Some(why) = place.refusal().filter(|_| !force) {
        return Err(format!("nothing was changed: {why}").into());
    }
    if let Some(doubt) = place.doubt() {
        say(format_args!("lagstop: {doubt}\n"));
    }
    Ok(())
}

/// What there is to say.
enum Answer {
    Plan(Box<PreparedTrial>),
    Tried(Box<Tried>),
}

/// Exit code: a trial ended early.
const ENDED: u8 = 3;

impl Answer {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Tried(tried) if !tried.outcome.not_undone.is_empty() => ExitCode::FAILURE,
            Self::Tried(tried) if tried.outcome.ended.is_some() => ExitCode::from(ENDED),
            _ => ExitCode::SUCCESS,
        }
    }
}

impl Args {
    fn settings(&self, policy: Option<Policy>) -> Result<TrialSettings, Failure> {
        if !self.arguments.is_empty() && !matches!(policy, Some(Policy::Scx(_))) {
            return Err("arguments after -- need --policy scx:PROGRAM".into());
        }
        let mut light = GlobSetBuilder::new();
        for glob in &self.light {
            light.add(glob.clone());
        }
        let light: GlobSet = light.build()?;
        let block = self.block.unwrap_or_else(|| (self.duration / BLOCKS).max(SHORTEST_BLOCK));
        Ok(TrialSettings {
            policy,
            duration: self.duration,
            block,
            before: self.before,
            light: (!self.light.is_empty()).then_some(light),
            floor: self.floor,
            patience: self.patience,
            journal: self.journal.clone(),
            switch: SwitchSettings {
                ignore_quotas: self.ignore_quotas,
                ignore_real_time: self.ignore_real_time,
                arguments: self.arguments.clone(),
            },
        })
    }
}

/// `lagstop trial-watchdog`
pub(super) fn watch(args: &WatchdogArgs) -> Result<ExitCode, Failure> {
    let watched =
        WatchedTrial::from_arguments(args.watched.clone()).ok_or("only `lagstop trial` starts its watchdog")?;
    let stands_still = |time| {
        say(format_args!(
            "lagstop: the trial did not respond for {time:?}: it was stopped (Ctrl-Z), or the host is overloaded. The watchdog kills it and \
             undoes its changes; there will be no result\n"
        ));
    };
    match watchdog::watch(&watched, stands_still) {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(restored)) => say_restored(&restored),
        Err(error) => Err(error.into()),
    }
}

fn say_restored(restored: &Restored) -> Result<ExitCode, Failure> {
    say_undone(restored);
    for why in &restored.failed {
        say(format_args!("lagstop: {why}\n"));
    }
    if restored.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!("lagstop: to give up undoing it, delete the journal with sudo lagstop trial --forget\n"));
    Ok(ExitCode::FAILURE)
}

fn say_forgotten(restored: &Restored) -> Result<ExitCode, Failure> {
    say_undone(restored);
    for why in &restored.failed {
        say(format_args!("lagstop: not undone: {why}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn say_undone(restored: &Restored) {
    match restored.discarded {
        Some(why) => say(format_args!("lagstop: {why}\n")),
        None if restored.undone == 0 && restored.failed.is_empty() && restored.left.is_empty() => {
            say(format_args!("lagstop: the trial left no changes to undo\n"))
        }
        None => {
            let plural = ending(restored.undone);
            say(format_args!("lagstop: {} change{plural} of a trial undone\n", restored.undone));
        }
    }
    for left in &restored.left {
        say(format_args!("lagstop: {left}\n"));
    }
}

/// Warns, where something is measured, that a trial has left changes. Otherwise nobody would know why the host is
/// as it is.
pub(super) fn say_left() {
    if let Some(left) = Journal::left(Path::new(Journal::PATH)) {
        say(format_args!("lagstop: {left}\n"));
    }
}

/// Warns of the policy before anything is measured, so that there is time to stop it. Shows the progress if standard error is a
/// terminal.
fn tell(policy: Option<Policy>) -> impl FnMut(Event) {
    let line = StatusLine::new();
    let mut last = None;
    move |event| {
        let (what, left) = match event {
            Event::Checked => {
                if let Some((policy, warning)) = policy.and_then(|policy| Some((policy, policy.warning()?))) {
                    say(format_args!("lagstop: {policy}: {warning}\n"));
                }
                return;
            }
            Event::Before { left } => ("before", left),
            Event::Block { is_with: true, left } => ("with", left),
            Event::Block { is_with: false, left } => ("without", left),
        };
        let left = left.as_secs();
        if last.replace((what, left)) != Some((what, left)) {
            line.say(format!("measuring {what}; {}", countdown(left)));
        }
    }
}

fn long_enough(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    if time < Duration::from_secs(2) { Err("the time must be at least 2s".to_owned()) } else { Ok(time) }
}

fn cpus(text: &str) -> Result<f64, String> {
    let cpus: f64 = text.parse().map_err(|_| "write a number such as 0.01".to_owned())?;
    if (0.0..=1.0).contains(&cpus) { Ok(cpus) } else { Err("the value must be from 0 to 1".to_owned()) }
}
