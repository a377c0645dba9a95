//! Listening TCP sockets in an interval.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{CgroupId, Nanos};

/// What happened on a listening address. In a snapshot since it was first seen, in an interval the interval's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTotals {
    /// Connections that reached ESTABLISHED and waited to be accepted.
    pub established: u64,
    /// Of those, accepted.
    pub accepts: u64,
    /// Their accept wait.
    pub accept_wait_ns: Nanos,
    /// Of those, closed or reset before they were accepted.
    pub abandoned: u64,
}

impl ListenerTotals {
    /// What came on top of `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            established: self.established.saturating_sub(earlier.established),
            accepts: self.accepts.saturating_sub(earlier.accepts),
            accept_wait_ns: self.accept_wait_ns.minus(earlier.accept_wait_ns),
            abandoned: self.abandoned.saturating_sub(earlier.abandoned),
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.established += other.established;
        self.accepts += other.accepts;
        self.accept_wait_ns += other.accept_wait_ns;
        self.abandoned += other.abandoned;
    }
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
    /// Cgroup of the last task that accepted.
    pub cgroup: Option<CgroupId>,
    /// A process in the namespace: the last that accepted.
    pub tgid: Option<u32>,
}

/// A listening address in one network namespace; sockets that share it by `SO_REUSEPORT` are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Local address and port.
    pub address: SocketAddr,
    /// Cgroup of the last task that accepted from it while lagstop looked.
    pub cgroup: Option<CgroupId>,
    /// Listening sockets on it. `None`, like the next two, where the namespace's sockets could not be listed.
    pub sockets: Option<u64>,
    /// Connections in its accept queues at the end of the interval.
    pub backlog: Option<u64>,
    /// How many its accept queues take: the limits, plus one each, as the kernel refuses only above the limit.
    pub backlog_capacity: Option<u64>,
    /// What happened on it; `None` where TCP state changes are not seen.
    #[serde(flatten)]
    pub totals: Option<ListenerTotals>,
}
