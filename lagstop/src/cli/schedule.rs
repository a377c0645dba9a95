//! `lagstop schedule`

mod plan;
mod status;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args as ClapArgs;
use globset::{Glob, GlobSet, GlobSetBuilder};
use humantime::format_duration;
use sd_notify::NotifyState;
use tokio::time::{sleep, sleep_until};

use super::{
    Failure, block_on, listen, print, say,
    values::{glob, positive},
};
use crate::{
    kernel::loaded_scheduler,
    schedule::{
        self, Credit, Learnt, PreparedSchedule, RunningScheduler, ScheduleOptions, SchedulerEnd, SchedulerError, Tuning,
    },
    signals::Endings,
};
use plan::planned;
use status::{Log, line};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop schedule --dry-run      Print whether LAGS can schedule this host, and which cgroups would go first
  sudo lagstop schedule --duration 10m Schedule it for ten minutes
  sudo lagstop schedule --only '/kubepods*'
                                       Rank only these cgroups; all others never go first
  lagstop schedule --status            Print what LAGS has done so far, or why its last run ended or was refused

When lagstop ends or is killed, the kernel takes its own scheduler back at once.
Exception: before Linux 7.0, the host hangs under LAGS if real-time tasks take all CPUs.
CPU quotas (cpu.max) are not enforced while LAGS schedules.
Exit code of --status: 0 if LAGS schedules this host, 3 if it does not, 1 if no run is known.
docs/schedule.md explains when to use it, docs/schedule-measured.md what it does.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to schedule; until Ctrl-C by default
    #[arg(long, alias = "for", value_name = "TIME", value_parser = positive)]
    duration: Option<Duration>,

    /// Print what it would do and which cgroups would go first, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print what LAGS has done so far, or why its last run ended or was refused
    #[arg(long, conflicts_with_all = ["dry_run", "duration", "only", "ignore_quotas", "ignore_real_time", "every"])]
    status: bool,

    /// Let only the cgroups whose paths match GLOB go first (repeatable). LAGS still schedules all others, without a head start
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    only: Vec<Glob>,

    /// Schedule although cgroups have CPU quotas. They are not enforced then: a cgroup limited to 20% of a CPU can use all of it
    #[arg(long)]
    ignore_quotas: bool,

    /// Kernels before 7.0: schedule although real-time tasks use half of a CPU or more. If they take all CPUs under LAGS, the host
    /// hangs until a reset
    #[arg(long)]
    ignore_real_time: bool,

    /// Print a summary line every TIME
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

    /// Upper limit of the head start. With --credit paper, the time constant by which the past is forgotten
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = memory)]
    memory: Duration,

    /// How long to measure use before scheduling, so that heavy cgroups are known from the start
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    learn: Duration,

    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = guard, help = format!(
        "Head start: how long lighter cgroups can go first. TIME × active cgroups per CPU (1 at least), at most {} and at most --memory",
        format_duration(Tuning::default().longest_guard),
    ))]
    guard: Duration,

    /// The length of a turn while other tasks wait, where light cgroups take at least an eighth of all turns
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = slice)]
    slice: Duration,

    /// The same where light cgroups take no turns. Between the two, the length is in proportion
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = slice)]
    short_slice: Duration,

    /// How much less credit the cgroup of a waking task must have to preempt (0 to 2; with 2 only kernel threads and lagstop preempt)
    #[arg(long, value_name = "CREDIT", default_value = "0.25", value_parser = margin)]
    margin: f64,

    /// How long a task runs before it can be preempted
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = humantime::parse_duration)]
    protect: Duration,

    /// Never preempt: lighter tasks wait for the end of the running task's turn
    #[arg(long)]
    no_preemption: bool,
}

/// Less than the shortest turn would be no head start.
fn memory(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    if time < Duration::from_millis(1) { Err("the time must be at least 1ms".to_owned()) } else { Ok(time) }
}

/// A longer guard could trigger the watchdog of the kernel.
fn guard(text: &str) -> Result<Duration, String> {
    let time = memory(text)?;
    let longest = Tuning::default().longest_guard;
    if time > longest { Err(format!("the guard must be at most {}", format_duration(longest))) } else { Ok(time) }
}

fn slice(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    let allowed = Duration::from_millis(1)..=Duration::from_millis(200);
    if allowed.contains(&time) { Ok(time) } else { Err("the slice must be between 1ms and 200ms".to_owned()) }
}

fn margin(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(margin) if (0.0..=2.0).contains(&margin) => Ok(margin),
        _ => Err("write a number from 0 to 2, such as 0.25".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.status {
        return status::show();
    }
    let prepared = prepare(args.options()?).map_err(|why| {
        if args.dry_run {
            return format!("LAGS cannot schedule this host: {why}");
        }
        Log::refused(&why);
        format!("LAGS was not started: {why}")
    })?;
    if args.dry_run {
        return block_on(dry_run(args, prepared));
    }
    if !prepared.quotas.is_empty() {
        say(format_args!(
            "lagstop: {} not enforced while LAGS schedules\n",
            match prepared.quotas.len() {
                1 => "the CPU quota of one cgroup is".to_owned(),
                many => format!("the CPU quotas of {many} cgroups are"),
            }
        ));
    }
    block_on(async {
        let mut endings = listen()?;
        let started = start(args, prepared, &mut endings).await.inspect_err(Log::refused)?;
        let Some(running) = started else { return Ok(ExitCode::SUCCESS) };
        schedule(args, running, &mut endings).await
    })
}

fn prepare(options: ScheduleOptions) -> Result<PreparedSchedule, SchedulerError> {
    let mut prepared = schedule::prepare(options)?;
    prepared.look_at_real_time()?;
    Ok(prepared)
}

/// `--dry-run`
async fn dry_run(args: &Args, mut prepared: PreparedSchedule) -> Result<ExitCode, Failure> {
    let learn = args.tuning.learn;
    if learn.is_zero() {
        return Ok(print(&planned(&prepared, None)));
    }
    let Some((learnt, took)) = learn_for(learn, &prepared, &mut listen()?).await? else { return Ok(ExitCode::SUCCESS) };
    let uses = prepared.group_uses(learnt, took)?;
    Ok(print(&planned(&prepared, Some((&uses, &format_duration(learn).to_string())))))
}

impl Args {
    fn options(&self) -> Result<ScheduleOptions, Failure> {
        if !self.only.is_empty() && self.tuning.credit == Credit::Paper {
            return Err("with --credit paper no cgroup has a head start: leave out --only".into());
        }
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
        let Self { credit, memory, guard, slice, short_slice, margin, protect, .. } = *self;
        let preempts = !self.no_preemption;
        Tuning { credit, memory, guard, slice, short_slice, margin, protect, preempts, ..Tuning::default() }
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

/// Measures for this time what each cgroup uses, and how long that was. `None` if lagstop was asked to end.
async fn learn_for(
    time: Duration,
    prepared: &PreparedSchedule,
    endings: &mut Endings,
) -> Result<Option<(Learnt, Duration)>, SchedulerError> {
    say(format_args!("Measuring the CPU use of each cgroup for {} ...\n", format_duration(time)));
    let (learnt, began) = (prepared.learn()?, Instant::now());
    tokio::select! {
        () = sleep(time) => Ok(Some((learnt, began.elapsed()))),
        () = endings.wait() => Ok(None),
    }
}

/// Measures what each cgroup uses, and switches the host. `None` if it was asked to end before.
async fn start(
    args: &Args,
    prepared: PreparedSchedule,
    endings: &mut Endings,
) -> Result<Option<RunningScheduler>, SchedulerError> {
    let learn = args.tuning.learn;
    if learn.is_zero() {
        return prepared.attach(None).map(Some);
    }
    match learn_for(learn, &prepared, endings).await? {
        Some(learnt) => prepared.attach(Some(learnt)).map(Some),
        None => Ok(None),
    }
}

/// Runs until it ends for any reason.
async fn schedule(args: &Args, mut running: RunningScheduler, endings: &mut Endings) -> Result<ExitCode, Failure> {
    let mut log = Log::new();
    log.write(&running, None);
    say(format_args!("LAGS schedules this host (Ctrl-C ends)\n"));
    // Without systemd, nobody is told. LAGS goes on, whatever systemd makes of it.
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("LAGS schedules this host")]);
    let mut had_groups = true;
    let (mut said, mut logged) = (Instant::now(), Some(running.refreshes()));
    let ends = args.duration.and_then(|duration| log.began.checked_add(duration));
    let why = loop {
        let due = ends.map_or(running.due(), |ends| ends.min(running.due()));
        tokio::select! {
            () = sleep_until(due.into()) => {}
            () = endings.wait() => break Why::Asked,
        }
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            break Why::TimeIsOver;
        }
        match running.look() {
            Ok(None) => {
                let has_groups = running.has_groups();
                if std::mem::replace(&mut had_groups, has_groups) && !has_groups {
                    say(format_args!(
                        "lagstop: LAGS does not prefer light cgroups any more, because the cpu controller was disabled in all cgroups. \
                         Enable it again (sudo systemctl set-property --runtime SERVICE CPUWeight=100), or stop LAGS\n"
                    ));
                }
            }
            Ok(Some(SchedulerEnd::CpusChanged)) => {
                // What holds unless it starts again.
                log.write(&running, Some("a CPU went online or offline"));
                log.earlier = log.counted(&running)?;
                drop(running);
                say(format_args!("A CPU went online or offline. Restarting LAGS ...\n"));
                let prepared = schedule::prepare(args.options()?);
                running = prepared.and_then(|prepared| prepared.attach(None)).inspect_err(Log::refused)?;
                logged = None;
            }
            Ok(Some(ended)) => break Why::Ended(ended),
            Err(error) => break Why::Failed(error),
        }
        // In between, some of what is known is assumed.
        if logged.replace(running.refreshes()) == Some(running.refreshes()) {
            continue;
        }
        log.write(&running, None);
        if args.every.is_some_and(|every| said.elapsed() >= every) {
            said = Instant::now();
            say(format_args!("{}\n", line(&log.counted(&running)?, log.began.elapsed())));
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
    let counted = log.counted(&running)?;
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
        for wrong in [
            &["--guard", "5s"][..],
            &["--memory", "100ns"],
            &["--slice", "10us"],
            &["--margin", "-1"],
            &["--status", "--dry-run"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let options = parse(&["--only", "/a*", "--no-preemption"]).unwrap().options().unwrap();
        assert!(options.only.unwrap().is_match("/ab/c") && !options.tuning.preempts);
        let by_load = ["--credit", "paper"];
        assert_eq!(parse(&by_load).unwrap().options().unwrap().tuning.credit, Credit::Paper);
        assert!(parse(&[&by_load[..], &["--only", "/a*"]].concat()).unwrap().options().is_err());
    }
}
