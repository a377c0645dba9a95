//! The programs that lagstop runs in the kernel.
//!
//! They only ever add to totals in maps. How a call to `__schedule()` is seen, on one CPU with preemption off:
//!
//! ```text
//! entry ──── pick cost, charged to prev ────► sched_switch ──── swap cost, charged to next ────► exit
//! entry ──── kept-running cost, charged to the task that stays ────────────────────────────────► exit
//! ```
//!
//! Between two switches lies a task's stint on the CPU: `stints` books what it took when it ends.
//!
//! The user-space side loads the object with this kernel's field offsets in [`kernel::OFFSETS`].
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod acceptors;
mod blame;
mod distributions;
mod kernel;
mod lost;
mod maps;
mod program;
mod rows;
mod stints;
mod tasks;
mod waits;

use lagstop_ebpf::shared;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no program contains a panic: the verifier would refuse the call that raises it.
    unsafe { core::hint::unreachable_unchecked() }
}

/// Both halves of the licence are needed: the tracing helpers are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
