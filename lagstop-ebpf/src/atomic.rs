//! Addition to what several CPUs, or a program and an interrupt, add to.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Adds `amount` to `figure`; wraps.
#[inline(always)]
pub(crate) fn add<T: Copy>(figure: &mut T, amount: T) {
    // SAFETY: an aligned map value, whose other writers add atomically too.
    unsafe { atomic_xadd::<T, T, { AtomicOrdering::Relaxed }>(figure, amount) };
}
