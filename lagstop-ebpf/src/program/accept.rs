//! A process asks for a connection, and takes it, in its own context.

use lagstop_ebpf::Lost;

use super::{
    hooks::hooks,
    tcp_state::{listener_totals, take_pending},
};
use crate::{
    acceptors, distributions,
    kernel::{Context, Pointer, Task, constant, now},
    lost::lose,
    maps::{ACCEPTS, is_excluded, this_cpu},
    rows::row_of,
    shared::{Lookup, field},
};

hooks!(at_entry:
    fentry "inet_csk_accept" => accept_entry,
    kprobe "inet_csk_accept" => accept_kprobe,
    syscall "sys_enter_accept" => accept_asked,
    syscall "sys_enter_accept4" => accept4_asked,
);

#[inline(always)]
fn at_entry(_: Context) {
    acceptors::asked(Task::current());
}

hooks!(at_return:
    fexit "inet_csk_accept" => accept_exit,
    kretprobe "inet_csk_accept" => accept_kretprobe,
);

/// `inet_csk_accept` gives the socket of the connection, or none: behind the arguments of an fexit program, in a register
/// of a kretprobe.
#[inline(always)]
fn at_return(context: Context) {
    accepted(context.probe(constant!(SETTINGS.accept_result)).unwrap_or(core::ptr::null()));
}

hooks!(at_syscall_exit:
    syscall "sys_exit_accept" => accept,
    syscall "sys_exit_accept4" => accept4,
);

#[inline(always)]
fn at_syscall_exit(context: Context) {
    /// Where `sys_exit_*` keeps the return value: the same for every system call, `include/trace/events/syscalls.h`.
    const RETURN_VALUE: u64 = 16;
    if let Some(fd) = context.probe::<i64>(RETURN_VALUE)
        && fd >= 0
    {
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
    let now_ns = now();
    let wait = now_ns.wrapping_sub(pending.since_ns);

    let cgroup = task.group().cgroup();
    let id = cgroup.id();
    if let Some(listener) = listener_totals(&pending.listener) {
        field!(listener.accepts).add(1);
        field!(listener.accept_wait_ns).add(wait);
        field!(listener.cgroup).set(id);
        field!(listener.tgid).set(u64::from(task.tgid()));
        acceptors::accepted(task, &pending, now_ns, listener);
    } else {
        lose(Lost::Listeners);
    }
    let Some(cpu) = this_cpu() else { return };
    if is_excluded(cpu) {
        return;
    }
    // Accepts may preempt each other here. `row_of` is safe: its slow path sets `rows_full`, to 1 alone, and adds
    // atomically.
    let row = row_of(cpu, cgroup, id);
    if let Some(totals) = ACCEPTS.shared(row) {
        field!(totals.accepts).add(1);
        field!(totals.accept_wait_ns).add(wait);
        // There is one copy for all CPUs.
        if let Some(count) = distributions::bucket(field!(totals.accept_wait), wait) {
            count.add(1);
        }
    }
}
