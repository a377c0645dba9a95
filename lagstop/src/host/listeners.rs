//! Listening sockets of every network namespace that matters, with what happened on them.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::{fd::AsFd, unix::fs::MetadataExt},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::sock_diag::{self, Listening};
use crate::model::{Listener, ListenerTotals, Traffic};

/// The listeners of the own network namespace, and of those with traffic. `tcp_is_watched` says whether `traffic` is all
/// there was.
pub fn listeners(traffic: &[Traffic], tcp_is_watched: bool) -> Vec<Listener> {
    let mut sockets: HashMap<u32, Vec<Listening>> = HashMap::new();
    let own = fs::metadata("/proc/self/ns/net").map(|metadata| metadata.ino() as u32).ok();
    if let (Some(own), Ok(listening)) = (own, sock_diag::listening()) {
        sockets.insert(own, listening);
    }
    for Traffic { netns, tgid, .. } in traffic {
        if let (false, Some(tgid)) = (sockets.contains_key(netns), *tgid)
            && let Ok(listening) = listening_in(tgid, *netns)
        {
            sockets.insert(*netns, listening);
        }
    }
    merge(&sockets, traffic, tcp_is_watched)
}

/// The listening sockets of the network namespace of the process `tgid`, if that is still `netns`.
fn listening_in(tgid: u32, netns: u32) -> io::Result<Vec<Listening>> {
    let namespace = File::open(format!("/proc/{tgid}/ns/net"))?;
    if namespace.metadata()?.ino() as u32 != netns {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    // A thread of its own: this one stays where it is.
    let list = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        sock_diag::listening()
    };
    thread::spawn(list).join().unwrap_or_else(|_| Err(io::Error::other("the thread failed")))
}

/// Books the traffic on each address to the socket that listens on it, or on its port for every address.
fn merge(sockets: &HashMap<u32, Vec<Listening>>, traffic: &[Traffic], tcp_is_watched: bool) -> Vec<Listener> {
    let mut all: BTreeMap<(u32, SocketAddr), Listener> = BTreeMap::new();
    let new = |netns, address| Listener {
        netns,
        address,
        cgroup: None,
        sockets: None,
        backlog: None,
        backlog_capacity: None,
        totals: tcp_is_watched.then(ListenerTotals::default),
    };
    for (&netns, listening) in sockets {
        for socket in listening {
            let listener = all.entry((netns, socket.address)).or_insert_with(|| new(netns, socket.address));
            let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0) + more);
            add(&mut listener.sockets, 1);
            add(&mut listener.backlog, socket.backlog.into());
            // Full is above the limit: `sk_acceptq_is_full`, include/net/sock.h.
            add(&mut listener.backlog_capacity, u64::from(socket.limit) + 1);
        }
    }
    for seen in traffic {
        let any_v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), seen.address.port());
        let any_v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), seen.address.port());
        let address = [seen.address, any_v4, any_v6]
            .into_iter()
            .find(|address| all.contains_key(&(seen.netns, *address)))
            .unwrap_or(seen.address);
        let listener = all.entry((seen.netns, address)).or_insert_with(|| new(seen.netns, address));
        listener.totals.get_or_insert_default().add(&seen.totals);
        listener.cgroup = seen.cgroup.or(listener.cgroup);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(address: &str, backlog: u32, limit: u32) -> Listening {
        Listening { address: address.parse().unwrap(), backlog, limit }
    }

    fn traffic(address: &str, accepts: u64) -> Traffic {
        let totals = ListenerTotals { accepts, ..ListenerTotals::default() };
        Traffic { netns: 1, address: address.parse().unwrap(), totals, cgroup: None, tgid: None }
    }

    #[test]
    fn traffic_goes_to_the_most_exact_listener() {
        let sockets = HashMap::from([(
            1,
            vec![
                socket("0.0.0.0:80", 2, 10),
                socket("0.0.0.0:80", 3, 10),
                socket("10.0.0.1:80", 0, 5),
                socket("[::]:81", 0, 5),
            ],
        )]);
        let seen = [
            traffic("10.0.0.1:80", 1),
            traffic("127.0.0.1:80", 4),
            traffic("10.0.0.9:80", 5),
            traffic("10.0.0.1:81", 6),
            traffic("10.0.0.1:82", 7),
        ];
        let merged = merge(&sockets, &seen, true);
        let of = |address: &str| {
            let found = merged.iter().find(|listener| listener.address == address.parse().unwrap()).unwrap();
            (found.sockets, found.backlog, found.backlog_capacity, found.totals.unwrap().accepts)
        };
        assert_eq!(of("0.0.0.0:80"), (Some(2), Some(5), Some(22), 9), "sockets that share an address are one");
        assert_eq!(of("10.0.0.1:80"), (Some(1), Some(0), Some(6), 1));
        assert_eq!(of("[::]:81"), (Some(1), Some(0), Some(6), 6), "IPv4 connections to an IPv6 wildcard");
        assert_eq!(of("10.0.0.1:82"), (None, None, None, 7), "its listener is gone");
    }

    #[test]
    fn without_a_hook_on_tcp_nothing_is_said_about_traffic() {
        let sockets = HashMap::from([(1, vec![socket("0.0.0.0:80", 2, 10)])]);
        assert_eq!(merge(&sockets, &[], false)[0].totals, None);
    }
}
