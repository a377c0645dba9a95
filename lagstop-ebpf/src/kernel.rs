//! Kernel structures, read through offsets that user space took from this kernel's BTF.
//!
//! Pointers that come from a `tp_btf` argument or `bpf_get_current_task_btf` are known to the verifier by type: loads
//! from them are checked when the program is loaded and need no helper. A load that faults all the same gives 0.

use core::ptr::read_volatile;

use aya_ebpf::helpers::{bpf_probe_read_kernel, generated::bpf_get_current_task_btf};
use lagstop_ebpf::{Offsets, Settings};

/// Field offsets of this kernel.
#[unsafe(no_mangle)]
// SAFETY: plain integers.
pub(crate) static OFFSETS: Offsets = unsafe { core::mem::zeroed() };

/// What the programs are to do.
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

/// Loads a `$type` at offset `$field` of the structure at `$pointer`.
macro_rules! load {
    ($pointer:expr, $field:ident as $type:ty) => {
        // SAFETY: the verifier checks type and offset of the load against the kernel's BTF.
        unsafe {
            read_volatile($pointer.cast::<u8>().add(read_volatile(&raw const OFFSETS.$field) as usize).cast::<$type>())
        }
    };
}

/// A pointer into the kernel.
pub(crate) type Pointer = *const u8;

const PF_IDLE: u32 = 0x2;

/// A `task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task(Pointer);

impl Task {
    /// The task at `pointer`, an argument of a `tp_btf` program.
    #[inline(always)]
    pub(crate) fn new(pointer: Pointer) -> Self {
        Self(pointer)
    }

    /// The running task.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: takes no arguments, never fails.
        Self(unsafe { bpf_get_current_task_btf() }.cast::<u8>().cast_const())
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> Pointer {
        self.0
    }

    /// Is this a CPU's idle task (pid 0)? `PF_IDLE` alone would also name idle-injection threads; it is asked first
    /// because it sits in a cache line that `__schedule()` has just used.
    #[inline(always)]
    pub(crate) fn is_idle(self) -> bool {
        load!(self.0, task_flags as u32) & PF_IDLE != 0 && load!(self.0, task_pid as u32) == 0
    }

    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        load!(self.0, task_tgid as u32)
    }

    /// The CPU whose run queue it is on, or was last.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        load!(self.0, task_cpu as u32)
    }

    /// What tells how its spell on the CPU went.
    #[inline(always)]
    pub(crate) fn seen(self) -> Seen {
        Seen { nvcsw: load!(self.0, task_nvcsw as u64), runtime_ns: load!(self.0, task_sum_exec_runtime as u64) }
    }

    /// When it was born, CLOCK_MONOTONIC.
    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        load!(self.0, task_start_time as u64)
    }

    /// Wait on run queues that the kernel has booked.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        load!(self.0, task_run_delay as u64)
    }

    /// Since when it has been waiting, on the clock of its run queue; 0 when it is not.
    #[inline(always)]
    pub(crate) fn last_queued(self) -> u64 {
        load!(self.0, task_last_queued as u64)
    }

    /// The clock of its run queue.
    #[inline(always)]
    pub(crate) fn rq_clock(self) -> u64 {
        let cfs_rq = load!(self.0, task_cfs_rq as Pointer);
        let rq = load!(cfs_rq, cfs_rq_rq as Pointer);
        load!(rq, rq_clock as u64)
    }

    /// What groups it: its `task_group`, or its `css_set` where tasks are grouped by cgroup v2 leaf.
    #[inline(always)]
    pub(crate) fn group(self) -> Group {
        if constant!(SETTINGS.group_by_leaf) != 0 {
            Group(load!(self.0, task_cgroups as Pointer))
        } else {
            Group(load!(self.0, task_group as Pointer))
        }
    }

    /// The `struct sock` behind file descriptor `fd`, or null where it is no socket.
    #[inline(always)]
    pub(crate) fn socket(self, fd: u32) -> Pointer {
        let files = load!(self.0, task_files as Pointer);
        let fdt = load!(files, files_fdt as Pointer);
        if fd >= load!(fdt, fdt_max_fds as u32) {
            return core::ptr::null();
        }
        let table = load!(fdt, fdt_fd as Pointer);
        let file = probe_field(table, u64::from(fd) * 8);
        let socket = probe_field(file, constant!(OFFSETS.file_private_data));
        // A socket points back at its file; any other file's private data does not, but for a freak.
        if probe_field(socket, constant!(OFFSETS.socket_file)) != file {
            return core::ptr::null();
        }
        probe_field(socket, constant!(OFFSETS.socket_sk))
    }
}

/// Figures of a task that change while it runs.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Switches away that the kernel counted as voluntary.
    pub(crate) nvcsw: u64,
    /// CPU time as the kernel books it.
    pub(crate) runtime_ns: u64,
}

impl Seen {
    /// Reads them from a task that the verifier does not know to be one.
    #[inline(always)]
    pub(crate) fn probe(task: Pointer) -> Option<Self> {
        Some(Self {
            nvcsw: probe_read(task.wrapping_add(constant!(OFFSETS.task_nvcsw) as usize))?,
            runtime_ns: probe_read(task.wrapping_add(constant!(OFFSETS.task_sum_exec_runtime) as usize))?,
        })
    }
}

/// A `task_group` or a `css_set`. It lives at least as long as a task is in it.
#[derive(Clone, Copy)]
pub(crate) struct Group(Pointer);

impl Group {
    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Its cgroup. Autogroups, and what is left of dying groups, have none: see [`Cgroup::id`].
    #[inline(always)]
    pub(crate) fn cgroup(self) -> Cgroup {
        if constant!(SETTINGS.group_by_leaf) != 0 {
            Cgroup(load!(self.0, css_set_dfl_cgrp as Pointer))
        } else {
            Cgroup(load!(self.0, group_cgroup as Pointer))
        }
    }
}

/// A `struct cgroup`, or null.
#[derive(Clone, Copy)]
pub(crate) struct Cgroup(Pointer);

impl Cgroup {
    /// Id of the root of every hierarchy.
    pub(crate) const ROOT: u64 = 1;

    /// The inode number of its directory. Without a cgroup the root's: there its tasks compete.
    #[inline(always)]
    pub(crate) fn id(self) -> u64 {
        let kn = load!(self.0, cgroup_kn as Pointer);
        match load!(kn, kn_id as u64) {
            0 => Self::ROOT,
            id => id,
        }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> Pointer {
        self.0
    }
}

/// Reads a value at an address that the verifier knows nothing about.
#[inline(always)]
pub(crate) fn probe_read<T>(address: Pointer) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(address.cast::<T>()) }.ok()
}

/// Reads a pointer field of a structure that the verifier knows nothing about; null where it cannot be read.
#[inline(always)]
pub(crate) fn probe_field(structure: Pointer, offset: u64) -> Pointer {
    probe_read(structure.wrapping_add(offset as usize)).unwrap_or(core::ptr::null())
}
