//! How to measure, apart from which hooks.

use lagstop_ebpf::{DEFAULT_ROWS, ROW_FIRST};

use crate::model::{GroupBy, Place};

/// How to measure.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// What groups tasks.
    pub group_by: GroupBy,
    /// Cgroups that can be told apart at once; the surplus shares one row.
    pub max_cgroups: u32,
    /// The programs only read the clock and return: for measuring what no program could do without.
    pub clock_only: bool,
    /// Every possible CPU.
    pub places: Vec<Place>,
    /// CPUs that are left alone: nothing of them is in any figure.
    pub excluded: Vec<u32>,
}

impl AttachOptions {
    /// Cgroups that can be told apart at once, unless asked otherwise.
    pub const DEFAULT_MAX_CGROUPS: u32 = DEFAULT_ROWS - ROW_FIRST;
}
