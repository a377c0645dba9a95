//! What is shown of one moment.

use std::{collections::HashMap, sync::Arc};

use crate::{
    diagnosis::{Alert, AlertKind, AlertSubject, Role, Severity, Told},
    model::{Cgroup, CgroupId, Interval, Nanos},
};

/// One interval, with what the intervals before it say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    /// Its place in the timeline, from 0.
    pub(super) n: u64,
    pub(super) interval: Interval,
    /// Who may gain from going first and who may pay.
    pub(super) roles: HashMap<CgroupId, Role>,
    /// What is wrong with the host, by the last intervals up to this one. `None` where they are too few.
    pub(super) told: Option<Arc<Told>>,
    /// Alerts, the worst first, and of those the longest first.
    alerts: Vec<ActiveAlert>,
    severities: HashMap<(AlertSubject, AlertKind), Severity>,
    worst: HashMap<CgroupId, Severity>,
    /// Whether its distributions are whole, and not just their quantiles.
    pub(super) has_shapes: bool,
    /// Overhead of the intervals up to this one, as far as they are kept.
    pub(super) overheads: Vec<Option<f32>>,
}

/// An alert, and since when it has been one without a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ActiveAlert {
    pub(super) alert: Alert,
    /// When its first interval began, on the stream's clock.
    pub(super) since: Nanos,
    /// Whether it may have lasted longer: nothing is known of the time before.
    pub(super) is_longer: bool,
}

impl Frame {
    pub(super) fn new(
        n: u64,
        interval: Interval,
        roles: HashMap<CgroupId, Role>,
        alerts: Vec<ActiveAlert>,
        overheads: Vec<Option<f32>>,
    ) -> Self {
        let mut severities: HashMap<(AlertSubject, AlertKind), Severity> = HashMap::new();
        let mut worst: HashMap<CgroupId, Severity> = HashMap::new();
        for Alert { subject, kind, severity, .. } in alerts.iter().map(|active| active.alert) {
            // A listener's backlog is its owner's too.
            let owner = owner(subject, &interval);
            for subject in [Some(subject), owner.map(AlertSubject::Cgroup)].into_iter().flatten() {
                severities.entry((subject, kind)).and_modify(|known| *known = severity.max(*known)).or_insert(severity);
            }
            if let Some(id) = owner {
                worst.entry(id).and_modify(|known| *known = severity.max(*known)).or_insert(severity);
            }
        }
        Self { n, interval, roles, told: None, alerts, severities, worst, has_shapes: true, overheads }
    }

    /// When it ended, on the stream's clock.
    pub(super) fn end(&self) -> Nanos {
        self.interval.start_ns.saturating_add(self.interval.duration_ns)
    }

    pub(super) fn alerts(&self) -> &[ActiveAlert] {
        &self.alerts
    }

    /// How bad the alert of this kind on this subject is, if there is one.
    pub(super) fn severity(&self, subject: AlertSubject, kind: AlertKind) -> Option<Severity> {
        self.severities.get(&(subject, kind)).copied()
    }

    /// How bad the worst alert on this cgroup is, its listeners' included, if there is one.
    pub(super) fn worst(&self, id: CgroupId) -> Option<Severity> {
        self.worst.get(&id).copied()
    }

    /// The cgroup that an alert on `subject` is about, which may be idle.
    pub(super) fn owner(&self, subject: AlertSubject) -> Option<CgroupId> {
        owner(subject, &self.interval)
    }

    /// The cgroup, unless it is idle.
    pub(super) fn cgroup(&self, id: CgroupId) -> Option<&Cgroup> {
        self.interval.cgroups.iter().find(|cgroup| cgroup.id == id)
    }
}

fn owner(subject: AlertSubject, interval: &Interval) -> Option<CgroupId> {
    match subject {
        AlertSubject::Listener(netns, address) => {
            let mut listeners = interval.listeners.iter();
            listeners.find(|it| (it.netns, it.address) == (netns, address)).and_then(|it| it.cgroup)
        }
        AlertSubject::Cgroup(id) => Some(id),
        AlertSubject::Host => None,
    }
}
