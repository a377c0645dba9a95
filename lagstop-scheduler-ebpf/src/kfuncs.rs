//! Functions of the kernel (kernel/sched/ext.c, ext_idle.c).
//!
//! No Rust toolchain describes a function that a BPF program is to be linked with, so each is called as a helper with a number
//! of its own, which user space makes the function's id in the kernel's BTF. One that this kernel lacks must not be reached: a
//! read-only global that says so makes the call dead code.

use lagstop_scheduler_ebpf::Kfunc;

/// A pointer into the kernel.
pub(crate) type Pointer = *const u8;

macro_rules! kfuncs {
    ($($(#[$doc:meta])* $kfunc:ident $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the call is to the number, which the verifier knows as a function of the kernel with these arguments.
            let call: unsafe extern "C" fn($($ty),*) $(-> $ret)? =
                unsafe { core::mem::transmute(Kfunc::$kfunc.call() as usize) };
            // SAFETY: the verifier checks the arguments.
            unsafe { call($($arg),*) }
        }
    )*};
}

// Whoever takes fewer arguments does not look at the last ones.
kfuncs! {
    CreateDsq create_dsq(id: u64, node: i64) -> i32;
    SelectCpu select_cpu(task: Pointer, previous: i64, flags: u64, is_idle: *mut u8) -> i32;
    Insert insert(task: Pointer, dsq: u64, slice: u64, flags: u64);
    InsertVtime insert_vtime(task: Pointer, dsq: u64, slice: u64, vtime: u64, flags: u64);
    InsertVtimeArgs insert_vtime_args(task: Pointer, args: *const InsertArguments);
    MoveToLocal move_to_local(dsq: u64, flags: u64) -> u64;
    KickCpu kick_cpu(cpu: i64, flags: u64);
    Now now() -> u64;
    SetSlice set_slice(task: Pointer, slice: u64);
    TestCpu test_cpu(cpu: u64, mask: Pointer) -> u64;
    PickIdleCpu pick_idle_cpu(mask: Pointer, flags: u64) -> i32;
    TaskCpu task_cpu(task: Pointer) -> i32;
    IterNew iter_new(iterator: *mut u64, dsq: u64, flags: u64) -> i32;
    IterNext iter_next(iterator: *mut u64) -> Pointer;
    IterDestroy iter_destroy(iterator: *mut u64);
}

/// `struct scx_bpf_dsq_insert_vtime_args`, since Linux 6.19.
#[repr(C)]
pub(crate) struct InsertArguments {
    pub(crate) dsq: u64,
    pub(crate) slice: u64,
    pub(crate) vtime: u64,
    pub(crate) flags: u64,
}

/// `SCX_DSQ_LOCAL`: the queue of the CPU that was chosen.
pub(crate) const LOCAL: u64 = 1 << 63 | 2;
/// `SCX_KICK_IDLE`, `SCX_KICK_PREEMPT`.
pub(crate) const KICK_IDLE: u64 = 1;
pub(crate) const KICK_PREEMPT: u64 = 2;
/// `SCX_ENQ_WAKEUP`
pub(crate) const ENQ_WAKEUP: u64 = 1;
/// `SCX_TASK_QUEUED`
pub(crate) const TASK_QUEUED: u32 = 1;
