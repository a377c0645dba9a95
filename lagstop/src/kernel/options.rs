//! How to measure, apart from which hooks.

use lagstop_ebpf::{DEFAULT_ROWS, MAX_TASKS, ROW_FIRST};

use crate::model::{GroupBy, Place};

#[derive(Clone, Debug)]
pub struct AttachOptions {
    pub group_by: GroupBy,
    /// Cgroups that can be told apart at once; the surplus shares one row.
    pub max_cgroups: u32,
    /// The programs only read the clock and return: for measuring what no program could do without.
    pub clock_only: bool,
    /// Every possible CPU.
    pub places: Vec<Place>,
    /// CPUs that are left alone: nothing of them is in any figure.
    pub excluded: Vec<u32>,
    /// Switches are timed only between some readings: see [`super::KernelReader::time_next`].
    pub samples_cost: bool,
    /// Tasks of which something can be kept where it is found at once, at most. The surplus takes a search each.
    pub max_tasks: u32,
}

impl AttachOptions {
    /// Cgroups that can be told apart at once, unless asked otherwise.
    pub const DEFAULT_MAX_CGROUPS: u32 = DEFAULT_ROWS - ROW_FIRST;

    /// Twice as many as there can be tasks here, as far as there is room.
    pub fn default_max_tasks() -> u32 {
        let limit = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u32>().ok();
        let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"].into_iter().filter_map(limit);
        limits.fold(MAX_TASKS / 2, u32::min) * 2
    }
}
