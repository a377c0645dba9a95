//! The memory layout that the kernel side and user space share: map values, keys, and the read-only globals that tell
//! the programs where this kernel keeps its fields. Only `lagstop`'s `kernel` module may know it; the arithmetic of buckets is for
//! all, and how programs reach memory of maps (`shared`) for the scheduler's too.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics))]
#![cfg_attr(target_arch = "bpf", expect(internal_features, reason = "the BPF target has no other atomic addition"))]

mod acceptor;
mod buckets;
mod layout;
#[cfg(target_arch = "bpf")]
pub mod shared;

pub use acceptor::{Acceptor, Service, Times};
pub use buckets::{BUCKETS, bucket_low, bucket_middle, bucket_of};
pub use layout::*;
