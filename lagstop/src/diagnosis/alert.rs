//! Which thresholds one interval crosses. Unlike a finding, an alert says nothing of causes and needs no more than the
//! interval.

use std::net::SocketAddr;

use super::{Severity, Thresholds};
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

/// Whose figure crosses it.
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
    /// Switch cost: of the host's CPU time, or of a cgroup's own. A share.
    Overhead,
    /// Mean switch cost. Nanoseconds.
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

/// What a cgroup must do at least for its ratios to mean anything: this part of one CPU, spent or waited for.
const NOTABLE: f64 = 0.01;
/// Switches in an interval that a mean cost needs.
const FEWEST_SWITCHES: u64 = 100;
/// Bandwidth periods that a share of them needs, where it is not all of them.
const FEWEST_PERIODS: u64 = 5;

/// The alerts of `interval`: the host's, then each cgroup's and listener's in their order there.
pub fn alerts(interval: &Interval, thresholds: &Thresholds) -> Vec<Alert> {
    let mut alerts = Alerts { thresholds, found: Vec::new() };
    alerts.host(interval);
    interval.cgroups.iter().for_each(|cgroup| alerts.cgroup(cgroup, interval.duration_ns));
    interval.listeners.iter().for_each(|listener| alerts.listener(listener));
    alerts.found
}

struct Alerts<'a> {
    thresholds: &'a Thresholds,
    found: Vec<Alert>,
}

impl Alerts<'_> {
    fn host(&mut self, interval: &Interval) {
        let t = self.thresholds;
        let host = &interval.host;
        if let Some(overhead) = host.overhead() {
            self.hold(AlertSubject::Host, AlertKind::Overhead, overhead, t.overhead_warn, Some(t.overhead_critical));
        }
        if let Some(cost) = host.mean_switch_cost().filter(|_| host.task_switches() >= FEWEST_SWITCHES) {
            self.mean_switch_cost(AlertSubject::Host, cost);
        }
    }

    fn cgroup(&mut self, cgroup: &Cgroup, duration: Nanos) {
        let t = self.thresholds;
        let subject = AlertSubject::Cgroup(cgroup.id);
        let totals = &cgroup.totals;
        let cpu = totals.cpu_ns.0 as f64;
        let is_notable = |time: Nanos| time.cores(duration).0 >= NOTABLE;
        if let Some(cost) = totals.switch_cost().filter(|cost| is_notable(*cost)) {
            self.hold(subject, AlertKind::Overhead, cost.0 as f64 / cpu, t.overhead_warn, Some(t.overhead_critical));
        }
        if let Some(cost) = totals.mean_switch_cost().filter(|_| totals.switches >= FEWEST_SWITCHES) {
            self.mean_switch_cost(subject, cost);
        }
        if let Some(wait) = totals.runq_wait_ns.filter(|wait| is_notable(*wait)) {
            let limits = (t.wait_per_cpu_warn, Some(t.wait_per_cpu_critical));
            self.hold(subject, AlertKind::WaitPerCpu, wait.0 as f64 / cpu, limits.0, limits.1);
        }
        if let Some(moves) = totals.migrations.filter(|_| is_notable(totals.cpu_ns)) {
            let rate = moves as f64 / totals.cpu_ns.seconds();
            self.hold(subject, AlertKind::Migrations, rate, t.migrations_warn, None);
        }
        if let Some((throttled, periods)) = cgroup.files.nr_throttled.zip(cgroup.files.nr_periods)
            && (periods >= FEWEST_PERIODS || throttled == periods && periods > 0)
        {
            let share = throttled as f64 / periods as f64;
            self.hold(subject, AlertKind::Throttled, share, t.throttled_warn, Some(t.throttled_critical));
        }
    }

    fn listener(&mut self, listener: &Listener) {
        let t = self.thresholds;
        let subject = AlertSubject::Listener(listener.netns, listener.address);
        if let Some((backlog, capacity)) = listener.backlog.zip(listener.backlog_capacity) {
            let used = backlog as f64 / capacity as f64;
            self.hold(subject, AlertKind::Backlog, used, t.backlog_warn, Some(t.backlog_critical));
        }
    }

    fn mean_switch_cost(&mut self, subject: AlertSubject, cost: Nanos) {
        let t = self.thresholds;
        let limits = [t.mean_switch_cost_warn, t.mean_switch_cost_critical].map(|limit| limit.0 as f64);
        self.hold(subject, AlertKind::MeanSwitchCost, cost.0 as f64, limits[0], Some(limits[1]));
    }

    /// A ratio of nothing to nothing is not a number, and reaches no limit.
    fn hold(&mut self, subject: AlertSubject, kind: AlertKind, value: f64, warn: f64, critical: Option<f64>) {
        let severity = match critical {
            Some(critical) if value >= critical => Severity::Critical,
            _ if value >= warn => Severity::Warning,
            _ => return,
        };
        self.found.push(Alert { subject, kind, severity, value });
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
        assert_eq!(
            with(of(costly)),
            [(AlertKind::Overhead, Severity::Critical), (AlertKind::MeanSwitchCost, Severity::Warning)]
        );
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
