//! What holds for all intervals of one stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ending, plural, show_cpus};

use super::{CgroupMode, GroupBy, Hook, HookState, Interval, LoadCredits, Measure, Nanos, Place, bounded};

/// Host and settings with which a stream of intervals was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Version of lagstop that measured.
    pub lagstop_version: String,
    /// Start time of the first interval, RFC 3339.
    pub started_at: String,
    /// The host's name.
    pub hostname: String,
    /// Identifies a boot of the host.
    pub boot_id: String,
    /// `uname -r`
    pub kernel: String,
    /// CPUs online at the start.
    pub cpus_online: u64,
    /// CPUs that can be online (possible CPUs).
    pub cpus_possible: u64,
    /// CPUs that were left alone (`--exclude-cpus`): they are not among those online. Some values still cover them (docs/measures.md,
    /// "Which CPUs").
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::cpus")]
    pub excluded_cpus: Vec<u32>,
    /// Intended length of an interval.
    pub interval_ns: Nanos,
    /// How tasks are grouped.
    pub group_by: GroupBy,
    /// Time constant of Load Credit.
    #[serde(default = "load_credit_time")]
    pub load_credit_time_ns: Nanos,
    /// Mount point of the hierarchy that these cgroups belong to. Empty if not recorded.
    #[serde(default)]
    pub cgroup_mount: String,
    /// Version of the cgroup interface: 1 or 2.
    #[serde(default = "version_2")]
    pub cgroup_version: u8,
    /// Files of the `cpu` controller in a cgroup below the root, such as `cpu.idle`. Empty if not recorded.
    #[serde(default, deserialize_with = "bounded::files")]
    pub cpu_files: Vec<String>,
    /// The `sched_ext` scheduler that was loaded at the start. Empty if none was. `None` if the kernel does not support `sched_ext`, or
    /// if it was not recorded.
    #[serde(default)]
    pub sched_ext: Option<String>,
    /// Length of a scheduler tick, 1 s / `CONFIG_HZ`. `None` if the kernel's configuration cannot be read, or if it was
    /// not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ns: Option<Nanos>,
    /// CPU time that a task gets before another task of the same group takes precedence: `base_slice_ns`, before Linux
    /// 6.6 `min_granularity_ns`. `None` if debugfs does not show it, or if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_slice_ns: Option<Nanos>,
    /// Whether a cgroup needs its own real-time bandwidth before its tasks may get a real-time policy
    /// (`CONFIG_RT_GROUP_SCHED`). `None` if unknown or not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rt_group_sched: Option<bool>,
    /// What the kernel multiplies the weight of a cgroup by (`cgroup_mode` in /sys/kernel/debug/sched). `None` if the kernel does not
    /// show it, or if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_mode: Option<CgroupMode>,
    /// Cache and NUMA node of each possible CPU.
    #[serde(default, deserialize_with = "bounded::places")]
    pub topology: Vec<Place>,
    /// Why lagstop reads only kernel files and measures nothing with eBPF, and the remedy. `None` if eBPF is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted: Option<String>,
    /// All measures, with their methods, or the reasons why they are missing.
    #[serde(deserialize_with = "bounded::hooks")]
    pub hooks: Vec<Hook>,
}

const fn load_credit_time() -> Nanos {
    LoadCredits::TIME_CONSTANT
}

const fn version_2() -> u8 {
    2
}

impl Session {
    /// The CPUs that are measured and `online`, for people: `6 CPUs`, `6 CPUs (CPUs 2-3 excluded)`.
    pub fn cpus(&self, online: u64) -> String {
        let cpus = plural(online, "CPU");
        let excluded = &self.excluded_cpus;
        match excluded.len() {
            0 => cpus,
            count => format!("{cpus} (CPU{} {} excluded)", ending(count as u64), show_cpus(excluded)),
        }
    }

    /// The `sched_ext` scheduler that was loaded at the end of `interval`, empty for none. Older recordings say it only of the
    /// start.
    pub fn loaded_scheduler<'a>(&'a self, interval: &'a Interval) -> Option<&'a str> {
        interval.sched_ext.as_deref().or(self.sched_ext.as_deref())
    }

    /// What the kernel multiplied weights by: as recorded, or else by default.
    pub fn cgroup_mode(&self) -> CgroupMode {
        self.cgroup_mode.unwrap_or_else(|| CgroupMode::usual(&self.kernel))
    }

    /// Hooks that this kernel lacks or refused.
    pub fn missing_hooks(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| hook.state == HookState::Off)
    }

    /// The metrics that are not measured, each once.
    pub fn missing_metrics(&self) -> Vec<&str> {
        let mut missing: Vec<&str> = Vec::new();
        for metric in self.missing_hooks().flat_map(|hook| &hook.measures) {
            if !missing.contains(&metric.as_str()) {
                missing.push(metric);
            }
        }
        missing
    }

    /// What is not measured, for people. `None` where all of it is.
    pub fn not_measured(&self) -> Option<String> {
        let missing = self.missing_metrics();
        let named = || format!("not measured: {} (run `lagstop check` for the reasons)", missing.join(", "));
        (!missing.is_empty()).then(named)
    }

    /// Why `measure` was not measured.
    pub fn why_not(&self, measure: Measure) -> String {
        let hooks: Vec<String> = self
            .missing_hooks()
            .filter(|hook| hook.measure().is_some_and(|of| of == measure || measure.needs() == Some(of)))
            .map(|hook| format!("{} ({})", hook.name, hook.detail))
            .collect();
        if measure == Measure::Blame && !self.hooks.iter().any(|hook| hook.measure() == Some(measure)) {
            "not measured by the lagstop that made the recording".to_owned()
        } else if hooks.is_empty() {
            "missing in some intervals, although the recording lists no missing hook".to_owned()
        } else {
            format!("not measured without {}", hooks.join(" and "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_is_said_once() {
        let hooks = [Measure::TcpState, Measure::Accept].map(|measure| Hook::new(measure, None, String::new()));
        let session = Session { hooks: hooks.into(), ..Session::default() };
        assert_eq!(session.missing_metrics(), ["accept wait", "service of listeners", "abandoned connections"]);
        assert_eq!(
            session.not_measured().as_deref(),
            Some(
                "not measured: accept wait, service of listeners, abandoned connections (run `lagstop check` for the \
                 reasons)"
            )
        );
        assert_eq!(Session::default().not_measured(), None);
    }

    #[test]
    fn the_hook_that_is_missing_is_named_with_its_reason() {
        let hook = Hook::new(Measure::SwitchCost, None, "kernel 6.8.0 has no such tracepoint".to_owned());
        let session = Session { hooks: vec![hook], ..Session::default() };
        assert_eq!(
            session.why_not(Measure::SwitchCost),
            "not measured without switch-cost (kernel 6.8.0 has no such tracepoint)"
        );
        assert!(session.why_not(Measure::RunqWait).contains("lists no missing hook"));
    }
}
