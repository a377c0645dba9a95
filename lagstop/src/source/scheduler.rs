//! How the running kernel's scheduler is set up.

use std::{collections::BTreeMap, fs};

use crate::{
    kernel::configuration,
    model::{CgroupMode, Nanos},
};

/// What the simulation of it needs. `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scheduler {
    /// See [`crate::model::Session::tick_ns`].
    pub(super) tick_ns: Option<Nanos>,
    /// See [`crate::model::Session::base_slice_ns`].
    pub(super) base_slice_ns: Option<Nanos>,
    /// See [`crate::model::Session::rt_group_sched`].
    pub(super) rt_group_sched: Option<bool>,
    /// See [`crate::model::Session::cgroup_mode`].
    pub(super) cgroup_mode: Option<CgroupMode>,
}

impl Scheduler {
    /// Reads how the running kernel's scheduler is set up. `release` is the kernel's.
    pub(super) fn read(release: &str) -> Self {
        let file = |name: &str| fs::read_to_string(name).ok();
        let configuration = configuration(release);
        Self {
            tick_ns: configuration.known().and_then(tick),
            base_slice_ns: SLICES.into_iter().find_map(|name| file(name)?.trim().parse().ok().map(Nanos)),
            cgroup_mode: file("/sys/kernel/debug/sched/cgroup_mode").as_deref().and_then(CgroupMode::chosen),
            rt_group_sched: configuration.known().and_then(|set| rt_group_sched(set, &file("/proc/cmdline")?)),
        }
    }
}

/// What a task's slice is called: since Linux 6.6, since 5.13 and before (kernel/sched/debug.c, kernel/sysctl.c).
const SLICES: [&str; 3] = [
    "/sys/kernel/debug/sched/base_slice_ns",
    "/sys/kernel/debug/sched/min_granularity_ns",
    "/proc/sys/kernel/sched_min_granularity_ns",
];

fn tick(set: &BTreeMap<String, String>) -> Option<Nanos> {
    let hz: u64 = set.get("CONFIG_HZ")?.parse().ok()?;
    Nanos::SECOND.0.checked_div(hz).map(Nanos)
}

/// Where it is built in it can be off until the command line asks for it, since Linux 6.16 (`setup_rt_group_sched`,
/// kernel/sched/core.c).
fn rt_group_sched(set: &BTreeMap<String, String>, command_line: &str) -> Option<bool> {
    if set.is_empty() {
        return None;
    }
    let is_set = |name: &str| set.get(name).is_some_and(|value| value == "y");
    let asked = command_line.split_whitespace().filter_map(|word| word.strip_prefix("rt_group_sched=")).next_back();
    let is_off = match asked {
        Some(asked) => asked == "0",
        None => is_set("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED"),
    };
    Some(is_set("CONFIG_RT_GROUP_SCHED") && !is_off)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_tick_is_a_second_by_its_frequency() {
        assert_eq!(tick(&set(&[("CONFIG_HZ", "250")])), Some(Nanos(4_000_000)));
        for hz in ["0", "", "-1", "many"] {
            assert_eq!(tick(&set(&[("CONFIG_HZ", hz)])), None, "{hz}");
        }
        assert_eq!(tick(&set(&[])), None);
    }

    #[test]
    fn real_time_groups_are_those_that_are_built_in_and_not_off() {
        let built_in = ("CONFIG_RT_GROUP_SCHED", "y");
        let off = ("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED", "y");
        for (settings, command_line, expected) in [
            (&[("CONFIG_HZ", "250")][..], "rt_group_sched=1", Some(false)),
            (&[built_in], "quiet", Some(true)),
            (&[built_in], "rt_group_sched=0", Some(false)),
            (&[built_in, off], "", Some(false)),
            (&[built_in, off], "rt_group_sched=0 rt_group_sched=1", Some(true)),
            (&[], "", None),
        ] {
            assert_eq!(rt_group_sched(&set(settings), command_line), expected, "{settings:?} {command_line}");
        }
    }
}
