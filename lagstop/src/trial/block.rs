//! What happened in a block: a time without or with the policy.

use std::{collections::HashSet, ops::Range, time::Instant};

use super::{Sides, TriedGroup, in_progress::Both};
use crate::{
    diagnosis::HostSample,
    model::{Cgroup, CgroupId, Distribution, Interval},
    stats::student,
};

/// CPU time and run-queue waits, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SideTimes {
    pub cpu: f64,
    pub wait: f64,
}

/// An interval of a block, or several.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub times: Range<Instant>,
    /// How long, in seconds.
    pub duration: f64,
    pub light: SideTimes,
    pub heavy: SideTimes,
    /// All cgroups that are on neither side.
    pub others: SideTimes,
    /// Durations of the light ones' waits that ended in it.
    pub light_waits: Distribution,
    /// How long light ones waited behind heavy ones, in seconds. `None` where causes were not measured.
    pub behind_heavy: Option<f64>,
    pub host: HostSample,
    /// Waits were not measured in all of it.
    pub is_unmeasured: bool,
    /// Correction of the waits that were booked in it, in seconds: waits spent in it and booked later, minus waits spent before
    /// and booked in it. `None` if that is not known, and nothing was corrected.
    pub moved: Option<Both>,
}

impl Slice {
    /// An interval, with waits as they are booked.
    pub(super) fn new(times: Range<Instant>, interval: &Interval, sides: &Sides) -> Self {
        let mut slice = Self {
            times,
            duration: interval.duration_ns.seconds(),
            light: SideTimes::default(),
            heavy: SideTimes::default(),
            others: SideTimes::default(),
            light_waits: Distribution::default(),
            behind_heavy: Some(0.0),
            host: HostSample::from(&interval.host),
            is_unmeasured: false,
            moved: None,
        };
        let holds = |groups: &[TriedGroup], cgroup: &Cgroup| groups.iter().any(|group| group.holds(&cgroup.path));
        let heavy: HashSet<CgroupId> =
            interval.cgroups.iter().filter(|cgroup| holds(&sides.heavy, cgroup)).map(|cgroup| cgroup.id).collect();
        for cgroup in &interval.cgroups {
            let side = if holds(&sides.light, cgroup) {
                let culprits = cgroup.waits_behind.iter().filter(|one| heavy.contains(&one.id));
                let behind = culprits.map(|one| one.wait_ns.seconds()).sum::<f64>();
                let is_known = cgroup.totals.wait_behind_ns.is_some();
                slice.behind_heavy = slice.behind_heavy.filter(|_| is_known).map(|sum| sum + behind);
                cgroup.runq_wait.iter().for_each(|waits| slice.light_waits.merge(waits));
                &mut slice.light
            } else if heavy.contains(&cgroup.id) {
                &mut slice.heavy
            } else {
                &mut slice.others
            };
            side.cpu += cgroup.totals.cpu_ns.seconds();
            match cgroup.totals.runq_wait_ns {
                Some(wait) => side.wait += wait.seconds(),
                None => slice.is_unmeasured = true,
            }
        }
        slice
    }

    /// The same with waits as they were spent. `until` tells how long the waits in progress at a moment had taken by then.
    pub(super) fn spent(mut self, until: impl Fn(Instant) -> Option<Both>) -> Self {
        if let Some((before, after)) = until(self.times.start).zip(until(self.times.end)) {
            let moved @ [light, heavy] = [after[0] - before[0], after[1] - before[1]];
            self.moved = Some(moved);
            self.light.wait += light;
            self.heavy.wait += heavy;
            self.host.wait_ns = self.host.wait_ns.map(|wait| (light + heavy).mul_add(1e9, wait));
        }
        self
    }

    /// Both together. `other` came later.
    fn with(mut self, other: &Self) -> Self {
        let add = |one: &mut SideTimes, other: SideTimes| {
            *one = SideTimes { cpu: one.cpu + other.cpu, wait: one.wait + other.wait }
        };
        add(&mut self.light, other.light);
        add(&mut self.heavy, other.heavy);
        add(&mut self.others, other.others);
        self.times.end = other.times.end;
        self.light_waits.merge(&other.light_waits);
        self.behind_heavy = self.behind_heavy.zip(other.behind_heavy).map(|(one, other)| one + other);
        self.duration += other.duration;
        self.host = HostSample::sum(&[self.host, other.host]);
        self.is_unmeasured |= other.is_unmeasured;
        self.moved = self.moved.zip(other.moved).map(|(one, other)| [one[0] + other[0], one[1] + other[1]]);
        self
    }
}

/// What counts of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// All of it as one. `None`: no interval was whole in it.
    pub sum: Option<Slice>,
    /// The light ones' waiting did not rise or fall any more when it began to count. `None`: too few intervals to tell.
    pub is_steady: Option<bool>,
}

/// Fewer intervals show no trend: of three, the slope has one degree of freedom.
const FEWEST: usize = 4;
/// The share of blocks in which chance alone may look like a trend. By convention.
const CHANCE: f64 = 0.05;

impl Block {
    /// From the intervals that may count. The first ones are left out for as long as the light ones' waiting rises or falls on
    /// its own, but none that begins after `latest`.
    pub(super) fn settled(slices: &[Slice], latest: Instant) -> Self {
        let can_tell = slices.len() >= FEWEST;
        let most = slices.iter().take_while(|slice| slice.times.start <= latest).count().saturating_sub(1);
        let waiting: Vec<f64> = slices.iter().map(|slice| slice.light.wait / slice.duration).collect();
        let steady = (0..=most).find(|&out| !has_trend(&waiting[out..]));
        // If waiting is never steady, as much is left out as may be.
        let counts = slices[steady.unwrap_or(most)..].split_first();
        let sum = counts.map(|(first, others)| others.iter().fold(first.clone(), Slice::with));
        Self { sum, is_steady: can_tell.then_some(steady.is_some()) }
    }

    /// All that counts of these as one, in the order of time.
    pub(super) fn sum<'b>(blocks: impl Iterator<Item = &'b Self>) -> Self {
        let slices = blocks.filter_map(|block| block.sum.as_ref());
        Self { sum: slices.cloned().reduce(|sum, slice| sum.with(&slice)), is_steady: None }
    }

    /// A value of what counts.
    pub(super) fn value(&self, of: impl Fn(&Slice) -> Option<f64>) -> Option<f64> {
        of(self.sum.as_ref()?).filter(|value| value.is_finite())
    }
}

/// Do values rise or fall by more than chance, as a straight line does? Student's t of its slope.
fn has_trend(values: &[f64]) -> bool {
    if values.len() < FEWEST {
        return false;
    }
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut across, mut up, mut both) = (0.0, 0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let (x, y) = (place as f64 - middle, value - mean);
        across += x * x;
        up += y * y;
        both += x * y;
    }
    let freedom = count - 2.0;
    let rest = (up - both * both / across).max(0.0);
    // The slope divided by its standard error, squared and multiplied out: an exact line would divide by 0.
    let quantile = student::quantile(CHANCE, freedom);
    both * both / across * freedom > quantile * quantile * rest
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Nanos, Totals, fixture};

    /// A second in which the light ones waited so long.
    pub(crate) fn second(began: Instant, n: u64, wait: f64) -> Slice {
        Slice {
            times: began + Duration::from_secs(n)..began + Duration::from_secs(n + 1),
            duration: 1.0,
            light: SideTimes { cpu: 0.1, wait },
            heavy: SideTimes::default(),
            others: SideTimes::default(),
            light_waits: Distribution::default(),
            behind_heavy: None,
            host: HostSample::default(),
            is_unmeasured: false,
            moved: Some([0.0; 2]),
        }
    }

    /// Of ten seconds, how many are left out, of half of them at most, and whether it was steady then.
    fn left_out(waits: [f64; 10]) -> (u64, bool) {
        let began = Instant::now();
        let slices: Vec<Slice> = (0..).zip(waits).map(|(n, wait)| second(began, n, wait)).collect();
        let block = Block::settled(&slices, began + Duration::from_secs(5));
        ((block.sum.unwrap().times.start - began).as_secs(), block.is_steady.unwrap())
    }

    #[test]
    fn a_block_counts_from_when_waiting_is_steady() {
        assert_eq!(left_out([3.0, 3.1, 2.9, 3.0, 3.2, 2.8, 3.0, 3.1, 2.9, 3.0]), (0, true));
        assert_eq!(left_out([0.0; 10]), (0, true));
        let (out, is_steady) = left_out([9.0, 7.0, 5.0, 3.0, 3.1, 2.9, 3.0, 3.1, 2.9, 3.0]);
        assert!((2..=3).contains(&out) && is_steady, "{out}");
        assert_eq!(left_out([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]), (5, false));
    }

    #[test]
    fn of_few_intervals_it_is_not_known_whether_it_was_steady() {
        let began = Instant::now();
        let slices: Vec<Slice> = (0..3).map(|n| second(began, n, 1.0)).collect();
        assert_eq!(Block::settled(&slices, began).is_steady, None);
    }

    #[test]
    fn chance_is_seldom_a_trend() {
        let mut random = crate::random::Random::new(7, 1);
        let trends = (0..4_000).filter(|_| has_trend(&[(); 8].map(|()| random.exponential()))).count();
        assert!((100..300).contains(&trends), "{trends} of 4,000");
        assert!(has_trend(&[1.0, 2.0, 3.0, 4.0]) && !has_trend(&[1.0, 2.0, 3.0]) && !has_trend(&[]));
    }

    #[test]
    fn an_interval_is_booked_to_its_sides() {
        let group =
            |path: &str| TriedGroup { id: CgroupId(9), path: path.to_owned(), directory: path.into(), cores: 1.0 };
        let sides = Sides { light: vec![group("/1")], heavy: vec![group("/2")] };
        let seconds = |n: u64| Nanos(n * 1_000_000_000);
        let cgroup = |id: u64, cpu: u64, wait: Option<u64>| Cgroup {
            id: CgroupId(id),
            path: format!("/{id}/inside").into(),
            totals: Totals { cpu_ns: seconds(cpu), runq_wait_ns: wait.map(seconds), ..Totals::default() },
            ..Cgroup::default()
        };
        let mut interval = Interval { duration_ns: Nanos::SECOND, ..Interval::default() };
        interval.cgroups = vec![cgroup(1, 1, Some(2)), cgroup(2, 3, Some(4)), cgroup(3, 9, Some(9))];
        interval.host.totals.runq_wait_ns = Some(seconds(15));
        let began = Instant::now();
        let times = |n: u32| began + Duration::from_secs(1) * n..began + Duration::from_secs(1) * (n + 1);
        // Of the heavy ones' wait, half was spent before; and light ones have waited for half a second that is not booked.
        let until = |at| Some(if at == began { [0.0, 2.0] } else { [0.5, 0.0] });
        let first = Slice::new(times(0), &interval, &sides).spent(until);
        assert_eq!((first.light, first.heavy), (SideTimes { cpu: 1.0, wait: 2.5 }, SideTimes { cpu: 3.0, wait: 2.0 }));
        assert_eq!((first.host.wait_ns, first.moved, first.is_unmeasured), (Some(13.5e9), Some([0.5, -2.0]), false));
        let booked = Slice::new(times(1), &interval, &sides).spent(|at| (at > times(1).start).then_some([1.0; 2]));
        assert_eq!((booked.light.wait, booked.heavy.wait, booked.moved), (2.0, 4.0, None));
        let sum = first.with(&booked);
        assert_eq!((sum.times.clone(), sum.duration, sum.moved), (began..times(1).end, 2.0, None));
        assert_eq!((sum.light, sum.heavy), (SideTimes { cpu: 2.0, wait: 4.5 }, SideTimes { cpu: 6.0, wait: 6.0 }));
        assert_eq!(sum.others, SideTimes { cpu: 18.0, wait: 18.0 });
        assert_eq!(sum.behind_heavy, None, "causes were not measured");
        fixture::blame(&mut interval.cgroups[0], &[(2, 0.5), (3, 0.25)], 0.25, 0.0);
        let blamed = Slice::new(times(2), &interval, &sides);
        assert_eq!((blamed.behind_heavy, blamed.clone().with(&blamed).behind_heavy), (Some(1.0), Some(2.0)));
        interval.cgroups = vec![cgroup(2, 1, None)];
        assert!(sum.with(&Slice::new(times(2), &interval, &sides)).is_unmeasured);
    }
}
