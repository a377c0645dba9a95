//! A process asks for a connection, and takes it, in its own context.

use aya_ebpf::{
    EbpfContext,
    helpers::bpf_ktime_get_ns,
    macros::{fentry, fexit, kprobe, kretprobe, tracepoint},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext, TracePointContext},
};
use lagstop_ebpf::Lost;

use super::tcp_state::{lose, take_pending, totals_of};
use crate::{
    acceptors, atomic,
    kernel::{Pointer, Task, constant, probe_field},
    maps::{ACCEPTS, CPU},
    rows::find,
    spread,
};

/// Where `sys_exit_*` keeps the return value: the same for every system call, `include/trace/events/syscalls.h`.
const RETURN_VALUE: usize = 16;

/// Entry of `inet_csk_accept`.
#[fentry(function = "inet_csk_accept")]
pub(crate) fn accept_entry(_: FEntryContext) -> i32 {
    acceptors::asked(Task::current());
    0
}

/// As above.
#[kprobe(function = "inet_csk_accept")]
pub(crate) fn accept_kprobe(_: ProbeContext) -> u32 {
    acceptors::asked(Task::current());
    0
}

/// `syscalls/sys_enter_accept`
#[tracepoint(category = "syscalls", name = "sys_enter_accept")]
pub(crate) fn accept_asked(_: TracePointContext) -> u32 {
    acceptors::asked(Task::current());
    0
}

/// `syscalls/sys_enter_accept4`
#[tracepoint(category = "syscalls", name = "sys_enter_accept4")]
pub(crate) fn accept4_asked(_: TracePointContext) -> u32 {
    acceptors::asked(Task::current());
    0
}

/// Exit of `inet_csk_accept`, which gives the socket of the connection, or none.
#[fexit(function = "inet_csk_accept")]
pub(crate) fn accept_exit(ctx: FExitContext) -> i32 {
    accepted(result(&ctx));
    0
}

/// As above.
#[kretprobe(function = "inet_csk_accept")]
pub(crate) fn accept_kretprobe(ctx: RetProbeContext) -> u32 {
    accepted(result(&ctx));
    0
}

/// `syscalls/sys_exit_accept`
#[tracepoint(category = "syscalls", name = "sys_exit_accept")]
pub(crate) fn accept(ctx: TracePointContext) -> u32 {
    accepted_descriptor(&ctx);
    0
}

/// `syscalls/sys_exit_accept4`
#[tracepoint(category = "syscalls", name = "sys_exit_accept4")]
pub(crate) fn accept4(ctx: TracePointContext) -> u32 {
    accepted_descriptor(&ctx);
    0
}

/// What the function returns: behind the arguments of an fexit program, in a register of a kretprobe.
#[inline(always)]
fn result<C: EbpfContext>(ctx: &C) -> Pointer {
    probe_field(ctx.as_ptr().cast::<u8>().cast_const(), constant!(SETTINGS.accept_result))
}

#[inline(always)]
fn accepted_descriptor(ctx: &TracePointContext) {
    // SAFETY: within the record.
    let Ok(fd) = (unsafe { ctx.read_at::<i64>(RETURN_VALUE) }) else { return };
    if fd >= 0 {
        accepted(Task::current().socket(fd as u32));
    }
}

#[inline(always)]
fn accepted(sock: Pointer) {
    if sock.is_null() {
        return;
    }
    let task = Task::current();
    // Not there for connections established before lagstop was, and for sockets that are not TCP.
    let Some(pending) = take_pending(sock) else { return acceptors::lose_track(task) };
    // SAFETY: takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let wait = now_ns.wrapping_sub(pending.since_ns);

    let cgroup = task.group().cgroup();
    let id = cgroup.id();
    if let Some(listener) = totals_of(&pending.listener) {
        atomic::add(&mut listener.accepts, 1);
        atomic::add(&mut listener.accept_wait_ns, wait);
        listener.cgroup = id;
        listener.tgid = u64::from(task.tgid());
        acceptors::accepted(task, &pending, now_ns, listener);
    } else {
        lose(Lost::Listeners);
    }
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value. Another task's accept may come between: the slow path writes to one field, and only
    // 1, and adds to another atomically.
    let row = find(unsafe { &mut *cpu }, cgroup, id);
    if let Some(totals) = ACCEPTS.get_ptr_mut(row) {
        // SAFETY: a value of the map, only added to atomically.
        let totals = unsafe { &mut *totals };
        atomic::add(&mut totals.accepts, 1);
        atomic::add(&mut totals.accept_wait_ns, wait);
        spread::count(&mut totals.accept_wait, wait);
    }
}
