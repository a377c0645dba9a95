//! The columns: name, width, and value for a cgroup.

use super::{
    quantity::{Cell, Quantity},
    waits,
};
use crate::{
    diagnosis::AlertKind,
    model::{
        Cgroup, Counter, CounterColumn, CounterUnit, Derived, Distribution, FileCounters, Interval, Nanos, Totals,
        place_of,
    },
};

/// Declares the columns that are more than a counter: the name in flags and in the configuration, the title, the width
/// in cells, the full name, and the meaning for the help; of what is [`Derived`], the last two are its own.
macro_rules! columns {
    ($($column:ident: $key:literal $title:literal $width:literal
        $(= $derived:ident)? $($name:literal $meaning:literal)?,)+) => {
        /// A column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Column {
            $($column,)+
            /// One of [`Totals::COUNTERS`].
            Total(usize),
            /// One of [`FileCounters::COUNTERS`].
            File(usize),
        }

        impl Column {
            const DERIVED: &[Self] = &[$(Self::$column),+];

            /// What it is called, and what it says.
            const fn definition(self) -> CounterColumn {
                match self {
                    $(Self::$column => CounterColumn {
                        key: $key,
                        title: $title,
                        width: $width,
                        name: $(Derived::$derived.label)? $($name)?,
                        meaning: $(Derived::$derived.meaning)? $($meaning)?,
                    },)+
                    Self::Total(n) => of_counter(&Totals::COUNTERS[n]),
                    Self::File(n) => of_counter(&FileCounters::COUNTERS[n]),
                }
            }
        }
    };
}

/// The column of a counter. Counters without a column are never shown.
const fn of_counter(counter: &Counter) -> CounterColumn {
    match counter.column {
        Some(column) => column,
        None => CounterColumn { key: counter.name, title: "", width: 0, name: counter.name, meaning: counter.meaning },
    }
}

columns! {
    SwitchCost: "switch-cost" "cost %" 6 "switch cost"
        "switch cost: kernel time for choosing and switching tasks, in % of one CPU",
    MeanSwitch: "mean-switch-cost" "/switch" 8 = MEAN_SWITCH_COST,
    Involuntary: "involuntary" "invol%" 6 = INVOLUNTARY,
    CrossCgroup: "cross-cgroup" "cross%" 6 = CROSS_CGROUP,
    Cpu: "cpu" "CPU" 5 = CPU,
    Entitled: "entitled" "entitled" 8 = ENTITLED_CPU,
    Load: "load" "load" 5 = RUNNABLE_LOAD,
    Credit: "load-credit" "credit" 6 = LOAD_CREDIT,
    WaitPerCpu: "wait-per-cpu" "wait/run" 8 = WAIT_PER_CPU,
    RunqWait: "runq-wait" "wait" 8 = MEAN_WAIT,
    CpuReady: "cpu-ready" "ready %" 7 "CPU ready"
        "CPU ready: time that the guest's vCPUs waited for a CPU, in % of the time of its vCPUs",
    RunqWaitP99: "runq-wait-p99" "p99 wait" 8 = WAIT_P99,
    Behind: "behind" "culprit %" 21 "share of waits behind the worst culprit"
        "the cgroup that it waits behind most, and that cgroup's share of its run-queue wait, in %",
    AcceptWait: "accept-wait" "accept" 8 = MEAN_ACCEPT_WAIT,
    Throttled: "throttled" "thrtl%" 6 = THROTTLED,
    CostOfCpu: "cost-of-cpu" "of CPU%" 7 "switch cost of CPU time" "switch cost in % of the cgroup's own CPU time",
    SwitchP50: "switch-cost-p50" "p50 cost" 8 "p50 switch cost" "half of the switches cost at most this much",
    SwitchP99: "switch-cost-p99" "p99 cost" 8 "p99 switch cost"
        "99 % of the switches cost at most this much",
    Waiting: "waiting" "waiting" 7 = WAITING,
    RunqWaitP50: "runq-wait-p50" "p50 wait" 8 "p50 run-queue wait"
        "half of the run-queue waits are at most this long",
    Threads: "threads" "threads" 7 "threads" "tasks seen running",
    ThrottledTime: "throttled-time" "thrtl" 8 "time throttled" "time that the quota throttled it, summed over CPUs",
}

impl Column {
    pub(super) const SWITCHES: Self = Self::total("switches");
    pub(super) const ACCEPTS: Self = Self::total("accepts");
    pub(super) const MIGRATIONS: Self = Self::total("migrations");
    pub(super) const CROSS_LLC: Self = Self::total("migrations_cross_llc");
    pub(super) const CROSS_NUMA: Self = Self::total("migrations_cross_numa");

    /// Those that are shown unless others are chosen, the most telling first: narrow terminals lose them from the end.
    pub(super) const DEFAULT: [Self; 15] = [
        Self::SwitchCost,
        Self::MeanSwitch,
        Self::SWITCHES,
        Self::Involuntary,
        Self::CrossCgroup,
        Self::Cpu,
        Self::Load,
        Self::Credit,
        Self::WaitPerCpu,
        Self::RunqWait,
        Self::Behind,
        Self::RunqWaitP99,
        Self::MIGRATIONS,
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
        Self::SWITCHES,
        Self::Involuntary,
        Self::Throttled,
        Self::ThrottledTime,
    ];

    /// `columns`, and [`Self::CpuReady`] behind the waits if guests run.
    pub(super) fn with_guests(columns: &[Self], interval: &Interval) -> Option<Vec<Self>> {
        interval.cgroups.iter().find(|cgroup| cgroup.files.vcpu_ns.is_some())?;
        let at = columns.iter().position(|column| *column == Self::RunqWait).map_or(columns.len(), |at| at + 1);
        let (before, after) = columns.split_at(at);
        Some([before, &[Self::CpuReady], after].concat())
    }

    /// All of them, in the order of the picker.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let totals = (0..Totals::COUNT).filter(|&n| Totals::COUNTERS[n].column.is_some()).map(Self::Total);
        Self::DERIVED.iter().copied().chain(totals).chain(Self::of_files())
    }

    /// Columns of counters from cgroups' files.
    pub(super) fn of_files() -> impl Iterator<Item = Self> {
        (0..FileCounters::COUNT).filter(|&n| FileCounters::COUNTERS[n].column.is_some()).map(Self::File)
    }

    /// The column of the counter with this name. Does not compile if there is no such counter.
    const fn total(name: &str) -> Self {
        Self::Total(place_of(&Totals::NAMES, name))
    }

    /// Name in flags and in the configuration.
    pub(super) const fn key(self) -> &'static str {
        self.definition().key
    }

    /// Title of the column, at most as wide as the column.
    pub(super) const fn title(self) -> &'static str {
        self.definition().title
    }

    /// Width of its values, in cells.
    pub(super) const fn width(self) -> u16 {
        self.definition().width
    }

    /// Full name.
    pub(super) const fn name(self) -> &'static str {
        self.definition().name
    }

    /// Meaning, for the help.
    pub(super) const fn meaning(self) -> &'static str {
        self.definition().meaning
    }

    /// The one that flags and the configuration call `key`.
    pub(super) fn by_key(key: &str) -> Option<Self> {
        Self::all().find(|column| column.key() == key)
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
            Self::SwitchCost | Self::CostOfCpu => Some(AlertKind::CostOfCpu),
            Self::MeanSwitch => Some(AlertKind::MeanSwitchCost),
            Self::WaitPerCpu | Self::RunqWait => Some(AlertKind::WaitPerCpu),
            Self::MIGRATIONS => Some(AlertKind::Migrations),
            Self::AcceptWait => Some(AlertKind::Backlog),
            Self::Throttled => Some(AlertKind::Throttled),
            _ => None,
        }
    }

    /// What [`Self::Behind`] says of cgroups that have `totals` together.
    pub(super) fn behind<'a>(totals: &Totals, members: impl Iterator<Item = &'a Cgroup>) -> Cell {
        match totals.wait_behind_ns {
            Some(_) => waits::culprit(members).map_or(Cell::Nothing, |it| Cell::Quantity(Quantity::Share(it.share))),
            None => Cell::NotMeasured,
        }
    }

    /// What it says of `cgroup`, which is one of `interval`'s or a sum of them.
    pub(super) fn cell(self, cgroup: &Cgroup, interval: &Interval) -> Cell {
        let totals = &cgroup.totals;
        let share_of_time = |time: Nanos| Quantity::Share(time.cores(interval.duration_ns).0);
        match self {
            Self::SwitchCost => totals.switch_cost().map(share_of_time).into(),
            Self::MeanSwitch => match totals.switch_cost() {
                Some(_) => totals.mean_switch_cost().map_or(Cell::Nothing, |mean| Cell::Quantity(Quantity::Time(mean))),
                None => Cell::NotMeasured,
            },
            Self::Involuntary => Cell::share(Some(totals.involuntary_switches), Some(totals.switches)),
            Self::CrossCgroup => Cell::share(totals.cross_cgroup_switches, Some(totals.switches)),
            Self::Cpu => Cell::Quantity(Quantity::Amount(totals.cpu_ns.cores(interval.duration_ns).0)),
            Self::Entitled => cgroup.entitled_cpu.map(|cpu| Quantity::Amount(cpu.0)).into(),
            Self::Load => cgroup.runnable_load.map(|load| Quantity::Amount(load.0)).into(),
            Self::Credit => cgroup.load_credit.map(|credit| Quantity::Amount(credit.0)).into(),
            Self::WaitPerCpu => match totals.wait_per_cpu() {
                Some(_) if totals.cpu_ns == Nanos::ZERO => Cell::Nothing,
                factor => factor.map(Quantity::Amount).into(),
            },
            Self::RunqWait => Cell::mean(totals.runq_wait_ns, totals.runq_waits),
            Self::Behind => Self::behind(totals, std::iter::once(cgroup)),
            Self::AcceptWait => Cell::mean(totals.accept_wait_ns, totals.accepts),
            Self::CpuReady => {
                let ns = |time: Option<Nanos>| time.map(|time| time.0);
                Cell::share(ns(cgroup.files.vcpu_wait_ns), ns(cgroup.files.vcpu_ns))
            }
            Self::Throttled => match cgroup.files.throttled() {
                None if cgroup.files.nr_throttled.zip(cgroup.files.nr_periods).is_some() => Cell::Nothing,
                share => share.map(Quantity::Share).into(),
            },
            Self::CostOfCpu => Cell::share(totals.switch_cost().map(|cost| cost.0), Some(totals.cpu_ns.0)),
            Self::SwitchP50 | Self::SwitchP99 | Self::RunqWaitP50 | Self::RunqWaitP99 => {
                self.quantile().map_or(Cell::Nothing, |(durations, share)| Cell::quantile(durations.of(cgroup), share))
            }
            Self::Waiting => {
                totals.runq_wait_ns.map(|wait| Quantity::Amount(wait.cores(interval.duration_ns).0)).into()
            }
            Self::Threads => Cell::Quantity(Quantity::Count(totals.threads)),
            Self::ThrottledTime => cgroup.files.throttled_ns.map(Quantity::Time).into(),
            Self::Total(n) => counted(totals.figures()[n], Totals::COUNTERS[n].unit, interval),
            Self::File(n) => counted(cgroup.files.figures()[n], FileCounters::COUNTERS[n].unit, interval),
        }
    }
}

/// A count each second, a time as a share of the time that passed.
fn counted(count: Option<u64>, unit: CounterUnit, interval: &Interval) -> Cell {
    let figure = |count| match unit {
        CounterUnit::Count => Quantity::Rate(interval.per_second(count)),
        CounterUnit::Nanos => Quantity::Share(Nanos(count).cores(interval.duration_ns).0),
    };
    count.map(figure).into()
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
        for column in Column::all() {
            // The gap before a column has room for the mark.
            assert!(column.title().len() <= column.width().into(), "{column:?}");
        }
    }

    #[test]
    fn every_column_is_found_by_its_key() {
        for column in Column::all() {
            assert_eq!(Column::by_key(column.key()), Some(column));
        }
        assert_eq!(Column::by_key("cost"), None);
    }
}
