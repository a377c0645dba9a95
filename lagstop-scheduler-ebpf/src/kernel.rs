//! Kernel structures, read through offsets that user space took from this kernel's BTF.

use core::ptr::{read_volatile, write_volatile};

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use lagstop_scheduler_ebpf::{Offsets, ROOT_GROUP, Settings};

use crate::kfuncs::{self, Pointer};

/// Field offsets of this kernel.
#[unsafe(no_mangle)]
// SAFETY: plain integers.
pub(crate) static OFFSETS: Offsets = unsafe { core::mem::zeroed() };

/// How to schedule.
#[unsafe(no_mangle)]
// SAFETY: plain integers.
pub(crate) static SETTINGS: Settings = unsafe { core::mem::zeroed() };

/// Reads one field of a read-only global. Volatile, or the compiler would take the zeros above for the value.
macro_rules! constant {
    ($global:ident.$field:ident) => {
        // SAFETY: a valid, aligned static.
        unsafe { core::ptr::read_volatile(&raw const $crate::kernel::$global.$field) }
    };
}
pub(crate) use constant;

const PF_KTHREAD: u32 = 0x0020_0000;

/// The scheduler's clock.
#[inline(always)]
pub(crate) fn now() -> u64 {
    if constant!(SETTINGS.has_now) != 0 {
        kfuncs::now()
    } else {
        // SAFETY: takes no arguments.
        unsafe { bpf_ktime_get_ns() }
    }
}

/// The CPU that this runs on.
#[inline(always)]
pub(crate) fn this_cpu() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { bpf_get_smp_processor_id() }
}

/// Reads a field of a structure whose type the verifier knows: it checks the load against the kernel's BTF.
#[inline(always)]
pub(crate) fn load<T: Copy>(structure: Pointer, offset: u64) -> T {
    // SAFETY: see above.
    unsafe { read_volatile(structure.wrapping_add(offset as usize).cast::<T>()) }
}

/// The `n`th argument of an operation.
#[inline(always)]
pub(crate) fn argument<T: Copy>(context: *const u64, n: usize) -> T {
    // SAFETY: the verifier checks the bounds.
    unsafe { read_volatile(context.add(n).cast::<T>()) }
}

/// A `task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task(pub(crate) Pointer);

impl Task {
    #[inline(always)]
    pub(crate) fn is_kernel_thread(self) -> bool {
        let flags: u32 = load(self.0, constant!(OFFSETS.task_flags));
        flags & PF_KTHREAD != 0
    }

    /// May it run on one CPU only?
    #[inline(always)]
    pub(crate) fn is_pinned(self) -> bool {
        let cpus: u32 = load(self.0, constant!(OFFSETS.task_nr_cpus_allowed));
        cpus == 1
    }

    /// The thread's own.
    #[inline(always)]
    pub(crate) fn id(self) -> u32 {
        load(self.0, constant!(OFFSETS.task_pid))
    }

    /// When it was started.
    #[inline(always)]
    pub(crate) fn started(self) -> u64 {
        load(self.0, constant!(OFFSETS.task_start_time))
    }

    /// Is it a thread of lagstop's?
    #[inline(always)]
    pub(crate) fn is_own(self) -> bool {
        let tgid: u32 = load(self.0, constant!(OFFSETS.task_tgid));
        u64::from(tgid) == constant!(SETTINGS.own_tgid)
    }

    /// The CPUs that it may run on.
    #[inline(always)]
    pub(crate) fn cpus(self) -> Pointer {
        load(self.0, constant!(OFFSETS.task_cpus_ptr))
    }

    /// When its turn is, if it is queued.
    #[inline(always)]
    pub(crate) fn turn(self) -> u64 {
        load(self.0, constant!(OFFSETS.task_vtime))
    }

    /// Does it want to go on?
    #[inline(always)]
    pub(crate) fn is_queued(self) -> bool {
        let flags: u32 = load(self.0, constant!(OFFSETS.task_scx_flags));
        flags & kfuncs::TASK_QUEUED != 0
    }

    /// Gives it so much time from now on.
    #[inline(always)]
    pub(crate) fn set_slice(self, slice: u64) {
        if constant!(SETTINGS.has_set_slice) != 0 {
            kfuncs::set_slice(self.0, slice);
        } else {
            let at = self.0.wrapping_add(constant!(OFFSETS.task_slice) as usize).cast_mut().cast::<u64>();
            // SAFETY: the kernel lets a scheduler write this field, and the verifier checks that it is this one.
            unsafe { write_volatile(at, slice) };
        }
    }

    /// The cgroup whose run queues it would be in. Autogroups, and what is left of dying groups, have none: the root's.
    #[inline(always)]
    pub(crate) fn cgroup(self) -> u64 {
        let group: Pointer = load(self.0, constant!(OFFSETS.task_group));
        let cgroup: Pointer = load(group, constant!(OFFSETS.group_cgroup));
        if cgroup.is_null() {
            return ROOT_GROUP;
        }
        let kn: Pointer = load(cgroup, constant!(OFFSETS.cgroup_kn));
        match load(kn, constant!(OFFSETS.kn_id)) {
            0 => ROOT_GROUP,
            id => id,
        }
    }
}
