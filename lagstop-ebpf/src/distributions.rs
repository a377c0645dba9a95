//! Counting into the distributions. CPUs of one shard share them.

use lagstop_ebpf::{BUCKETS, CpuState, Distributions, bucket_of};

use crate::{
    kernel::constant,
    maps::DISTRIBUTIONS,
    shared::{Lookup, Shared, field},
};

/// The distributions of `row` that this CPU writes to.
#[inline(always)]
pub(crate) fn of(cpu: Shared<CpuState>, row: u32) -> Option<Shared<Distributions>> {
    DISTRIBUTIONS.shared(row * constant!(SETTINGS.shards) as u32 + field!(cpu.shard).get() as u32)
}

/// Counts `value` once.
#[inline(always)]
pub(crate) fn count(counts: Shared<[u32; BUCKETS]>, value: u64) {
    // Or the compiler, which knows the bucket's range, would drop the check that the verifier needs to see.
    let bucket = core::hint::black_box(bucket_of(value));
    if let Some(count) = counts.at(bucket) {
        count.add(1);
    }
}
