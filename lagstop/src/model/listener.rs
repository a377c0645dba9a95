//! Listening TCP sockets in an interval.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Nanos, Reading, Services,
    counters::{Counter, counters},
    flattened::{Optional, flattened},
};

const STATES: Counter = Counter::from("tracepoint `inet_sock_set_state`");
const ACCEPTS: Counter = Counter::from("method of `accept` in `hooks`");

counters! {
    /// Counters of a listening address. In a snapshot, they count from when it was first seen. In an interval, they
    /// cover that interval.
    pub struct ListenerTotals, read by ListenerTotalsRead;
    always {
        /// Connections that reached ESTABLISHED and began to wait to be accepted.
        established: u64 => STATES.metric("lagstop_listener_established_total");
        /// Connections that reached ESTABLISHED and were accepted.
        accepts: u64 => ACCEPTS.metric("lagstop_listener_accepts_total");
        /// Time that accepted connections waited, from ESTABLISHED until accepted.
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
    pub totals: ListenerTotals,
    /// Service times: how long connections occupied the threads that accepted them.
    pub services: Services,
    /// Cgroup of the last task that accepted.
    pub cgroup: Option<CgroupId>,
    /// A process in the namespace: the last that accepted.
    pub tgid: Option<u32>,
}

/// Counters that the kernel keeps for a whole network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkNamespace {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// See [`Reading::LISTEN_OVERFLOWS`]. In a snapshot, since boot.
    #[schemars(description = Reading::LISTEN_OVERFLOWS.description())]
    pub listen_overflows: Option<u64>,
}

/// A listening address in one network namespace. Sockets that share it by `SO_REUSEPORT` are one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Listener {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Local address and port.
    pub address: SocketAddr,
    /// Cgroup of the last task that accepted from it while lagstop measured. If no task did, the cgroup of its sockets,
    /// if known.
    pub cgroup: Option<CgroupId>,
    /// Listening sockets on it. `None`, as are its backlog, capacity and drops, if the sockets of the namespace could not be listed.
    pub sockets: Option<u64>,
    /// See [`Reading::BACKLOG`].
    #[schemars(description = Reading::BACKLOG.description())]
    pub backlog: Option<u64>,
    /// See [`Reading::BACKLOG_CAPACITY`].
    #[schemars(description = Reading::BACKLOG_CAPACITY.description())]
    pub backlog_capacity: Option<u64>,
    /// See [`Reading::DROPS`]. In a snapshot, since it began to listen.
    #[serde(default)]
    #[schemars(description = Reading::DROPS.description())]
    pub drops: Option<u64>,
    /// Its counters. `None` if TCP state changes are not measured.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Option<ListenerTotals>,
    /// Service times: how long connections occupied the threads that accepted them. `None` whenever `totals` is `None`,
    /// and in recordings of older versions, which did not measure it.
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
