//! `lagstop schedule`

use std::{
    fmt::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args as ClapArgs;
use globset::{Glob, GlobSet, GlobSetBuilder};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use super::{
    Failure, block_on, listen, print, say,
    values::{glob, positive},
};
use crate::{
    display::{display_name, pad_left},
    host::started,
    kernel::loaded_scheduler,
    schedule::{
        self, Credit, GroupStatus, PreparedSchedule, RunningScheduler, ScheduleOptions, SchedulerCounts, SchedulerEnd,
        SchedulerError, SchedulerStatus, Tuning,
    },
    signals::Endings,
    units::{count, number, plural},
};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop schedule --dry-run      Print whether this host can be scheduled by LAGS, and change nothing
  sudo lagstop schedule --duration 10m Schedule it for ten minutes
  sudo lagstop schedule --only '/kubepods*'
                                       Rank only these cgroups; all others never go first
  lagstop schedule --status            Print what a running one has done, or why the last one ended

However lagstop ends, the kernel takes its own scheduler back at once, except while real-time tasks take all CPUs before Linux 7.0.
CPU quotas do not hold while LAGS schedules.
docs/schedule.md explains when to use it, and lists what was measured.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to schedule; until Ctrl-C by default
    #[arg(long, alias = "for", value_name = "TIME", value_parser = positive)]
    duration: Option<Duration>,

    /// Print what it would do, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print what a running one has done, or why the last one ended
    #[arg(long, conflicts_with_all = ["dry_run", "duration", "only", "ignore_quotas", "ignore_real_time", "every"])]
    status: bool,

    /// Rank only the cgroups whose paths match GLOB (repeatable). All others never go first, however little they use
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    only: Vec<Glob>,

    /// Schedule although cgroups have CPU quotas. No quota holds then: a cgroup limited to 20% of a CPU can use all of it
    #[arg(long)]
    ignore_quotas: bool,

    /// Schedule even while real-time tasks use half of a CPU or more. Before Linux 7.0, the host hangs under LAGS if
    /// they take all CPUs
    #[arg(long)]
    ignore_real_time: bool,

    /// Print a line of what was done this often
    #[arg(long, value_name = "TIME", value_parser = positive)]
    every: Option<Duration>,

    #[command(flatten)]
    tuning: TuningArgs,
}

#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "How to schedule (docs/schedule.md describes how LAGS uses these values)")]
struct TuningArgs {
    /// What makes a cgroup heavy
    #[arg(long, value_enum, default_value = "used")]
    credit: Credit,

    /// How long lighter cgroups can go first at most. With --credit paper, the time constant by which the past is
    /// forgotten
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = positive)]
    memory: Duration,

    /// How long to measure use before scheduling, so that heavy cgroups are known from the start
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    learn: Duration,

    /// How long lighter cgroups can go first, times the number of active cgroups per CPU; never above 4s or --memory
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = guard)]
    guard: Duration,

    /// How long a task runs while others wait
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = slice)]
    slice: Duration,

    /// How much lighter the cgroup of a waking task must be to preempt, in shares
    #[arg(long, value_name = "SHARES", default_value = "0.25", value_parser = margin)]
    margin: f64,

    /// How long a task runs before it can be preempted
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = humantime::parse_duration)]
    protect: Duration,

    /// Never preempt: lighter tasks wait for the end of the running task's turn
    #[arg(long)]
    no_preemption: bool,
}

/// A longer guard could trigger the watchdog of the kernel.
fn guard(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    if time > Tuning::default().longest_guard { Err("the guard must be at most 4s".to_owned()) } else { Ok(time) }
}

fn slice(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    let allowed = Duration::from_millis(1)..=Duration::from_millis(200);
    if allowed.contains(&time) { Ok(time) } else { Err("the slice must be between 1ms and 200ms".to_owned()) }
}

fn margin(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(margin) if (0.0..=100.0).contains(&margin) => Ok(margin),
        _ => Err("write a number of shares between 0 and 100, such as 0.25".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.status {
        return status();
    }
    let mut prepared = schedule::prepare(args.options()?)?;
    prepared.look_at_real_time()?;
    if args.dry_run {
        return Ok(print(&planned(&prepared)));
    }
    if !prepared.quotas.is_empty() {
        say(format_args!(
            "lagstop: {} not hold while LAGS schedules\n",
            match prepared.quotas.len() {
                1 => "the CPU quota of one cgroup does".to_owned(),
                many => format!("the CPU quotas of {many} cgroups do"),
            }
        ));
    }
    block_on(async {
        let mut endings = listen()?;
        let Some(running) = start(args, prepared, &mut endings).await? else { return Ok(ExitCode::SUCCESS) };
        schedule(args, running, &mut endings).await
    })
}

impl Args {
    fn options(&self) -> Result<ScheduleOptions, Failure> {
        Ok(ScheduleOptions {
            tuning: self.tuning.tuning(),
            only: only(&self.only)?,
            ignore_quotas: self.ignore_quotas,
            ignore_real_time: self.ignore_real_time,
        })
    }
}

impl TuningArgs {
    fn tuning(&self) -> Tuning {
        let Self { credit, memory, guard, slice, margin, protect, .. } = *self;
        Tuning { credit, memory, guard, slice, margin, protect, preempts: !self.no_preemption, ..Tuning::default() }
    }
}

fn only(globs: &[Glob]) -> Result<Option<GlobSet>, Failure> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob.clone());
    }
    Ok(Some(set.build()?))
}

/// Describes what would be done.
fn planned(prepared: &PreparedSchedule) -> String {
    let PreparedSchedule { cgroups, ranked, weighted, quotas, .. } = prepared;
    let mut text = format!(
        "LAGS can schedule this host. It would rank {} of {}, in {}.\n",
        count(*ranked as u64),
        plural(*cgroups as u64, "cgroup"),
        match prepared.queues() {
            1 => "one queue".to_owned(),
            many => format!("{many} queues, one for each last-level cache"),
        },
    );
    if *weighted > 0 {
        let _ = writeln!(text, "{} a weight or cpu.idle, by which LAGS shares out CPU time.", have(*weighted));
    }
    if !quotas.is_empty() {
        let _ = writeln!(text, "{} a CPU quota, which does not hold while LAGS schedules.", have(quotas.len()));
    }
    if prepared.fears_real_time() {
        text.push_str(
            "On this kernel, real-time tasks that take all CPUs hang the host while LAGS schedules. lagstop ends LAGS when real-time \
             tasks use half of a CPU, but that can be too late. Linux 7.0 and later do not have this problem.\n",
        );
    }
    text + "Nothing was changed.\n"
}

fn have(cgroups: usize) -> String {
    let has = if cgroups == 1 { "has" } else { "have" };
    format!("{} {has}", plural(cgroups as u64, "cgroup"))
}

/// Measures what each cgroup uses, and switches the host. `None` if it was asked to end before.
async fn start(
    args: &Args,
    prepared: PreparedSchedule,
    endings: &mut Endings,
) -> Result<Option<RunningScheduler>, Failure> {
    let learn = args.tuning.learn;
    let learnt = if learn.is_zero() {
        None
    } else {
        say(format_args!("measuring use for {} ...\n", humantime::format_duration(learn)));
        let (learnt, began) = (prepared.learn()?, Instant::now());
        tokio::select! {
            () = sleep(learn) => {}
            () = endings.wait() => return Ok(None),
        }
        Some((learnt, began.elapsed()))
    };
    Ok(Some(prepared.attach(learnt)?))
}

/// Runs until it ends for any reason.
async fn schedule(args: &Args, mut running: RunningScheduler, endings: &mut Endings) -> Result<ExitCode, Failure> {
    let mut log = Log::new();
    log.write(&running, None);
    say(format_args!("LAGS schedules this host (Ctrl-C ends)\n"));
    let mut beat = interval_at(tokio::time::Instant::now() + RunningScheduler::EVERY, RunningScheduler::EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = Instant::now();
    let why = loop {
        tokio::select! {
            _ = beat.tick() => {}
            () = endings.wait() => break Why::Asked,
        }
        if args.duration.is_some_and(|duration| log.began.elapsed() >= duration) {
            break Why::TimeIsOver;
        }
        match running.refresh() {
            Ok(None) => {}
            Ok(Some(SchedulerEnd::CpusChanged)) => {
                // What holds unless it starts again.
                log.write(&running, Some("CPUs came or went"));
                drop(running);
                say(format_args!("CPUs came or went: LAGS starts again\n"));
                running = schedule::prepare(args.options()?)?.attach(None)?;
            }
            Ok(Some(ended)) => break Why::Ended(ended),
            Err(error) => break Why::Failed(error),
        }
        log.write(&running, None);
        if args.every.is_some_and(|every| said.elapsed() >= every) {
            said = Instant::now();
            say(format_args!("{}\n", line(&running.counted()?, log.began.elapsed())));
        }
    };
    end(running, why, &mut log)
}

/// Why it ends.
enum Why {
    Asked,
    TimeIsOver,
    Ended(SchedulerEnd),
    Failed(SchedulerError),
}

impl Why {
    /// In words, and whether that is an error.
    fn told(&self) -> (String, bool) {
        match self {
            Self::Asked => ("asked to end".to_owned(), false),
            Self::TimeIsOver => ("the time is over".to_owned(), false),
            Self::Ended(SchedulerEnd::LetGo | SchedulerEnd::CpusChanged) => {
                ("another process ended it".to_owned(), true)
            }
            Self::Ended(SchedulerEnd::ByKernel { reason, .. }) => (reason.clone(), true),
            Self::Failed(why) => (why.to_string(), true),
        }
    }
}

/// Gives the host back to the kernel's scheduler, and prints what was done.
fn end(running: RunningScheduler, why: Why, log: &mut Log) -> Result<ExitCode, Failure> {
    let counted = running.counted()?;
    let (mut told, mut is_error) = why.told();
    log.write(&running, Some(&told));
    // The kernel may have ended it first.
    if let SchedulerEnd::ByKernel { reason, .. } = running.let_go()? {
        (told, is_error) = (reason, true);
    }
    if let Why::Ended(SchedulerEnd::ByKernel { report, .. }) = &why
        && !report.is_empty()
    {
        say(format_args!("the kernel's report:\n{report}\n"));
    }
    let state = match loaded_scheduler().as_deref() {
        None | Some("" | schedule::NAME) => "The kernel's own scheduler is back.".to_owned(),
        Some(other) => format!("The sched_ext scheduler {other} is loaded now."),
    };
    say(format_args!("LAGS has ended: {told}. {state}\n"));
    print(&format!("{}\n", line(&counted, log.began.elapsed())));
    Ok(if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One line about what was done.
fn line(counted: &SchedulerCounts, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let per_second = |n: u64| number(n as f64 / seconds.max(f64::MIN_POSITIVE));
    let mut text = format!(
        "{}s: {} dispatches/s, {} preemptions/s, {} continued/s, {} past the guard",
        number(seconds),
        per_second(counted.dispatched + counted.to_idle),
        per_second(counted.preempted),
        per_second(counted.kept),
        count(counted.overdue),
    );
    if counted.overdue > 0 {
        let _ = write!(text, " (by up to {} ms)", number(counted.longest_overdue_ns as f64 / 1e6));
    }
    if counted.unknown > 0 {
        let _ = write!(text, ", {} of cgroups beyond the table", count(counted.unknown));
    }
    text
}

/// Writes the file that `--status` reads.
struct Log {
    began: Instant,
    process_started: u64,
    has_failed: bool,
}

impl Log {
    fn new() -> Self {
        Self { began: Instant::now(), process_started: started(std::process::id()).unwrap_or(0), has_failed: false }
    }

    /// A failure to write is only reported once.
    fn write(&mut self, running: &RunningScheduler, ended: Option<&str>) {
        const GROUPS: usize = 20;
        let Ok(counted) = running.counted() else { return };
        let status = SchedulerStatus {
            pid: std::process::id(),
            process_started: self.process_started,
            seconds: self.began.elapsed().as_secs_f64(),
            ended: ended.map(str::to_owned),
            counted,
            groups: running.groups(GROUPS).0,
        };
        if let Err(error) = status.write()
            && !std::mem::replace(&mut self.has_failed, true)
        {
            say(format_args!("lagstop: --status will not work: {error}\n"));
        }
    }
}

/// `--status`
fn status() -> Result<ExitCode, Failure> {
    let status = SchedulerStatus::read()?;
    let state = match (&status.ended, status.is_alive()) {
        (Some(why), _) => format!("LAGS does not schedule this host. The last time it ended: {why}"),
        (None, true) => format!("LAGS schedules this host (process {})", status.pid),
        (None, false) => format!("LAGS does not schedule this host. Process {} was killed", status.pid),
    };
    let loaded = match loaded_scheduler() {
        None => "The kernel has no sched_ext.".to_owned(),
        Some(name) if name.is_empty() => "The kernel's own scheduler is in force.".to_owned(),
        Some(name) => format!("The sched_ext scheduler {} is loaded.", display_name(&name)),
    };
    let mut text = format!("{state}.\n{loaded}\n{}\n", line(&status.counted, Duration::from_secs_f64(status.seconds)));
    if !status.groups.is_empty() {
        let by_load = status.groups.iter().any(|group| group.load_credit.is_some());
        let credit = if by_load { " LOAD CREDIT" } else { "" };
        let _ = writeln!(text, "\n   SHARE   TASKS       TURNS   PREEMPTED{credit}  CGROUP");
        status.groups.iter().for_each(|group| text.push_str(&row(group)));
    }
    Ok(print(&text))
}

fn row(group: &GroupStatus) -> String {
    let GroupStatus { path, share_cpus, tasks, turns, preempted, load_credit } = group;
    let load_credit = load_credit.map(|credit| pad_left(&number(credit), 12)).unwrap_or_default();
    format!(
        "{} {} {} {}{load_credit}  {}\n",
        pad_left(&number(*share_cpus), 8),
        pad_left(&number(*tasks), 7),
        pad_left(&count(*turns), 11),
        pad_left(&count(*preempted), 11),
        display_name(path),
    )
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

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Command::try_parse_from(["schedule"].iter().chain(flags)).map(|command| command.args)
    }

    #[test]
    fn what_is_not_given_is_as_documented() {
        let options = parse(&[]).unwrap().options().unwrap();
        assert_eq!(options.tuning, Tuning::default());
        assert!(options.only.is_none() && !options.ignore_quotas);
    }

    #[test]
    fn flags_are_checked() {
        for wrong in [&["--guard", "5s"][..], &["--slice", "10us"], &["--margin", "-1"], &["--status", "--dry-run"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let options = parse(&["--only", "/a*", "--credit", "paper", "--no-preemption"]).unwrap().options().unwrap();
        assert!(options.only.unwrap().is_match("/ab/c"));
        assert_eq!((options.tuning.credit, options.tuning.preempts), (Credit::Paper, false));
    }

    #[test]
    fn a_line_says_what_was_done() {
        let counted =
            SchedulerCounts { dispatched: 500, to_idle: 500, preempted: 20, kept: 10, ..SchedulerCounts::default() };
        let said = line(&counted, Duration::from_secs(10));
        assert_eq!(said, "10.0s: 100 dispatches/s, 2.00 preemptions/s, 1.00 continued/s, 0 past the guard");
        let counted = SchedulerCounts { overdue: 3, longest_overdue_ns: 12_000_000, ..counted };
        assert!(line(&counted, Duration::from_secs(10)).ends_with("3 past the guard (by up to 12.0 ms)"));
    }
}
