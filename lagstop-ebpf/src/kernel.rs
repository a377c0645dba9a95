//! Kernel structures, read through offsets that user space took from this kernel's BTF.

use core::{arch::asm, ptr::read_volatile};

use aya_ebpf::helpers::{
    bpf_probe_read_kernel,
    generated::{bpf_get_current_task, bpf_get_current_task_btf, bpf_ktime_get_ns},
};
use bytemuck::Zeroable;
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

/// CLOCK_MONOTONIC. This is the most expensive thing that a program does.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: takes no arguments.
    unsafe { bpf_ktime_get_ns() }
}

/// A pointer into the kernel.
pub(crate) type Pointer = *const u8;

const PF_IDLE: u32 = 0x2;
const PF_KTHREAD: u32 = 0x0020_0000;

/// A kernel structure.
///
/// The verifier knows the type of one that comes as an argument of a `tp_btf`, fentry or fexit program, or from
/// `bpf_get_current_task_btf`, and of all that can be reached from it: loads are checked when the program is loaded and
/// need no helper. Any other is read by a helper. Where the address cannot be read, both ways give 0.
#[derive(Clone, Copy)]
struct Structure {
    at: Pointer,
    is_typed: bool,
}

impl Structure {
    #[inline(always)]
    fn load<T: Copy + Zeroable>(self, offset: u64) -> T {
        let address = self.at.wrapping_add(offset as usize);
        if self.is_typed {
            // SAFETY: the verifier checks type and offset of the load against the kernel's BTF.
            unsafe { read_volatile(address.cast::<T>()) }
        } else {
            probe_read(address).unwrap_or(T::zeroed())
        }
    }

    /// The structure that a pointer in this one leads to.
    #[inline(always)]
    fn follow(self, offset: u64) -> Self {
        Self { at: self.load(offset), is_typed: self.is_typed }
    }
}

/// Loads the field of `$structure` that is at `$offset`, or follows it where it is a pointer.
macro_rules! load {
    ($structure:expr, $offset:ident) => {
        $structure.load(constant!(OFFSETS.$offset))
    };
}
macro_rules! follow {
    ($structure:expr, $offset:ident) => {
        $structure.follow(constant!(OFFSETS.$offset))
    };
}

/// What a program is called with: the arguments of a tracepoint or of a hooked function; the registers at a kprobe, the
/// record of a system call.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    at: *const u64,
    is_typed: bool,
}

impl Context {
    /// That of a `tp_btf`, fentry or fexit program.
    #[inline(always)]
    pub(crate) fn typed<T>(at: *mut T) -> Self {
        Self { at: at.cast::<u64>().cast_const(), is_typed: true }
    }

    /// Any other: plain numbers to the verifier.
    #[inline(always)]
    pub(crate) fn untyped<T>(at: *mut T) -> Self {
        Self { at: at.cast::<u64>().cast_const(), is_typed: false }
    }

    /// Its `n`th argument, a task.
    #[inline(always)]
    pub(crate) fn task(self, n: usize) -> Task {
        Task(Structure { at: self.pointer(n), is_typed: self.is_typed })
    }

    #[inline(always)]
    pub(crate) fn pointer(self, n: usize) -> Pointer {
        // SAFETY: the verifier checks the bounds.
        unsafe { read_volatile(self.at.add(n).cast::<Pointer>()) }
    }

    #[inline(always)]
    pub(crate) fn number(self, n: usize) -> i32 {
        // SAFETY: the verifier checks the bounds.
        unsafe { read_volatile(self.at.add(n)) as i32 }
    }

    /// What is `offset` bytes behind its beginning. By a helper: only that may read anywhere.
    #[inline(always)]
    pub(crate) fn probe<T>(self, offset: u64) -> Option<T> {
        probe_read(self.at.cast::<u8>().wrapping_add(offset as usize))
    }
}

/// A `task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task(Structure);

impl Task {
    /// The running task.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        if constant!(SETTINGS.current_is_typed) != 0 {
            // SAFETY: takes no arguments, never fails.
            let at = unsafe { bpf_get_current_task_btf() }.cast::<u8>().cast_const();
            Self(Structure { at, is_typed: true })
        } else {
            // SAFETY: as above.
            let at = unsafe { bpf_get_current_task() } as Pointer;
            Self(Structure { at, is_typed: false })
        }
    }

    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0.at as u64
    }

    /// The lower half of its address. The verifier lets nobody calculate with a pointer that it knows, but with half of one.
    #[inline(always)]
    pub(crate) fn low_address(self) -> u32 {
        let low: u64;
        // SAFETY: moves from one register to another.
        unsafe { asm!("w0 = w1", in("r1") self.address(), lateout("r0") low, options(pure, nomem, nostack)) };
        low as u32
    }

    /// Is this a CPU's idle task (pid 0)? `PF_IDLE` alone would also name idle-injection threads; it is asked first
    /// because it sits in a cache line that `__schedule()` has just used.
    #[inline(always)]
    pub(crate) fn is_idle(self) -> bool {
        let flags: u32 = load!(self.0, task_flags);
        flags & PF_IDLE != 0 && 0u32 == load!(self.0, task_pid)
    }

    #[inline(always)]
    pub(crate) fn is_kernel_thread(self) -> bool {
        let flags: u32 = load!(self.0, task_flags);
        flags & PF_KTHREAD != 0
    }

    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        load!(self.0, task_tgid)
    }

    /// The CPU whose run queue it is on, or was last.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        load!(self.0, task_cpu)
    }

    /// Can it go on? Of a task that is preempted on its way to sleep the answer is no.
    #[inline(always)]
    pub(crate) fn is_runnable(self) -> bool {
        const TASK_RUNNING: u32 = 0;
        TASK_RUNNING == load!(self.0, task_state)
    }

    /// What tells how its stint on the CPU went.
    #[inline(always)]
    pub(crate) fn seen(self) -> Seen {
        Seen { nvcsw: load!(self.0, task_nvcsw), runtime_ns: load!(self.0, task_sum_exec_runtime) }
    }

    /// For how long it has run since it got the CPU, about: what the kernel notes then (`set_next_entity`) it notes again where a
    /// running task changes its group, priority or affinity. Of tasks that are not fair, it is of long ago: bounded by the time since.
    /// 0 where the kernel does not note it.
    #[inline(always)]
    pub(crate) fn ran_since_arrival(self) -> u64 {
        if constant!(OFFSETS.task_prev_sum_exec_runtime) == 0 {
            return 0;
        }
        let then: u64 = load!(self.0, task_prev_sum_exec_runtime);
        let ran = self.seen().runtime_ns.wrapping_sub(then);
        if constant!(OFFSETS.task_last_arrival) == 0 {
            return ran;
        }
        let arrival: u64 = load!(self.0, task_last_arrival);
        ran.min(self.rq_clock().wrapping_sub(arrival))
    }

    /// When it was born, CLOCK_MONOTONIC.
    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        load!(self.0, task_start_time)
    }

    /// Wait on run queues that the kernel has booked.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        load!(self.0, task_run_delay)
    }

    /// Since when it has been waiting, on the clock of its run queue; 0 when it is not.
    #[inline(always)]
    pub(crate) fn last_queued(self) -> u64 {
        load!(self.0, task_last_queued)
    }

    /// The clock of its run queue.
    #[inline(always)]
    pub(crate) fn rq_clock(self) -> u64 {
        let cfs_rq = follow!(self.0, task_cfs_rq);
        let rq = follow!(cfs_rq, cfs_rq_rq);
        load!(rq, rq_clock)
    }

    /// Address of the `cfs_rq` that it is queued on, and for how long that has been throttled.
    #[inline(always)]
    pub(crate) fn throttled(self) -> (u64, u64) {
        let cfs_rq = follow!(self.0, task_cfs_rq);
        (cfs_rq.at as u64, load!(cfs_rq, throttled_time))
    }

    /// What groups it: its `task_group`, or its `css_set` where tasks are grouped by cgroup v2 leaf.
    #[inline(always)]
    pub(crate) fn group(self) -> Group {
        if constant!(SETTINGS.group_by_leaf) != 0 {
            Group(follow!(self.0, task_cgroups))
        } else {
            Group(follow!(self.0, task_group))
        }
    }

    /// The `struct sock` behind file descriptor `fd`, or null where it is no socket.
    #[inline(always)]
    pub(crate) fn socket(self, fd: u32) -> Pointer {
        let files = follow!(self.0, task_files);
        let fdt = follow!(files, files_fdt);
        if fd >= load!(fdt, fdt_max_fds) {
            return core::ptr::null();
        }
        let table = load!(fdt, fdt_fd);
        let file = probe_field(table, u64::from(fd) * 8);
        let socket = probe_field(file, constant!(OFFSETS.file_private_data));
        // A socket points back at its file; any other file's private data does not, as good as always.
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
    /// Reads them from the task at an address that was kept.
    #[inline(always)]
    pub(crate) fn probe(task: u64) -> Option<Self> {
        let task = task as Pointer;
        Some(Self {
            nvcsw: probe_read(task.wrapping_add(constant!(OFFSETS.task_nvcsw) as usize))?,
            runtime_ns: probe_read(task.wrapping_add(constant!(OFFSETS.task_sum_exec_runtime) as usize))?,
        })
    }
}

/// A `task_group` or a `css_set`. It lives at least as long as a task is in it.
#[derive(Clone, Copy)]
pub(crate) struct Group(Structure);

impl Group {
    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0.at as u64
    }

    /// Its cgroup. Autogroups, and what is left of dying groups, have none: see [`Cgroup::id`].
    #[inline(always)]
    pub(crate) fn cgroup(self) -> Cgroup {
        if constant!(SETTINGS.group_by_leaf) != 0 {
            Cgroup(follow!(self.0, css_set_dfl_cgrp))
        } else {
            Cgroup(follow!(self.0, group_cgroup))
        }
    }
}

/// A `struct cgroup`, or null.
#[derive(Clone, Copy)]
pub(crate) struct Cgroup(Structure);

impl Cgroup {
    /// Id of the root of every hierarchy.
    pub(crate) const ROOT: u64 = 1;

    /// The inode number of its directory. Without a cgroup the root's: there its tasks compete.
    #[inline(always)]
    pub(crate) fn id(self) -> u64 {
        let kn = follow!(self.0, cgroup_kn);
        match load!(kn, kn_id) {
            0 => Self::ROOT,
            id => id,
        }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> Pointer {
        self.0.at
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
