//! Who may gain from going first and who may pay for it, as it looks right now.
//!
//! A hint, by the criteria of the rule `lags_candidates` over the last seconds instead of a whole recording, but without the
//! tree and its weights: cgroups are compared as rows. Waits and CPU time are averaged like Load Credit is, so that marks do
//! not flicker. Light and heavy are told apart by CPU time used: Load Credit counts waits as load, and whoever starves would
//! look heavy.

use std::{collections::HashMap, fmt};

use super::{Thresholds, rated::is_rated};
use crate::{
    model::{Cgroup, CgroupId, Interval, Nanos},
    units::ending,
};

/// Time constant of the averages. Chosen: longer than Load Credit's 2 s, for a mark should be steadier than a figure.
const TIME_CONSTANT: Nanos = Nanos(5 * Nanos::SECOND.0);
/// Waits that the average must rest on. Chosen: as few as findings take of 2 s or less (`Thresholds::are_enough`).
const FEWEST_WAITS: f64 = 10.0;
/// A heavy cgroup uses this share of what the heavy ones use on average. Chosen: it must be as heavy as they are, not just above
/// the mean.
const AS_HEAVY: f64 = 0.5;
/// Below this an average is forgotten, in nanoseconds and waits.
const FORGOTTEN: f64 = 1e-3;

/// Who would gain and who would pay, followed from interval to interval.
#[derive(Clone, Debug, Default)]
pub struct Priorities {
    recent: HashMap<CgroupId, Recent>,
    /// Decayed time, in nanoseconds.
    time_ns: f64,
}

/// Decayed sums of one cgroup.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    cpu_ns: f64,
    wait_ns: f64,
    waits: f64,
    /// The longest 99th percentile of its recent waits, decayed by its age.
    tail_ns: f64,
    /// The last known 99th percentile.
    p99_ns: u64,
}

/// What going first would mean for a cgroup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Role {
    pub kind: RoleKind,
    /// The CPU time that it uses, in cores.
    pub cpu: f64,
    /// What one cgroup uses on average, in cores: light and heavy are told apart by it.
    pub mean_cpu: f64,
    /// Its run-queue wait for each second of CPU time.
    pub wait_per_cpu: f64,
    /// 99th percentile of its run-queue waits.
    pub wait_p99: Nanos,
    pub gaining: u32,
}

/// Gain or pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// Light, and waits long: it would go first.
    Gains,
    /// Heavy, while light ones wait: it would wait for them.
    Pays,
}

/// Why, in one line.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, mean_cpu, wait_per_cpu, wait_p99, gaining, .. } = self;
        match self.kind {
            RoleKind::Gains => write!(
                f,
                "light: waits {wait_per_cpu:.1} times as long as it runs (p99 {wait_p99}), uses {cpu:.2} cores (mean {mean_cpu:.2}); \
                 may benefit from priority"
            ),
            RoleKind::Pays => write!(
                f,
                "heavy: uses {cpu:.2} cores (mean {mean_cpu:.2}) while {gaining} light cgroup{} wait{} long",
                ending(*gaining),
                if *gaining == 1 { "s" } else { "" },
            ),
        }
    }
}

impl Recent {
    fn advance(&mut self, keep: f64, cgroup: Option<&Cgroup>) {
        self.cpu_ns *= keep;
        self.wait_ns *= keep;
        self.waits *= keep;
        self.tail_ns *= keep;
        let Some(cgroup) = cgroup else { return };
        let totals = &cgroup.totals;
        self.cpu_ns += totals.cpu_ns.0 as f64;
        self.wait_ns += totals.runq_wait_ns.unwrap_or_default().0 as f64;
        self.waits += totals.runq_waits.unwrap_or_default() as f64;
        let tail = cgroup.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99)).or_else(|| totals.mean_runq_wait());
        if let Some(Nanos(tail)) = tail {
            self.tail_ns = self.tail_ns.max(tail as f64);
            self.p99_ns = tail;
        }
    }

    fn is_forgotten(&self) -> bool {
        self.cpu_ns < FORGOTTEN && self.wait_ns < FORGOTTEN
    }

    fn waits_long(&self, thresholds: &Thresholds) -> bool {
        self.waits >= FEWEST_WAITS
            && self.wait_ns >= thresholds.light_wait_per_cpu * self.cpu_ns
            && self.tail_ns >= thresholds.light_wait_p99.0 as f64
    }
}

impl Priorities {
    /// Adds the next interval. Returns the roles of its cgroups that have one, in their order.
    pub fn advance(&mut self, interval: &Interval, thresholds: &Thresholds) -> Vec<(CgroupId, Role)> {
        let keep = (-interval.duration_ns.seconds() / TIME_CONSTANT.seconds()).exp();
        self.time_ns = self.time_ns * keep + interval.duration_ns.0 as f64;
        let mut idle: HashMap<CgroupId, Recent> = std::mem::take(&mut self.recent);
        for cgroup in &interval.cgroups {
            let mut recent = idle.remove(&cgroup.id).unwrap_or_default();
            recent.advance(keep, Some(cgroup));
            self.recent.insert(cgroup.id, recent);
        }
        for (id, mut recent) in idle {
            recent.advance(keep, None);
            if !recent.is_forgotten() {
                self.recent.insert(id, recent);
            }
        }
        self.roles(interval, thresholds)
    }

    fn roles(&self, interval: &Interval, thresholds: &Thresholds) -> Vec<(CgroupId, Role)> {
        let rated = || interval.cgroups.iter().map(|cgroup| cgroup.id).filter(|&id| is_rated(id));
        let used: Vec<(CgroupId, Recent)> = rated().filter_map(|id| Some((id, *self.recent.get(&id)?))).collect();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let all: Vec<f64> = used.iter().map(|(_, recent)| recent.cpu_ns).collect();
        let mean_cpu = mean(&all);
        let heavy: Vec<f64> = all.into_iter().filter(|&cpu| cpu >= mean_cpu).collect();
        let heavy_mean = mean(&heavy);
        let kind = |recent: &Recent| {
            let is_light = recent.cpu_ns < mean_cpu && recent.cpu_ns <= thresholds.light_credit * heavy_mean;
            if is_light && recent.waits_long(thresholds) {
                Some(RoleKind::Gains)
            } else {
                (recent.cpu_ns >= AS_HEAVY * heavy_mean && recent.cpu_ns >= mean_cpu).then_some(RoleKind::Pays)
            }
        };
        let kinds: Vec<_> = used.iter().filter_map(|(id, recent)| Some((*id, recent, kind(recent)?))).collect();
        let gaining = kinds.iter().filter(|(.., kind)| *kind == RoleKind::Gains).count() as u32;
        if gaining == 0 {
            return Vec::new();
        }
        let cores = |cpu_ns: f64| cpu_ns / self.time_ns.max(1.0);
        let role = |(id, recent, kind): (CgroupId, &Recent, RoleKind)| {
            let role = Role {
                kind,
                cpu: cores(recent.cpu_ns),
                mean_cpu: cores(mean_cpu),
                wait_per_cpu: recent.wait_ns / recent.cpu_ns,
                wait_p99: Nanos(recent.p99_ns),
                gaining,
            };
            (id, role)
        };
        kinds.into_iter().map(role).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Tasks, Totals};

    /// One light cgroup that waits ten times as long as it runs, behind one that always runs.
    fn interval(light_waits: u64) -> Interval {
        let cgroup = |id, credit, cpu, wait, waits| Cgroup {
            id: CgroupId(id),
            load_credit: Some(Tasks(credit)),
            totals: Totals {
                cpu_ns: Nanos(cpu),
                runq_wait_ns: Some(Nanos(wait)),
                runq_waits: Some(waits),
                ..Totals::default()
            },
            ..Cgroup::default()
        };
        Interval {
            duration_ns: Nanos::SECOND,
            cgroups: vec![
                cgroup(10, 0.1, 20_000_000, 20_000_000 * light_waits, light_waits),
                cgroup(11, 3.0, 900_000_000, 100_000_000, 50),
            ],
            ..Interval::default()
        }
    }

    fn kinds(priorities: &mut Priorities, interval: &Interval) -> Vec<(u64, RoleKind)> {
        let roles = priorities.advance(interval, &Thresholds::default());
        roles.iter().map(|(id, role)| (id.0, role.kind)).collect()
    }

    #[test]
    fn who_waits_long_for_little_gains_and_who_is_in_the_way_pays() {
        let mut priorities = Priorities::default();
        assert_eq!(kinds(&mut priorities, &interval(20)), [(10, RoleKind::Gains), (11, RoleKind::Pays)]);
        let roles = priorities.advance(&interval(20), &Thresholds::default());
        assert_eq!(
            roles[0].1.to_string(),
            "light: waits 20.0 times as long as it runs (p99 20.0 ms), uses 0.02 cores (mean 0.46); may benefit from \
             priority"
        );
        assert!(roles[1].1.to_string().ends_with("while 1 light cgroup waits long"), "{}", roles[1].1);
    }

    /// A cgroup that waits has the larger Load Credit, because waits count as load.
    #[test]
    fn whoever_starves_is_not_taken_for_heavy() {
        let mut interval = interval(20);
        interval.cgroups[0].load_credit = Some(Tasks(5.0));
        assert_eq!(kinds(&mut Priorities::default(), &interval), [(10, RoleKind::Gains), (11, RoleKind::Pays)]);
    }

    #[test]
    fn where_nobody_waits_nobody_pays() {
        assert_eq!(kinds(&mut Priorities::default(), &interval(0)), []);
    }

    #[test]
    fn a_mark_outlasts_a_quiet_second_but_not_a_minute() {
        let mut priorities = Priorities::default();
        (0..5).for_each(|_| drop(kinds(&mut priorities, &interval(20))));
        assert_eq!(kinds(&mut priorities, &interval(0)).len(), 2);
        (0..60).for_each(|_| drop(kinds(&mut priorities, &interval(0))));
        assert_eq!(kinds(&mut priorities, &interval(0)), []);
    }

    #[test]
    fn cgroups_that_are_gone_are_forgotten() {
        let mut priorities = Priorities::default();
        kinds(&mut priorities, &interval(20));
        let empty = Interval { duration_ns: Nanos(600_000_000_000), ..Interval::default() };
        assert_eq!(kinds(&mut priorities, &empty), []);
        assert_eq!(priorities.recent.len(), 0);
    }
}
