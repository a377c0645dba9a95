//! What cgroups are called on the screen, and the time of day.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use crate::model::{Cgroup, CgroupId, Nanos, Session};

/// The end of the year 9999, since 1970.
const LAST_MOMENT: Duration = Duration::from_secs(253_402_300_799);

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
    let started = humantime::parse_rfc3339_weak(&session.started_at).ok()?;
    let moment = started.checked_add(Duration::from_nanos(at.0))?;
    // A time that four digits cannot write is of no recording made here.
    let text = humantime::format_rfc3339_seconds(moment.min(UNIX_EPOCH + LAST_MOMENT)).to_string();
    text.get(11..).map(str::to_owned)
}
