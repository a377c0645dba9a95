//! What the kernel multiplies the weight of a cgroup with many tasks by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kernel_version;

/// The kernel's average of always runnable tasks as a part of their number, at least: it never gets all the way there.
const AVERAGE: f64 = 0.99;

/// What the kernel multiplies the weight of a cgroup by (`cgroup_mode` in /sys/kernel/debug/sched, since Linux 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CgroupMode {
    /// 1, as before Linux 7.3
    Smp,
    /// Its average number of runnable tasks, rounded down: at least 1, at most the number of CPUs in its CPU set
    Concur,
    /// Another factor. 1 is assumed
    Other,
}

impl CgroupMode {
    /// The one that the kernel has chosen, which it writes in parentheses among all that it knows.
    pub fn chosen(file: &str) -> Option<Self> {
        let name = file.split_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))?;
        Some(match name {
            "smp" => Self::Smp,
            "concur" => Self::Concur,
            _ => Self::Other,
        })
    }

    /// What a kernel does by default.
    pub fn usual(release: &str) -> Self {
        if kernel_version(release).is_some_and(|version| version >= (7, 3)) { Self::Concur } else { Self::Smp }
    }

    /// The largest factor on a host with so many CPUs.
    pub fn most_times(self, cpus: usize) -> f64 {
        match self {
            Self::Smp | Self::Other => 1.0,
            Self::Concur => cpus.max(1) as f64,
        }
    }

    /// The largest factor for a cgroup that may only run on the CPUs of `set`. Empty: on all.
    pub fn most_times_in(set: &[bool], most_times: f64) -> f64 {
        match set.iter().filter(|&&has| has).count() {
            0 => most_times,
            cpus => most_times.min(cpus as f64),
        }
    }

    /// The factor for a cgroup with so many runnable tasks on average (docs/measures.md, "Entitlement").
    pub fn times(tasks: f64, most_times: f64) -> f64 {
        (tasks * AVERAGE).floor().min(most_times).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_the_one_in_parentheses() {
        assert_eq!(CgroupMode::chosen("up smp (concur) max tasks \n"), Some(CgroupMode::Concur));
        assert_eq!(CgroupMode::chosen("up (smp) concur max tasks \n"), Some(CgroupMode::Smp));
        assert_eq!(CgroupMode::chosen("up smp concur max (tasks) \n"), Some(CgroupMode::Other));
        for strange in ["", "concur", "(", "(concur", "concur)"] {
            assert_eq!(CgroupMode::chosen(strange), None, "{strange}");
        }
    }

    #[test]
    fn tasks_that_never_sleep_count_as_on_linux_7_3() {
        let times = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0].map(|tasks| CgroupMode::times(tasks, 4.0));
        assert_eq!(times, [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
        assert_eq!([0.0, 0.3, 2.5, f64::INFINITY].map(|tasks| CgroupMode::times(tasks, 4.0)), [1.0, 1.0, 2.0, 4.0]);
        let within = |set| CgroupMode::times(9.0, CgroupMode::most_times_in(set, 4.0));
        assert_eq!([&[][..], &[false, true, false, false], &[true, true, false, true]].map(within), [4.0, 1.0, 3.0]);
    }

    #[test]
    fn kernels_differ_in_how_often_a_weight_counts() {
        let most = |release| CgroupMode::usual(release).most_times(4);
        assert_eq!(
            ["6.12.107+deb13-amd64", "7.2.0", "7.3.4+deb13-amd64", "8.0", "?"].map(most),
            [1.0, 1.0, 4.0, 4.0, 1.0]
        );
    }
}
