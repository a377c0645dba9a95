//! The policies as docs/trial.md lists them.

use clap::ValueEnum;

use super::{LONG, PART, Policy, SHORT, dynamic, static_priority};
use crate::{
    diagnosis::{CandidateClass, weight_factor},
    model::Nanos,
    units::whole_percent,
};

/// Each policy: its name, what it changes, and where it can be had.
pub(crate) fn reference() -> Vec<Vec<String>> {
    let named = Policy::value_variants().iter().map(|policy| (policy.name(), policy.explained()));
    let others = [
        ("scx:PROGRAM", (PROGRAM.0.to_owned(), PROGRAM.1)),
        ("none", ("nothing: it shows what chance does ([below](#how-it-is-measured))".to_owned(), EVERYWHERE)),
    ];
    named.chain(others).map(|(name, (changes, at))| vec![format!("`{name}`"), changes, at.to_owned()]).collect()
}

const EVERYWHERE: &str = "everywhere";
const PROGRAM: (&str, &str) = (
    "the host's scheduler: the one that [an installed program](#other-schedulers) loads",
    "Linux 6.12 and later with sched_ext",
);

impl Policy {
    /// What it changes, and where it can be had.
    fn explained(self) -> (String, &'static str) {
        match self {
            Self::Lags => (
                "the host's scheduler: [LAGS](schedule.md) instead of the kernel's own".to_owned(),
                "Linux 6.12 and later with sched_ext, without CPU quotas",
            ),
            Self::LagsStatic => (
                format!(
                    "all threads of the light cgroups to `SCHED_RR` priority 1 (CFS-LAGS-static, [arXiv \
                     2508.15703](https://arxiv.org/abs/2508.15703), §4.1). Where real-time tasks are grouped \
                     (`CONFIG_RT_GROUP_SCHED`, cgroup v1), {} of the root's `cpu.rt_runtime_us` are shared by the light ones",
                    whole_percent(static_priority::PART)
                ),
                "everywhere; on cgroup v2 with `CONFIG_RT_GROUP_SCHED` the kernel refuses",
            ),
            Self::Weight => {
                let [most, first] = [0.0, 1.0].map(|used| weight_factor(CandidateClass::Light, 1.0, used));
                let least = weight_factor(CandidateClass::Heavy, 1.0, f64::INFINITY);
                let changes = format!(
                    "multiplies `cpu.weight` or `cpu.shares` of each light cgroup by {first} to {most} and of each heavy one \
                     by {least} to 1: by mean CPU time / its own, within these limits"
                );
                (changes, EVERYWHERE)
            }
            Self::Idle => (
                format!(
                    "`cpu.idle` of the heaviest cgroups, those that use {} of the heavy ones' CPU time",
                    whole_percent(PART)
                ),
                "Linux 5.15 and later",
            ),
            Self::Slice => (
                format!(
                    "slices of {} for threads of light cgroups, of {} for those of heavy ones (EEVDF, `sched_setattr`)",
                    Nanos(SHORT),
                    Nanos(LONG)
                ),
                "Linux 6.12 and later",
            ),
            Self::KernelLags => ("`cpu.latency_awareness`".to_owned(), "kernels with the paper's patch"),
            Self::LagsDynamic => (
                format!(
                    "`cpu.idle` of whoever is heavy by Load Credit now, ranked twice a second: heavy from {} times the fair \
                     share on, light again below {} times",
                    dynamic::HEAVY_ABOVE,
                    dynamic::LIGHT_BELOW
                ),
                "Linux 5.15 and later",
            ),
            Self::Scx(_) => (PROGRAM.0.to_owned(), PROGRAM.1),
        }
    }
}
