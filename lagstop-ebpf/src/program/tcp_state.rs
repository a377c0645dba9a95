//! A TCP socket changes state. Runs in softirq for connections that come in, so the running task
//! has nothing to do with it.

use bytemuck::Zeroable;
use lagstop_ebpf::{ListenerKey, ListenerTotals, Lost, Pending};

use super::hooks::hooks;
use crate::{
    kernel::{Context, Pointer, constant, now, probe_field, probe_read},
    lost::lose,
    maps::{LISTENERS, PENDING},
    shared::{Lookup, Shared, field},
};

const TCP_ESTABLISHED: i32 = 1;
const TCP_SYN_RECV: i32 = 3;
const TCP_CLOSE: i32 = 7;
const AF_INET6: u16 = 10;

hooks!(at_tracepoint: tp_btf "inet_sock_set_state" => tcp_state, raw_tp "inet_sock_set_state" => tcp_state_raw);

/// `inet_sock_set_state(const struct sock *sk, int oldstate, int newstate)`
#[inline(always)]
fn at_tracepoint(context: Context) {
    changed(context.pointer(0), context.number(1), context.number(2));
}

hooks!(at_function: fentry "tcp_set_state" => tcp_set_state);

/// `tcp_set_state(struct sock *sk, int state)`: at its entry the old state is still there.
#[inline(always)]
fn at_function(context: Context) {
    let sock = context.pointer(0);
    let old: u8 = probe_read(sock.wrapping_add(constant!(OFFSETS.sk_state) as usize)).unwrap_or(0);
    changed(sock, i32::from(old), context.number(1));
}

/// Only `SYN_RECV → ESTABLISHED` is somebody connecting to us; `SYN_SENT → ESTABLISHED` is us connecting to somebody.
#[inline(always)]
fn changed(sock: Pointer, old: i32, new: i32) {
    if old == TCP_SYN_RECV && new == TCP_ESTABLISHED {
        established(sock);
    } else if is_accepted(sock) {
        // By a way that is not seen: it waits no more, and was not abandoned.
        if take_pending(sock).is_some() {
            lose(Lost::Accepts);
        }
    } else if new == TCP_CLOSE {
        closed(sock);
    }
}

/// Does a process have it?
#[inline(always)]
fn is_accepted(sock: Pointer) -> bool {
    !probe_field(sock, constant!(OFFSETS.sk_socket)).is_null()
}

#[inline(always)]
fn established(sock: Pointer) {
    // With Fast Open a connection may be accepted before its handshake is complete.
    if is_accepted(sock) {
        return;
    }
    let listener = listener_of(sock);
    if PENDING.insert(sock as u64, Pending { since_ns: now(), listener }, 0).is_err() {
        lose(Lost::Connections);
    }
    match listener_totals(&listener) {
        Some(totals) => field!(totals.established).add(1),
        None => lose(Lost::Listeners),
    }
}

/// A connection that nobody accepted ends here; of any other there is nothing to find.
#[inline(always)]
fn closed(sock: Pointer) {
    let Some(pending) = take_pending(sock) else { return };
    if let Some(totals) = listener_totals(&pending.listener) {
        field!(totals.abandoned).add(1);
    }
}

/// Takes `sock` out of the connections that wait.
#[inline(always)]
pub(crate) fn take_pending(sock: Pointer) -> Option<Pending> {
    // A waiting socket is touched by one party at a time: closed or accepted.
    let pending = PENDING.shared(sock as u64)?.copy();
    // Whoever removes it counts it.
    PENDING.remove(sock as u64).is_ok().then_some(pending)
}

/// The totals of `listener`, new where there are none. `None` when the table is full.
#[inline(always)]
pub(crate) fn listener_totals(listener: &ListenerKey) -> Option<Shared<ListenerTotals>> {
    const BPF_NOEXIST: u64 = 1;
    if let Some(totals) = LISTENERS.shared(listener) {
        return Some(totals);
    }
    let new = ListenerTotals { made_ns: now(), ..ListenerTotals::zeroed() };
    let _ = LISTENERS.insert(listener, new, BPF_NOEXIST);
    LISTENERS.shared(listener)
}

/// The local address and network namespace of `sock`.
#[inline(always)]
fn listener_of(sock: Pointer) -> ListenerKey {
    let at = |offset: u64| sock.wrapping_add(offset as usize);
    let mut key = ListenerKey {
        netns: 0,
        port: probe_read(at(constant!(OFFSETS.sk_num))).unwrap_or(0),
        family: probe_read(at(constant!(OFFSETS.sk_family))).unwrap_or(0),
        address: [0; 16],
    };
    let net = probe_field(sock, constant!(OFFSETS.sk_net));
    key.netns = probe_read(net.wrapping_add(constant!(OFFSETS.net_inum) as usize)).unwrap_or(0);
    if key.family == AF_INET6 {
        key.address = probe_read(at(constant!(OFFSETS.sk_v6_rcv_saddr))).unwrap_or([0; 16]);
    } else {
        let v4: [u8; 4] = probe_read(at(constant!(OFFSETS.sk_rcv_saddr))).unwrap_or([0; 4]);
        key.address[..4].copy_from_slice(&v4);
    }
    key
}
