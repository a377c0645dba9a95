//! What cgroups are called on the screen, and the time of day.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    display::utc,
    model::{Cgroup, CgroupId, Interval, Nanos, Session},
};

/// What `cgroup` is called on the screen; not yet harmless.
pub(super) fn name(cgroup: &Cgroup) -> &str {
    called(cgroup.id, &cgroup.name, &cgroup.path)
}

/// The same, of what is known of a cgroup that is idle.
pub(super) fn called<'a>(id: CgroupId, name: &'a str, path: &'a str) -> &'a str {
    match (id, name, path) {
        (CgroupId::OTHER, ..) => "(other)",
        (_, "", "") => "(no name)",
        (_, "", path) => path,
        (_, name, _) => name,
    }
}

/// The same, of the cgroup `id`, which may be idle in `interval`.
pub(super) fn name_of(id: CgroupId, interval: &Interval) -> Cow<'_, str> {
    let cgroup = interval.cgroups.iter().find(|cgroup| cgroup.id == id);
    cgroup.map_or_else(|| format!("cgroup {}", id.0).into(), |cgroup| name(cgroup).into())
}

/// [`name`], without a copy where there is one already.
pub(super) fn shared_name(cgroup: &Cgroup) -> Arc<str> {
    match name(cgroup) {
        name if *name == *cgroup.name => Arc::clone(&cgroup.name),
        name if *name == *cgroup.path => Arc::clone(&cgroup.path),
        name => name.into(),
    }
}

/// The time of day, UTC, at which the stream's clock said `at`.
pub(super) fn clock_time(session: &Session, at: Nanos) -> Option<String> {
    moment(session, at)?.get(11..).map(str::to_owned)
}

/// The same with its date: RFC 3339.
pub(super) fn moment(session: &Session, at: Nanos) -> Option<String> {
    let started = humantime::parse_rfc3339_weak(&session.started_at).ok()?;
    let moment = started.checked_add(Duration::from_nanos(at.0))?;
    let seconds = moment.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(utc(seconds))
}
