//! Which thresholds one interval crosses. Unlike a finding, an alert says nothing of causes and needs no more than the
//! interval.

use std::net::SocketAddr;

use super::{Limit, Severity, Thresholds, observations::NOTABLE};
use crate::model::{Cgroup, CgroupId, Interval, Listener, Nanos};

/// A threshold that an interval crosses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alert {
    /// Whose figure it is.
    pub subject: AlertSubject,
    /// Which figure.
    pub kind: AlertKind,
    /// How bad: [`Severity::Warning`] or [`Severity::Critical`].
    pub severity: Severity,
    /// The figure: a share, a factor, nanoseconds or a rate, as the kind has it.
    pub value: f64,
}

/// Whose figure crosses the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AlertSubject {
    Host,
    Cgroup(CgroupId),
    /// A listening address in a network namespace.
    Listener(u32, SocketAddr),
}

/// Which figure crosses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AlertKind {
    /// Overhead of the host. A share of the time of all CPUs.
    Overhead,
    /// Switch cost of a cgroup. A share of its own CPU time.
    CostOfCpu,
    /// Mean switch cost, where the switch cost matters. Nanoseconds.
    MeanSwitchCost,
    /// Run-queue wait per CPU time. A factor.
    WaitPerCpu,
    /// Migrations per second of CPU time. A rate.
    Migrations,
    /// Backlog in use. A share.
    Backlog,
    /// Bandwidth periods with the quota used up. A share.
    Throttled,
}

/// The fewest switches in an interval for a mean cost: its standard error is then 10 %, with a standard deviation as large as the
/// mean. A finding takes more (`min_switches`).
const FEWEST_SWITCHES: u64 = 100;
/// The fewest bandwidth periods for a share of them, unless the quota was used up in all of them. Chosen: half a second of the
/// usual 100 ms (Documentation/scheduler/sched-bwc.rst).
const FEWEST_PERIODS: u64 = 5;

/// From this many cgroups on, a threshold that most of the notable ones cross is an alert of the host. Chosen:
/// fewer can be named one by one.
const MANY: usize = 4;
/// How many times the median a cgroup must then reach to be an alert of its own. Chosen.
const UNUSUAL: f64 = 3.0;

/// The alerts of `interval`: of the host, then of each cgroup and listener, in their order there. What most cgroups
/// have in common is one alert of the host. Only cgroups that stand out then have their own.
pub fn alerts(interval: &Interval, thresholds: &Thresholds) -> Vec<Alert> {
    let mut alerts = Alerts { thresholds, found: Vec::new(), notable: 0 };
    alerts.host(interval);
    interval.cgroups.iter().for_each(|cgroup| alerts.cgroup(cgroup, interval.duration_ns));
    alerts.tell_the_common_once();
    interval.listeners.iter().for_each(|listener| alerts.listener(listener));
    alerts.found
}

/// What all cgroups of a host may have in common.
const COMMON: [AlertKind; 3] = [AlertKind::CostOfCpu, AlertKind::MeanSwitchCost, AlertKind::WaitPerCpu];

struct Alerts<'a> {
    thresholds: &'a Thresholds,
    found: Vec<Alert>,
    /// Cgroups that run or wait enough to cross a threshold.
    notable: usize,
}

impl Alerts<'_> {
    fn host(&mut self, interval: &Interval) {
        let host = &interval.host;
        if let Some(overhead) = host.overhead() {
            let mean = host.mean_switch_cost().filter(|_| host.task_switches() >= FEWEST_SWITCHES);
            self.switch_cost(AlertSubject::Host, AlertKind::Overhead, overhead, mean);
        }
    }

    fn cgroup(&mut self, cgroup: &Cgroup, duration: Nanos) {
        let subject = AlertSubject::Cgroup(cgroup.id);
        let totals = &cgroup.totals;
        let is_notable = |time: Nanos| time.cores(duration).0 >= NOTABLE;
        self.notable += usize::from(is_notable(totals.cpu_ns) || totals.runq_wait_ns.is_some_and(is_notable));
        if let Some(cost) = totals.switch_cost().filter(|cost| is_notable(*cost)) {
            let mean = totals.mean_switch_cost().filter(|_| totals.switches >= FEWEST_SWITCHES);
            self.switch_cost(subject, AlertKind::CostOfCpu, cost.0 as f64 / totals.cpu_ns.0 as f64, mean);
        }
        if let Some(factor) = totals.wait_per_cpu().filter(|_| totals.runq_wait_ns.is_some_and(is_notable)) {
            let limits = [Limit::wait_per_cpu_critical, Limit::wait_per_cpu_warn];
            self.hold(subject, AlertKind::WaitPerCpu, factor, &limits);
        }
        if let Some(moves) = totals.migrations.filter(|_| is_notable(totals.cpu_ns)) {
            let rate = moves as f64 / totals.cpu_ns.seconds();
            self.hold(subject, AlertKind::Migrations, rate, &[Limit::migrations_warn]);
        }
        let files = &cgroup.files;
        if let Some(share) = files.throttled()
            && (files.nr_periods >= Some(FEWEST_PERIODS) || files.nr_throttled == files.nr_periods)
        {
            self.hold(subject, AlertKind::Throttled, share, &[Limit::throttled_critical, Limit::throttled_warn]);
        }
    }

    fn tell_the_common_once(&mut self) {
        for kind in COMMON {
            let is_one = |alert: &Alert| alert.kind == kind && alert.subject != AlertSubject::Host;
            let (mut values, mut severities): (Vec<f64>, Vec<Severity>) =
                self.found.iter().filter(|alert| is_one(alert)).map(|alert| (alert.value, alert.severity)).unzip();
            if values.len() < MANY || values.len() * 2 <= self.notable {
                continue;
            }
            values.sort_by(f64::total_cmp);
            severities.sort_unstable();
            // Each by itself: a smaller overhead may be worse, because of the cost of each switch.
            let (median, severity) = (values[values.len() / 2], severities[severities.len() / 2]);
            let stands_out =
                |alert: &Alert| alert.value >= UNUSUAL * median && alert.value > median || alert.severity > severity;
            self.found.retain(|alert| !is_one(alert) || stands_out(alert));
            // The host's own mean cost is told beside its overhead, or not at all.
            if kind != AlertKind::MeanSwitchCost {
                let place = self.found.iter().take_while(|alert| alert.subject == AlertSubject::Host).count();
                self.found.insert(place, Alert { subject: AlertSubject::Host, kind, severity, value: median });
            }
        }
    }

    fn listener(&mut self, listener: &Listener) {
        let subject = AlertSubject::Listener(listener.netns, listener.address);
        if let Some((backlog, capacity)) = listener.backlog.zip(listener.backlog_capacity) {
            let used = backlog as f64 / capacity as f64;
            self.hold(subject, AlertKind::Backlog, used, &[Limit::backlog_critical, Limit::backlog_warn]);
        }
    }

    /// Expensive switches alone are no alert: they lose little while they are few.
    fn switch_cost(&mut self, subject: AlertSubject, kind: AlertKind, overhead: f64, mean: Option<Nanos>) {
        let severity = self.thresholds.overhead_severity(overhead, mean);
        if severity < Severity::Warning {
            return;
        }
        self.found.push(Alert { subject, kind, severity, value: overhead });
        if let Some(mean) = mean {
            self.hold(subject, AlertKind::MeanSwitchCost, mean.0 as f64, &[Limit::mean_switch_cost_critical]);
        }
    }

    /// Alerts of the first of `limits` that `value` reaches. The ratio 0/0 is NaN, and reaches none.
    fn hold(&mut self, subject: AlertSubject, kind: AlertKind, value: f64, limits: &[Limit]) {
        if let Some(reached) = limits.iter().find(|limit| value >= self.thresholds.value(**limit).as_f64()) {
            self.found.push(Alert { subject, kind, severity: reached.severity(), value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileCounters, Interval, Totals, fixture};

    fn with(cgroup: Cgroup) -> Vec<(AlertKind, Severity)> {
        let interval = Interval { duration_ns: Nanos::SECOND, cgroups: vec![cgroup], ..Interval::default() };
        alerts(&interval, &Thresholds::default()).iter().map(|alert| (alert.kind, alert.severity)).collect()
    }

    #[test]
    fn what_most_have_in_common_is_told_once() {
        let waits = |waits: &[u64]| {
            let one = |(id, &wait): (usize, &u64)| Cgroup {
                id: CgroupId(10 + id as u64),
                totals: Totals {
                    cpu_ns: Nanos(100_000_000),
                    runq_wait_ns: Some(Nanos(wait * 100_000_000)),
                    ..Totals::default()
                },
                ..Cgroup::default()
            };
            let cgroups = waits.iter().enumerate().map(one).collect();
            let interval = Interval { duration_ns: Nanos::SECOND, cgroups, ..Interval::default() };
            let of = alerts(&interval, &Thresholds::default()).into_iter();
            of.filter(|alert| alert.kind == AlertKind::WaitPerCpu).map(|it| (it.subject, it.value)).collect::<Vec<_>>()
        };
        let own = |id: u64| AlertSubject::Cgroup(CgroupId(id));
        assert_eq!(waits(&[2, 2, 3]), [(own(10), 2.0), (own(11), 2.0), (own(12), 3.0)], "few");
        assert_eq!(waits(&[2, 2, 3, 3, 0]), [(AlertSubject::Host, 3.0)]);
        assert_eq!(waits(&[2, 2, 2, 3, 3, 30]), [(AlertSubject::Host, 3.0), (own(15), 30.0)], "one stands out");
        assert_eq!(waits(&[2, 2, 2, 2, 0, 0, 0, 0]).len(), 4, "no more than half");
    }

    #[test]
    fn one_whose_switches_are_expensive_stands_out_among_costlier_ones() {
        let one = |(id, &(switches, cost)): (usize, &(u64, u64))| Cgroup {
            id: CgroupId(10 + id as u64),
            totals: Totals {
                switches,
                cpu_ns: Nanos(1_000_000_000),
                pick_ns: Some(Nanos(cost)),
                swap_ns: Some(Nanos::ZERO),
                ..Totals::default()
            },
            ..Cgroup::default()
        };
        let cgroups = [(1_000, 51_000_000), (30_000, 60_000_000), (30_000, 70_000_000), (30_000, 80_000_000)];
        let cgroups = cgroups.iter().enumerate().map(one).collect();
        let interval = Interval { duration_ns: Nanos::SECOND, cgroups, ..Interval::default() };
        let found = alerts(&interval, &Thresholds::default());
        let found: Vec<_> = found.iter().map(|alert| (alert.subject, alert.kind, alert.severity)).collect();
        let expensive = AlertSubject::Cgroup(CgroupId(10));
        assert_eq!(
            found,
            [
                (AlertSubject::Host, AlertKind::CostOfCpu, Severity::Warning),
                (expensive, AlertKind::CostOfCpu, Severity::Critical),
                (expensive, AlertKind::MeanSwitchCost, Severity::Critical),
            ]
        );
    }

    #[test]
    fn an_idle_host_has_none_and_an_overloaded_one_has_the_hosts_first() {
        let thresholds = Thresholds::default();
        assert_eq!(alerts(&fixture::idle(3)[2], &thresholds), []);
        let all = alerts(&fixture::overloaded(12)[11], &thresholds);
        assert_eq!((all[0].subject, all[0].kind), (AlertSubject::Host, AlertKind::Overhead));
    }

    #[test]
    fn each_figure_is_held_against_its_own_threshold() {
        let totals = Totals { cpu_ns: Nanos(100_000_000), ..Totals::default() };
        let of = |totals| Cgroup { totals, ..Cgroup::default() };
        let costly = Totals { switches: 1_000, pick_ns: Some(Nanos(10_000_000)), swap_ns: Some(Nanos(0)), ..totals };
        assert_eq!(with(of(costly)), [(AlertKind::CostOfCpu, Severity::Critical)], "10 µs are worth knowing, not more");
        let expensive = Totals {
            switches: 1_000,
            cpu_ns: Nanos(300_000_000),
            pick_ns: Some(Nanos(20_000_000)),
            swap_ns: Some(Nanos(0)),
            ..totals
        };
        assert_eq!(
            with(of(expensive)),
            [(AlertKind::CostOfCpu, Severity::Critical), (AlertKind::MeanSwitchCost, Severity::Critical)]
        );
        let few = Totals { cpu_ns: Nanos(1_000_000_000), ..expensive };
        assert_eq!(with(of(few)), [], "expensive, and few");
        let waits = |ns| with(of(Totals { runq_wait_ns: Some(Nanos(ns)), ..totals }));
        assert_eq!(waits(99_000_000), []);
        assert_eq!(waits(100_000_000), [(AlertKind::WaitPerCpu, Severity::Warning)]);
        assert_eq!(waits(400_000_000), [(AlertKind::WaitPerCpu, Severity::Critical)]);
        assert_eq!(with(of(Totals { migrations: Some(100), ..totals })), [(AlertKind::Migrations, Severity::Warning)]);
        let throttled = Cgroup {
            files: FileCounters { nr_periods: Some(10), nr_throttled: Some(1), ..FileCounters::default() },
            ..of(totals)
        };
        assert_eq!(with(throttled), [(AlertKind::Throttled, Severity::Warning)]);
        let short = |throttled| {
            with(Cgroup {
                files: FileCounters { nr_periods: Some(2), nr_throttled: Some(throttled), ..FileCounters::default() },
                ..of(totals)
            })
        };
        assert_eq!((short(1), short(2)), (vec![], vec![(AlertKind::Throttled, Severity::Critical)]));
    }

    #[test]
    fn what_hardly_runs_alerts_nobody() {
        let totals = Totals {
            switches: 3,
            cpu_ns: Nanos(1_000),
            pick_ns: Some(Nanos(90_000)),
            swap_ns: Some(Nanos(90_000)),
            runq_wait_ns: Some(Nanos(5_000_000)),
            migrations: Some(3),
            ..Totals::default()
        };
        assert_eq!(with(Cgroup { totals, ..Cgroup::default() }), []);
        assert_eq!(
            with(Cgroup {
                files: FileCounters { nr_periods: Some(0), nr_throttled: Some(0), ..FileCounters::default() },
                ..Cgroup::default()
            }),
            []
        );
    }

    #[test]
    fn a_full_backlog_is_critical() {
        let mut listener = Listener::new(1, "0.0.0.0:80".parse().unwrap());
        (listener.backlog, listener.backlog_capacity) = (Some(129), Some(129));
        let interval = Interval { listeners: vec![listener], ..Interval::default() };
        let found = alerts(&interval, &Thresholds::default());
        assert_eq!((found[0].kind, found[0].severity, found.len()), (AlertKind::Backlog, Severity::Critical, 1));
    }
}
