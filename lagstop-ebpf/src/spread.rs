//! Counting into the distributions. CPUs of one shard share them, so the additions are atomic.

use lagstop_ebpf::{BUCKETS, CpuState, Distributions, bucket_of};

use crate::{atomic, kernel::constant, maps::DISTRIBUTIONS};

/// The distributions of `row` that this CPU writes to.
#[inline(always)]
pub(crate) fn of(cpu: &CpuState, row: u32) -> Option<&'static mut Distributions> {
    let distributions = DISTRIBUTIONS.get_ptr_mut(row * constant!(SETTINGS.shards) as u32 + cpu.shard as u32)?;
    // SAFETY: a value of the map; every access to it is atomic.
    Some(unsafe { &mut *distributions })
}

/// Counts `value` once.
#[inline(always)]
pub(crate) fn count(counts: &mut [u32; BUCKETS], value: u64) {
    // Or the compiler, which knows the bucket's range, would drop the check that the verifier needs to see.
    let bucket = core::hint::black_box(bucket_of(value));
    if let Some(count) = counts.get_mut(bucket) {
        atomic::add(count, 1);
    }
}
