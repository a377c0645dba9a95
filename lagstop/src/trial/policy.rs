//! Scheduling policies that can be tried.

mod dynamic;
mod error;
mod static_priority;
mod table;

use std::fmt;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use dynamic::Dynamic;
pub use error::PolicyError;
pub(crate) use table::reference;

use super::{
    Attr, PolicyChange, SchedulerProgram, Sides, SwitchTo, TriedGroup,
    cgroup_file::{IDLE, LATENCY_AWARENESS, SHARES, WEIGHT},
};
use crate::{
    diagnosis::{CandidateClass, weight_factor},
    host::{Hierarchy, Version},
    kernel::loaded_scheduler,
};

/// A scheduling policy that can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// LAGS as the host's scheduler, as in `lagstop schedule`
    Lags,
    /// SCHED_RR for light cgroups (CFS-LAGS-static, §4.1)
    LagsStatic,
    /// Higher weights for cgroups that use less CPU time
    Weight,
    /// cpu.idle for the heaviest cgroups: they hardly run while a sibling wants to
    Idle,
    /// Short slices for light cgroups, long slices for heavy ones (Linux 6.12 and later)
    Slice,
    /// Latency-Aware Group Scheduling, on kernels that have it (cpu.latency_awareness)
    KernelLags,
    /// cpu.idle for the cgroups with a high Load Credit, ranked again in each interval
    LagsDynamic,
    /// The sched_ext scheduler that an installed program loads.
    #[value(skip)]
    #[serde(untagged)]
    Scx(SchedulerProgram),
}

#[derive(Clone, Debug)]
pub struct Kernel {
    hierarchy: Hierarchy,
    /// Has each task a slice of its own?
    has_slices: bool,
    /// Is a part of every CPU kept for others than real-time tasks, whatever the throttle says?
    has_fair_server: bool,
    /// Does the throttle keep a part of every CPU for them?
    has_throttle: bool,
    /// The sched_ext scheduler that is loaded.
    other_scheduler: Option<String>,
}

/// The real-time throttle; -1 turns it off. From Linux 6.12 on it is there only with `CONFIG_RT_GROUP_SCHED` (kernel/sched/rt.c;
/// commit 5f6bd380c7bd, "sched/rt: Remove default bandwidth control").
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Slices of the light and of the heavy, in nanoseconds. Chosen within what the kernel takes, 0.1 to 100 ms (`__setparam_fair`,
/// kernel/sched/fair.c).
pub(super) const SHORT: u64 = 500_000;
pub(super) const LONG: u64 = 20_000_000;
/// The heaviest that use this share of the heavy ones' CPU time are idle. Chosen: as few as make most of the room.
const PART: f64 = 0.5;

impl Policy {
    /// As on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lags => "lags",
            Self::LagsStatic => "lags-static",
            Self::Weight => "weight",
            Self::Idle => "idle",
            Self::Slice => "slice",
            Self::KernelLags => "kernel-lags",
            Self::LagsDynamic => "lags-dynamic",
            Self::Scx(program) => program.text(),
        }
    }

    /// Whether it changes nothing but which scheduler the host has.
    pub const fn switches_scheduler(self) -> bool {
        self.switches_to().is_some()
    }

    /// The scheduler that is in force in its time. `None` of a policy under which the kernel's own stays.
    pub const fn switches_to(self) -> Option<SwitchTo> {
        match self {
            Self::Lags => Some(SwitchTo::Lags),
            Self::Scx(program) => Some(SwitchTo::Program(program)),
            _ => None,
        }
    }

    /// Whether what it changes has an effect under the scheduler that is loaded.
    ///
    /// # Errors
    /// When it has none that can be relied on.
    pub fn has_effect(self, kernel: &Kernel) -> Result<(), PolicyError> {
        match &kernel.other_scheduler {
            // Real-time tasks are above all of them. Whether another one can be loaded is looked at where it is.
            Some(name) if self != Self::LagsStatic && !self.switches_scheduler() => {
                Err(PolicyError::OtherScheduler(name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// What it changes at first, in turn.
    ///
    /// # Errors
    /// Why this kernel, or these cgroups, are not for it.
    pub fn changes(self, sides: &Sides, kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
        match self {
            // What changes no cgroup does not ask which are light.
            Self::Lags | Self::Scx(_) => Ok(Vec::new()),
            _ if sides.is_one_empty() => Err(PolicyError::not_both(sides)),
            Self::LagsStatic => static_priority::changes(sides, kernel),
            Self::Weight => weights(sides, kernel),
            Self::Idle => {
                let mut left = PART * sides.heavy.iter().map(|group| group.cores).sum::<f64>();
                let heaviest = sides.heavy.iter().take_while(|group| {
                    let is_one = left > 0.0;
                    left -= group.cores;
                    is_one
                });
                all_idle(heaviest, kernel)
            }
            Self::LagsDynamic => all_idle(sides.heavy.iter(), kernel),
            Self::Slice if !kernel.has_slices => Err(PolicyError::NoSlices),
            Self::Slice => {
                let of = |group: &TriedGroup, runtime: u64| {
                    PolicyChange::threads(&kernel.hierarchy, &group.directory, |_, attr| Some(Attr { runtime, ..attr }))
                };
                let light = sides.light.iter().flat_map(|group| of(group, SHORT));
                Ok(light.chain(sides.heavy.iter().flat_map(|group| of(group, LONG))).collect())
            }
            Self::KernelLags => {
                let file = |group: &TriedGroup| {
                    PolicyChange::file(&group.directory, LATENCY_AWARENESS, 1).ok_or(PolicyError::NoLatencyAwareness)
                };
                sides.all().map(file).collect()
            }
        }
    }

    /// The same for threads that were born since.
    pub fn newcomers(self, sides: &Sides, kernel: &Kernel) -> Vec<PolicyChange> {
        let is_of_threads = matches!(self, Self::LagsStatic | Self::Slice);
        let all = if is_of_threads { self.changes(sides, kernel).unwrap_or_default() } else { Vec::new() };
        all.into_iter().filter(|change| matches!(change, PolicyChange::Thread { .. })).collect()
    }

    /// What to know before it is tried.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::LagsStatic => {
                Some("looping real-time tasks use all CPU time of their budget, while all other tasks on that CPU wait")
            }
            Self::Idle | Self::LagsDynamic => Some(
                "idle cgroups get almost no CPU time while others are runnable. The trial ends if one gets less than its floor",
            ),
            Self::Lags => Some(
                "all cgroups of the host are scheduled by LAGS in the blocks with the policy, and no CPU quota is enforced",
            ),
            Self::Scx(_) => Some(
                "all cgroups of the host are scheduled by this scheduler in the blocks with the policy. With many, cpu.max, \
                 cpu.weight and cpu.idle have no effect",
            ),
            Self::Weight | Self::Slice | Self::KernelLags => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Kernel {
    /// The running one's, whose cgroups are in `hierarchy`.
    pub fn here(hierarchy: Hierarchy) -> Self {
        let has_slices = Attr::usual_slice() > 0;
        let (has_fair_server, has_throttle) =
            (static_priority::has_fair_server(&hierarchy.mount), static_priority::has_throttle(&hierarchy.mount));
        let other_scheduler = loaded_scheduler().filter(|name| !name.is_empty());
        Self { hierarchy, has_slices, has_fair_server, has_throttle, other_scheduler }
    }

    /// The file with a cgroup's weight, and the least and the most that it takes.
    const fn weight(&self) -> (&'static str, (f64, f64)) {
        match self.hierarchy.version {
            Version::V1 => (SHARES, (2.0, 262_144.0)),
            Version::V2 => (WEIGHT, (1.0, 10_000.0)),
        }
    }

    /// Where cgroups are.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }
}

fn weights(sides: &Sides, kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
    let (file, (least, most)) = kernel.weight();
    let fair = sides.fair();
    let change = |(side, group): (CandidateClass, &TriedGroup)| {
        let factor = weight_factor(side, fair, group.cores);
        let Some(PolicyChange::File { directory, inode, file, before, .. }) =
            PolicyChange::file(&group.directory, file, 0)
        else {
            return Err(PolicyError::NoWeight { path: group.path.clone(), file });
        };
        let now = match before.parse::<f64>() {
            Ok(now) => now,
            Err(source) => return Err(PolicyError::Weight { path: group.path.clone(), file, says: before, source }),
        };
        let after = (now * factor).round().clamp(least, most).to_string();
        Ok(PolicyChange::File { directory, inode, file, before, after })
    };
    // Cgroups that were made idle since then accept no weight.
    let light = sides.light.iter().map(|group| (CandidateClass::Light, group));
    let heavy = sides.heavy.iter().map(|group| (CandidateClass::Heavy, group));
    light.chain(heavy).filter(|(_, group)| !group.is_idle()).map(change).collect()
}

fn all_idle<'g>(
    groups: impl Iterator<Item = &'g TriedGroup>,
    kernel: &Kernel,
) -> Result<Vec<PolicyChange>, PolicyError> {
    Ok(groups.map(|group| idle(group, kernel)).collect::<Result<Vec<_>, _>>()?.concat())
}

/// What makes a cgroup idle. Its weight is lost by that: it is put back behind it.
fn idle(group: &TriedGroup, kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
    let (file, _) = kernel.weight();
    let weight = PolicyChange::file(&group.directory, file, "").map(|change| match change {
        PolicyChange::File { directory, inode, file, before, .. } => {
            PolicyChange::File { directory, inode, file, after: before.clone(), before }
        }
        other => other,
    });
    let idle = PolicyChange::file(&group.directory, IDLE, 1);
    weight.zip(idle).map(|(weight, idle)| vec![weight, idle]).ok_or_else(|| PolicyError::NoIdle(group.path.clone()))
}

#[cfg(test)]
mod tests;
