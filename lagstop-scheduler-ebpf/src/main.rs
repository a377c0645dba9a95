//! LAGS as a sched_ext scheduler: tasks of the cgroups that used least of their share lately run first (CFS-LAGS paper, §4.2).
//!
//! A waiting task's turn is the virtual time of its cgroup: the kernel's own tree of a queue sorts by it. What each cgroup's
//! share is, user space tells in `PLANS`, once a second.
//!
//! Functions of the kernel are called as if they were helpers: see [`kfuncs`].
#![no_std]
#![no_main]

mod credit;
mod kernel;
mod kfuncs;
mod maps;
mod operations;
mod turn;
mod virtual_time;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no program contains a panic: the verifier would refuse the call that raises it.
    unsafe { core::hint::unreachable_unchecked() }
}

/// Both halves of the licence are needed: the kernel's functions are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
