//! A process takes a connection: the exit of the `accept` system calls, in the context of the one that accepted.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::tracepoint, programs::TracePointContext};
use lagstop_ebpf::Lost;

use super::tcp_state::{lose, take_pending, totals_of};
use crate::{
    atomic,
    kernel::Task,
    maps::{ACCEPTS, CPU},
    rows::find,
    spread,
};

/// Where `sys_exit_*` keeps the return value: the same for every system call, `include/trace/events/syscalls.h`.
const RETURN_VALUE: usize = 16;

/// `syscalls/sys_exit_accept`
#[tracepoint(category = "syscalls", name = "sys_exit_accept")]
pub(crate) fn accept(ctx: TracePointContext) -> u32 {
    accepted(&ctx);
    0
}

/// `syscalls/sys_exit_accept4`
#[tracepoint(category = "syscalls", name = "sys_exit_accept4")]
pub(crate) fn accept4(ctx: TracePointContext) -> u32 {
    accepted(&ctx);
    0
}

#[inline(always)]
fn accepted(ctx: &TracePointContext) {
    // SAFETY: within the record.
    let Ok(fd) = (unsafe { ctx.read_at::<i64>(RETURN_VALUE) }) else { return };
    if fd < 0 {
        return;
    }
    let task = Task::current();
    // Not there for connections established before lagstop was, and for sockets that are not TCP.
    let Some(pending) = take_pending(task.socket(fd as u32)) else { return };
    // SAFETY: takes no arguments.
    let wait = unsafe { bpf_ktime_get_ns() }.wrapping_sub(pending.since_ns);

    let cgroup = task.group().cgroup();
    let id = cgroup.id();
    if let Some(listener) = totals_of(&pending.listener) {
        atomic::add(&mut listener.accepts, 1);
        atomic::add(&mut listener.accept_wait_ns, wait);
        listener.cgroup = id;
        listener.tgid = u64::from(task.tgid());
    } else {
        lose(Lost::Listeners);
    }
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value. Preemption is off while a program runs here, and only the slow path writes to it.
    let row = find(unsafe { &mut *cpu }, cgroup, id);
    if let Some(totals) = ACCEPTS.get_ptr_mut(row) {
        // SAFETY: a value of the map, only added to atomically.
        let totals = unsafe { &mut *totals };
        atomic::add(&mut totals.accepts, 1);
        atomic::add(&mut totals.accept_wait_ns, wait);
        spread::count(&mut totals.accept_wait, wait);
    }
}
