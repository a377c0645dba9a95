//! Times how long each connection keeps the thread that accepted it from asking for the next one.

use bytemuck::Zeroable;
use lagstop_ebpf::{Acceptor, ListenerTotals, Lost, Pending, Times};

use crate::{
    atomic,
    kernel::Task,
    maps::{ACCEPTORS, LISTENERS},
    program::lose,
};

/// What is kept about `task`, which alone writes to it while it lives. `None` where it has accepted nothing yet.
#[inline(always)]
fn acceptor(task: Task) -> Option<&'static mut Acceptor> {
    // SAFETY: a value of the map; see above.
    ACCEPTORS.get_ptr_mut(task.address()).map(|acceptor| unsafe { &mut *acceptor })
}

/// `task`, which is running, asks for a connection.
#[inline(always)]
pub(crate) fn asked(task: Task) {
    if let Some(acceptor) = acceptor(task)
        && acceptor.asked_ns == 0
    {
        // SAFETY: takes no arguments.
        acceptor.asked_ns = unsafe { aya_ebpf::helpers::bpf_ktime_get_ns() };
    }
}

/// `task`, which is running, has a connection of which nothing is known: how long that keeps it cannot be said.
#[inline(always)]
pub(crate) fn lose_track(task: Task) {
    if let Some(acceptor) = acceptor(task) {
        acceptor.accepted_ns = 0;
    }
}

/// `task`, which is running, has a connection.
#[inline(always)]
pub(crate) fn accepted(task: Task, pending: &Pending, now_ns: u64, totals: &mut ListenerTotals) {
    let born_ns = task.start_time();
    if acceptor(task).is_none() {
        let _ = ACCEPTORS.insert(task.address(), Acceptor { born_ns, ..Acceptor::zeroed() }, 0);
    }
    let Some(acceptor) = acceptor(task) else { return lose(Lost::Acceptors) };
    if acceptor.born_ns != born_ns {
        // Another task has got its address, or it has executed a program and taken over its process' birth.
        discount(acceptor);
        *acceptor = Acceptor { born_ns, ..Acceptor::zeroed() };
    }
    if acceptor.listener.shares_port(&pending.listener) {
        if let Some(service) = acceptor.service(pending.since_ns, now_ns) {
            add(&mut totals.services, service.ns);
            if service.kept_waiting {
                add(&mut totals.kept_waiting, service.ns);
            }
            atomic::add(&mut totals.found_none, service.found_none.into());
        }
    } else if acceptor.accepted_ns != 0 {
        atomic::add(&mut totals.strayed, 1);
    }
    count(acceptor, pending, totals);
    acceptor.accepted_ns = now_ns;
    acceptor.asked_ns = 0;
}

/// Counts the thread where it is not counted, once for all addresses of a port.
#[inline(always)]
fn count(acceptor: &mut Acceptor, pending: &Pending, totals: &mut ListenerTotals) {
    if acceptor.listener.shares_port(&pending.listener) && is_counted(acceptor) {
        return;
    }
    discount(acceptor);
    acceptor.listener = pending.listener;
    acceptor.counted_ns = totals.made_ns;
    atomic::add(&mut totals.threads, 1);
}

#[inline(always)]
fn add(times: &mut Times, ns: u64) {
    let us = ns / 1_000;
    atomic::add(&mut times.count, 1);
    atomic::add(&mut times.ns, ns);
    atomic::add(&mut times.squares_us2, us.wrapping_mul(us));
}

/// The totals that count the thread, if user space has not taken them out since.
#[inline(always)]
fn counting(acceptor: &Acceptor) -> Option<&'static mut ListenerTotals> {
    // SAFETY: a value of the map, only added to atomically.
    let totals = LISTENERS.get_ptr_mut(acceptor.listener).map(|totals| unsafe { &mut *totals })?;
    (totals.made_ns == acceptor.counted_ns).then_some(totals)
}

#[inline(always)]
fn is_counted(acceptor: &Acceptor) -> bool {
    counting(acceptor).is_some()
}

#[inline(always)]
fn discount(acceptor: &Acceptor) {
    if let Some(totals) = counting(acceptor) {
        atomic::add(&mut totals.threads, u64::MAX);
    }
}

/// Forgets `task`.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    if let Some(acceptor) = acceptor(task) {
        discount(acceptor);
        let _ = ACCEPTORS.remove(task.address());
    }
}
