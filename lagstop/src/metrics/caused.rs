//! Pairs of victim and culprit cgroups that have a series.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{CausedSeries, Labels, labels::Name, members::Members};
use crate::model::{Cgroup, CgroupId, Interval, Nanos};

/// The most pairs with a series: those with the longest waits.
const MOST_PAIRS: usize = 500;
/// Label of all culprits of a victim that have no series with it. It cannot be a cgroup: paths begin with `/`.
const REST: &str = "(other)";

/// The paths of a victim and of a culprit.
type Pair = (Arc<str>, Arc<str>);

/// Sums the waits of each pair.
///
/// A wait counts in the series of its pair if there is one, and otherwise in the rest of its victim. Waits never move
/// between series. All series only grow, and the series of a victim add up to its waits behind others.
#[derive(Debug)]
pub(super) struct Pairs {
    worst: Members<Pair>,
    series: BTreeMap<Pair, Known>,
}

/// A series, and the names of both cgroups when it got its labels.
#[derive(Debug)]
struct Known {
    series: Arc<CausedSeries>,
    victim: Name,
    culprit: Name,
}

impl Pairs {
    pub(super) fn new() -> Self {
        Self { worst: Members::new(MOST_PAIRS), series: BTreeMap::new() }
    }

    /// Forgets pairs whose victim or culprit has no series any more.
    pub(super) fn forget(&mut self, gone: &[Arc<str>]) {
        if gone.is_empty() {
            return;
        }
        let gone: HashSet<&Arc<str>> = gone.iter().collect();
        let is_gone = |(victim, culprit): &Pair| gone.contains(victim) || gone.contains(culprit);
        self.worst.forget(is_gone);
        self.series.retain(|pair, _| !is_gone(pair));
    }

    /// Adds the next interval, which ends `now`. `own` gives the name of a cgroup with series of its own. All others
    /// are summed as victims under `other`, and are not named as culprits.
    pub(super) fn add(
        &mut self,
        interval: &Interval,
        now: Nanos,
        expiry: Nanos,
        own: impl Fn(&Cgroup) -> Option<Name>,
        other: &Name,
    ) {
        let names: HashMap<CgroupId, Name> =
            interval.cgroups.iter().filter_map(|cgroup| Some((cgroup.id, own(cgroup)?))).collect();
        let victim = |cgroup: &Cgroup| names.get(&cgroup.id).unwrap_or(other);
        let waits = interval.cgroups.iter().flat_map(|cgroup| {
            cgroup.waits_behind.iter().filter_map(|behind| {
                let culprit = names.get(&behind.id)?;
                Some(((Arc::clone(&victim(cgroup).path), Arc::clone(&culprit.path)), behind.wait_ns.0 as f64))
            })
        });
        let waits: Vec<(Pair, f64)> = waits.collect();
        let costs = waits.iter().map(|(pair, wait)| (pair, *wait));
        let changes = self.worst.advance(now, interval.duration_ns, expiry, costs);
        for pair in &changes.gone {
            self.series.remove(pair);
        }
        let come: HashSet<Pair> = changes.come.into_iter().collect();
        for cgroup in &interval.cgroups {
            let Some(mut rest) = cgroup.totals.wait_behind_ns else { continue };
            let victim = victim(cgroup);
            for behind in &cgroup.waits_behind {
                let Some(culprit) = names.get(&behind.id) else { continue };
                let pair = (Arc::clone(&victim.path), Arc::clone(&culprit.path));
                if come.contains(&pair) || self.series.contains_key(&pair) {
                    self.count(pair, victim, culprit, behind.wait_ns);
                    rest = rest.saturating_sub(behind.wait_ns);
                }
            }
            if rest > Nanos::ZERO {
                let culprit = Name { path: REST.into(), workload: None };
                self.count((Arc::clone(&victim.path), Arc::clone(&culprit.path)), victim, &culprit, rest);
            }
        }
    }

    fn count(&mut self, pair: Pair, victim: &Name, culprit: &Name, wait: Nanos) {
        let new = || {
            let labels = Labels::of_pair(victim, culprit).into();
            let series = CausedSeries { labels, wait: Nanos::ZERO }.into();
            Known { series, victim: victim.clone(), culprit: culprit.clone() }
        };
        let known = self.series.entry(pair).or_insert_with(new);
        let series = Arc::make_mut(&mut known.series);
        series.wait = series.wait.saturating_add(wait);
        if (&known.victim, &known.culprit) != (victim, culprit) {
            series.labels = Labels::of_pair(victim, culprit).into();
            (known.victim, known.culprit) = (victim.clone(), culprit.clone());
        }
    }

    pub(super) fn series(&self) -> Vec<Arc<CausedSeries>> {
        self.series.values().map(|known| Arc::clone(&known.series)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Totals, WaitBehind, Workload};

    const EXPIRY: Nanos = Nanos(60_000_000_000);

    fn other() -> Name {
        Name { path: "other".into(), workload: None }
    }

    fn name(cgroup: &Cgroup) -> Option<Name> {
        (cgroup.id != CgroupId::OTHER && !cgroup.path.starts_with("/small"))
            .then(|| Name { path: Arc::clone(&cgroup.path), workload: cgroup.workload.clone() })
    }

    /// Waited so many milliseconds behind others, these of them behind cgroups by these ids.
    fn cgroup(id: u64, path: &str, wait_ms: u64, behind: &[(u64, u64)]) -> Cgroup {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        Cgroup {
            id: CgroupId(id),
            path: path.into(),
            totals: Totals { wait_behind_ns: Some(ms(wait_ms)), ..Totals::default() },
            waits_behind: behind.iter().map(|&(id, wait)| WaitBehind { id: CgroupId(id), wait_ns: ms(wait) }).collect(),
            ..Cgroup::default()
        }
    }

    struct Clock(Pairs, Nanos);

    impl Clock {
        fn second(&mut self, cgroups: Vec<Cgroup>) {
            self.1 = self.1.saturating_add(Nanos::SECOND);
            let interval = Interval { cgroups, duration_ns: Nanos::SECOND, ..Interval::default() };
            self.0.add(&interval, self.1, EXPIRY, name, &other());
        }

        /// Victim, culprit, milliseconds.
        fn now(&self) -> Vec<(String, String, u64)> {
            let label = |series: &CausedSeries, key: &str| {
                series.labels.iter().find(|label| label.key == key).unwrap().value.to_string()
            };
            let all = self.0.series();
            let one = |it: &Arc<CausedSeries>| (label(it, "cgroup"), label(it, "by"), it.wait.0 / 1_000_000);
            all.iter().map(one).collect()
        }
    }

    fn rows(all: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
        all.iter().map(|&(victim, culprit, ms)| (victim.to_owned(), culprit.to_owned(), ms)).collect()
    }

    #[test]
    fn the_waits_of_a_victim_are_all_in_its_series() {
        let mut clock = Clock(Pairs::new(), Nanos::ZERO);
        let small = cgroup(9, "/small/a", 20, &[(5, 15)]);
        let web = cgroup(6, "/web", 100, &[(5, 60), (9, 10), (0, 5)]);
        let surplus = cgroup(0, "(other)", 7, &[]);
        clock.second(vec![surplus, cgroup(5, "/batch", 3, &[(6, 3)]), web, small]);
        let first = [
            ("/batch", "/web", 3),
            ("/web", "(other)", 40),
            ("/web", "/batch", 60),
            ("other", "(other)", 12),
            ("other", "/batch", 15),
        ];
        assert_eq!(clock.now(), rows(&first));
        clock.second(vec![cgroup(5, "/batch", 0, &[]), cgroup(6, "/web", 10, &[(5, 10)])]);
        assert_eq!(clock.now()[2], rows(&[("/web", "/batch", 70)])[0]);
    }

    #[test]
    fn a_pair_goes_with_its_victim_its_culprit_and_its_waits() {
        let waits = || vec![cgroup(5, "/batch", 1, &[(6, 1)]), cgroup(6, "/web", 10, &[(5, 10)])];
        for gone in ["/batch", "/web"] {
            let mut clock = Clock(Pairs::new(), Nanos::ZERO);
            clock.second(waits());
            clock.0.forget(&[gone.into()]);
            assert_eq!(clock.now(), rows(&[]), "{gone}");
        }
        let mut clock = Clock(Pairs::new(), Nanos::ZERO);
        clock.second(waits());
        (0..60).for_each(|_| clock.second(vec![]));
        assert_eq!(clock.now().len(), 2);
        clock.second(vec![]);
        assert_eq!(clock.now(), rows(&[]));
        clock.second(waits());
        assert_eq!(clock.now(), rows(&[("/batch", "/web", 1), ("/web", "/batch", 10)]), "from the beginning");
    }

    #[test]
    fn there_is_room_for_the_worst() {
        let mut clock = Clock(Pairs::new(), Nanos::ZERO);
        let behind: Vec<u64> = (1..=6).collect();
        let crowd = (0..200).map(|n| {
            let waits: Vec<(u64, u64)> = behind.iter().map(|&id| (id + 10, n + id)).collect();
            cgroup(n + 1_000, &format!("/victim/{n}"), 10_000, &waits)
        });
        let culprits = behind.iter().map(|id| cgroup(id + 10, &format!("/culprit/{id}"), 0, &[]));
        clock.second(crowd.chain(culprits).collect());
        let now = clock.now();
        let named = now.iter().filter(|(_, culprit, _)| culprit != REST).count();
        assert_eq!((named, now.len()), (MOST_PAIRS, MOST_PAIRS + 200));
        assert!(now.contains(&rows(&[("/victim/199", "/culprit/6", 205)])[0]));
        assert_eq!(now.iter().map(|(_, _, ms)| ms).sum::<u64>(), 200 * 10_000, "nothing is lost");
    }

    #[test]
    fn a_name_that_is_found_out_late_is_told() {
        let mut clock = Clock(Pairs::new(), Nanos::ZERO);
        let waits = |workload: Option<Arc<Workload>>| {
            vec![Cgroup { workload, ..cgroup(5, "/batch", 0, &[]) }, cgroup(6, "/web", 10, &[(5, 10)])]
        };
        clock.second(waits(None));
        let workload = Workload { namespace: Some("jobs".into()), pod: Some("batch-0".into()), container: None };
        clock.second(waits(Some(workload.into())));
        let series = clock.0.series();
        let labels: Vec<(&str, &str)> = series[0].labels.iter().map(|label| (label.key, &*label.value)).collect();
        let expected = [
            ("cgroup", "/web"),
            ("unit", ""),
            ("namespace", ""),
            ("pod", ""),
            ("container", ""),
            ("by", "/batch"),
            ("by_namespace", "jobs"),
            ("by_pod", "batch-0"),
        ];
        assert_eq!((labels, series[0].wait), (expected.to_vec(), Nanos(20_000_000)));
    }
}
