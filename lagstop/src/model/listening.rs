//! What happened on listening addresses between two snapshots.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::{Listener, ListenerTotals, NetworkNamespace, Services, Snapshot, Traffic};

impl Snapshot {
    /// What happened on each address since `before`.
    pub(super) fn listeners_since(&self, before: &Self) -> Vec<Listener> {
        let then: HashMap<(u32, SocketAddr), Option<u64>> =
            before.listening.iter().map(|listener| ((listener.netns, listener.address), listener.drops)).collect();
        let listed: HashSet<u32> = before.network_namespaces.iter().map(|namespace| namespace.netns).collect();
        let drops = |listener: &Listener| match then.get(&(listener.netns, listener.address)) {
            Some(then) => listener.drops?.checked_sub((*then)?),
            // It has begun to listen since.
            None => listener.drops.filter(|_| listed.contains(&listener.netns)),
        };
        let listening: Vec<Listener> =
            self.listening.iter().map(|listener| Listener { drops: drops(listener), ..listener.clone() }).collect();
        book(&listening, before.traffic.as_deref().unwrap_or_default(), self.traffic.as_deref())
    }

    /// Changes in each network namespace since `before`, for namespaces with listeners or overflows. The first reading
    /// of a namespace has no earlier value to subtract.
    pub(super) fn namespaces_since(&self, before: &Self) -> Vec<NetworkNamespace> {
        let then: HashMap<u32, Option<u64>> =
            before.network_namespaces.iter().map(|namespace| (namespace.netns, namespace.listen_overflows)).collect();
        let listening: HashSet<u32> = self.listening.iter().map(|listener| listener.netns).collect();
        let since = |now: &NetworkNamespace| {
            let then = then.get(&now.netns).copied().flatten();
            // A smaller value belongs to another namespace that got the same number.
            let listen_overflows = now.listen_overflows.zip(then).and_then(|(now, then)| now.checked_sub(then));
            NetworkNamespace { listen_overflows, ..*now }
        };
        let matters = |namespace: &NetworkNamespace| {
            listening.contains(&namespace.netns) || namespace.listen_overflows.is_some_and(|overflows| overflows > 0)
        };
        self.network_namespaces.iter().map(since).filter(matters).collect()
    }
}

/// Books what happened on each address between `before` and `after` to the socket that listens on it, or on its port
/// for every address. `None` where TCP is not watched.
fn book(listening: &[Listener], before: &[Traffic], after: Option<&[Traffic]>) -> Vec<Listener> {
    let mut all: BTreeMap<(u32, SocketAddr), Listener> =
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
        let listener = all.entry((seen.netns, address)).or_insert_with(|| Listener::new(seen.netns, address));
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
    fn traffic_goes_to_the_most_exact_listener() {
        let sockets = [listening("0.0.0.0:80"), listening("10.0.0.1:80"), listening("[::]:81")];
        let seen =
            [("10.0.0.1:80", 1), ("127.0.0.1:80", 4), ("10.0.0.9:80", 5), ("10.0.0.1:81", 6), ("10.0.0.1:82", 7)]
                .map(|(address, accepts)| traffic(address, accepts));
        let booked = book(&sockets, &[], Some(&seen));
        let expected = [("0.0.0.0:80", 9), ("10.0.0.1:80", 1), ("10.0.0.1:82", 7), ("[::]:81", 6)];
        assert_eq!(accepts(&booked), expected.map(|(address, accepts)| (address.to_owned(), accepts)));
    }

    #[test]
    fn a_listener_that_comes_or_goes_does_not_bring_back_what_was() {
        let (before, after) = ([traffic("10.0.0.1:80", 100)], [traffic("10.0.0.1:80", 103)]);
        for sockets in [vec![listening("0.0.0.0:80")], vec![listening("10.0.0.1:80")], vec![]] {
            let booked = book(&sockets, &before, Some(&after));
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
            after.listeners_since(before).iter().map(|listener| listener.drops).collect()
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
        let seen: Vec<_> = after
            .namespaces_since(&before)
            .iter()
            .map(|namespace| (namespace.netns, namespace.listen_overflows))
            .collect();
        assert_eq!(seen, [(1, Some(0)), (3, Some(2))], "where nobody listens nothing happened, or it is not known");
        let first = after.namespaces_since(&Snapshot::default());
        assert_eq!(first, [NetworkNamespace { netns: 1, listen_overflows: None }]);
    }

    #[test]
    fn without_a_hook_on_tcp_nothing_is_said_about_traffic() {
        assert_eq!(book(&[listening("0.0.0.0:80")], &[], None)[0].totals, None);
    }
}
