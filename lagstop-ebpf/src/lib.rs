//! The memory layout that the kernel side and user space share: map values, keys, and the read-only globals that tell
//! the programs where this kernel keeps its fields. Only `lagstop`'s `kernel` module may know it; the arithmetic of buckets is for all.
#![no_std]

mod acceptor;
mod buckets;
mod layout;

pub use acceptor::{Acceptor, Service, Times};
pub use buckets::{BUCKETS, bucket_low, bucket_middle, bucket_of};
pub use layout::*;
