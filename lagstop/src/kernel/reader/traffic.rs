//! What happens on listening addresses.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use lagstop_ebpf::{self as abi, ListenerKey};

use crate::model::{CgroupId, ListenerTotals, Nanos, Services, Times, Traffic};

/// How long nothing has happened on each address.
#[derive(Default)]
pub(super) struct TrafficLog(HashMap<ListenerKey, (abi::ListenerTotals, u32)>);

impl TrafficLog {
    /// Reads after which an address is taken for dead.
    const PATIENCE: u32 = 120;

    /// Notes what was read; gives the addresses to forget.
    pub(super) fn quiet(&mut self, read: &[(ListenerKey, abi::ListenerTotals)]) -> Vec<ListenerKey> {
        let mut log = HashMap::with_capacity(read.len());
        let mut dead = Vec::new();
        for (key, totals) in read {
            let reads = match self.0.get(key) {
                Some((last, reads)) if last == totals => reads + 1,
                _ => 0,
            };
            // Somebody may still wait there.
            let all_settled = totals.established == totals.accepts + totals.abandoned;
            if reads >= Self::PATIENCE && all_settled {
                dead.push(*key);
            } else {
                log.insert(*key, (*totals, reads));
            }
        }
        self.0 = log;
        dead
    }
}

/// What happened on one address.
pub(super) fn traffic(key: ListenerKey, totals: &abi::ListenerTotals) -> Traffic {
    let ip = if i32::from(key.family) == libc::AF_INET6 {
        IpAddr::V6(Ipv6Addr::from(key.address)).to_canonical()
    } else {
        let [a, b, c, d, ..] = key.address;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    Traffic {
        netns: key.netns,
        address: SocketAddr::new(ip, key.port),
        totals: ListenerTotals {
            established: totals.established,
            accepts: totals.accepts,
            accept_wait_ns: Nanos(totals.accept_wait_ns),
            abandoned: totals.abandoned,
        },
        services: Services {
            threads: totals.threads,
            strayed: totals.strayed,
            found_none: totals.found_none,
            all: times(&totals.services),
            kept_waiting: times(&totals.kept_waiting),
        },
        cgroup: (totals.cgroup != 0).then_some(CgroupId(totals.cgroup)),
        tgid: (totals.tgid != 0).then_some(totals.tgid as u32),
    }
}

const fn times(times: &abi::Times) -> Times {
    Times { count: times.count, time_ns: Nanos(times.ns), squares_us2: times.squares_us2 }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;

    #[test]
    fn an_address_is_forgotten_when_it_has_been_quiet_for_long() {
        let key = ListenerKey { port: 80, ..ListenerKey::default() };
        let read = |accepts| [(key, abi::ListenerTotals { established: 5, accepts, ..Zeroable::zeroed() })];
        let mut log = TrafficLog::default();
        let reads = |log: &mut TrafficLog, accepts| {
            (0..=TrafficLog::PATIENCE).map(|_| log.quiet(&read(accepts))).collect::<Vec<_>>().concat()
        };
        assert_eq!(reads(&mut log, 4), [], "one still waits");
        assert_eq!(reads(&mut log, 5), [key]);
    }

    #[test]
    fn mapped_ipv4_addresses_are_shown_as_ipv4() {
        let mut key = ListenerKey { netns: 1, port: 80, family: libc::AF_INET6 as u16, address: [0; 16] };
        key.address[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(traffic(key, &Zeroable::zeroed()).address, "127.0.0.1:80".parse().unwrap());
    }
}
