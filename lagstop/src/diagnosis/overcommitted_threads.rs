//! Rule: cgroups with more runnable threads than CPUs they get.
//!
//! Thesis on oversubscribed thread pools (004): a pool should have as many active threads as
//! `ceil(O · cpu_self / cpu_all · CPUs)`, O = 1: what it really gets of the host; and no more than its quota.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    rated::is_rated,
    single, wait_causes,
};
use crate::{
    model::{CgroupId, Derived, Measure, Nanos},
    units::{self, MOSTLY},
};

figures! {
    [shared wait_causes::figures::waiting]
    threads: Count, "threads" = "Σ tasks seen running in an interval / intervals in which any was", COUNTED;
    runnable: Tasks, "runnable threads" = Derived::RUNNABLE_LOAD.formula, COUNTED;
    throttled = THROTTLED, COUNTED;
    quota: Cores, "quota" = "quota_ns per second", COUNTED;
    overcommit: Factor, "runnable threads per CPU it gets" = "runnable / parallelism", "thesis on oversubscribed thread pools (004)";
    parallelism: Count, "threads that can run at once" = "ceil(min(cpu_ns / all_cpu_ns · cpus_online, quota_ns per second))", "thesis on oversubscribed thread pools (004), O = 1";
    self_inflicted: Share, "wait behind own threads or quota" = "(wait_self_ns + wait_throttled_ns) / runq_wait_ns", COUNTED;
    runnable_per_cpu = RUNNABLE_PER_CPU, COUNTED;
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let found = pools(observations).filter_map(|(id, observed, pool)| {
        let is_bad = observations.too_short(thresholds).is_none()
            && pool.is_overcommitted(thresholds)
            && pool.self_inflicted.is_some_and(|part| part >= MOSTLY);
        is_bad.then(|| (pool.waiting, finding(observations, thresholds, (id, observed), &pool)))
    });
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

fn pools(observations: &Observations) -> impl Iterator<Item = (CgroupId, &Observed, Pool)> {
    let all = observations.tasks().map_or(0.0, |totals| totals.cpu_ns.0 as f64);
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
    rated.filter_map(move |(&id, observed)| Some((id, observed, Pool::of(observations, observed, all)?)))
}

/// The threads of a cgroup, and the CPUs that they get.
struct Pool {
    /// Runnable, and of them waiting, on average.
    runnable: f64,
    waiting: f64,
    waits: u64,
    during: Nanos,
    /// CPUs that it gets: a whole number, its quota at most.
    active: u64,
    quota: Option<f64>,
    /// Share of the quota periods in which the quota was used up.
    throttled: Option<f64>,
    threads: u64,
    /// The part of its wait that its own threads caused. `None` where that was not measured.
    self_inflicted: Option<f64>,
}

/// The share of a cgroup's wait that was behind its own threads, or because they had used up its quota.
fn self_inflicted(observed: &Observed) -> Option<f64> {
    let for_quota = observed.quota_ns.and_then(|_| observed.part_of_wait(observed.totals.wait_throttled_ns));
    Some((observed.self_inflicted()? + for_quota.unwrap_or(0.0)).min(1.0))
}

impl Pool {
    /// `None` where waits were not measured.
    fn of(observations: &Observations, observed: &Observed, all_cpu: f64) -> Option<Self> {
        let wait = observed.totals.runq_wait_ns?;
        let share = observed.totals.cpu_ns.0 as f64 / all_cpu;
        let quota = observed.quota_ns.map(|quota| quota.seconds());
        let cpus = observations.cpus() as f64;
        let gets = (share * cpus).min(quota.unwrap_or(f64::INFINITY));
        Some(Self {
            runnable: observed.runnable(observations),
            waiting: wait.cores(observations.span.duration_ns).0,
            waits: observed.totals.runq_waits.unwrap_or_default(),
            during: observations.span.duration_ns,
            active: if gets.is_finite() { gets.ceil().max(1.0) as u64 } else { 1 },
            quota,
            throttled: observed.files.throttled(),
            threads: observed.threads(),
            self_inflicted: self_inflicted(observed),
        })
    }

    fn overcommit(&self) -> f64 {
        self.runnable / self.active as f64
    }

    fn is_overcommitted(&self, thresholds: &Thresholds) -> bool {
        thresholds.are_enough(self.waits, self.during) && self.overcommit() >= thresholds.threads_overcommit_warn
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (id, observed): (CgroupId, &Observed),
    pool: &Pool,
) -> Finding {
    let subject = observed.subject(id);
    Finding {
        rule: Rule::OvercommittedThreads,
        culprits: vec![subject.clone()],
        severity: Severity::Warning,
        verdict: format!(
            "{subject} keeps {} threads runnable on the {} that it gets, so they queue behind each other{}.",
            units::number(pool.runnable),
            units::plural(pool.active, "CPU"),
            pool.self_inflicted.map_or_else(String::new, |own| {
                format!(" for {} of their time", units::percent(own * pool.waiting / pool.runnable))
            }),
        ),
        measured: vec![
            figures::overcommit.is(pool.overcommit()),
            figures::runnable.is(pool.runnable),
            figures::parallelism.is(pool.active).note("its share of CPU time × CPUs, at most its quota, rounded up"),
            figures::threads.is(pool.threads).note("average per interval"),
            wait_causes::figures::waiting.is(pool.waiting),
            figures::self_inflicted.measured(pool.self_inflicted, &observations.session.why_not(Measure::Blame)),
            figures::throttled.measured(pool.throttled, "no quota of its own"),
            figures::quota.measured(pool.quota, "none of its own, or not recorded"),
        ],
        threshold: vec![thresholds.state(Limit::threads_overcommit_warn)],
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: pool.waits,
            samples_are: "waits",
            agreeing: None,
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
        }
        .confidence(),
        caveats: vec![
            "Threads that do different work are not a pool and may not be reducible.".to_owned(),
            "Fewer threads may mean less CPU time under competition, unless the cgroup has its own scheduling group."
                .to_owned(),
        ],
        advice: vec![Advice::new(format!(
            "Size its thread pool to about {}, with GOMAXPROCS, -XX:ActiveProcessorCount, OMP_NUM_THREADS, \
             worker_processes or the setting of its runtime. This saves context switches.",
            units::plural(pool.active, "thread")
        ))],
        subject,
        cgroups: Vec::new(),
    }
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let waits = observations.host.as_ref().and_then(|host| host.totals.runq_wait_ns);
    let is_unknown =
        || pools(observations).any(|(.., pool)| pool.self_inflicted.is_none() && pool.is_overcommitted(thresholds));
    let (severity, verdict) = match (observations.too_short(thresholds), waits) {
        (Some(too_short), _) => (Severity::NotEnoughData, format!("Cannot judge thread counts: {too_short}.")),
        (None, None) => {
            let why = observations.session.why_not(Measure::RunqWait);
            (Severity::NotEnoughData, format!("Cannot judge thread counts: run-queue wait is {why}."))
        }
        (None, Some(_)) if is_unknown() => {
            let why = observations.session.why_not(Measure::Blame);
            let verdict = format!(
                "Cannot judge thread counts: some cgroups have many more runnable threads than CPUs, but whether \
                 these queue behind each other is {why}."
            );
            (Severity::NotEnoughData, verdict)
        }
        (None, Some(_)) => {
            (Severity::Ok, "No cgroup has so many runnable threads that they mainly wait for each other.".to_owned())
        }
    };
    let whole = observations.whole();
    single::healthy(
        Rule::OvercommittedThreads,
        (severity, verdict),
        vec![figures::runnable_per_cpu.is(whole.load_per_cpu())],
        thresholds.state(Limit::threads_overcommit_warn),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
