//! Switch costs of the intervals in which switches were not timed, where only some are (`--cost-sampling`).
//!
//! What is exact stays exact: switches, waits, CPU time. A cost is the switches of a cgroup times its mean cost a switch in the last
//! intervals that were timed: a ratio estimate (Cochran, Sampling Techniques, chapter 6).

use std::collections::{HashMap, VecDeque};

use crate::model::{Cgroup, CgroupId, Host, Interval, Nanos, Totals};

/// Number of timed intervals for the standard error.
const REMEMBERED: usize = 60;
/// Weight of a timed interval relative to the next one: about five of them make up a mean.
const KEPT: f64 = 0.8;

/// Pick, kept-running and swap cost, in nanoseconds; `None` where one is not measured.
type Costs = [Option<f64>; 3];

/// Costs and switches.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    switches: f64,
    costs: Costs,
    /// The timed interval in which it was last seen.
    seen_in: u64,
}

/// What was learned from timed intervals.
#[derive(Debug, Default)]
pub(super) struct SampledCosts {
    cgroups: HashMap<CgroupId, Known>,
    all: Known,
    idle: Known,
    /// Timed intervals so far.
    timed: u64,
    /// Cost and switches of the last ones, without idle.
    last: VecDeque<(f64, f64)>,
    /// Were any costs estimated?
    are_sampled: bool,
}

impl SampledCosts {
    /// Learns from a timed interval. Adds estimates to others, once something was learned.
    pub(super) fn complete(&mut self, interval: Interval) -> Interval {
        if interval.host.totals.pick_ns.is_some() {
            self.learn(&interval);
            interval
        } else if self.timed > 0 {
            self.estimate(interval)
        } else {
            interval
        }
    }

    fn learn(&mut self, interval: &Interval) {
        self.timed += 1;
        let Self { cgroups, all, idle, timed, last, .. } = self;
        for Cgroup { id, totals, .. } in &interval.cgroups {
            cgroups.entry(*id).or_default().learn(totals, *timed);
        }
        cgroups.retain(|_, known| timed.saturating_sub(known.seen_in) < REMEMBERED as u64);
        let of_idle = &interval.host.idle;
        idle.learn(
            &Totals {
                switches: of_idle.switches,
                pick_ns: of_idle.pick_ns,
                kept_ns: of_idle.kept_ns,
                swap_ns: of_idle.swap_ns,
                ..Totals::default()
            },
            *timed,
        );
        all.learn(&interval.host.totals, *timed);
        let Host { totals, idle, .. } = &interval.host;
        let without_idle = |all: Option<Nanos>, idle: Option<Nanos>| Some(all?.saturating_sub(idle?));
        let pick = without_idle(totals.pick_ns, idle.pick_ns).unwrap_or_default();
        let swap = without_idle(totals.swap_ns, idle.swap_ns).unwrap_or_default();
        last.truncate(REMEMBERED - 1);
        last.push_front((pick.saturating_add(swap).0 as f64, interval.host.task_switches() as f64));
    }

    fn estimate(&mut self, mut interval: Interval) -> Interval {
        self.are_sampled = true;
        let mut sum = Totals::default();
        for cgroup in &mut interval.cgroups {
            let known = self.cgroups.get(&cgroup.id).filter(|known| known.switches > 0.0).unwrap_or(&self.all);
            known.estimate(&mut cgroup.totals);
            add_costs(&mut sum, &cgroup.totals);
        }
        let mut idle = Totals { switches: interval.host.idle.switches, ..Totals::default() };
        self.idle.estimate(&mut idle);
        add_costs(&mut sum, &idle);
        let Host { totals, idle: of_idle, .. } = &mut interval.host;
        (of_idle.pick_ns, of_idle.kept_ns, of_idle.swap_ns) = (idle.pick_ns, idle.kept_ns, idle.swap_ns);
        (totals.pick_ns, totals.kept_ns, totals.swap_ns) = (sum.pick_ns, sum.kept_ns, sum.swap_ns);
        interval
    }

    /// Number of timed intervals so far. `None` if all are timed.
    pub(super) fn timed(&self) -> Option<u64> {
        self.are_sampled.then_some(self.timed)
    }

    /// The standard error of the host's mean cost a switch, as a share of it, by how the last timed intervals differ. `None` where
    /// all are timed, and before two were.
    pub(super) fn relative_standard_error(&self) -> Option<f64> {
        let count = self.last.len() as f64;
        let (cost, switches) = self.last.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if !self.are_sampled || count < 2.0 || cost <= 0.0 {
            return None;
        }
        let ratio = cost / switches;
        let squares: f64 = self.last.iter().map(|(cost, switches)| (cost - ratio * switches).powi(2)).sum();
        Some((squares / (count * (count - 1.0))).sqrt() / (cost / count))
    }
}

impl Known {
    fn learn(&mut self, totals: &Totals, timed: u64) {
        self.seen_in = timed;
        self.switches = self.switches * KEPT + totals.switches as f64;
        for (sum, now) in self.costs.iter_mut().zip([totals.pick_ns, totals.kept_ns, totals.swap_ns]) {
            *sum = now.map(|now| sum.unwrap_or_default() * KEPT + now.0 as f64);
        }
    }

    fn estimate(&self, totals: &mut Totals) {
        let share = if self.switches > 0.0 { totals.switches as f64 / self.switches } else { 0.0 };
        let cost = |of: Option<f64>| of.map(|ns| Nanos((ns * share).round() as u64));
        [totals.pick_ns, totals.kept_ns, totals.swap_ns] = self.costs.map(cost);
    }
}

fn add_costs(sum: &mut Totals, more: &Totals) {
    let add = |sum: &mut Option<Nanos>, more: Option<Nanos>| {
        *sum = more.map(|more| sum.unwrap_or_default().saturating_add(more));
    };
    add(&mut sum.pick_ns, more.pick_ns);
    add(&mut sum.kept_ns, more.kept_ns);
    add(&mut sum.swap_ns, more.swap_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Idle, random::Random};

    fn totals(switches: u64, ns_per_switch: u64) -> Totals {
        Totals {
            switches,
            pick_ns: Some(Nanos(switches * ns_per_switch)),
            kept_ns: Some(Nanos(switches)),
            swap_ns: Some(Nanos(switches * ns_per_switch / 2)),
            ..Totals::default()
        }
    }

    fn interval(cgroups: &[(u64, Totals)], idle: Totals) -> Interval {
        let mut interval = Interval::<Vec<Cgroup>>::default();
        interval.host.idle = Idle::from(&idle);
        interval.host.totals = idle;
        for &(id, totals) in cgroups {
            interval.host.totals.add(&totals);
            interval.cgroups.push(Cgroup { id: CgroupId(id), totals, ..Cgroup::default() });
        }
        interval
    }

    fn untimed(timed: &Interval) -> Interval {
        let mut interval = timed.clone();
        interval.forget_costs();
        interval
    }

    #[test]
    fn costs_go_on_at_what_a_switch_of_the_cgroup_took() {
        let mut sampled = SampledCosts::default();
        let timed = interval(&[(5, totals(100, 2_000)), (6, totals(10, 9_000))], totals(50, 1_000));
        assert_eq!(sampled.complete(untimed(&timed)), untimed(&timed), "nothing is known yet");
        assert_eq!(sampled.complete(timed.clone()), timed, "it is exact");
        assert_eq!((sampled.timed(), sampled.relative_standard_error()), (None, None));
        assert_eq!(sampled.complete(untimed(&timed)), with_estimates(&timed));
        let more = interval(&[(6, totals(20, 9_000)), (7, totals(16, 0))], totals(0, 0));
        let estimated = sampled.complete(untimed(&more));
        assert_eq!(estimated.cgroups[0].totals.pick_ns, Some(Nanos(180_000)));
        // (100 × 2,000 + 10 × 9,000 + 50 × 1,000) / 160
        assert_eq!(estimated.cgroups[1].totals.pick_ns, Some(Nanos(34_000)), "a new one is like all");
        assert_eq!(estimated.host.totals.pick_ns, Some(Nanos(214_000)));
        assert_eq!(estimated.host.idle.pick_ns, Some(Nanos::ZERO));
        assert_eq!(sampled.timed(), Some(1));
    }

    /// The same interval, without values that are never estimated.
    fn with_estimates(timed: &Interval) -> Interval {
        let mut estimated = untimed(timed);
        let costs = |of: &mut Totals, from: &Totals| {
            (of.pick_ns, of.kept_ns, of.swap_ns) = (from.pick_ns, from.kept_ns, from.swap_ns);
        };
        for (of, from) in estimated.cgroups.iter_mut().zip(&timed.cgroups) {
            costs(&mut of.totals, &from.totals);
        }
        costs(&mut estimated.host.totals, &timed.host.totals);
        estimated.host.idle = timed.host.idle;
        estimated
    }

    #[test]
    fn a_cgroup_that_was_not_seen_for_long_is_forgotten() {
        let mut sampled = SampledCosts::default();
        sampled.complete(interval(&[(5, totals(1, 1))], totals(0, 0)));
        for _ in 0..REMEMBERED {
            sampled.complete(interval(&[(6, totals(1, 1))], totals(0, 0)));
        }
        assert_eq!(sampled.cgroups.keys().collect::<Vec<_>>(), [&CgroupId(6)]);
    }

    /// Costs a switch with a known spread: the truth is within 1.96 standard errors 95 times of 100.
    #[test]
    fn the_standard_error_is_that_of_the_mean() {
        let mut random = Random::new(7, 0);
        let (mut inside, runs) = (0, 400);
        for _ in 0..runs {
            let mut sampled = SampledCosts::default();
            for _ in 0..30 {
                let switches = 500 + random.below(1_000) as u64;
                let ns = 1_000 + random.below(1_001) as u64;
                let timed = interval(&[(5, totals(switches, ns))], totals(0, 0));
                sampled.complete(timed.clone());
                sampled.complete(untimed(&timed));
            }
            let (cost, switches) = sampled.last.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let off = (cost / switches / (1_500.0 * 1.5) - 1.0).abs();
            inside += u32::from(off < 1.96 * sampled.relative_standard_error().unwrap());
        }
        assert!((365..=395).contains(&inside), "{inside} of {runs}");
    }
}
