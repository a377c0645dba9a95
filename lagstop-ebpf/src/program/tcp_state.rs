//! A TCP socket changes state. Runs in softirq for connections that come in, so the running task
//! has nothing to do with it.

use aya_ebpf::{EbpfContext, helpers::bpf_ktime_get_ns, macros::fentry, programs::FEntryContext};
use bytemuck::Zeroable;
use lagstop_ebpf::{ListenerKey, ListenerTotals, Lost, Pending};

use super::tracepoint;
use crate::{
    atomic,
    kernel::{Arguments, Pointer, constant, probe_field, probe_read},
    maps::{CPU, LISTENERS, PENDING},
};

const TCP_ESTABLISHED: i32 = 1;
const TCP_SYN_RECV: i32 = 3;
const TCP_CLOSE: i32 = 7;
const AF_INET6: u16 = 10;

tracepoint!("inet_sock_set_state": tcp_state, tcp_state_raw => changed_at_tracepoint);

/// `inet_sock_set_state(const struct sock *sk, int oldstate, int newstate)`
#[inline(always)]
fn changed_at_tracepoint(arguments: Arguments) {
    changed(arguments.pointer(0), arguments.number(1), arguments.number(2));
}

/// Entry of `tcp_set_state(struct sock *sk, int state)`: the old state is still there.
#[fentry(function = "tcp_set_state")]
pub(crate) fn tcp_set_state(ctx: FEntryContext) -> i32 {
    let arguments = Arguments::typed(ctx.as_ptr());
    let sock = arguments.pointer(0);
    let old: u8 = probe_read(sock.wrapping_add(constant!(OFFSETS.sk_state) as usize)).unwrap_or(0);
    changed(sock, i32::from(old), arguments.number(1));
    0
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
    // SAFETY: takes no arguments.
    let since_ns = unsafe { bpf_ktime_get_ns() };
    if PENDING.insert(sock as u64, Pending { since_ns, listener }, 0).is_err() {
        lose(Lost::Connections);
    }
    match totals_of(&listener) {
        Some(totals) => atomic::add(&mut totals.established, 1),
        None => lose(Lost::Listeners),
    }
}

/// A connection that nobody accepted ends here; of any other there is nothing to find.
#[inline(always)]
fn closed(sock: Pointer) {
    let Some(pending) = take_pending(sock) else { return };
    if let Some(totals) = totals_of(&pending.listener) {
        atomic::add(&mut totals.abandoned, 1);
    }
}

/// Takes `sock` out of the connections that wait.
#[inline(always)]
pub(crate) fn take_pending(sock: Pointer) -> Option<Pending> {
    // SAFETY: copied at once, and a waiting socket is touched by one party at a time: closed or accepted.
    let pending = unsafe { PENDING.get(sock as u64) }.copied()?;
    // Whoever removes it counts it.
    PENDING.remove(sock as u64).is_ok().then_some(pending)
}

/// The totals of `listener`, new where there are none. `None` when the table is full.
#[inline(always)]
pub(crate) fn totals_of(listener: &ListenerKey) -> Option<&'static mut ListenerTotals> {
    const BPF_NOEXIST: u64 = 1;
    if let Some(totals) = LISTENERS.get_ptr_mut(listener) {
        // SAFETY: a value of the map, only added to atomically.
        return Some(unsafe { &mut *totals });
    }
    // SAFETY: takes no arguments.
    let made_ns = unsafe { bpf_ktime_get_ns() };
    let new = ListenerTotals { made_ns, ..ListenerTotals::zeroed() };
    let _ = LISTENERS.insert(listener, new, BPF_NOEXIST);
    // SAFETY: as above.
    LISTENERS.get_ptr_mut(listener).map(|totals| unsafe { &mut *totals })
}

/// Counts something that could not be measured.
#[inline(always)]
pub(crate) fn lose(what: Lost) {
    if let Some(cpu) = CPU.get_ptr_mut(0) {
        // SAFETY: this CPU's own value; atomic, as an interrupt may come between.
        atomic::add(unsafe { &mut (*cpu).totals.lost[what as usize] }, 1);
    }
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
