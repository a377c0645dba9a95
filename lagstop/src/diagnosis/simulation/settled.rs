//! Tasks that only seem never to sleep.
//!
//! A task that did not fall asleep in an interval may be one that never sleeps, or one that starves: of a millisecond's
//! work it got a part, and waited for the rest. Its behaviour in other intervals tells the two apart.

use super::{Demand, Trace};

/// The largest share of intervals in which tasks that never sleep may be missing. Chosen: a wait may be booked in the next one.
const SELDOM: f64 = 0.1;

impl Trace {
    /// The same, with bursts that go on from one step to the next.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let mut demands: Vec<Vec<&mut Demand>> = Vec::new();
        demands.resize_with(self.groups.len(), Vec::new);
        for (group, demand) in self.steps.iter_mut().flat_map(|step| &mut step.demands) {
            if let Some(of_group) = demands.get_mut(*group) {
                of_group.push(demand);
            }
        }
        demands.iter_mut().for_each(|of_group| settle(of_group));
        self
    }
}

/// What one cgroup asked for, one step after the other.
fn settle(demands: &mut [&mut Demand]) {
    if demands.iter().all(|demand| demand.sleeps == 0) {
        return;
    }
    let mut spinners: Vec<u32> = demands.iter().map(|demand| demand.spinners).collect();
    spinners.sort_unstable();
    let always = spinners.get((spinners.len() as f64 * SELDOM) as usize).copied().unwrap_or_default();
    for demand in demands.iter_mut().filter(|demand| demand.spinners > always) {
        let more = demand.spinners - always;
        let moved = demand.spun * f64::from(more) / f64::from(demand.spinners);
        let work = demand.work() + moved;
        demand.spinners = always;
        demand.spun -= moved;
        demand.tasks += more;
        demand.bursts = demand.bursts.max(1);
        demand.service = work / f64::from(demand.bursts);
    }
    let mut from = 0;
    while from < demands.len() {
        let rest = &mut demands[from..];
        let to = last_of_first(rest);
        // The rest at the end has no end of its own.
        let to = if rest.len() > to && last_of_first(&rest[to..]) > rest.len() - to { rest.len() } else { to };
        let to = to.min(rest.len());
        join(&mut rest[..to]);
        from += to;
    }
}

/// The number of steps until each of the tasks may have fallen asleep once. More than there are, if they never do.
fn last_of_first(demands: &[&mut Demand]) -> usize {
    let (mut sleeps, mut tasks) = (0_u64, 0);
    for (number, demand) in demands.iter().enumerate() {
        sleeps += u64::from(demand.sleeps);
        tasks = tasks.max(demand.tasks);
        if sleeps >= u64::from(tasks) {
            return number + 1;
        }
    }
    demands.len() + 1
}

/// Distributes bursts over steps, in proportion to the work of each.
fn join(demands: &mut [&mut Demand]) {
    let (sleeps, tasks) = demands
        .iter()
        .fold((0_u64, 0), |(sleeps, tasks), demand| (sleeps + u64::from(demand.sleeps), tasks.max(demand.tasks)));
    if sleeps == 0 || demands.iter().all(|demand| demand.sleeps >= demand.tasks) {
        return;
    }
    let work: f64 = demands.iter().map(|demand| demand.work()).sum();
    let slept: f64 = demands.iter().map(|demand| demand.pause * f64::from(demand.bursts)).sum();
    let service = work / sleeps as f64;
    let (mut begun, mut given) = (0.0, 0);
    for demand in demands {
        begun += if service > 0.0 { demand.work() / service } else { 0.0 };
        let until = (begun.round() as u64).min(sleeps);
        demand.bursts = u32::try_from(until - given).unwrap_or(u32::MAX);
        given = until;
        (demand.service, demand.pause, demand.tasks) = (service, slept / sleeps as f64, tasks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::simulation::{Group, Step};

    fn settled(demands: &[Demand]) -> Vec<Demand> {
        let step = |&demand: &Demand| Step { duration: 0.5, demands: vec![(0, demand)], ..Step::default() };
        let steps = demands.iter().map(step).collect();
        let trace = Trace { cpus: 1, groups: vec![Group::default()], steps, ..Trace::default() };
        trace.settled().steps.iter().map(|step| step.demands[0].1).collect()
    }

    fn spins(cpu: f64) -> Demand {
        Demand { spinners: 1, spun: cpu, ..Demand::default() }
    }

    fn sleeps(bursts: u32, cpu: f64) -> Demand {
        Demand {
            tasks: 1,
            bursts: bursts.max(1),
            sleeps: bursts,
            service: cpu / f64::from(bursts.max(1)),
            pause: 0.1,
            ..Demand::default()
        }
    }

    #[test]
    fn one_that_starves_is_none_that_never_sleeps() {
        // A burst takes 4 ms: of some intervals it got 1 ms, and never fell asleep.
        let all = [sleeps(2, 0.008), spins(0.001), spins(0.001), sleeps(1, 0.006), sleeps(5, 0.02)];
        let found = settled(&all);
        assert!(found.iter().all(|demand| demand.spinners == 0), "{found:?}");
        let bursts: Vec<u32> = found.iter().map(|demand| demand.bursts).collect();
        assert_eq!((bursts[0], bursts[4], bursts[1] + bursts[2] + bursts[3]), (2, 5, 1));
        let work = |demands: &[Demand]| demands.iter().map(|it| it.work() + it.spun).sum::<f64>();
        assert!((work(&found) - work(&all)).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_that_never_sleeps_still_does_not() {
        let all = [spins(0.5); 6];
        assert_eq!(settled(&all), all);
        let both = Demand { spinners: 1, spun: 0.25, ..sleeps(50, 0.1) };
        // One interval in which its wait was booked elsewhere.
        let mut all = vec![both; 20];
        all[7] = Demand { spinners: 0, spun: 0.0, ..both };
        let found = settled(&all);
        assert!(found.iter().enumerate().all(|(n, demand)| n == 7 || demand.spinners == 1), "{found:?}");
    }

    #[test]
    fn what_sleeps_often_enough_is_as_it_was() {
        let all = [sleeps(3, 0.01), sleeps(1, 0.2), sleeps(40, 0.1)];
        assert_eq!(settled(&all), all);
    }

    #[test]
    fn bursts_that_are_longer_than_a_step_go_on() {
        // 600 ms of work, then a pause.
        let all = [spins(0.5), sleeps(1, 0.1), spins(0.5), sleeps(1, 0.1), spins(0.4)];
        let found = settled(&all);
        assert_eq!(found.iter().map(|demand| demand.bursts).sum::<u32>(), 2);
        assert!(found.iter().all(|demand| demand.spinners == 0 && (0.6..1.01).contains(&demand.service)), "{found:?}");
    }
}
