//! Listening TCP sockets in an interval.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Nanos, Services,
    counters::{Counter, counters},
    flattened::{Optional, flattened},
};

const STATES: Counter = Counter::from("tracepoint `inet_sock_set_state`");
const ACCEPTS: Counter = Counter::from("the way of `accept` in `hooks`");

counters! {
    /// What happened on a listening address. In a snapshot since it was first seen, in an interval the interval's own.
    pub struct ListenerTotals, read by ListenerTotalsRead;
    always {
        /// Connections that reached ESTABLISHED and waited to be accepted.
        established: u64 => STATES.metric("lagstop_listener_established_total");
        /// Of these, accepted.
        accepts: u64 => ACCEPTS.metric("lagstop_listener_accepts_total");
        /// Time that these waited to be accepted, from ESTABLISHED on.
        accept_wait_ns: Nanos => ACCEPTS.metric("lagstop_listener_accept_wait_seconds_total");
        /// Connections closed or reset before they were accepted.
        abandoned: u64 => STATES.metric("lagstop_listener_abandoned_total");
    }
    if_measured {}
}

/// What happened on a local address that connections came to, since it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// The address: the connections', never the wildcard that may have been listened on.
    pub address: SocketAddr,
    /// What happened.
    pub totals: ListenerTotals,
    /// How long connections kept whoever accepted them.
    pub services: Services,
    /// Cgroup of the last task that accepted.
    pub cgroup: Option<CgroupId>,
    /// A process in the namespace: the last that accepted.
    pub tgid: Option<u32>,
}

/// What the kernel counts for a whole network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkNamespace {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Connections that found the accept queue of some listener full (`ListenOverflows`). In a snapshot since boot, in an
    /// interval the interval's own. `None` where it cannot be read.
    pub listen_overflows: Option<u64>,
}

/// A listening address in one network namespace; sockets that share it by `SO_REUSEPORT` are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Listener {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Local address and port.
    pub address: SocketAddr,
    /// Cgroup of the last task that accepted from it while lagstop looked. Where none did, the one that its sockets are of,
    /// if that can be told.
    pub cgroup: Option<CgroupId>,
    /// Listening sockets on it. `None`, like the next two, where the namespace's sockets could not be listed.
    pub sockets: Option<u64>,
    /// Connections in its accept queues at the end of the interval.
    pub backlog: Option<u64>,
    /// How many its accept queues take: the limits, plus one each, as the kernel refuses only above the limit.
    pub backlog_capacity: Option<u64>,
    /// Connections and requests for them that it dropped, for whatever reason (`sk_drops`): a full accept queue is one. In
    /// a snapshot since it listens, in an interval the interval's own. Those of a socket that has gone since it was last
    /// read are missing. `None` in an interval before which the namespace's sockets were not listed.
    #[serde(default)]
    pub drops: Option<u64>,
    /// What happened on it; `None` where TCP state changes are not seen.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Option<ListenerTotals>,
    /// How long connections kept whoever accepted them. `None` as `totals` is, and in recordings made before that was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
}

flattened!(Listener, Optional<ListenerTotalsRead>, |self, totals| Self { totals, ..self });

impl Listener {
    /// One on which nothing is known to have happened.
    pub const fn new(netns: u32, address: SocketAddr) -> Self {
        Self {
            netns,
            address,
            cgroup: None,
            sockets: None,
            backlog: None,
            backlog_capacity: None,
            drops: None,
            totals: None,
            services: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_end_where_numbers_do() {
        let most = ListenerTotals {
            established: u64::MAX,
            accepts: u64::MAX,
            accept_wait_ns: Nanos(u64::MAX),
            abandoned: u64::MAX,
        };
        let mut sum = most;
        sum.add(&most);
        assert_eq!(sum, most);
    }
}
