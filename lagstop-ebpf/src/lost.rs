//! What could not be measured.

use lagstop_ebpf::Lost;

use crate::{maps::this_cpu, shared::field};

/// Counts it, in a program that may be interrupted.
#[inline(always)]
pub(crate) fn lose(what: Lost) {
    if let Some(cpu) = this_cpu() {
        field!(cpu.totals.lost[what as usize]).add(1);
    }
}
