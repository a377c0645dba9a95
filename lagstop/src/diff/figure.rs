//! The figures that are compared, and of which sums each is the ratio.

use super::series::Amount;
use crate::{
    model::{Counter, FileCounters, Measure},
    units::Unit,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedFigure {
    Overhead,
    MeanSwitchCost,
    PickFunctionCost,
    SwitchRate,
    Cpu,
    WaitPerCpu,
    MeanWait,
    MigrationRate,
    MeanAcceptWait,
    CpuUtilisation,
    EffectiveUtilisation,
    WaitBehind,
    WaitSelf,
    WaitThrottled,
    /// The share of time that one of [`FileCounters::compared`] is.
    File {
        counter: &'static Counter,
        place: usize,
    },
}

/// Whose figures are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Host,
    Cgroup,
}

/// Method by which a cost was measured. It must be the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    SwitchCost,
    PickFunction,
}

/// What a figure is made of: `factor` × Σ `part` / Σ `whole`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// Its name in JSON; stable.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    pub unit: Unit,
    pub part: Amount,
    pub whole: Amount,
    pub factor: f64,
    /// What it comes from, where that is not always measured.
    pub comes_from: Option<Measure>,
    pub way: Option<Way>,
    /// Is less of it better? Otherwise it says how much was to be done.
    pub less_is_better: bool,
}

impl ComparedFigure {
    /// Figures of the host that show how much a recording is worth.
    pub(super) const OF_HOST: &[Self] = &[
        Self::Overhead,
        Self::MeanSwitchCost,
        Self::PickFunctionCost,
        Self::SwitchRate,
        Self::WaitPerCpu,
        Self::MeanWait,
        Self::MigrationRate,
        Self::MeanAcceptWait,
        Self::CpuUtilisation,
        Self::EffectiveUtilisation,
    ];
    const OF_CGROUP: &[Self] = &[
        Self::Overhead,
        Self::MeanSwitchCost,
        Self::PickFunctionCost,
        Self::SwitchRate,
        Self::Cpu,
        Self::WaitPerCpu,
        Self::MeanWait,
        Self::MigrationRate,
        Self::MeanAcceptWait,
    ];

    /// What waits were for: older recordings do not have it.
    const CAUSES: [Self; 3] = [Self::WaitBehind, Self::WaitSelf, Self::WaitThrottled];

    pub(super) fn of_host() -> Vec<Self> {
        Self::OF_HOST.iter().copied().chain(Self::CAUSES).collect()
    }

    pub(super) fn of_cgroup() -> Vec<Self> {
        let files = FileCounters::compared().enumerate().map(|(place, counter)| Self::File { counter, place });
        Self::OF_CGROUP.iter().copied().chain(Self::CAUSES).chain(files).collect()
    }

    /// Is it omitted if neither recording has it?
    pub(super) fn is_left_out(self) -> bool {
        matches!(self, Self::File { .. }) || Self::CAUSES.contains(&self)
    }

    pub(super) fn made(self, subject: Subject) -> Made {
        const PER_SECOND: f64 = 1e9;
        let work = Made {
            name: "",
            label: "",
            unit: Unit::Share,
            part: Amount::BUSY,
            whole: Amount::CAPACITY,
            factor: 1.0,
            comes_from: None,
            way: None,
            less_is_better: false,
        };
        let price = Made { less_is_better: true, ..work };
        let cost = Made { comes_from: Some(Measure::SwitchCost), way: Some(Way::SwitchCost), ..price };
        let cause = Made { unit: Unit::Tasks, whole: Amount::DURATION, comes_from: Some(Measure::Blame), ..price };
        match self {
            Self::Overhead => {
                let made = Made { name: "overhead", label: "overhead", part: Amount::SWITCH_COST, ..cost };
                match subject {
                    Subject::Host => made,
                    Subject::Cgroup => Made { unit: Unit::Cores, whole: Amount::DURATION, ..made },
                }
            }
            Self::MeanSwitchCost => Made {
                name: "mean_switch_cost",
                label: "mean switch cost",
                unit: Unit::Ns,
                part: Amount::SWITCHING,
                whole: Amount::SWITCHES,
                ..cost
            },
            Self::PickFunctionCost => Made {
                name: "pick_function_cost",
                label: "pick function",
                unit: Unit::Ns,
                part: Amount::PICK_FUNCTION,
                whole: Amount::SWITCHES,
                comes_from: Some(Measure::Pick),
                way: Some(Way::PickFunction),
                ..price
            },
            Self::SwitchRate => Made {
                name: "switch_rate",
                label: "switches",
                unit: Unit::PerSecond,
                part: Amount::SWITCHES,
                whole: Amount::DURATION,
                factor: PER_SECOND,
                comes_from: Some(Measure::Switches),
                ..work
            },
            Self::Cpu => Made {
                name: "cpu",
                label: "CPU time",
                unit: Unit::Cores,
                part: Amount::CPU_TIME,
                whole: Amount::DURATION,
                ..work
            },
            Self::WaitPerCpu => Made {
                name: "wait_per_cpu",
                label: "wait per CPU time",
                unit: Unit::Factor,
                part: Amount::RUNQ_WAIT,
                whole: Amount::CPU_TIME,
                comes_from: Some(Measure::RunqWait),
                ..price
            },
            Self::MeanWait => Made {
                name: "mean_wait",
                label: "mean run-queue wait",
                unit: Unit::Ns,
                part: Amount::RUNQ_WAIT,
                whole: Amount::RUNQ_WAITS,
                comes_from: Some(Measure::RunqWait),
                ..price
            },
            Self::MigrationRate => Made {
                name: "migration_rate",
                label: "migrations",
                unit: Unit::PerSecond,
                part: Amount::MIGRATIONS,
                whole: Amount::DURATION,
                factor: PER_SECOND,
                comes_from: Some(Measure::Migrations),
                ..price
            },
            Self::MeanAcceptWait => Made {
                name: "mean_accept_wait",
                label: "mean accept wait",
                unit: Unit::Ns,
                part: Amount::ACCEPT_WAIT,
                whole: Amount::ACCEPTS,
                comes_from: Some(Measure::Accept),
                ..price
            },
            Self::WaitBehind => Made {
                name: "waiting_behind_others",
                label: "waiting behind other cgroups",
                part: Amount::WAIT_BEHIND,
                ..cause
            },
            Self::WaitSelf => Made {
                name: "waiting_behind_itself",
                label: "waiting behind its own threads",
                part: Amount::WAIT_SELF,
                ..cause
            },
            Self::WaitThrottled => Made {
                name: "waiting_for_quota",
                label: "waiting for its quota",
                part: Amount::WAIT_THROTTLED,
                ..cause
            },
            Self::File { counter, place } => Made {
                name: counter.name.trim_end_matches("_ns"),
                label: counter.column.map_or(counter.name, |column| column.name),
                part: Amount::file(place),
                whole: Amount::file_time(place),
                ..price
            },
            Self::CpuUtilisation => Made { name: "cpu_utilisation", label: "CPU utilisation", ..work },
            Self::EffectiveUtilisation => Made {
                name: "effective_utilisation",
                label: "effective utilisation",
                part: Amount::WORK,
                comes_from: Some(Measure::SwitchCost),
                way: Some(Way::SwitchCost),
                ..work
            },
        }
    }
}

impl Amount {
    /// What a figure divides by.
    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::SWITCHES => "switch",
            Self::RUNQ_WAITS => "wait",
            Self::ACCEPTS => "connection",
            Self::CPU_TIME => "CPU time",
            _ if self.is_file_time() => "reading of it, or several cgroups have this name",
            _ => "time",
        }
    }
}
