//! Which switches are timed.

use lagstop_ebpf::{COST_NONE, CpuState};

use crate::{
    kernel::constant,
    shared::{Shared, field},
};

/// Are switches timed on `cpu` at the moment?
#[inline(always)]
pub(super) fn is_timed(cpu: Shared<CpuState>) -> bool {
    constant!(SETTINGS.switch_cost) != COST_NONE
        && (constant!(SETTINGS.samples_cost) == 0 || field!(cpu.is_timed).get() != 0)
}
