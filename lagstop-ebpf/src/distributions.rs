//! Counting into the distributions. CPUs of one shard share them.

use lagstop_ebpf::{BUCKETS, CpuState, Distributions, bucket_of};

use crate::{
    kernel::constant,
    maps::DISTRIBUTIONS,
    shared::{Lookup, Number, Shared, field},
};

/// The distributions of `row` that this CPU writes to.
#[inline(always)]
pub(crate) fn of(cpu: Shared<CpuState>, row: u32) -> Option<Shared<Distributions>> {
    DISTRIBUTIONS.shared(row * constant!(SETTINGS.shards) as u32 + field!(cpu.shard).get() as u32)
}

/// Counts `value` once, in a copy of the distributions.
#[inline(always)]
pub(crate) fn count(counts: Shared<[u32; BUCKETS]>, value: u64) {
    if let Some(count) = bucket(counts, value) {
        add(count, 1);
    }
}

/// Where `value` is counted.
#[inline(always)]
pub(crate) fn bucket(counts: Shared<[u32; BUCKETS]>, value: u64) -> Option<Shared<u32>> {
    // Or the compiler, which knows the bucket's range, would drop the check that the verifier needs to see.
    counts.at(core::hint::black_box(bucket_of(value)))
}

/// Adds to a number in a copy of the distributions. Whatever interrupts these programs on their CPU adds to none.
#[inline(always)]
pub(crate) fn add<T: Number>(number: Shared<T>, amount: T) {
    if constant!(SETTINGS.owns_distributions) != 0 {
        number.add_nonatomic(amount);
    } else {
        number.add(amount);
    }
}
