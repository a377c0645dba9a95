//! Listening sockets of every network namespace that matters.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io,
    net::SocketAddr,
    os::{fd::AsFd, unix::fs::MetadataExt},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::sock_diag::{self, Listening};
use crate::model::{Listener, Traffic};

/// The listening addresses of the own network namespace, and of those with traffic.
pub fn listening(traffic: &[Traffic]) -> Vec<Listener> {
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
    sockets.iter().flat_map(|(&netns, sockets)| by_address(netns, sockets)).collect()
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

/// Adds up the sockets that share an address.
fn by_address(netns: u32, sockets: &[Listening]) -> Vec<Listener> {
    let mut all: BTreeMap<SocketAddr, Listener> = BTreeMap::new();
    for socket in sockets {
        let listener = all.entry(socket.address).or_insert_with(|| Listener::new(netns, socket.address));
        let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0) + more);
        add(&mut listener.sockets, 1);
        add(&mut listener.backlog, socket.backlog.into());
        // Full is above the limit: `sk_acceptq_is_full`, include/net/sock.h.
        add(&mut listener.backlog_capacity, u64::from(socket.limit) + 1);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_share_an_address_are_one() {
        let socket = |address: &str, backlog, limit| Listening { address: address.parse().unwrap(), backlog, limit };
        let all = by_address(1, &[socket("0.0.0.0:80", 2, 10), socket("0.0.0.0:80", 3, 10), socket("[::]:81", 0, 5)]);
        let seen: Vec<_> = all.iter().map(|l| (l.sockets, l.backlog, l.backlog_capacity)).collect();
        assert_eq!(seen, [(Some(2), Some(5), Some(22)), (Some(1), Some(0), Some(6))]);
    }
}
