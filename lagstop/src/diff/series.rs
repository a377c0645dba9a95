//! What is added up of each piece.

use crate::{
    model::{Cgroup, FileCounters, Host, Interval, Nanos, Totals},
    stats::Resamples,
};

/// Something that is added up. The first [`Amount::OF_CGROUP`] are a cgroup's and the host's, the others the host's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount(usize);

impl Amount {
    /// Of the host, without idle's.
    pub(super) const SWITCH_COST: Self = Self(0);
    /// Of that, in calls that switched.
    pub(super) const SWITCHING: Self = Self(1);
    /// Of the host, without those from idle.
    pub(super) const SWITCHES: Self = Self(2);
    pub(super) const PICK_FUNCTION: Self = Self(3);
    pub(super) const CPU_TIME: Self = Self(4);
    pub(super) const RUNQ_WAITS: Self = Self(5);
    pub(super) const RUNQ_WAIT: Self = Self(6);
    pub(super) const MIGRATIONS: Self = Self(7);
    pub(super) const ACCEPTS: Self = Self(8);
    pub(super) const ACCEPT_WAIT: Self = Self(9);
    pub(super) const WAIT_BEHIND: Self = Self(10);
    pub(super) const WAIT_SELF: Self = Self(11);
    pub(super) const WAIT_THROTTLED: Self = Self(12);
    const FILES: usize = 13;
    /// The counters of files that are compared, and the time in which each was read.
    pub(super) const OF_CGROUP: usize = Self::FILES + 2 * FileCounters::COMPARED;
    pub(super) const DURATION: Self = Self(Self::OF_CGROUP);
    pub(super) const CAPACITY: Self = Self(Self::OF_CGROUP + 1);
    pub(super) const BUSY: Self = Self(Self::OF_CGROUP + 2);
    /// Busy time without the switch cost.
    pub(super) const WORK: Self = Self(Self::OF_CGROUP + 3);
    pub(super) const OF_HOST: usize = Self::OF_CGROUP + 4;

    /// One of [`FileCounters::compared`].
    pub(super) const fn file(counter: usize) -> Self {
        Self(Self::FILES + counter)
    }

    /// The time in which it was read.
    pub(super) const fn file_time(counter: usize) -> Self {
        Self(Self::FILES + FileCounters::COMPARED + counter)
    }

    pub(super) const fn is_file_time(self) -> bool {
        self.0 >= Self::FILES + FileCounters::COMPARED && self.0 < Self::OF_CGROUP
    }

    /// Its place among all.
    pub(super) const fn place(self) -> usize {
        self.0
    }
}

/// Amounts of one interval. `None` is not measured.
pub(super) type Amounts<const N: usize> = [Option<f64>; N];

pub(super) fn of_cgroup(cgroup: &Cgroup, duration: Nanos) -> Amounts<{ Amount::OF_CGROUP }> {
    let totals = &cgroup.totals;
    let cost = totals.switch_cost();
    of_totals(
        totals,
        &cgroup.files,
        duration,
        totals.switches,
        cost,
        cost.map(|cost| cost.saturating_sub(totals.kept_ns.unwrap_or_default())),
    )
}

pub(super) fn of_host(interval: &Interval) -> Amounts<{ Amount::OF_HOST }> {
    let host: &Host = &interval.host;
    let cost = host.overhead_ns();
    let kept = host.totals.kept_ns.unwrap_or_default().saturating_sub(host.idle.kept_ns.unwrap_or_default());
    let totals = of_totals(
        &host.totals,
        &FileCounters::default(),
        Nanos::ZERO,
        host.task_switches(),
        cost,
        cost.map(|cost| cost.saturating_sub(kept)),
    );
    let work = cost.map(|cost| host.times.busy_ns.saturating_sub(cost));
    let time =
        [Some(interval.duration_ns), Some(host.capacity()), Some(host.times.busy_ns), work].map(|time| time.map(real));
    std::array::from_fn(|n| match n.checked_sub(Amount::OF_CGROUP) {
        None => totals[n],
        Some(n) => time[n],
    })
}

fn of_totals(
    totals: &Totals,
    files: &FileCounters,
    duration: Nanos,
    switches: u64,
    cost: Option<Nanos>,
    switching: Option<Nanos>,
) -> Amounts<{ Amount::OF_CGROUP }> {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let totals: [(Amount, Option<f64>); Amount::FILES] = [
        (Amount::SWITCH_COST, cost.map(real)),
        (Amount::SWITCHING, switching.map(real)),
        (Amount::SWITCHES, Some(switches as f64)),
        (Amount::PICK_FUNCTION, totals.pick_function_ns.map(real)),
        (Amount::CPU_TIME, Some(real(totals.cpu_ns))),
        (Amount::RUNQ_WAITS, count(totals.runq_waits)),
        (Amount::RUNQ_WAIT, totals.runq_wait_ns.map(real)),
        (Amount::MIGRATIONS, count(totals.migrations)),
        (Amount::ACCEPTS, count(totals.accepts)),
        (Amount::ACCEPT_WAIT, totals.accept_wait_ns.map(real)),
        (Amount::WAIT_BEHIND, totals.wait_behind_ns.map(real)),
        (Amount::WAIT_SELF, totals.wait_self_ns.map(real)),
        (Amount::WAIT_THROTTLED, totals.wait_throttled_ns.map(real)),
    ];
    let mut all = [None; Amount::OF_CGROUP];
    for (amount, value) in totals {
        all[amount.place()] = value;
    }
    for (counter, figure) in files.compared_figures().enumerate() {
        all[Amount::file(counter).place()] = Some(figure.unwrap_or_default() as f64);
        // A file may not have been read in each interval, so its counters are compared with the time in which it was read.
        all[Amount::file_time(counter).place()] = Some(figure.map_or(0.0, |_| real(duration)));
    }
    all
}

const fn real(time: Nanos) -> f64 {
    time.0 as f64
}

/// Sums of `N` amounts for each piece in which there was anything.
#[derive(Clone, Debug)]
pub(super) struct Series<const N: usize> {
    /// By the number of the piece, ascending.
    pieces: Vec<(u32, [f64; N])>,
    is_measured: [bool; N],
}

impl<const N: usize> Default for Series<N> {
    fn default() -> Self {
        Self { pieces: Vec::new(), is_measured: [true; N] }
    }
}

impl<const N: usize> Series<N> {
    /// Adds an interval of `piece`. If one interval lacks an amount, the sum counts as not measured.
    pub(super) fn add(&mut self, piece: usize, amounts: &Amounts<N>) {
        for (is_measured, amount) in self.is_measured.iter_mut().zip(amounts) {
            *is_measured &= amount.is_some();
        }
        self.add_sums(piece as u32, &amounts.map(Option::unwrap_or_default));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.is_measured.iter_mut().zip(other.is_measured) {
            *mine &= theirs;
        }
        for (piece, sums) in &other.pieces {
            self.add_sums(*piece, sums);
        }
    }

    /// Forgets those counters of files that cannot be summed over cgroups.
    pub(super) fn forget_files(&mut self) {
        let counters = FileCounters::compared().enumerate().filter(|(_, counter)| !counter.adds_up);
        let places = counters.flat_map(|(n, _)| [Amount::file(n), Amount::file_time(n)].map(Amount::place));
        for place in places {
            self.pieces.iter_mut().for_each(|(_, sums)| sums[place] = 0.0);
        }
    }

    fn add_sums(&mut self, piece: u32, more: &[f64; N]) {
        let place = match self.pieces.last() {
            Some((last, _)) if *last < piece => Err(self.pieces.len()),
            _ => self.pieces.binary_search_by_key(&piece, |(piece, _)| *piece),
        };
        match place {
            Ok(place) => self.pieces[place].1.iter_mut().zip(more).for_each(|(sum, more)| *sum += more),
            Err(place) => self.pieces.insert(place, (piece, *more)),
        }
    }

    /// An amount in each of so many pieces. `None` where it is another subject's.
    pub(super) fn values(&self, amount: Amount, pieces: usize) -> Option<Vec<f64>> {
        let amount = amount.place();
        (amount < N).then(|| {
            let mut values = vec![0.0; pieces];
            for (piece, sums) in &self.pieces {
                if let Some(value) = values.get_mut(*piece as usize) {
                    *value = sums[amount];
                }
            }
            values
        })
    }

    /// Was it measured in all intervals? Those of other subjects than this one's count as measured.
    pub(super) fn is_measured(&self, amount: Amount) -> bool {
        self.is_measured.get(amount.place()).copied().unwrap_or(true)
    }

    /// Over all pieces.
    pub(super) fn sums(&self) -> [f64; N] {
        self.weighted(|_| 1.0)
    }

    /// Over the pieces of each draw.
    pub(super) fn drawn(&self, resamples: &Resamples) -> Vec<[f64; N]> {
        let sums = |draw: &[u16]| self.weighted(|piece| draw.get(piece).copied().map_or(0.0, f64::from));
        resamples.draws().map(sums).collect()
    }

    fn weighted(&self, weight: impl Fn(usize) -> f64) -> [f64; N] {
        let mut sums = [0.0; N];
        for (piece, values) in &self.pieces {
            let weight = weight(*piece as usize);
            if weight > 0.0 {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_in_whatever_order_they_come() {
        let mut series = Series::default();
        for (piece, amounts) in [(2, [Some(1.0), Some(2.0)]), (2, [Some(10.0), None]), (0, [Some(5.0), Some(0.0)])] {
            series.add(piece, &amounts);
        }
        let mut other = Series::default();
        other.add(1, &[Some(100.0), Some(1.0)]);
        series.merge(&other);
        assert_eq!(series.pieces, [(0, [5.0, 0.0]), (1, [100.0, 1.0]), (2, [11.0, 2.0])]);
        assert_eq!(series.values(Amount::SWITCH_COST, 4), Some(vec![5.0, 100.0, 11.0, 0.0]));
        assert_eq!(series.values(Amount::WORK, 4), None);
        assert_eq!(series.sums()[0], 116.0);
        assert!(series.is_measured(Amount::SWITCH_COST) && !series.is_measured(Amount::SWITCHING));
    }

    #[test]
    fn amounts_make_the_models_own_figures() {
        let interval = &super::super::fixture::Load::default().intervals(1, 1)[0];
        let sums = of_host(interval);
        let over = |part: Amount, whole: Amount| sums[part.place()].unwrap() / sums[whole.place()].unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let host = &interval.host;
        assert!(close(over(Amount::SWITCH_COST, Amount::CAPACITY), host.overhead().unwrap()));
        assert!(close(over(Amount::WORK, Amount::CAPACITY), host.effective_utilisation().unwrap()));
        assert!(close(over(Amount::BUSY, Amount::CAPACITY), host.cpu_utilisation()));
        let mean = over(Amount::SWITCHING, Amount::SWITCHES);
        assert_eq!(mean as u64, host.mean_switch_cost().unwrap().0);
        let totals = &interval.cgroups[0].totals;
        let sums = of_cgroup(&interval.cgroups[0], interval.duration_ns);
        let mean = sums[Amount::SWITCHING.place()].unwrap() / sums[Amount::SWITCHES.place()].unwrap();
        assert_eq!(mean as u64, totals.mean_switch_cost().unwrap().0);
        let mean = sums[Amount::RUNQ_WAIT.place()].unwrap() / sums[Amount::RUNQ_WAITS.place()].unwrap();
        assert_eq!(mean as u64, totals.mean_runq_wait().unwrap().0);
    }
}
