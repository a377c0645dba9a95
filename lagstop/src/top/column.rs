//! The columns of figures: what each is called, how wide it is, and what it says of a cgroup.

use super::figure::{Cell, Figure};
use crate::{
    diagnosis::AlertKind,
    model::{Cgroup, Distribution, Interval, Nanos},
};

/// Declares the columns once, in the order of the picker: the name that flags and the configuration use, the title over
/// the column, cells, the name in full, and a sentence for the help.
macro_rules! columns {
    ($($column:ident: $key:literal $title:literal $width:literal $name:literal $meaning:literal,)+) => {
        /// A column of figures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Column {
            $($column,)+
        }

        impl Column {
            /// All of them.
            pub(super) const ALL: &[Self] = &[$(Self::$column),+];

            /// What flags and the configuration call it.
            pub(super) const fn key(self) -> &'static str {
                match self { $(Self::$column => $key,)+ }
            }

            /// Over the column; no wider than it.
            pub(super) const fn title(self) -> &'static str {
                match self { $(Self::$column => $title,)+ }
            }

            /// Cells that its figures need.
            pub(super) const fn width(self) -> u16 {
                match self { $(Self::$column => $width,)+ }
            }

            /// In full.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$column => $name,)+ }
            }

            /// What it says, in a sentence for the help.
            pub(super) const fn meaning(self) -> &'static str {
                match self { $(Self::$column => $meaning,)+ }
            }
        }
    };
}

columns! {
    SwitchCost: "switch-cost" "cost %" 6 "switch cost"
        "switch cost: the kernel's time for choosing and changing tasks, in % of one CPU",
    MeanSwitch: "mean-switch-cost" "/switch" 8 "mean switch cost" "mean cost of a switch",
    Switches: "switches" "switch/s" 8 "switches" "switches a second",
    Involuntary: "involuntary" "invol%" 6 "share of involuntary switches" "involuntary switches, in % of all",
    CrossCgroup: "cross-cgroup" "cross%" 6 "share of switches to other cgroups"
        "switches to a task of another cgroup, in % of all",
    Cpu: "cpu" "CPU" 5 "CPU time" "CPU time as the kernel books it, in CPUs",
    Load: "load" "load" 5 "runnable load" "runnable load: tasks that ran or waited, on average",
    Credit: "load-credit" "credit" 6 "Load Credit" "Load Credit: moving average of the load over seconds",
    WaitPerCpu: "wait-per-cpu" "wait/run" 8 "run-queue wait per CPU time"
        "run-queue wait for each second of CPU time: 1.00 is as long as it ran",
    RunqWait: "runq-wait" "wait" 8 "mean run-queue wait" "run-queue wait: mean time from runnable to running",
    RunqWaitP99: "runq-wait-p99" "p99 wait" 8 "99th percentile of run-queue wait"
        "run-queue wait that 99 % of the waits do not exceed",
    Migrations: "migrations" "migr/s" 6 "migrations" "moves to another CPU, a second",
    AcceptWait: "accept-wait" "accept" 8 "mean accept wait"
        "accept wait: mean time that a connection waited to be accepted",
    Throttled: "throttled" "thrtl%" 6 "share of periods throttled"
        "bandwidth periods with the quota used up, in % of all",
    CostOfCpu: "cost-of-cpu" "of CPU%" 7 "switch cost of CPU time" "switch cost in % of the cgroup's own CPU time",
    Pick: "pick" "pick %" 6 "pick cost" "pick cost: from the scheduler's entry to the switch, in % of one CPU",
    Swap: "swap" "swap %" 6 "swap cost" "swap cost: from the switch to the scheduler's exit, in % of one CPU",
    Kept: "kept" "kept %" 6 "kept-running cost"
        "kept-running cost: calls that kept the running task, part of pick cost, in % of one CPU",
    PickFunction: "pick-function" "pick fn%" 8 "cost of the pick function"
        "time in the fair class's function that picks the next task, in % of one CPU",
    SwitchP50: "switch-cost-p50" "p50 cost" 8 "median switch cost" "switch cost that half of the switches do not exceed",
    SwitchP99: "switch-cost-p99" "p99 cost" 8 "99th percentile of switch cost"
        "switch cost that 99 % of the switches do not exceed",
    Voluntary: "voluntary" "vol/s" 6 "voluntary switches" "switches to wait for something, a second",
    Waiting: "waiting" "waiting" 7 "tasks waiting" "tasks that were runnable and not running, on average",
    RunqWaitP50: "runq-wait-p50" "p50 wait" 8 "median run-queue wait"
        "run-queue wait that half of the waits do not exceed",
    CrossLlc: "cross-llc" "xLLC/s" 6 "migrations across last-level caches" "moves to another last-level cache, a second",
    CrossNuma: "cross-numa" "xNUMA/s" 7 "migrations across NUMA nodes" "moves to another NUMA node, a second",
    Threads: "threads" "threads" 7 "threads" "tasks seen running",
    Accepts: "accepts" "accept/s" 8 "connections accepted" "connections accepted, a second",
    ThrottledTime: "throttled-time" "thrtl" 8 "time throttled" "time throttled, summed over CPUs",
}

impl Column {
    /// Those that are shown unless others are chosen, the most telling first: narrow terminals lose them from the end.
    pub(super) const DEFAULT: [Self; 14] = [
        Self::SwitchCost,
        Self::MeanSwitch,
        Self::Switches,
        Self::Involuntary,
        Self::CrossCgroup,
        Self::Cpu,
        Self::Load,
        Self::Credit,
        Self::WaitPerCpu,
        Self::RunqWait,
        Self::RunqWaitP99,
        Self::Migrations,
        Self::AcceptWait,
        Self::Throttled,
    ];

    /// Those that are shown where only files are read: the others would all be `n/a`.
    pub(super) const OF_FILES: [Self; 9] = [
        Self::Cpu,
        Self::Load,
        Self::Credit,
        Self::WaitPerCpu,
        Self::RunqWait,
        Self::Switches,
        Self::Involuntary,
        Self::Throttled,
        Self::ThrottledTime,
    ];

    /// The one that flags and the configuration call `key`.
    pub(super) fn by_key(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|column| column.key() == key)
    }

    /// The quantile that it shows, and of which durations, where it shows one.
    pub(super) const fn quantile(self) -> Option<(Durations, f64)> {
        match self {
            Self::SwitchP50 => Some((Durations::SwitchCost, 0.5)),
            Self::SwitchP99 => Some((Durations::SwitchCost, 0.99)),
            Self::RunqWaitP50 => Some((Durations::RunqWait, 0.5)),
            Self::RunqWaitP99 => Some((Durations::RunqWait, 0.99)),
            _ => None,
        }
    }

    /// The alert that it is coloured for.
    pub(super) const fn alert(self) -> Option<AlertKind> {
        match self {
            Self::SwitchCost | Self::CostOfCpu => Some(AlertKind::Overhead),
            Self::MeanSwitch => Some(AlertKind::MeanSwitchCost),
            Self::WaitPerCpu | Self::RunqWait => Some(AlertKind::WaitPerCpu),
            Self::Migrations => Some(AlertKind::Migrations),
            Self::AcceptWait => Some(AlertKind::Backlog),
            Self::Throttled => Some(AlertKind::Throttled),
            _ => None,
        }
    }

    /// What it says of `cgroup`, which is one of `interval`'s or a sum of them.
    pub(super) fn cell(self, cgroup: &Cgroup, interval: &Interval) -> Cell {
        let totals = &cgroup.totals;
        let share_of_time = |time: Nanos| Figure::Share(time.cores(interval.duration_ns).0);
        let rate = |count: u64| Figure::Rate(interval.per_second(count));
        match self {
            Self::SwitchCost => totals.switch_cost().map(share_of_time).into(),
            Self::MeanSwitch => match totals.switch_cost() {
                Some(_) => totals.mean_switch_cost().map_or(Cell::Nothing, |mean| Cell::Figure(Figure::Time(mean))),
                None => Cell::NotMeasured,
            },
            Self::Switches => Cell::Figure(rate(totals.switches)),
            Self::Involuntary => Cell::share(Some(totals.involuntary_switches), Some(totals.switches)),
            Self::CrossCgroup => Cell::share(totals.cross_cgroup_switches, Some(totals.switches)),
            Self::Cpu => Cell::Figure(Figure::Amount(totals.cpu_ns.cores(interval.duration_ns).0)),
            Self::Load => cgroup.runnable_load.map(|load| Figure::Amount(load.0)).into(),
            Self::Credit => cgroup.load_credit.map(|credit| Figure::Amount(credit.0)).into(),
            Self::WaitPerCpu => match totals.runq_wait_ns {
                Some(_) if totals.cpu_ns == Nanos::ZERO => Cell::Nothing,
                wait => wait.map(|wait| Figure::Amount(wait.0 as f64 / totals.cpu_ns.0 as f64)).into(),
            },
            Self::RunqWait => Cell::mean(totals.runq_wait_ns, totals.runq_waits),
            Self::Migrations => totals.migrations.map(rate).into(),
            Self::AcceptWait => Cell::mean(totals.accept_wait_ns, totals.accepts),
            Self::Throttled => Cell::share(cgroup.nr_throttled, cgroup.nr_periods),
            Self::CostOfCpu => Cell::share(totals.switch_cost().map(|cost| cost.0), Some(totals.cpu_ns.0)),
            Self::Pick => totals.pick_ns.map(share_of_time).into(),
            Self::Swap => totals.swap_ns.map(share_of_time).into(),
            Self::Kept => totals.kept_ns.map(share_of_time).into(),
            Self::PickFunction => totals.pick_function_ns.map(share_of_time).into(),
            Self::SwitchP50 | Self::SwitchP99 | Self::RunqWaitP50 | Self::RunqWaitP99 => {
                self.quantile().map_or(Cell::Nothing, |(durations, share)| Cell::quantile(durations.of(cgroup), share))
            }
            Self::Voluntary => Cell::Figure(rate(totals.voluntary_switches)),
            Self::Waiting => totals.runq_wait_ns.map(|wait| Figure::Amount(wait.cores(interval.duration_ns).0)).into(),
            Self::CrossLlc => totals.migrations_cross_llc.map(rate).into(),
            Self::CrossNuma => totals.migrations_cross_numa.map(rate).into(),
            Self::Threads => Cell::Figure(Figure::Count(totals.threads)),
            Self::Accepts => totals.accepts.map(rate).into(),
            Self::ThrottledTime => cgroup.throttled_ns.map(Figure::Time).into(),
        }
    }
}

/// What columns show quantiles of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durations {
    SwitchCost,
    RunqWait,
}

impl Durations {
    pub(super) const fn of(self, cgroup: &Cgroup) -> Option<&Distribution> {
        match self {
            Self::SwitchCost => cgroup.switch_cost.as_ref(),
            Self::RunqWait => cgroup.runq_wait.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fit_their_columns_with_the_mark_of_the_order() {
        for column in Column::ALL {
            // The gap before a column has room for the mark.
            assert!(column.title().len() <= column.width().into(), "{column:?}");
        }
    }

    #[test]
    fn every_column_is_found_by_its_key() {
        for &column in Column::ALL {
            assert_eq!(Column::by_key(column.key()), Some(column));
        }
        assert_eq!(Column::by_key("cost"), None);
    }
}
