//! What the cgroups ask of the CPUs.

use super::Group;
use crate::model::{Cgroup, Nanos};

/// A task that was runnable for at least this share of the time, and hardly ever slept, counts as one that never
/// sleeps. Chosen: waits are booked when they end, so that some of them are missing.
const ALWAYS: f64 = 0.9;

/// What was asked of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// CPUs that serve.
    pub cpus: usize,
    /// Cgroups by their number, those that others are inside of as well.
    pub groups: Vec<Group>,
    /// What they asked for, one stretch of time after the other.
    pub steps: Vec<Step>,
    /// What comes of a task that is done sooner than it was.
    pub arrivals: Arrivals,
}

/// What comes of a task that is done sooner than it was: a recording does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// The next burst comes when it came: there is as much to do as there was.
    #[default]
    Open,
    /// It sleeps for as long as it did, and comes again: there is the more to do.
    Closed,
}

/// What was asked in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// How long it is, in seconds.
    pub duration: f64,
    /// CPUs that tasks could have, without what interrupts and a hypervisor took.
    pub cpus: f64,
    /// Who asked, by ascending number, and for what.
    pub demands: Vec<(usize, Demand)>,
}

/// What a cgroup asks for in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Its Load Credit at the start.
    pub credit: f64,
    /// Tasks that never sleep.
    pub spinners: u32,
    /// Their CPU time, in seconds in all.
    pub spun: f64,
    /// Tasks that sleep at times.
    pub tasks: u32,
    /// Bursts of all those that sleep, from waking up until falling asleep.
    pub bursts: u32,
    /// How often they were seen to fall asleep: less often than there are bursts where one of them did not end.
    pub sleeps: u32,
    /// CPU time of a burst on average, in seconds, without what switches cost.
    pub service: f64,
    /// How long a task sleeps after each burst on average, in seconds.
    pub pause: f64,
    /// What its tasks were measured to wait, in seconds in all.
    pub waited: f64,
    /// Of that, while their quota stopped them.
    pub throttled: f64,
    /// What they were measured to have of the CPUs, in seconds in all.
    pub ran: f64,
    /// Tasks that were runnable on average, and how many ran.
    pub load: f64,
    pub threads: f64,
}

impl Trace {
    /// The most CPUs that are simulated, and the most tasks that never sleep on each of them. A larger trace is not a
    /// recording of a real host.
    const MOST_CPUS: usize = 4_096;
    const MOST_TASKS: u64 = 2_000;
    /// The most run queues (one for each cgroup and CPU), and the most cgroups.
    const MOST_QUEUES: usize = 500_000;
    const MOST_GROUPS: usize = 20_000;
    /// The fewest steps that are kept, however many bursts they have.
    const FEWEST_STEPS: usize = 8;
    /// Number of consecutive steps that are kept together: a burst may be longer than one step.
    const IN_A_ROW: usize = 4;

    pub fn bursts(&self) -> u64 {
        self.steps.iter().map(Step::bursts).fold(0, u64::saturating_add)
    }

    /// How long it is, in seconds.
    pub fn duration(&self) -> f64 {
        self.steps.iter().map(|step| step.duration).sum()
    }

    /// Whether anything can be simulated: there are CPUs that something is asked of, and neither they nor the tasks are too
    /// many.
    pub fn is_sound(&self) -> bool {
        let fits = |step: &Step| step.tasks_awake() <= Self::MOST_TASKS;
        let asks = self.steps.iter().any(|step| !step.demands.is_empty() && step.duration > 0.0);
        let queues = self.groups.len().saturating_mul(self.cpus);
        let is_small = queues <= Self::MOST_QUEUES && self.groups.len() <= Self::MOST_GROUPS;
        (1..=Self::MOST_CPUS).contains(&self.cpus) && asks && is_small && self.steps.iter().all(fits)
    }

    /// The same with so many bursts and so many seconds at most: steps spread over all of it, and where a few of them have more
    /// already, the first part of each.
    #[must_use]
    pub fn shortened(&self, most_bursts: u64, most_seconds: f64) -> Self {
        let work = self.steps.iter().map(Step::work).fold(0, u64::saturating_add);
        let many = work.div_ceil(most_bursts.max(1)).max((self.duration() / most_seconds).ceil() as u64).max(1);
        let stride = (self.steps.len() / Self::FEWEST_STEPS).clamp(1, usize::try_from(many).unwrap_or(usize::MAX));
        let rows = self.steps.chunks(Self::IN_A_ROW).step_by(stride);
        let steps: Vec<&Step> = rows.flatten().collect();
        let bursts = steps.iter().map(|step| step.bursts()).fold(0, u64::saturating_add);
        let seconds: f64 = steps.iter().map(|step| step.duration).sum();
        let part = (most_bursts as f64 / bursts.max(1) as f64).min(most_seconds / seconds.max(1e-9)).min(1.0);
        let shorten = |step: &Step| Step {
            duration: step.duration * part,
            cpus: step.cpus,
            demands: step.demands.iter().map(|&(group, demand)| (group, demand.part(part))).collect(),
        };
        let (steps, groups) = (steps.into_iter().map(shorten).collect(), self.groups.clone());
        Self { cpus: self.cpus, groups, steps, arrivals: self.arrivals }
    }
}

impl Step {
    fn bursts(&self) -> u64 {
        self.demands.iter().map(|(_, demand)| u64::from(demand.bursts)).sum()
    }

    /// Work of simulating it: a task that never sleeps is put on a CPU once.
    fn work(&self) -> u64 {
        self.bursts().saturating_add(self.tasks_awake())
    }

    /// Tasks that never sleep.
    fn tasks_awake(&self) -> u64 {
        self.demands.iter().map(|(_, demand)| u64::from(demand.spinners)).sum()
    }
}

impl Demand {
    /// What `cgroup` asked for in an interval of this duration. `None` where it did not run, or where waits were not
    /// measured.
    pub fn of(cgroup: &Cgroup, duration: Nanos) -> Option<Self> {
        let totals = &cgroup.totals;
        let (cpu, wait) = (totals.cpu_ns.seconds(), totals.runq_wait_ns?.seconds());
        if cpu <= 0.0 || duration == Nanos::ZERO {
            return None;
        }
        let credit = cgroup.load_credit.map_or(0.0, |credit| credit.0);
        let time = duration.seconds();
        let fell_asleep = totals.voluntary_switches as f64;
        // Waits are booked where they end: a task that always wants to run has a load of 1 on average, not in each
        // interval.
        let threads = (totals.threads as f64).max(1.0);
        let load = ((cpu + wait) / time).min(threads);
        // A task that did not sleep once while the others did, and was runnable all the time, never sleeps.
        let spinners = (threads - fell_asleep).max(0.0).min((load + 1.0 - ALWAYS).floor());
        let left = load - spinners;
        // The CPU time of spinners is not known separately: they get the same share of it as of all that was runnable.
        let part = if load > 0.0 { left / load } else { 0.0 };
        let tasks = left.ceil().max(fell_asleep.min(threads - spinners)).min(threads - spinners);
        let bursts = fell_asleep.max(tasks);
        let sleeps = tasks >= 1.0 && left > 0.0;
        let cost = totals.switch_cost().unwrap_or_default().seconds();
        let service = if sleeps { (cpu * part - cost).max(0.0) / bursts } else { 0.0 };
        let (tasks, bursts) = if sleeps { (whole(tasks), whole(bursts)) } else { (0, 0) };
        let pause = (f64::from(tasks) - left).max(0.0) * time / f64::from(bursts.max(1));
        let spun = if spinners > 0.0 { (cpu * (1.0 - part)).max(0.0) } else { 0.0 };
        let sleeps = fell_asleep.min(f64::from(u32::MAX)) as u32;
        Some(Self {
            credit,
            spinners: spinners as u32,
            spun,
            tasks,
            bursts,
            sleeps,
            service,
            pause,
            waited: wait,
            throttled: totals.wait_throttled_ns.unwrap_or_default().seconds().min(wait),
            ran: cpu,
            load,
            threads,
        })
    }

    /// CPU time that its bursts take, in seconds.
    pub fn work(&self) -> f64 {
        self.service * f64::from(self.bursts)
    }

    /// Tasks that want a CPU on average, over `duration` seconds: not those that their quota stops.
    pub fn asks(&self, duration: f64) -> f64 {
        (self.load - self.throttled / duration).max(self.ran / duration)
    }

    /// The demand in a part of the time. At least one burst, which is then shorter.
    fn part(self, part: f64) -> Self {
        let sleeps = (f64::from(self.sleeps) * part).round() as u32;
        let shorter = Self {
            spun: self.spun * part,
            sleeps,
            waited: self.waited * part,
            throttled: self.throttled * part,
            ran: self.ran * part,
            ..self
        };
        if self.bursts == 0 {
            return shorter;
        }
        let bursts = (f64::from(self.bursts) * part).round().max(1.0);
        // Total work and total sleep stay the same.
        let each = f64::from(self.bursts) * part / bursts;
        Self { bursts: whole(bursts), service: self.service * each, pause: self.pause * each, ..shorter }
    }
}

fn whole(number: f64) -> u32 {
    number.clamp(1.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CgroupId, Tasks, Totals};

    fn cgroup(cpu_ms: u64, wait_ms: u64, slept: u64, threads: u64) -> Cgroup {
        let totals = Totals {
            cpu_ns: Nanos(cpu_ms * 1_000_000),
            runq_wait_ns: Some(Nanos(wait_ms * 1_000_000)),
            voluntary_switches: slept,
            threads,
            ..Totals::default()
        };
        Cgroup { id: CgroupId(7), totals, load_credit: Some(Tasks(0.5)), ..Cgroup::default() }
    }

    fn of(cpu_ms: u64, wait_ms: u64, slept: u64, threads: u64) -> Demand {
        Demand::of(&cgroup(cpu_ms, wait_ms, slept, threads), Nanos::SECOND).unwrap()
    }

    #[test]
    fn tasks_that_sleep_ask_in_bursts() {
        let found = of(200, 100, 100, 4);
        assert!((found.pause - 0.037).abs() < 1e-9, "{found:?}");
        let expected = Demand {
            credit: 0.5,
            tasks: 4,
            bursts: 100,
            sleeps: 100,
            service: 0.002,
            pause: found.pause,
            waited: 0.1,
            ran: 0.2,
            load: found.load,
            threads: 4.0,
            ..Demand::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn tasks_that_never_sleep_are_no_more_than_there_are_threads() {
        let of = |cpu, wait, slept, threads| {
            let demand = of(cpu, wait, slept, threads);
            (demand.spinners, demand.tasks, demand.bursts)
        };
        assert_eq!(of(900, 1_050, 0, 2), (2, 0, 0));
        // Waits are booked where they end: what is missing in this interval is in the next one.
        assert_eq!([of(1_003, 0, 0, 1), of(500, 504, 0, 1), of(950, 0, 0, 1)], [(1, 0, 0); 3]);
        assert_eq!([of(950, 1_060, 0, 2), of(4, 2_004, 0, 2)], [(2, 0, 0); 2]);
        assert_eq!(of(300, 100, 0, 1), (0, 1, 1), "it came, ran and went");
        assert_eq!(of(980, 1_000, 1, 3), (2, 0, 0), "two that never slept, and one that hardly ran");
        let (spinners, tasks, bursts) = of(1_200, 0, 50, 2);
        assert_eq!((spinners, tasks, bursts), (0, 2, 50), "which of them slept is not known");
    }

    #[test]
    fn a_shortened_trace_asks_for_as_much_in_a_shorter_time() {
        let demands = [of(500, 0, 1_000, 8), of(30, 10, 2, 1), of(900, 1_050, 0, 2)];
        let step = Step { duration: 1.0, demands: demands.into_iter().enumerate().collect(), ..Step::default() };
        let trace =
            Trace { cpus: 2, groups: vec![Group::default(); 3], steps: vec![step.clone(), step], ..Trace::default() };
        assert_eq!((trace.bursts(), trace.shortened(u64::MAX, 1e9)), (2_004, trace.clone()));
        let short = trace.shortened(100, 1e9);
        // 50 of the first in each step, and one of the second.
        assert_eq!(short.bursts(), 102);
        for (long, short) in trace.steps.iter().zip(&short.steps) {
            for ((_, long_demand), (_, short_demand)) in long.demands.iter().zip(&short.demands) {
                assert_eq!((long_demand.tasks, long_demand.credit), (short_demand.tasks, short_demand.credit));
                let load = |step: &Step, demand: &Demand| f64::from(demand.bursts) * demand.service / step.duration;
                assert!((load(long, long_demand) - load(short, short_demand)).abs() < 1e-9);
                let waits = |step: &Step, demand: &Demand| demand.waited / step.duration;
                assert!((waits(long, long_demand) - waits(short, short_demand)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn of_many_steps_some_go_before_any_is_cut() {
        let step = Step { duration: 1.0, demands: vec![(0, of(500, 0, 100, 8))], ..Step::default() };
        let trace = Trace { cpus: 1, groups: vec![Group::default()], steps: vec![step; 64], ..Trace::default() };
        let short = trace.shortened(3_200, 1e9);
        assert_eq!((short.steps.len(), short.bursts(), short.duration()), (32, 3_200, 32.0));
        let shorter = trace.shortened(80, 1e9);
        assert_eq!((shorter.steps.len(), shorter.bursts()), (8, 80));
        let in_time = trace.shortened(u64::MAX, 4.0);
        assert_eq!((in_time.steps.len(), in_time.bursts(), in_time.duration()), (8, 400, 4.0));
    }

    #[test]
    fn what_no_host_asks_for_is_not_simulated() {
        let asks = |cpus, demand| {
            let step = Step { duration: 1.0, demands: vec![(0, demand)], ..Step::default() };
            Trace { cpus, groups: vec![Group::default()], steps: vec![step], ..Trace::default() }.is_sound()
        };
        assert!(asks(2, of(900, 1_050, 0, 2)));
        assert!(!asks(0, of(900, 1_050, 0, 2)) && !asks(1 << 40, of(900, 1_050, 0, 2)));
        assert!(!asks(2, of(900, 1_000 * 60_000, 0, 60_000)), "60,000 tasks");
        assert!(!Trace { cpus: 2, ..Trace::default() }.is_sound());
    }

    #[test]
    fn who_did_not_run_asks_for_nothing() {
        assert_eq!(Demand::of(&Cgroup::default(), Nanos::SECOND), None);
        let mut unmeasured = cgroup(1, 1, 1, 1);
        unmeasured.totals.runq_wait_ns = None;
        assert_eq!(Demand::of(&unmeasured, Nanos::SECOND), None);
        assert_eq!(Demand::of(&cgroup(1, 1, 1, 1), Nanos::ZERO), None);
    }
}
