//! Listening TCP sockets in an interval.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Nanos, Services, Snapshot,
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

impl NetworkNamespace {
    /// What happened in each between `before` and `after`, of those in which anybody listens or anything happened. In the
    /// first reading of one there is nothing to subtract from.
    pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Vec<Self> {
        let then: HashMap<u32, Option<u64>> =
            before.network_namespaces.iter().map(|namespace| (namespace.netns, namespace.listen_overflows)).collect();
        let listening: HashSet<u32> = after.listening.iter().map(|listener| listener.netns).collect();
        let between = |now: &Self| {
            let then = then.get(&now.netns).copied().flatten();
            // Less than before is another namespace that got the same number.
            let listen_overflows = now.listen_overflows.zip(then).and_then(|(now, then)| now.checked_sub(then));
            Self { listen_overflows, ..*now }
        };
        let matters = |namespace: &Self| {
            listening.contains(&namespace.netns) || namespace.listen_overflows.is_some_and(|overflows| overflows > 0)
        };
        after.network_namespaces.iter().map(between).filter(matters).collect()
    }
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

    /// What happened on each between `before` and `after`.
    pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Vec<Self> {
        let then: HashMap<(u32, SocketAddr), Option<u64>> =
            before.listening.iter().map(|listener| ((listener.netns, listener.address), listener.drops)).collect();
        let listed: HashSet<u32> = before.network_namespaces.iter().map(|namespace| namespace.netns).collect();
        let drops = |listener: &Self| match then.get(&(listener.netns, listener.address)) {
            Some(then) => listener.drops?.checked_sub((*then)?),
            // It has begun to listen since.
            None => listener.drops.filter(|_| listed.contains(&listener.netns)),
        };
        let listening: Vec<Self> =
            after.listening.iter().map(|listener| Self { drops: drops(listener), ..listener.clone() }).collect();
        Self::book(&listening, before.traffic.as_deref().unwrap_or_default(), after.traffic.as_deref())
    }

    /// Books what happened on each address between `before` and `after` to the socket that listens on it, or on its port
    /// for every address. `None` where TCP is not watched.
    fn book(listening: &[Self], before: &[Traffic], after: Option<&[Traffic]>) -> Vec<Self> {
        let mut all: BTreeMap<(u32, SocketAddr), Self> =
            listening.iter().map(|listener| ((listener.netns, listener.address), listener.clone())).collect();
        let Some(after) = after else { return all.into_values().collect() };
        for listener in all.values_mut() {
            (listener.totals, listener.services) = (Some(ListenerTotals::default()), Some(Services::NONE));
        }
        let then: HashMap<(u32, SocketAddr), &Traffic> =
            before.iter().map(|traffic| ((traffic.netns, traffic.address), traffic)).collect();
        for seen in after {
            let then = then.get(&(seen.netns, seen.address));
            let any_v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), seen.address.port());
            let any_v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), seen.address.port());
            let address = [seen.address, any_v4, any_v6]
                .into_iter()
                .find(|address| all.contains_key(&(seen.netns, *address)))
                .unwrap_or(seen.address);
            let listener = all.entry((seen.netns, address)).or_insert_with(|| Self::new(seen.netns, address));
            let (totals, services) = match then {
                Some(then) => (seen.totals.since(&then.totals), seen.services.since(&then.services)),
                None => (seen.totals, seen.services),
            };
            listener.totals.get_or_insert_default().add(&totals);
            listener.services = Some(listener.services.unwrap_or(Services::NONE).join(&services));
            listener.cgroup = seen.cgroup.or(listener.cgroup);
        }
        // Addresses whose listener is gone, or cannot be listed, and on which nothing happened.
        all.retain(|_, listener| listener.sockets.is_some() || listener.totals.is_some_and(|totals| !totals.is_zero()));
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(address: &str) -> Listener {
        Listener { sockets: Some(1), ..Listener::new(1, address.parse().unwrap()) }
    }

    fn traffic(address: &str, accepts: u64) -> Traffic {
        let totals = ListenerTotals { accepts, ..ListenerTotals::default() };
        Traffic {
            netns: 1,
            address: address.parse().unwrap(),
            totals,
            services: Services::NONE,
            cgroup: None,
            tgid: None,
        }
    }

    fn accepts(listeners: &[Listener]) -> Vec<(String, u64)> {
        let of = |listener: &Listener| (listener.address.to_string(), listener.totals.unwrap().accepts);
        listeners.iter().map(of).collect()
    }

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

    #[test]
    fn traffic_goes_to_the_most_exact_listener() {
        let sockets = [listening("0.0.0.0:80"), listening("10.0.0.1:80"), listening("[::]:81")];
        let seen =
            [("10.0.0.1:80", 1), ("127.0.0.1:80", 4), ("10.0.0.9:80", 5), ("10.0.0.1:81", 6), ("10.0.0.1:82", 7)]
                .map(|(address, accepts)| traffic(address, accepts));
        let booked = Listener::book(&sockets, &[], Some(&seen));
        let expected = [("0.0.0.0:80", 9), ("10.0.0.1:80", 1), ("10.0.0.1:82", 7), ("[::]:81", 6)];
        assert_eq!(accepts(&booked), expected.map(|(address, accepts)| (address.to_owned(), accepts)));
    }

    #[test]
    fn a_listener_that_comes_or_goes_does_not_bring_back_what_was() {
        let (before, after) = ([traffic("10.0.0.1:80", 100)], [traffic("10.0.0.1:80", 103)]);
        for sockets in [vec![listening("0.0.0.0:80")], vec![listening("10.0.0.1:80")], vec![]] {
            let booked = Listener::book(&sockets, &before, Some(&after));
            assert_eq!(booked.len(), 1);
            assert_eq!(accepts(&booked)[0].1, 3);
        }
    }

    /// A snapshot with listeners on `ports` that have dropped so many, in the namespaces 1 and so on, with their overflows.
    fn snapshot(ports: &[(u16, Option<u64>)], overflows: &[Option<u64>]) -> Snapshot {
        let listener = |&(port, drops): &(u16, Option<u64>)| Listener {
            drops,
            ..listening(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).to_string())
        };
        let namespaces = overflows.iter().zip(1..);
        Snapshot {
            listening: ports.iter().map(listener).collect(),
            network_namespaces: namespaces
                .map(|(&listen_overflows, netns)| NetworkNamespace { netns, listen_overflows })
                .collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn drops_are_the_intervals_own() {
        let after = snapshot(&[(80, Some(12)), (81, Some(3)), (82, None), (83, Some(1))], &[None]);
        let drops = |before: &Snapshot| -> Vec<Option<u64>> {
            Listener::between(before, &after).iter().map(|listener| listener.drops).collect()
        };
        let before = snapshot(&[(80, Some(10)), (82, Some(1)), (83, Some(2))], &[None]);
        assert_eq!(drops(&before), [Some(2), Some(3), None, None], "new since; not read; another socket");
        let not_listed = snapshot(&[], &[]);
        assert_eq!(drops(&not_listed), [None; 4]);
    }

    #[test]
    fn overflows_are_the_intervals_own() {
        let before = snapshot(&[], &[Some(10), None, Some(7), Some(5)]);
        let after = snapshot(&[(80, None)], &[Some(10), Some(4), Some(9), Some(4), Some(9)]);
        let seen: Vec<_> = NetworkNamespace::between(&before, &after)
            .iter()
            .map(|namespace| (namespace.netns, namespace.listen_overflows))
            .collect();
        assert_eq!(seen, [(1, Some(0)), (3, Some(2))], "where nobody listens nothing happened, or it is not known");
        let first = NetworkNamespace::between(&Snapshot::default(), &after);
        assert_eq!(first, [NetworkNamespace { netns: 1, listen_overflows: None }]);
    }

    #[test]
    fn without_a_hook_on_tcp_nothing_is_said_about_traffic() {
        assert_eq!(Listener::book(&[listening("0.0.0.0:80")], &[], None)[0].totals, None);
    }
}
