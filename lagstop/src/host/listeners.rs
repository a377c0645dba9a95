//! Listening sockets of every network namespace that can be found.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::{self, File},
    io,
    net::SocketAddr,
    os::{fd::AsFd, unix::fs::MetadataExt},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{
    netstat,
    owners::Owners,
    sock_diag::{self, Listening},
};
use crate::model::{CgroupId, Listener, NetworkNamespace, Traffic};

/// Readings between two readings of a network namespace without traffic.
const LOOK_EVERY: u64 = 10;
/// Readings between two looks for new ones: that asks every process. One with traffic is found at once.
const FIND_EVERY: u64 = 60;
/// Network namespaces that are entered in a reading, beside the own one: some 8 ms. Where more have traffic, they take turns.
const MOST_AT_ONCE: usize = 64;

/// What is known about who listens.
///
/// A dense host has hundreds of network namespaces. To read one took 130 µs on a host with 32 GB: the kernel goes through
/// all its listeners, in a table that grows with the memory, and adds up counters of all CPUs. So only the own one and those with
/// traffic are read each time, and no more than 64 of these; of the others the last figures are given again. They
/// still hold where there was no traffic. Where there was, and others had their turn, nothing is given of the connections that
/// wait to be accepted; what has been counted since the last turn is found with the next one, and none of it is lost.
#[derive(Debug)]
pub struct Listeners {
    is_everywhere: bool,
    owners: Owners,
    readings: u64,
    own: Option<u32>,
    /// A process in each network namespace, by inode number: the oldest that there is.
    found: HashMap<u32, u32>,
    namespaces: BTreeMap<u32, Namespace>,
    /// The reading in which each had its turn, also those that could not be entered.
    turns: HashMap<u32, u64>,
}

/// A network namespace as it was last read.
#[derive(Debug, Default)]
struct Namespace {
    overflows: Option<u64>,
    listeners: Vec<Listener>,
    /// Drops of each socket, by its cookie.
    drops: HashMap<u64, u32>,
    /// Drops on each address, since the first of the sockets seen on it listens. They outlive sockets.
    dropped: HashMap<SocketAddr, u64>,
}

/// A reading of a network namespace.
struct Reading {
    sockets: Vec<Listening>,
    overflows: Option<u64>,
}

impl Listeners {
    /// Those of the own network namespace; of all others too where `is_everywhere`. `owners` tells whose they are.
    pub fn new(is_everywhere: bool, owners: Owners) -> Self {
        let own = fs::metadata("/proc/self/ns/net").map(|metadata| metadata.ino() as u32).ok();
        Self {
            is_everywhere,
            owners,
            readings: 0,
            own,
            found: HashMap::new(),
            namespaces: BTreeMap::new(),
            turns: HashMap::new(),
        }
    }

    /// The listening addresses, and the network namespaces that were looked at. One that cannot be entered is left out.
    pub fn read(&mut self, traffic: &[Traffic]) -> (Vec<Listener>, Vec<NetworkNamespace>) {
        if self.readings.is_multiple_of(LOOK_EVERY) {
            self.owners.forget();
        }
        if self.is_everywhere && self.readings.is_multiple_of(FIND_EVERY) {
            self.found = find();
        }
        self.readings += 1;
        let mut busy: HashMap<u32, Option<u32>> = HashMap::new();
        for Traffic { netns, tgid, .. } in traffic {
            let process = busy.entry(*netns).or_default();
            *process = process.or(*tgid);
        }
        let mut readings = read_each(&self.due(&busy));
        readings.extend(self.own.map(|own| (own, Reading::here().ok())));
        let mut had_turn = HashSet::new();
        for (netns, reading) in readings {
            had_turn.insert(netns);
            if let Some(reading) = reading {
                self.namespaces.entry(netns).or_default().update(netns, &reading, &mut self.owners);
            } else {
                // Its last process ended, most likely: what was read before means nothing any more.
                self.namespaces.remove(&netns);
                self.found.remove(&netns);
            }
        }
        let is_there =
            |netns: &u32| Some(*netns) == self.own || self.found.contains_key(netns) || busy.contains_key(netns);
        self.namespaces.retain(|netns, _| is_there(netns));
        let has_moved = |netns: &u32| busy.contains_key(netns) && !had_turn.contains(netns);
        let listeners =
            self.namespaces.iter().flat_map(|(netns, namespace)| namespace.shown(!has_moved(netns))).collect();
        let counted =
            |(&netns, namespace): (&u32, &Namespace)| NetworkNamespace { netns, listen_overflows: namespace.overflows };
        (listeners, self.namespaces.iter().map(counted).collect())
    }

    /// The network namespaces to enter now, each with processes that were seen in it. `busy` are those with traffic. The next
    /// time it is the turn of those that are left out.
    fn due(&mut self, busy: &HashMap<u32, Option<u32>>) -> Vec<(u32, Vec<u32>)> {
        let all: BTreeSet<u32> = self.found.keys().chain(busy.keys()).copied().collect();
        self.turns.retain(|netns, _| all.contains(netns));
        let age = |netns: &u32| self.readings.saturating_sub(self.turns.get(netns).copied().unwrap_or(0));
        let is_due = |netns: &u32| {
            // Spread out, so that no reading enters all of them.
            let is_its_turn = (self.readings + u64::from(*netns)).is_multiple_of(LOOK_EVERY) || age(netns) > LOOK_EVERY;
            Some(*netns) != self.own
                && (is_its_turn || busy.contains_key(netns) || !self.namespaces.contains_key(netns))
        };
        let mut due: Vec<u32> = all.into_iter().filter(is_due).collect();
        // A silent one may be `LOOK_EVERY` times as old before it counts as equally late.
        let lateness = |netns: &u32| age(netns) * if busy.contains_key(netns) { LOOK_EVERY } else { 1 };
        due.sort_by_key(|netns| Reverse(lateness(netns)));
        due.truncate(MOST_AT_ONCE);
        self.turns.extend(due.iter().map(|&netns| (netns, self.readings)));
        let processes = |netns| {
            [busy.get(&netns).copied().flatten(), self.found.get(&netns).copied()].into_iter().flatten().collect()
        };
        due.into_iter().map(|netns| (netns, processes(netns))).collect()
    }
}

impl Namespace {
    fn update(&mut self, netns: u32, reading: &Reading, owners: &mut Owners) {
        let earlier = std::mem::take(&mut self.drops);
        for socket in &reading.sockets {
            let Some(now) = socket.drops else { continue };
            // All drops of a socket that was not there before are new.
            let more = now.wrapping_sub(earlier.get(&socket.cookie).copied().unwrap_or(0));
            *self.dropped.entry(socket.address).or_default() += u64::from(more);
            self.drops.insert(socket.cookie, now);
        }
        self.listeners = by_address(netns, &reading.sockets, |socket| owners.of(socket));
        let dropped = std::mem::take(&mut self.dropped);
        for listener in &mut self.listeners {
            listener.drops = dropped.get(&listener.address).copied();
            self.dropped.extend(listener.drops.map(|drops| (listener.address, drops)));
        }
        self.overflows = reading.overflows;
    }

    /// Its listeners, without how many connections wait to be accepted where that may have changed since it was read.
    fn shown(&self, is_as_read: bool) -> impl Iterator<Item = Listener> {
        self.listeners
            .iter()
            .map(move |listener| Listener { backlog: listener.backlog.filter(|_| is_as_read), ..listener.clone() })
    }
}

impl Reading {
    /// Of the network namespace of the calling thread.
    fn here() -> io::Result<Self> {
        Ok(Self { sockets: sock_diag::listening()?, overflows: netstat::listen_overflows() })
    }

    /// Of the network namespace of the process `tgid`, if that is still `netns`. The calling thread stays in it.
    fn inside(netns: u32, tgid: u32) -> io::Result<Self> {
        let namespace = File::open(format!("/proc/{tgid}/ns/net"))?;
        if namespace.metadata()?.ino() as u32 != netns {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Self::here()
    }
}

/// Reads each of these network namespaces; `None` of one that cannot be entered.
fn read_each(due: &[(u32, Vec<u32>)]) -> Vec<(u32, Option<Reading>)> {
    if due.is_empty() {
        return Vec::new();
    }
    let read =
        |(netns, tgids): &(u32, Vec<u32>)| (*netns, tgids.iter().find_map(|&tgid| Reading::inside(*netns, tgid).ok()));
    // A thread of its own: this one stays where it is.
    thread::scope(|scope| scope.spawn(|| due.iter().map(read).collect()).join()).unwrap_or_default()
}

/// The network namespaces of all processes, each with the oldest process in it. Whom this process may not look at is left
/// out.
fn find() -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(tgid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let link = fs::read_link(process.path().join("ns/net")).unwrap_or_default();
        let netns = link.to_str().and_then(|link| link.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
        // They are listed by id.
        netns.map(|netns: u32| found.entry(netns).or_insert(tgid));
    }
    found
}

/// Adds up the sockets that share an address. Its owner is that of all of them, or nobody.
fn by_address(netns: u32, sockets: &[Listening], mut owner: impl FnMut(u64) -> Option<CgroupId>) -> Vec<Listener> {
    let mut all: BTreeMap<SocketAddr, Listener> = BTreeMap::new();
    for socket in sockets {
        let owner = socket.cgroup.and_then(&mut owner);
        let listener = all
            .entry(socket.address)
            .or_insert_with(|| Listener { cgroup: owner, ..Listener::new(netns, socket.address) });
        listener.cgroup = listener.cgroup.filter(|same| Some(*same) == owner);
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
    use std::path::Path;

    use super::{
        super::hierarchy::{Hierarchy, Version},
        *,
    };
    use crate::model::GroupBy;

    fn owners() -> Owners {
        Owners::new(Hierarchy::at(Version::V1, Path::new("/"), GroupBy::Scheduler))
    }

    fn socket(address: &str, backlog: u32, limit: u32) -> Listening {
        Listening { address: address.parse().unwrap(), backlog, limit, cookie: 0, drops: None, cgroup: None }
    }

    #[test]
    fn sockets_that_share_an_address_are_one() {
        let all = [socket("0.0.0.0:80", 2, 10), socket("0.0.0.0:80", 3, 10), socket("[::]:81", 0, 5)];
        let all = by_address(1, &all, |_| None);
        let seen: Vec<_> = all.iter().map(|l| (l.sockets, l.backlog, l.backlog_capacity)).collect();
        assert_eq!(seen, [(Some(2), Some(5), Some(22)), (Some(1), Some(0), Some(6))]);
    }

    #[test]
    fn the_owner_is_that_of_all_sockets() {
        let of = |cgroups: &[Option<u64>]| {
            let all: Vec<_> =
                cgroups.iter().map(|&cgroup| Listening { cgroup, ..socket("0.0.0.0:80", 0, 1) }).collect();
            by_address(1, &all, |cgroup| Some(CgroupId(cgroup))).pop().unwrap().cgroup
        };
        assert_eq!(of(&[Some(5), Some(5)]), Some(CgroupId(5)));
        assert_eq!(of(&[Some(5), Some(6), Some(5)]), None);
        assert_eq!(of(&[Some(5), None]), None);
        assert_eq!(of(&[None]), None);
    }

    #[test]
    fn drops_only_grow_whatever_sockets_come_and_go() {
        let mut namespace = Namespace::default();
        let mut drops = |sockets: &[(u64, u32)]| {
            let of =
                |&(cookie, drops): &(u64, u32)| Listening { cookie, drops: Some(drops), ..socket("0.0.0.0:80", 0, 1) };
            let reading = Reading { sockets: sockets.iter().map(of).collect(), overflows: None };
            namespace.update(1, &reading, &mut owners());
            namespace.listeners.first().and_then(|listener| listener.drops)
        };
        assert_eq!(drops(&[(1, 10), (2, 5)]), Some(15), "since they listen");
        assert_eq!(drops(&[(1, 12), (2, 5)]), Some(17));
        assert_eq!(drops(&[(1, 12)]), Some(17), "one has gone");
        assert_eq!(drops(&[(1, 13), (3, 4)]), Some(22), "another has come");
        assert_eq!(drops(&[(1, 3), (3, 4)]), Some(22 + (1 << 32) - 10), "the kernel's counter went round");
        assert_eq!(drops(&[]), None);
        assert_eq!(drops(&[(4, 2)]), Some(2), "a new listener");
    }

    #[test]
    fn silent_namespaces_are_read_now_and_then() {
        let mut listeners = Listeners::new(true, owners());
        listeners.own = Some(1);
        listeners.found = (1..=60).map(|netns| (netns, 7)).collect();
        let due =
            |listeners: &mut Listeners| listeners.due(&HashMap::from([(50, Some(8)), (55, None), (500, Some(9))]));
        assert_eq!(due(&mut listeners).len(), 60, "all of them once, but not the own");
        listeners.namespaces = (1..=60).map(|netns| (netns, Namespace::default())).collect();
        let mut times = HashMap::new();
        for _ in 0..LOOK_EVERY {
            listeners.readings += 1;
            let due = due(&mut listeners);
            assert!(due.len() <= 9);
            for busy in [(50, vec![8, 7]), (55, vec![7]), (500, vec![9])] {
                assert!(due.contains(&busy));
            }
            due.iter().for_each(|(netns, _)| *times.entry(*netns).or_insert(0) += 1);
        }
        assert!((2..=60).all(|netns| times[&netns] == if [50, 55].contains(&netns) { LOOK_EVERY } else { 1 }));
    }

    /// To enter all of a thousand in each reading would take an eighth of a CPU.
    #[test]
    fn where_too_many_are_busy_they_take_turns() {
        let mut listeners = Listeners::new(true, owners());
        listeners.own = Some(1);
        listeners.found = (1..=1_100).map(|netns| (netns, 7)).collect();
        listeners.namespaces = (1..=1_100).map(|netns| (netns, Namespace::default())).collect();
        let busy: HashMap<u32, Option<u32>> = (1..=1_000).map(|netns| (netns, Some(8))).collect();
        // Silent ones count a tenth: they are a hundredth of what there is to do.
        let round = 1_000_u64.div_ceil(MOST_AT_ONCE as u64) + 1;
        let mut last: HashMap<u32, u64> = HashMap::new();
        for reading in 1..=LOOK_EVERY * round * 2 {
            listeners.readings = reading;
            let due = listeners.due(&busy);
            assert!(due.len() <= MOST_AT_ONCE);
            for (netns, _) in due {
                let age = reading - last.insert(netns, reading).unwrap_or(0);
                let longest = (round + 2) * if busy.contains_key(&netns) { 1 } else { LOOK_EVERY };
                assert!(age <= longest, "{netns}: {age}");
            }
        }
        assert_eq!(last.len(), 1_099, "all but the own");
    }

    #[test]
    fn what_may_have_changed_since_it_was_read_is_not_given() {
        let mut namespace = Namespace::default();
        let sockets = vec![Listening { drops: Some(3), ..socket("0.0.0.0:80", 2, 10) }];
        namespace.update(1, &Reading { sockets, overflows: Some(4) }, &mut owners());
        let shown = |is_as_read| {
            let listener = namespace.shown(is_as_read).next().unwrap();
            (listener.backlog, listener.backlog_capacity, listener.drops)
        };
        assert_eq!(shown(true), (Some(2), Some(11), Some(3)));
        assert_eq!(shown(false), (None, Some(11), Some(3)), "what was counted up to then stays counted");
    }

    #[test]
    fn the_own_namespace_is_read_each_time() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = own.local_addr().unwrap();
        let mut listeners = Listeners::new(false, owners());
        for _ in 0..2 {
            let (found, namespaces) = listeners.read(&[]);
            assert!(found.iter().any(|found| found.address == address && found.drops.is_some()));
            assert!(namespaces.len() == 1 && namespaces[0].listen_overflows.is_some());
        }
        drop(own);
        assert!(!listeners.read(&[]).0.iter().any(|found| found.address == address));
    }
}
