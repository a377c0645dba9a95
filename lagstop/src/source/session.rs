//! What holds for all intervals that are measured here.

use std::time::Duration;

use super::{SourceError, scheduler::Scheduler};
use crate::{
    host::{Cpus, Hierarchy, Identity, Version},
    kernel::measured_scheduler,
    model::{GroupBy, Hook, Place, Session},
    recording::now,
};

/// A session of this host, from now on.
pub(super) fn session(
    interval: Duration,
    load_credit_time: Duration,
    group_by: GroupBy,
    hierarchy: &Hierarchy,
    topology: Vec<Place>,
    excluded: &[u32],
    hooks: Vec<Hook>,
) -> Result<Session, SourceError> {
    let Identity { hostname, kernel, boot_id } = Identity::read()?;
    let cpus = Cpus::read()?.without(excluded);
    let Scheduler { tick_ns, base_slice_ns, rt_group_sched, cgroup_mode } = Scheduler::read(&kernel);
    Ok(Session {
        lagstop_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        hostname,
        boot_id,
        kernel,
        cpus_online: cpus.online.len() as u64,
        cpus_possible: cpus.possible.len() as u64,
        excluded_cpus: excluded.to_vec(),
        interval_ns: interval.into(),
        group_by,
        load_credit_time_ns: load_credit_time.into(),
        cgroup_mount: hierarchy.mount.to_string_lossy().into_owned(),
        cgroup_version: match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        },
        cpu_files: hierarchy.cpu_files(),
        sched_ext: measured_scheduler(),
        tick_ns,
        base_slice_ns,
        rt_group_sched,
        cgroup_mode,
        topology,
        restricted: None,
        hooks,
    })
}
