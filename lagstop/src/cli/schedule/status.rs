//! `lagstop schedule --status`, and the file that it reads.

use std::{
    fmt::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    cli::{Failure, print, say},
    display::{display_name, pad_left},
    host::started,
    kernel::loaded_scheduler,
    schedule::{
        GroupStatus, NAME, RunningScheduler, ScheduleState, SchedulerCounts, SchedulerError, SchedulerStatus,
        StatusError,
    },
    units::{count, number, plural},
};

/// Writes the file that `--status` reads.
pub(super) struct Log {
    pub(super) began: Instant,
    process_started: u64,
    /// What was done before it was last started again.
    pub(super) earlier: SchedulerCounts,
    has_failed: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        let process_started = started(std::process::id()).unwrap_or(0);
        Self { began: Instant::now(), process_started, earlier: SchedulerCounts::default(), has_failed: false }
    }

    /// What was done since it began.
    pub(super) fn counted(&self, running: &RunningScheduler) -> Result<SchedulerCounts, SchedulerError> {
        Ok(self.earlier.and(running.counted()?))
    }

    /// A failure to write is only reported once.
    pub(super) fn write(&mut self, running: &RunningScheduler, ended: Option<&str>) {
        const GROUPS: usize = 20;
        let Ok(counted) = self.counted(running) else { return };
        let state = ended.map_or(ScheduleState::Schedules, |why| ScheduleState::Ended(why.to_owned()));
        let status = self.status(state, counted, running.groups(GROUPS).0);
        if let Err(error) = status.write()
            && !std::mem::replace(&mut self.has_failed, true)
        {
            say(format_args!("lagstop: --status will not work: {error}\n"));
        }
    }

    /// That LAGS was not started. What one that schedules says is left alone.
    pub(super) fn refused(why: &SchedulerError) {
        let is_alive =
            SchedulerStatus::read().is_ok_and(|status| status.state == ScheduleState::Schedules && status.is_alive());
        if !is_alive {
            let state = ScheduleState::Refused(why.to_string());
            // Only root may write it, and who is refused because of that is told.
            let _ = Self::new().status(state, SchedulerCounts::default(), Vec::new()).write();
        }
    }

    fn status(&self, state: ScheduleState, counted: SchedulerCounts, groups: Vec<GroupStatus>) -> SchedulerStatus {
        let seconds = self.began.elapsed().as_secs_f64();
        SchedulerStatus {
            pid: std::process::id(),
            process_started: self.process_started,
            seconds,
            state,
            counted,
            groups,
        }
    }
}

/// The shortest time of which a rate is said. What is counted begins some milliseconds before the time does.
const SHORTEST: Duration = Duration::from_secs(1);
const BY_OTHERS: &str = "LAGS schedules this host, started by lagstop trial or lagstop bench";

/// Exit code of `--status`: LAGS does not schedule this host.
const NOT_IN_FORCE: u8 = 3;

/// `--status`
pub(super) fn show() -> Result<ExitCode, Failure> {
    let loaded = loaded_scheduler();
    let is_loaded = loaded.as_deref() == Some(NAME);
    let status = match SchedulerStatus::read() {
        // The command itself has not run.
        Err(StatusError::Nothing) if is_loaded => return Ok(print(&format!("{BY_OTHERS}.\n"))),
        status => status?,
    };
    Ok(match print(&shown(&status, status.is_alive(), loaded.as_deref())) {
        ExitCode::SUCCESS if !is_loaded => ExitCode::from(NOT_IN_FORCE),
        code => code,
    })
}

/// `loaded` is the scheduler that is loaded, empty for the kernel's own.
fn shown(status: &SchedulerStatus, is_alive: bool, loaded: Option<&str>) -> String {
    let is_running = status.state == ScheduleState::Schedules && is_alive;
    let schedules = is_running && loaded == Some(NAME);
    let now = match loaded {
        Some(NAME) if schedules => {
            format!("LAGS schedules this host (process {0}). To stop it: sudo kill -INT {0}", status.pid)
        }
        Some(NAME) => BY_OTHERS.to_owned(),
        _ => "LAGS does not schedule this host".to_owned(),
    };
    let last = match &status.state {
        ScheduleState::Refused(why) => format!("The last start of lagstop schedule was refused: {why}.\n"),
        ScheduleState::Ended(why) => format!("The last run of lagstop schedule ended: {why}.\n"),
        ScheduleState::Schedules if schedules => String::new(),
        ScheduleState::Schedules if is_running => {
            format!("lagstop schedule (process {}) starts it again, or does not react.\n", status.pid)
        }
        ScheduleState::Schedules => format!("The last run of lagstop schedule, process {}, was killed.\n", status.pid),
    };
    let loaded = match loaded {
        None => "The kernel has no sched_ext.".to_owned(),
        Some("") => "The kernel's own scheduler is in force.".to_owned(),
        Some(name) => format!("The sched_ext scheduler {} is loaded.", display_name(name)),
    };
    let mut text = format!("{now}.\n{last}{loaded}\n");
    if matches!(status.state, ScheduleState::Refused(_)) {
        return text;
    }
    let _ = writeln!(text, "{}", line(&status.counted, Duration::from_secs_f64(status.seconds)));
    if !status.groups.is_empty() {
        let by_load = status.groups.iter().any(|group| group.load_credit.is_some());
        let credit = if by_load { " LOAD CREDIT" } else { "" };
        let when = if schedules { "Since LAGS was last put in force" } else { "At the end of that run" };
        let _ = writeln!(
            text,
            "\n{when}, the cgroups with the most turns. SHARE: fair share in CPUs. TASKS: running or waiting, on average. PREEMPTED: times it had to \
             make way for a lighter cgroup, a kernel thread or lagstop.\n   SHARE   TASKS       TURNS   PREEMPTED{credit}  CGROUP"
        );
        status.groups.iter().for_each(|group| text.push_str(&row(group)));
    }
    text
}

/// What was done, in sentences.
pub(super) fn line(counted: &SchedulerCounts, time: Duration) -> String {
    let is_rate = time >= SHORTEST;
    let when = if is_rate {
        humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64)).to_string()
    } else {
        "less than a second".to_owned()
    };
    let done = |n: u64, what: &str| {
        if is_rate { format!("{} {what}s/s", number(n as f64 / time.as_secs_f64())) } else { plural(n, what) }
    };
    let mut text = format!(
        "In {when}: {} (each is a task's time on a CPU), {}, {} prolonged because no task was due earlier.",
        done(counted.dispatched + counted.to_idle, "turn"),
        done(counted.preempted, "preemption"),
        done(counted.kept, "turn"),
    );
    if counted.overdue > 0 {
        let _ = write!(text, " A task ran later than --guard allows {}.", plural(counted.overdue, "time"));
    }
    if counted.unknown > 0 {
        let _ = write!(text, " A task of a cgroup that LAGS has no room for ran {}.", plural(counted.unknown, "time"));
    }
    text
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
    use super::*;

    #[test]
    fn a_line_says_what_was_done() {
        let counted =
            SchedulerCounts { dispatched: 500, to_idle: 500, preempted: 20, kept: 10, ..SchedulerCounts::default() };
        let said = line(&counted, Duration::from_secs(10));
        assert_eq!(
            said,
            "In 10s: 100 turns/s (each is a task's time on a CPU), 2.00 preemptions/s, 1.00 turns/s prolonged because no task was due earlier."
        );
        let said = line(&counted, Duration::from_millis(20));
        assert!(said.starts_with("In less than a second: 1000 turns (each is a task's time on a CPU), 20 preemptions, 10 turns prolonged "), "{said}");
        let counted = SchedulerCounts { overdue: 3, ..counted };
        assert!(line(&counted, Duration::from_secs(10)).ends_with(" A task ran later than --guard allows 3 times."));
    }

    #[test]
    fn how_it_stands_is_said_first() {
        let of = |state, is_alive, loaded| {
            let status = Log::new().status(state, SchedulerCounts::default(), Vec::new());
            shown(&status, is_alive, loaded)
        };
        let refused = of(ScheduleState::Refused("no".to_owned()), false, Some(""));
        assert_eq!(
            refused,
            "LAGS does not schedule this host.\nThe last start of lagstop schedule was refused: no.\nThe kernel's own scheduler is in \
             force.\n"
        );
        let ended = |loaded| of(ScheduleState::Ended("asked to end".to_owned()), false, Some(loaded));
        let other = ended("flatcg");
        assert!(other.contains("ended: asked to end.\nThe sched_ext scheduler flatcg is loaded.\nIn "), "{other}");
        assert!(ended(NAME).starts_with("LAGS schedules this host, started by lagstop trial"), "{}", ended(NAME));
        assert!(of(ScheduleState::Schedules, true, Some(NAME)).starts_with("LAGS schedules this host (process "));
        let again = of(ScheduleState::Schedules, true, Some(""));
        assert!(again.starts_with("LAGS does not schedule this host.\nlagstop schedule (process "), "{again}");
        assert!(of(ScheduleState::Schedules, false, None).contains("was killed.\nThe kernel has no sched_ext."));
    }
}
