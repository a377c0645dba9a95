//! The columns of figures: what each is called, how wide it is, and what it says of a cgroup.

use super::figure::{Cell, Figure};
use crate::model::{Cgroup, Interval, Nanos};

/// A column of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    SwitchCost,
    MeanSwitch,
    Switches,
    Involuntary,
    CrossCgroup,
    Cpu,
    Load,
    Credit,
    RunqWait,
    RunqWaitTail,
    Migrations,
    AcceptWait,
    Throttled,
}

impl Column {
    /// All of them, the most telling first: narrow terminals lose them from the end.
    pub(super) const ALL: [Self; 13] = [
        Self::SwitchCost,
        Self::MeanSwitch,
        Self::Switches,
        Self::Involuntary,
        Self::CrossCgroup,
        Self::Cpu,
        Self::Load,
        Self::Credit,
        Self::RunqWait,
        Self::RunqWaitTail,
        Self::Migrations,
        Self::AcceptWait,
        Self::Throttled,
    ];

    /// Over the column; no wider than it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::SwitchCost => "cost %",
            Self::MeanSwitch => "/switch",
            Self::Switches => "switch/s",
            Self::Involuntary => "invol%",
            Self::CrossCgroup => "cross%",
            Self::Cpu => "CPU",
            Self::Load => "load",
            Self::Credit => "credit",
            Self::RunqWait => "wait/run",
            Self::RunqWaitTail => "p99 wait",
            Self::Migrations => "migr/s",
            Self::AcceptWait => "accept",
            Self::Throttled => "thrtl%",
        }
    }

    /// In full.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SwitchCost => "switch cost",
            Self::MeanSwitch => "mean switch cost",
            Self::Switches => "switches",
            Self::Involuntary => "share of involuntary switches",
            Self::CrossCgroup => "share of switches to other cgroups",
            Self::Cpu => "CPU time",
            Self::Load => "runnable load",
            Self::Credit => "Load Credit",
            Self::RunqWait => "mean run-queue wait",
            Self::RunqWaitTail => "99th percentile of run-queue wait",
            Self::Migrations => "migrations",
            Self::AcceptWait => "mean accept wait",
            Self::Throttled => "share of periods throttled",
        }
    }

    /// What it says, in a sentence for the help.
    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::SwitchCost => "switch cost: the kernel's time for choosing and changing tasks, in % of one CPU",
            Self::MeanSwitch => "mean cost of a switch",
            Self::Switches => "switches a second",
            Self::Involuntary => "involuntary switches, in % of all",
            Self::CrossCgroup => "switches to a task of another cgroup, in % of all",
            Self::Cpu => "CPU time as the kernel books it, in CPUs",
            Self::Load => "runnable load: tasks that ran or waited, on average",
            Self::Credit => "Load Credit: moving average of the load over seconds",
            Self::RunqWait => "run-queue wait: mean time from runnable to running",
            Self::RunqWaitTail => "run-queue wait that 99 % of the waits do not exceed",
            Self::Migrations => "moves to another CPU, a second",
            Self::AcceptWait => "accept wait: mean time that a connection waited to be accepted",
            Self::Throttled => "bandwidth periods with the quota used up, in % of all",
        }
    }

    /// Cells that its figures need.
    pub(super) const fn width(self) -> u16 {
        match self {
            Self::Cpu | Self::Load => 5,
            Self::SwitchCost
            | Self::Involuntary
            | Self::CrossCgroup
            | Self::Credit
            | Self::Migrations
            | Self::Throttled => 6,
            Self::MeanSwitch | Self::Switches | Self::RunqWait | Self::RunqWaitTail | Self::AcceptWait => 8,
        }
    }

    /// What it says of `cgroup`, which is one of `interval`'s.
    pub(super) fn cell(self, cgroup: &Cgroup, interval: &Interval) -> Cell {
        let totals = &cgroup.totals;
        let share_of_time = |time: Nanos| Figure::Share(time.cores(interval.duration_ns).0);
        let rate = |count: u64| Figure::Rate(interval.per_second(count));
        match self {
            Self::SwitchCost => totals.switch_cost().map(share_of_time).into(),
            Self::MeanSwitch => {
                let cost = totals.switch_cost().zip(totals.kept_ns).map(|(cost, kept)| cost.minus(kept));
                Cell::mean(cost, Some(totals.switches))
            }
            Self::Switches => Cell::Figure(rate(totals.switches)),
            Self::Involuntary => Cell::share(totals.involuntary_switches, totals.switches),
            Self::CrossCgroup => match totals.cross_cgroup_switches {
                Some(crossing) => Cell::share(crossing, totals.switches),
                None => Cell::NotMeasured,
            },
            Self::Cpu => Cell::Figure(Figure::Amount(totals.cpu_ns.cores(interval.duration_ns).0)),
            Self::Load => cgroup.runnable_load.map(|load| Figure::Amount(load.0)).into(),
            Self::Credit => cgroup.load_credit.map(|credit| Figure::Amount(credit.0)).into(),
            Self::RunqWait => Cell::mean(totals.runq_wait_ns, totals.runq_waits),
            Self::RunqWaitTail => match &cgroup.runq_wait {
                Some(waits) => waits.quantile(0.99).map_or(Cell::Nothing, |wait| Cell::Figure(Figure::Time(wait))),
                None => Cell::NotMeasured,
            },
            Self::Migrations => totals.migrations.map(rate).into(),
            Self::AcceptWait => Cell::mean(totals.accept_wait_ns, totals.accepts),
            Self::Throttled => match cgroup.nr_throttled.zip(cgroup.nr_periods) {
                Some((throttled, periods)) => Cell::share(throttled, periods),
                None => Cell::NotMeasured,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fit_their_columns() {
        for column in Column::ALL {
            assert!(column.title().len() <= column.width().into(), "{column:?}");
        }
    }
}
