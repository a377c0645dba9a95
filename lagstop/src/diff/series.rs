//! What is added up of each piece.

use crate::{
    model::{Host, Interval, Nanos, Totals},
    stats::Resamples,
};

/// Something that is added up. The first [`Amount::OF_CGROUP`] are a cgroup's and the host's, the others the host's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Of the host, without idle's.
    SwitchCost,
    /// Of that, in calls that switched.
    Switching,
    /// Of the host, without those from idle.
    Switches,
    PickFunction,
    CpuTime,
    RunqWaits,
    RunqWait,
    Migrations,
    Accepts,
    AcceptWait,
    Duration,
    Capacity,
    Busy,
    /// Busy time without the switch cost.
    Work,
}

impl Amount {
    pub(super) const OF_CGROUP: usize = Self::Duration as usize;
    pub(super) const OF_HOST: usize = Self::Work as usize + 1;
}

/// Amounts of one interval. `None` is not measured.
pub(super) type Amounts<const N: usize> = [Option<f64>; N];

pub(super) fn of_cgroup(totals: &Totals) -> Amounts<{ Amount::OF_CGROUP }> {
    let cost = totals.switch_cost();
    of_totals(totals, totals.switches, cost, cost.map(|cost| cost.saturating_sub(totals.kept_ns.unwrap_or_default())))
}

pub(super) fn of_host(interval: &Interval) -> Amounts<{ Amount::OF_HOST }> {
    let host: &Host = &interval.host;
    let cost = host.overhead_ns();
    let kept = host.totals.kept_ns.unwrap_or_default().saturating_sub(host.idle.kept_ns.unwrap_or_default());
    let totals = of_totals(&host.totals, host.task_switches(), cost, cost.map(|cost| cost.saturating_sub(kept)));
    let work = cost.map(|cost| host.busy_ns.saturating_sub(cost));
    let time = [Some(interval.duration_ns), Some(host.capacity()), Some(host.busy_ns), work].map(|time| time.map(real));
    std::array::from_fn(|n| match n.checked_sub(Amount::OF_CGROUP) {
        None => totals[n],
        Some(n) => time[n],
    })
}

fn of_totals(
    totals: &Totals,
    switches: u64,
    cost: Option<Nanos>,
    switching: Option<Nanos>,
) -> Amounts<{ Amount::OF_CGROUP }> {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    // In the order of `Amount`.
    [
        cost.map(real),
        switching.map(real),
        Some(switches as f64),
        totals.pick_function_ns.map(real),
        Some(real(totals.cpu_ns)),
        count(totals.runq_waits),
        totals.runq_wait_ns.map(real),
        count(totals.migrations),
        count(totals.accepts),
        totals.accept_wait_ns.map(real),
    ]
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
    /// Adds an interval of `piece`. What one interval did not measure is not measured at all.
    pub(super) fn add(&mut self, piece: usize, amounts: &Amounts<N>) {
        for (is_measured, amount) in self.is_measured.iter_mut().zip(amounts) {
            *is_measured &= amount.is_some();
        }
        self.add_sums(piece as u32, &amounts.map(Option::unwrap_or_default));
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.is_measured.iter_mut().zip(other.is_measured) {
            *mine &= theirs;
        }
        for (piece, sums) in &other.pieces {
            self.add_sums(*piece, sums);
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
        let amount = amount as usize;
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
        self.is_measured.get(amount as usize).copied().unwrap_or(true)
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
        assert_eq!(series.values(Amount::SwitchCost, 4), Some(vec![5.0, 100.0, 11.0, 0.0]));
        assert_eq!(series.values(Amount::Work, 4), None);
        assert_eq!(series.sums()[0], 116.0);
        assert!(series.is_measured(Amount::SwitchCost) && !series.is_measured(Amount::Switching));
    }

    #[test]
    fn amounts_make_the_models_own_figures() {
        let interval = &super::super::fixture::Load::default().intervals(1, 1)[0];
        let sums = of_host(interval);
        let over = |part: Amount, whole: Amount| sums[part as usize].unwrap() / sums[whole as usize].unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let host = &interval.host;
        assert!(close(over(Amount::SwitchCost, Amount::Capacity), host.overhead().unwrap()));
        assert!(close(over(Amount::Work, Amount::Capacity), host.effective_utilisation().unwrap()));
        assert!(close(over(Amount::Busy, Amount::Capacity), host.perceived_utilisation()));
        let mean = over(Amount::Switching, Amount::Switches);
        assert_eq!(mean as u64, host.mean_switch_cost().unwrap().0);
        let totals = &interval.cgroups[0].totals;
        let sums = of_cgroup(totals);
        let mean = sums[Amount::Switching as usize].unwrap() / sums[Amount::Switches as usize].unwrap();
        assert_eq!(mean as u64, totals.mean_switch_cost().unwrap().0);
        let mean = sums[Amount::RunqWait as usize].unwrap() / sums[Amount::RunqWaits as usize].unwrap();
        assert_eq!(mean as u64, totals.mean_runq_wait().unwrap().0);
    }
}
