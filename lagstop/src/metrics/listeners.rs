//! Listening addresses that have series, and the network namespaces they are in.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};

use super::{Labels, ListenerSeries};
use crate::model::{CgroupId, Interval, Listener, Nanos, NetworkNamespace, Workload};

/// The most listening addresses with series. A dense host has thousands, but few have traffic.
pub(super) const MOST_LISTENERS: usize = 500;
/// The most network namespaces with a series.
const MOST_NAMESPACES: usize = 500;

/// Follows listeners from interval to interval. A listener gets series when something first happens on it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    known: BTreeMap<(u32, SocketAddr), Known>,
    namespaces: BTreeMap<u32, Namespace>,
    /// Number of listeners without room in the last interval.
    left_out: u64,
    owners: Owners,
}

#[derive(Debug)]
struct Known {
    series: Arc<ListenerSeries>,
    owner: Option<CgroupId>,
    path: Option<Arc<str>>,
    workload: Option<Arc<Workload>>,
    /// When it last listened.
    listened: Nanos,
    /// When anything last happened on it.
    busy: Nanos,
}

#[derive(Debug)]
struct Namespace {
    labels: Arc<Labels>,
    overflows: u64,
    seen: Nanos,
}

impl Listeners {
    /// Adds the next interval, which ends `now`.
    pub(super) fn add(&mut self, interval: &Interval, now: Nanos, expiry: Nanos) {
        self.owners.add(interval, now, expiry);
        self.forget_gauges();
        self.left_out = 0;
        for listener in &interval.listeners {
            self.listener(listener, now);
        }
        let is_crowded = self.left_out > 0;
        self.known.retain(|_, known| {
            now.saturating_sub(known.listened) <= expiry && !(is_crowded && now.saturating_sub(known.busy) > expiry)
        });
        self.namespaces(&interval.network_namespaces, now, expiry);
    }

    /// Forgets the values of gauges, because the current ones are not known yet, or not measured.
    pub(super) fn forget_gauges(&mut self) {
        for known in self.known.values_mut() {
            let series = Arc::make_mut(&mut known.series);
            (series.backlog, series.backlog_capacity) = (None, None);
        }
    }

    fn listener(&mut self, listener: &Listener, now: Nanos) {
        let key = (listener.netns, listener.address);
        let is_busy = is_busy(listener);
        if !self.known.contains_key(&key) {
            if !is_busy {
                return;
            }
            if self.known.len() >= MOST_LISTENERS {
                self.left_out += 1;
                return;
            }
        }
        let known = self.known.entry(key).or_insert_with(|| Known {
            series: Arc::default(),
            owner: None,
            path: None,
            workload: None,
            listened: now,
            busy: now,
        });
        known.listened = now;
        if is_busy {
            known.busy = now;
        }
        known.owner = listener.cgroup.or(known.owner);
        let (path, workload) = known.owner.and_then(|owner| self.owners.of(owner)).unzip();
        let workload = workload.flatten();
        let is_named =
            !known.series.labels.is_empty() && (path.is_none() || (&known.path, &known.workload) == (&path, &workload));
        let series = Arc::make_mut(&mut known.series);
        if !is_named {
            let address = listener.address.to_string();
            let labels = Labels::of_listener(listener.netns, &address, path.as_ref(), workload.as_deref());
            series.labels = labels.into();
            (known.path, known.workload) = (path, workload);
        }
        series.add(listener);
    }

    fn namespaces(&mut self, seen: &[NetworkNamespace], now: Nanos, expiry: Nanos) {
        let told: HashSet<u32> = self.known.keys().map(|(netns, _)| *netns).collect();
        for NetworkNamespace { netns, listen_overflows } in seen {
            let Some(overflows) = *listen_overflows else { continue };
            let is_known = self.namespaces.contains_key(netns);
            let matters = overflows > 0 || told.contains(netns);
            if !is_known && (!matters || self.namespaces.len() >= MOST_NAMESPACES) {
                continue;
            }
            let namespace = self.namespaces.entry(*netns).or_insert_with(|| Namespace {
                labels: Labels::new([("netns", netns.to_string().into())]).into(),
                overflows: 0,
                seen: now,
            });
            namespace.overflows = namespace.overflows.saturating_add(overflows);
            namespace.seen = now;
        }
        self.namespaces.retain(|_, namespace| now.saturating_sub(namespace.seen) <= expiry);
    }

    pub(super) fn series(&self) -> Vec<Arc<ListenerSeries>> {
        self.known.values().map(|known| Arc::clone(&known.series)).collect()
    }

    /// Overflows of each network namespace.
    pub(super) fn overflows(&self) -> Vec<(Arc<Labels>, u64)> {
        self.namespaces.values().map(|namespace| (Arc::clone(&namespace.labels), namespace.overflows)).collect()
    }

    /// How many had no room in the last interval.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Whether the listener has any traffic, drops or backlog.
fn is_busy(listener: &Listener) -> bool {
    listener.totals.is_some_and(|totals| !totals.is_zero())
        || [listener.drops, listener.backlog].into_iter().flatten().any(|n| n > 0)
}

/// Names of cgroups, by their ids.
#[derive(Debug, Default)]
struct Owners(HashMap<CgroupId, Owner>);

#[derive(Debug)]
struct Owner {
    path: Arc<str>,
    workload: Option<Arc<Workload>>,
    seen: Nanos,
}

impl Owners {
    fn add(&mut self, interval: &Interval, now: Nanos, expiry: Nanos) {
        for cgroup in interval.cgroups.iter().filter(|cgroup| cgroup.id != CgroupId::OTHER) {
            let (path, workload) = (Arc::clone(&cgroup.path), cgroup.workload.clone());
            self.0.insert(cgroup.id, Owner { path, workload, seen: now });
        }
        self.0.retain(|_, owner| now.saturating_sub(owner.seen) <= expiry);
    }

    fn of(&self, id: CgroupId) -> Option<(Arc<str>, Option<Arc<Workload>>)> {
        self.0.get(&id).map(|owner| (Arc::clone(&owner.path), owner.workload.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Cgroup;
    use crate::model::ListenerTotals;

    const EXPIRY: Nanos = Nanos(60_000_000_000);

    fn listener(port: u16, established: u64) -> Listener {
        Listener {
            cgroup: Some(CgroupId(7)),
            sockets: Some(1),
            backlog: Some(0),
            backlog_capacity: Some(129),
            drops: Some(0),
            totals: Some(ListenerTotals { established, ..ListenerTotals::default() }),
            ..Listener::new(1, ([10, 0, 0, 1], port).into())
        }
    }

    fn interval(listeners: Vec<Listener>, overflows: u64) -> Interval {
        let cgroup = Cgroup { id: CgroupId(7), path: "/web".into(), ..Cgroup::default() };
        let network_namespaces = vec![
            NetworkNamespace { netns: 1, listen_overflows: Some(overflows) },
            NetworkNamespace { netns: 2, listen_overflows: Some(0) },
        ];
        Interval { cgroups: vec![cgroup], listeners, network_namespaces, ..Interval::default() }
    }

    #[test]
    fn a_listener_has_series_once_it_has_traffic() {
        let mut listeners = Listeners::default();
        listeners.add(&interval(vec![listener(80, 0), listener(81, 0)], 0), Nanos(1), EXPIRY);
        assert!(listeners.series().is_empty() && listeners.overflows().is_empty());
        listeners.add(&interval(vec![listener(80, 3), listener(81, 0)], 2), Nanos(2), EXPIRY);
        listeners.add(&interval(vec![listener(80, 4), listener(81, 0)], 0), Nanos(3), EXPIRY);
        let series = listeners.series();
        assert_eq!((series.len(), series[0].totals.unwrap().established, series[0].drops), (1, 7, Some(0)));
        let labels: Vec<&str> = series[0].labels.iter().map(|label| &*label.value).collect();
        assert_eq!(labels, ["1", "10.0.0.1:80", "/web", "", "", ""]);
        let overflows: Vec<u64> = listeners.overflows().iter().map(|(_, count)| *count).collect();
        assert_eq!(overflows, [2], "and only of namespaces that matter");
    }

    #[test]
    fn a_listener_that_is_gone_has_no_backlog_and_expires() {
        let mut listeners = Listeners::default();
        listeners.add(&interval(vec![listener(80, 1)], 0), Nanos(1), EXPIRY);
        listeners.add(&interval(vec![], 0), Nanos(2), EXPIRY);
        assert_eq!(listeners.series()[0].backlog, None);
        assert_eq!(listeners.series()[0].totals.unwrap().established, 1, "what happened is still told");
        listeners.add(&interval(vec![], 0), Nanos(2).saturating_add(EXPIRY), EXPIRY);
        assert!(listeners.series().is_empty());
    }

    #[test]
    fn there_is_room_for_a_limited_number() {
        let mut listeners = Listeners::default();
        let all = |established| interval((1..=600).map(|port| listener(port, established)).collect(), 0);
        listeners.add(&all(1), Nanos(1), EXPIRY);
        assert_eq!((listeners.series().len(), listeners.left_out()), (MOST_LISTENERS, 100));
        listeners.add(&all(0), Nanos(1).saturating_add(EXPIRY).saturating_add(Nanos(1)), EXPIRY);
        assert_eq!(listeners.series().len(), MOST_LISTENERS, "nobody waits for room");
        listeners.add(
            &interval(vec![listener(600, 1)], 0),
            Nanos(1).saturating_add(EXPIRY).saturating_add(Nanos(2)),
            EXPIRY,
        );
        assert!(listeners.series().is_empty(), "whoever is idle for long makes room");
    }
}
