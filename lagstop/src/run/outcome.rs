//! One run of a command, and whether it was disturbed.

use std::{error::Error, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{CommandWaits, Crowder, Disturbance, Limits, WaitedBehind, Work};
use crate::{
    host::{CgroupMoment, Frequency, HostMoment, SeenWork},
    model::Nanos,
    units::{plural, ratio},
};

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Run {
    /// Counted from 1.
    pub number: u32,
    pub verdict: RunVerdict,
    /// The limits that it exceeds.
    pub exceeded: Vec<Exceeded>,
    /// Why it is not judged.
    pub why_not: Option<String>,
    pub status: CommandStatus,
    /// Run time: from right before `exec`, already in its cgroup, until the command ended.
    pub wall_ns: Nanos,
    /// CPU time of the command.
    pub cpu_ns: Nanos,
    pub shares: RunShares,
    /// What its tasks waited for. `null` without eBPF: files do not tell.
    pub waits: Option<CommandWaits>,
    /// The cgroups that it waited behind, longest first. In each interval, only the worst four are known.
    pub behind: Vec<WaitedBehind>,
    /// Cgroups that ran on CPUs allowed to all of its threads, in intervals in which it was crowded out; most CPU time first.
    pub crowded_out_by: Vec<Crowder>,
    /// Moves of its tasks to another CPU.
    pub migrations: Option<u64>,
    /// Moves to another last-level cache.
    pub migrations_cross_llc: Option<u64>,
    /// Moves to another NUMA node.
    pub migrations_cross_numa: Option<u64>,
    /// Mean frequency of the CPUs on which its threads ran, by looks. `null` if the kernel tells none, as in most virtual machines.
    pub frequency: Option<Frequency>,
    /// What `/proc/<tid>/schedstat` showed of its threads. Only without eBPF.
    pub seen: Option<SeenWork>,
    /// Time in which some task of its cgroup waited for a CPU (PSI some). `null` in version 1 of cgroups.
    pub pressure_some_ns: Option<Nanos>,
    /// Time in which some waited and none ran (PSI full).
    pub pressure_full_ns: Option<Nanos>,
    /// Time in which some task of the host waited for a CPU (PSI some).
    pub host_pressure_ns: Option<Nanos>,
    /// Time that a hypervisor took from all CPUs of this host.
    pub host_steal_ns: Option<Nanos>,
    /// Time of all CPUs of this host in tasks and interrupts.
    pub host_busy_ns: Option<Nanos>,
    /// How often CPUs of this host were slowed down because of their heat. `null` if the kernel does not count it.
    pub host_too_hot: Option<u64>,
    /// Events of the host that could not be measured. If there are any, waits may be missing, and the run is not
    /// undisturbed.
    pub lost_events: u64,
}

/// Was it disturbed?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// Everything was measured, and no limit is exceeded.
    Undisturbed,
    /// A limit is exceeded.
    Disturbed,
    /// What would have to be known is not.
    #[default]
    NotJudged,
}

/// A limit, and what is above it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Exceeded {
    pub cause: Disturbance,
    pub share: f64,
    pub limit: f64,
}

/// How the command ended: one of the two is not `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandStatus {
    pub exit_code: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
}

impl CommandStatus {
    pub fn is_success(self) -> bool {
        self.exit_code == Some(0)
    }
}

/// Shares of the time in which the command's tasks ran or waited for a CPU, if not stated otherwise. `null` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RunShares {
    /// Waits behind tasks of other cgroups. Includes their part of `unattributed`.
    pub waited: Option<f64>,
    /// Waits behind other tasks of the command. Includes `crowded_out`, which the text line subtracts.
    pub behind_itself: Option<f64>,
    /// Estimate of the part of `behind_itself` that others caused: they ran on CPUs allowed to all threads of the command, and
    /// these CPUs had too little idle time.
    pub crowded_out: Option<f64>,
    /// Waits behind kernel threads, which may have worked for the command itself.
    pub behind_kernel: Option<f64>,
    /// Waits for a quota.
    pub throttled: Option<f64>,
    /// Waits before a move to another CPU, and waits of unknown cause. `waited` has the same part of them as of all other
    /// waits.
    pub unattributed: Option<f64>,
    /// Waits of all causes.
    pub all_waits: Option<f64>,
    /// Time that a hypervisor took from all CPUs of this host, as a share of the time in which these wanted to run.
    pub steal: Option<f64>,
}

impl RunShares {
    fn of(work: Option<&Work>, seen: Option<&SeenWork>, host: &HostMoment) -> Self {
        let steal = host.steal_ns.zip(host.busy_ns);
        let steal = steal.map(|(steal, busy)| ratio(steal.0 as f64, busy.saturating_add(steal).0 as f64));
        let Some((work, waits)) = work.and_then(|work| Some((work, work.waits?))) else {
            // Files do not tell what for.
            let all = seen.and_then(|seen| {
                let wait = seen.runq_wait_ns?;
                Some(ratio(wait.0 as f64, wait.saturating_add(seen.cpu_ns).0 as f64))
            });
            return Self { all_waits: all, steal, ..Self::default() };
        };
        let time = time(work).0 as f64;
        let share = |wait: Nanos| ratio(wait.0 as f64, time);
        let unattributed = share(waits.elsewhere_ns.saturating_add(waits.unknown_ns));
        let others = share(waits.behind_others_ns);
        let known = share(waits.total_ns) - unattributed;
        Self {
            waited: Some(others + unattributed * ratio(others, known)),
            behind_itself: Some(share(waits.behind_itself_ns)),
            crowded_out: Some(share(work.crowded_out.time_ns)),
            behind_kernel: Some(share(waits.behind_kernel_ns)),
            throttled: Some(share(waits.throttled_ns)),
            unattributed: Some(unattributed),
            all_waits: Some(share(waits.total_ns)),
            steal,
        }
    }

    /// Waits that others caused: `waited` + `crowded_out`.
    pub fn because_of_others(&self) -> Option<f64> {
        Some(self.waited? + self.crowded_out?)
    }

    fn exceeded(&self, limits: &Limits, host: &HostMoment, is_short: bool) -> Vec<Exceeded> {
        let is_rounding = host.steal_ns.is_none_or(|steal| steal < Limits::LEAST_STEAL);
        let exceeded = Disturbance::ALL.into_iter().filter_map(|cause| {
            let limit = limits.of(cause);
            let share = match cause {
                Disturbance::Wait => self.because_of_others().filter(|_| !is_short),
                Disturbance::Throttled => self.throttled.filter(|_| !is_short),
                Disturbance::Steal => self.steal.filter(|_| !is_rounding),
            };
            Some(Exceeded { cause, share: share.filter(|&share| share > limit)?, limit })
        });
        exceeded.collect()
    }
}

/// What is known of a run when it has ended.
#[derive(Clone, Debug)]
pub struct EndedRun {
    pub number: u32,
    pub status: CommandStatus,
    pub wall_ns: Nanos,
    /// CPU time by wait4(2), for where nothing better is known.
    pub cpu_ns: Nanos,
    pub work: Result<Work, Unmeasured>,
    pub seen: Option<SeenWork>,
    pub host: HostMoment,
    pub cgroup: Option<CgroupMoment>,
}

/// Why nothing was measured of a run.
#[derive(Clone, Debug, Error)]
pub enum Unmeasured {
    /// The command has no cgroup of its own, for the reason that its keeper gave.
    #[error("{0}")]
    NoCgroup(String),
    /// Measuring could not start, or failed.
    #[error("{0}")]
    Failed(#[source] Arc<Box<dyn Error + Send + Sync>>),
    #[error("measuring has ended")]
    Ended,
    #[error("measuring did not answer")]
    NoAnswer,
    #[error("its cgroup was not among those that are tracked. Raise --max-cgroups")]
    NotTracked,
}

impl Unmeasured {
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(Arc::new(error.into()))
    }
}

#[cfg(test)]
impl Default for EndedRun {
    fn default() -> Self {
        Self {
            number: 1,
            status: CommandStatus::default(),
            wall_ns: Nanos::ZERO,
            cpu_ns: Nanos::ZERO,
            work: Err(Unmeasured::Ended),
            seen: None,
            host: HostMoment::default(),
            cgroup: None,
        }
    }
}

/// Holds it against `limits`.
pub fn judge(known: EndedRun, limits: &Limits) -> Run {
    let EndedRun { number, status, wall_ns, cpu_ns, work, seen, host, cgroup } = known;
    let shares = RunShares::of(work.as_ref().ok(), seen.as_ref(), &host);
    let why_not = why_not(&work, &shares, limits);
    let is_short = work.as_ref().is_ok_and(|work| time(work) < Limits::LEAST_TIME);
    let exceeded = shares.exceeded(limits, &host, is_short);
    let verdict = match (&why_not, exceeded.is_empty()) {
        // Steal is told by files alone, and is enough.
        (_, false) => RunVerdict::Disturbed,
        (Some(_), true) => RunVerdict::NotJudged,
        (None, true) => RunVerdict::Undisturbed,
    };
    let cgroup = cgroup.unwrap_or_default();
    let work = work.unwrap_or_default();
    Run {
        number,
        verdict,
        exceeded,
        why_not,
        status,
        wall_ns,
        cpu_ns: if work.cpu_ns > Nanos::ZERO { work.cpu_ns } else { cpu_ns },
        shares,
        waits: work.waits,
        behind: work.behind,
        crowded_out_by: work.crowded_out.by(),
        frequency: work.frequency,
        migrations: work.migrations,
        migrations_cross_llc: work.migrations_cross_llc,
        migrations_cross_numa: work.migrations_cross_numa,
        seen,
        pressure_some_ns: cgroup.pressure_some_ns,
        pressure_full_ns: cgroup.pressure_full_ns,
        host_pressure_ns: host.pressure_ns,
        host_steal_ns: host.steal_ns,
        host_busy_ns: host.busy_ns,
        host_too_hot: host.heat,
        lost_events: work.lost,
    }
}

/// How long its tasks ran or waited for a CPU.
fn time(work: &Work) -> Nanos {
    work.cpu_ns.saturating_add(work.waits.map(|waits| waits.total_ns).unwrap_or_default())
}

/// Why it cannot be judged what the run's tasks waited for.
fn why_not(work: &Result<Work, Unmeasured>, shares: &RunShares, limits: &Limits) -> Option<String> {
    let work = match work {
        Ok(work) => work,
        Err(why) => return Some(why.to_string()),
    };
    if work.waits.is_none() {
        return Some("the causes of its waits were not measured".to_owned());
    }
    let time = time(work);
    if time < Limits::LEAST_TIME {
        return Some(format!(
            "it ran and waited for {time} in all, and less than {} tells nothing",
            Limits::LEAST_TIME
        ));
    }
    if work.lost > 0 {
        let events = plural(work.lost, "event");
        return Some(format!("{events} of the host could not be measured, so some of its waits may be missing"));
    }
    let is_met = |waited: f64| waited <= limits.max_wait;
    let waited = shares.because_of_others().unwrap_or_default();
    let may_be_more = |by: Nanos| is_met(waited) && !is_met(waited + ratio(by.0 as f64, time.0 as f64));
    // Those behind cgroups that may be the command's own may be others'.
    if may_be_more(work.unnamed_ns) {
        return Some("it waited behind more cgroups than are named, which may be its own or others".to_owned());
    }
    if may_be_more(work.crowded_out.perhaps_ns.saturating_add(work.unnamed_ns)) {
        return Some(
            "its threads waited for each other, and lagstop cannot tell whether it was crowded out".to_owned(),
        );
    }
    // Waits of unknown cause are taken to be as those of known cause. Where these are fewer, that tells too little.
    let unattributed = shares.unattributed.unwrap_or_default();
    let known = shares.all_waits.unwrap_or_default() - unattributed;
    (known < unattributed && unattributed > limits.max_wait && is_met(waited))
        .then(|| "most of its waits could not be attributed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CrowdedOut;

    const MS: u64 = 1_000_000;

    fn ms(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    fn run_of(waits: CommandWaits, host: HostMoment) -> Run {
        let work = Work { cpu_ns: ms(900), waits: Some(waits), ..Work::default() };
        judge(EndedRun { number: 1, work: Ok(work), host, ..EndedRun::default() }, &Limits::default())
    }

    fn waits(behind_others: u64, behind_itself: u64, elsewhere: u64) -> CommandWaits {
        CommandWaits {
            count: 10,
            total_ns: ms(behind_others + behind_itself + elsewhere),
            behind_others_ns: ms(behind_others),
            behind_itself_ns: ms(behind_itself),
            elsewhere_ns: ms(elsewhere),
            ..CommandWaits::default()
        }
    }

    #[test]
    fn who_waits_behind_others_is_disturbed_and_who_waits_behind_itself_is_not() {
        let run = run_of(waits(100, 0, 0), HostMoment::default());
        assert_eq!((run.verdict, run.shares.waited), (RunVerdict::Disturbed, Some(0.1)));
        assert_eq!(run.exceeded, [Exceeded { cause: Disturbance::Wait, share: 0.1, limit: 0.01 }]);
        let run = run_of(waits(5, 3_000, 0), HostMoment::default());
        assert_eq!(run.verdict, RunVerdict::Undisturbed, "{:?}", run.shares);
        assert!(run.shares.behind_itself.is_some_and(|share| share > 0.7));
    }

    #[test]
    fn who_is_crowded_out_is_disturbed_and_who_may_have_been_is_not_judged() {
        let crowded_work = |behind_others, time, perhaps| {
            let id = crate::model::CgroupId(5);
            let crowder = Crowder { id, path: "/a".into(), name: "a".into(), cpu_ns: ms(9) };
            let crowded_out = CrowdedOut { time_ns: ms(time), perhaps_ns: ms(perhaps), ran: [(id, crowder)].into() };
            let waits = Some(waits(behind_others, 500 - behind_others, 0));
            Work { cpu_ns: ms(500), waits, crowded_out, ..Work::default() }
        };
        let crowded = |behind_others, time, perhaps| {
            let work = Ok(crowded_work(behind_others, time, perhaps));
            judge(EndedRun { work, ..EndedRun::default() }, &Limits::default())
        };
        let run = crowded(0, 400, 0);
        assert_eq!((run.verdict, run.shares.crowded_out), (RunVerdict::Disturbed, Some(0.4)));
        assert_eq!(run.exceeded, [Exceeded { cause: Disturbance::Wait, share: 0.4, limit: 0.01 }]);
        assert_eq!(run.crowded_out_by.len(), 1);
        // Neither alone is above the limit.
        assert_eq!(crowded(6, 6, 0).verdict, RunVerdict::Disturbed);
        assert_eq!(crowded(3, 0, 3).verdict, RunVerdict::Undisturbed);
        let run = crowded(3, 0, 100);
        assert_eq!(run.verdict, RunVerdict::NotJudged);
        assert!(run.why_not.is_some_and(|why| why.contains("was crowded out")));
        assert_eq!(crowded(3, 100, 100).verdict, RunVerdict::Disturbed, "what is known is enough");
        let work = Work { unnamed_ns: ms(6), ..crowded_work(0, 0, 6) };
        let run = judge(EndedRun { work: Ok(work), ..EndedRun::default() }, &Limits::default());
        assert_eq!(run.verdict, RunVerdict::NotJudged, "each alone is below the limit");
    }

    #[test]
    fn waits_before_a_move_are_split_as_the_others_are() {
        // Nobody else was there: all of it was behind others.
        let run = run_of(waits(6, 0, 6), HostMoment::default());
        assert_eq!(run.verdict, RunVerdict::Disturbed, "{:?}", run.shares);
        // Its own threads make each other wait, and move.
        let run = run_of(waits(1, 400, 300), HostMoment::default());
        assert_eq!(run.verdict, RunVerdict::Undisturbed, "{:?}", run.shares);
        // Nothing is known of most.
        let run = run_of(waits(0, 1, 300), HostMoment::default());
        assert_eq!(run.verdict, RunVerdict::NotJudged, "{:?}", run.shares);
    }

    #[test]
    fn quotas_and_hypervisors_disturb_too() {
        let throttled = CommandWaits { total_ns: ms(100), throttled_ns: ms(100), ..CommandWaits::default() };
        assert_eq!(run_of(throttled, HostMoment::default()).exceeded[0].cause, Disturbance::Throttled);
        let host = |steal| HostMoment { steal_ns: Some(ms(steal)), busy_ns: Some(ms(900)), ..HostMoment::default() };
        assert_eq!(run_of(waits(0, 0, 0), host(100)).exceeded[0].cause, Disturbance::Steal);
        let rounded = HostMoment { busy_ns: Some(ms(50)), ..host(20) };
        assert_eq!(run_of(waits(0, 0, 0), rounded).verdict, RunVerdict::Undisturbed, "two ticks of two CPUs");
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let unmeasured =
            |work: Result<Work, Unmeasured>| judge(EndedRun { work, ..EndedRun::default() }, &Limits::default());
        let run = unmeasured(Err(Unmeasured::failed("not permitted")));
        assert_eq!((run.verdict, run.why_not.as_deref()), (RunVerdict::NotJudged, Some("not permitted")));
        assert_eq!(run.shares, RunShares::default());
        let run = unmeasured(Ok(Work { cpu_ns: ms(900), ..Work::default() }));
        assert!(run.why_not.is_some_and(|why| why.contains("causes")));
        let short = Work { cpu_ns: ms(2), waits: Some(waits(1, 0, 0)), ..Work::default() };
        let run = unmeasured(Ok(short));
        assert_eq!(run.verdict, RunVerdict::NotJudged);
        assert!(run.why_not.is_some_and(|why| why.contains("3.00 ms")));
    }

    #[test]
    fn who_waits_behind_unnamed_cgroups_may_have_been_disturbed() {
        let crowded = |unnamed: u64| {
            let waits = CommandWaits { unknown_ns: ms(unnamed), total_ns: ms(400 + unnamed), ..waits(0, 400, 0) };
            let work = Work { cpu_ns: ms(900), waits: Some(waits), unnamed_ns: ms(unnamed), ..Work::default() };
            judge(EndedRun { work: Ok(work), ..EndedRun::default() }, &Limits::default())
        };
        assert_eq!(crowded(5).verdict, RunVerdict::Undisturbed);
        let run = crowded(50);
        assert_eq!(run.verdict, RunVerdict::NotJudged, "{:?}", run.shares);
        assert!(run.why_not.is_some_and(|why| why.contains("its own or others")));
    }

    #[test]
    fn where_something_was_not_measured_nothing_is_undisturbed() {
        let lossy = |behind_others| {
            let work = Work { cpu_ns: ms(900), waits: Some(waits(behind_others, 0, 0)), lost: 3, ..Work::default() };
            judge(EndedRun { work: Ok(work), ..EndedRun::default() }, &Limits::default())
        };
        let run = lossy(0);
        assert_eq!((run.verdict, run.lost_events), (RunVerdict::NotJudged, 3));
        assert!(run.why_not.is_some_and(|why| why.starts_with("3 events of the host")));
        assert_eq!(lossy(100).verdict, RunVerdict::Disturbed, "what was measured is enough");
    }

    #[test]
    fn files_tell_how_long_and_not_what_for() {
        let seen = SeenWork { cpu_ns: ms(90), runq_wait_ns: Some(ms(10)), threads: 2 };
        let known = EndedRun { work: Err(Unmeasured::failed("not root")), seen: Some(seen), ..EndedRun::default() };
        let run = judge(known, &Limits::default());
        assert_eq!((run.verdict, run.shares.all_waits, run.shares.waited), (RunVerdict::NotJudged, Some(0.1), None));
    }
}
