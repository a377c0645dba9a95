//! Times how long each connection keeps the thread that accepted it from asking for the next one.

use bytemuck::Zeroable;
use lagstop_ebpf::{Acceptor, ListenerTotals, Lost, Pending, Times};

use crate::{
    kernel::{Task, now},
    lost::lose,
    maps::{ACCEPTORS, LISTENERS},
    shared::{Lookup, Shared, field},
};

/// What is kept about `task`, which alone writes to it while it lives. `None` where it has accepted nothing yet.
#[inline(always)]
fn acceptor(task: Task) -> Option<Shared<Acceptor>> {
    ACCEPTORS.shared(task.address())
}

/// `task`, which is running, asks for a connection.
#[inline(always)]
pub(crate) fn asked(task: Task) {
    if let Some(acceptor) = acceptor(task)
        && field!(acceptor.asked_ns).get() == 0
    {
        field!(acceptor.asked_ns).set(now());
    }
}

/// `task`, which is running, has a connection of which nothing is known: how long that keeps it cannot be said.
#[inline(always)]
pub(crate) fn lose_track(task: Task) {
    if let Some(acceptor) = acceptor(task) {
        field!(acceptor.accepted_ns).set(0);
    }
}

/// `task`, which is running, has a connection.
#[inline(always)]
pub(crate) fn accepted(task: Task, pending: &Pending, now_ns: u64, totals: Shared<ListenerTotals>) {
    let born_ns = task.start_time();
    if acceptor(task).is_none() {
        let _ = ACCEPTORS.insert(task.address(), Acceptor { born_ns, ..Acceptor::zeroed() }, 0);
    }
    let Some(acceptor) = acceptor(task) else { return lose(Lost::Acceptors) };
    if field!(acceptor.born_ns).get() != born_ns {
        // Another task has got its address, or it has executed a program and taken over its process' birth.
        uncount(acceptor);
        acceptor.replace(Acceptor { born_ns, ..Acceptor::zeroed() });
    }
    let last = acceptor.copy();
    if last.listener.shares_port(&pending.listener) {
        if let Some(service) = last.service(pending.since_ns, now_ns) {
            add(field!(totals.services), service.ns);
            if service.kept_waiting {
                add(field!(totals.kept_waiting), service.ns);
            }
            field!(totals.found_none).add(service.found_none.into());
        }
    } else if last.accepted_ns != 0 {
        field!(totals.strayed).add(1);
    }
    count(acceptor, pending, totals);
    field!(acceptor.accepted_ns).set(now_ns);
    field!(acceptor.asked_ns).set(0);
}

/// Counts the thread where it is not counted, once for all addresses of a port.
#[inline(always)]
fn count(acceptor: Shared<Acceptor>, pending: &Pending, totals: Shared<ListenerTotals>) {
    let listener = field!(acceptor.listener);
    if listener.copy().shares_port(&pending.listener) && counting(acceptor).is_some() {
        return;
    }
    uncount(acceptor);
    listener.replace(pending.listener);
    field!(acceptor.counted_ns).set(field!(totals.made_ns).get());
    field!(totals.threads).add(1);
}

#[inline(always)]
fn add(times: Shared<Times>, ns: u64) {
    let us = ns / 1_000;
    field!(times.count).add(1);
    field!(times.ns).add(ns);
    field!(times.squares_us2).add(us.wrapping_mul(us));
}

/// The totals that count the thread, if user space has not taken them out since.
#[inline(always)]
fn counting(acceptor: Shared<Acceptor>) -> Option<Shared<ListenerTotals>> {
    let totals = LISTENERS.shared(field!(acceptor.listener).copy())?;
    (field!(totals.made_ns).get() == field!(acceptor.counted_ns).get()).then_some(totals)
}

#[inline(always)]
fn uncount(acceptor: Shared<Acceptor>) {
    if let Some(totals) = counting(acceptor) {
        // Wraps: one less.
        field!(totals.threads).add(u64::MAX);
    }
}

/// Forgets `task`.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    if let Some(acceptor) = acceptor(task) {
        uncount(acceptor);
        let _ = ACCEPTORS.remove(task.address());
    }
}
