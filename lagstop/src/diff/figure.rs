//! The figures that are compared, and of which sums each is the ratio.

use super::series::Amount;
use crate::model::{Counter, Derived, FileCounters, Measure};

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
pub(super) enum ComparedSubject {
    Host,
    Cgroup,
}

/// Method by which a cost was measured. It must be the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostKind {
    SwitchCost,
    PickFunction,
}

/// What a figure is made of: `factor` × Σ `part` / Σ `whole`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// What it is called, and its formula: the words for `part` / `whole`.
    pub derived: Derived,
    pub part: Amount,
    pub whole: Amount,
    pub factor: f64,
    /// What it comes from, where that is not always measured.
    pub comes_from: Option<Measure>,
    pub way: Option<CostKind>,
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

    pub(super) fn made(self, subject: ComparedSubject) -> Made {
        const PER_SECOND: f64 = 1e9;
        let work = |derived, part, whole| Made {
            derived,
            part,
            whole,
            factor: 1.0,
            comes_from: None,
            way: None,
            less_is_better: false,
        };
        let price = |from, derived, part, whole| Made {
            comes_from: Some(from),
            less_is_better: true,
            ..work(derived, part, whole)
        };
        let cost = |derived, part, whole| Made {
            way: Some(CostKind::SwitchCost),
            ..price(Measure::SwitchCost, derived, part, whole)
        };
        match self {
            Self::Overhead => match subject {
                ComparedSubject::Host => cost(Derived::OVERHEAD, Amount::SWITCH_COST, Amount::CAPACITY),
                ComparedSubject::Cgroup => cost(Derived::CGROUP_OVERHEAD, Amount::SWITCH_COST, Amount::DURATION),
            },
            Self::MeanSwitchCost => cost(Derived::MEAN_SWITCH_COST, Amount::SWITCHING, Amount::SWITCHES),
            Self::PickFunctionCost => Made {
                way: Some(CostKind::PickFunction),
                ..price(Measure::Pick, Derived::PICK_FUNCTION_COST, Amount::PICK_FUNCTION, Amount::SWITCHES)
            },
            Self::SwitchRate => Made {
                factor: PER_SECOND,
                comes_from: Some(Measure::Switches),
                ..work(Derived::SWITCH_RATE, Amount::SWITCHES, Amount::DURATION)
            },
            Self::Cpu => work(Derived::CPU, Amount::CPU_TIME, Amount::DURATION),
            Self::WaitPerCpu => price(Measure::RunqWait, Derived::WAIT_PER_CPU, Amount::RUNQ_WAIT, Amount::CPU_TIME),
            Self::MeanWait => price(Measure::RunqWait, Derived::MEAN_WAIT, Amount::RUNQ_WAIT, Amount::RUNQ_WAITS),
            Self::MigrationRate => Made {
                factor: PER_SECOND,
                ..price(Measure::Migrations, Derived::MIGRATION_RATE, Amount::MIGRATIONS, Amount::DURATION)
            },
            Self::MeanAcceptWait => {
                price(Measure::Accept, Derived::MEAN_ACCEPT_WAIT, Amount::ACCEPT_WAIT, Amount::ACCEPTS)
            }
            Self::WaitBehind => {
                price(Measure::Blame, Derived::WAITING_BEHIND_OTHERS, Amount::WAIT_BEHIND, Amount::DURATION)
            }
            Self::WaitSelf => {
                price(Measure::Blame, Derived::WAITING_BEHIND_ITSELF, Amount::WAIT_SELF, Amount::DURATION)
            }
            Self::WaitThrottled => {
                price(Measure::Blame, Derived::WAITING_FOR_QUOTA, Amount::WAIT_THROTTLED, Amount::DURATION)
            }
            Self::File { counter, place } => Made {
                less_is_better: true,
                ..work(Derived::of_time(counter), Amount::file(place), Amount::file_time(place))
            },
            Self::CpuUtilisation => work(Derived::CPU_UTILISATION, Amount::BUSY, Amount::CAPACITY),
            Self::EffectiveUtilisation => Made {
                comes_from: Some(Measure::SwitchCost),
                way: Some(CostKind::SwitchCost),
                ..work(Derived::EFFECTIVE_UTILISATION, Amount::WORK, Amount::CAPACITY)
            },
        }
    }
}

/// All figures for the docs, and of whom.
pub(crate) fn reference() -> Vec<(&'static str, Derived)> {
    let host = ComparedFigure::of_host().into_iter().map(|figure| figure.made(ComparedSubject::Host).derived);
    let cgroup: Vec<Derived> =
        ComparedFigure::of_cgroup().into_iter().map(|figure| figure.made(ComparedSubject::Cgroup).derived).collect();
    let mut all: Vec<(&str, Derived)> =
        host.map(|derived| (if cgroup.contains(&derived) { "host, cgroups" } else { "host" }, derived)).collect();
    let of_cgroup = cgroup.into_iter().filter(|derived| all.iter().all(|(_, host)| host != derived));
    all.extend(of_cgroup.map(|derived| ("cgroups", derived)).collect::<Vec<_>>());
    all
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
