//! LAGS in force.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
};

use lagstop_scheduler_ebpf::{Counters, Cpu, End, Group, Kfunc, MAX_GROUPS, Offsets, Plan as GroupPlan};

use super::{
    OBJECT, calls,
    error::SchedulerError,
    object::{Object, Parameters},
    operations::Operations,
    plan::SchedulePlan,
    tuning::{Offers, Tuning},
};
use crate::{
    display::short_name,
    kernel::{Btf, Facts, KernelError, Map},
    model::CgroupId,
};

/// Schedules the host until it is dropped, however this process ends, or until the kernel ends it.
pub struct AttachedScheduler {
    /// What holds it in force; `None` once it was let go.
    link: Option<OwnedFd>,
    operations: Operations,
    maps: Maps,
    /// Possible CPUs, of which each has a copy of a per-CPU value.
    copies: usize,
}

struct Maps {
    groups: Map,
    plans: Map,
    counters: Map,
    end: Map,
}

/// What it has done so far, on all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SchedulerCounts {
    /// Tasks that woke and went to an idle CPU at once.
    pub to_idle: u64,
    /// Tasks that waited in a queue.
    pub queued: u64,
    /// Tasks taken from a queue.
    pub dispatched: u64,
    /// Of those, from the queue of another last-level cache.
    pub stolen: u64,
    /// Times a task continued at the end of its turn.
    pub kept: u64,
    /// Tasks preempted for lighter ones, kernel threads and lagstop.
    pub preempted: u64,
    /// Tasks that ran later than the guard after their turn.
    pub overdue: u64,
    /// By how much at most, in nanoseconds of virtual time.
    pub longest_overdue_ns: u64,
    /// Tasks of cgroups for which the table had no room.
    pub unknown: u64,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerEnd {
    /// It was let go here.
    LetGo,
    /// CPUs came or went: it can be attached again.
    CpusChanged,
    /// The kernel ended it: its reason, and its report.
    ByKernel { reason: String, report: String },
}

impl AttachedScheduler {
    /// Loads LAGS and switches the host to it. `cpus` are by number, `seeds` what is known of cgroups to begin with.
    pub(super) fn new(
        facts: &Facts,
        plan: &SchedulePlan,
        tuning: &Tuning,
        (cpus, queues): (&[Cpu], u32),
        seeds: &HashMap<CgroupId, Group>,
        first: &mut dyn FnMut(&Self) -> Result<(), SchedulerError>,
    ) -> Result<Self, SchedulerError> {
        let btf = Btf::read(Path::new(Btf::VMLINUX)).map_err(|error| KernelError::NoBtf(error.into()))?;
        let offers = Offers {
            clock: plan.name(Kfunc::Now).is_some(),
            vtime_arguments: facts.sched_ext.as_ref().is_some_and(|types| plan.inserts_by_arguments(types)),
            set_slice: plan.name(Kfunc::SetSlice).is_some(),
        };
        let function = |kfunc| plan.name(kfunc).and_then(|name| Some(btf.function(name)?.id));
        let parameters = Parameters {
            offsets: offsets(&btf)
                .map_err(|field| SchedulerError::Lacks { release: facts.release.clone(), what: field.to_owned() })?,
            settings: tuning.settings(queues, std::process::id(), offers),
            functions: Kfunc::ALL.map(function),
            cpus: cpus.len() as u32,
        };
        let mut object = Object::prepare(OBJECT, &parameters)?;
        let operations = Operations::load(&btf, &object, tuning.watchdog)?;
        drop(btf);
        let mut map = |name: &str| {
            let map = object.maps.remove(name).map(Map::own);
            map.ok_or_else(|| SchedulerError::refused(format!("map {name}"), "not in the object"))
        };
        let of_cpus = map("CPUS")?;
        for (n, cpu) in cpus.iter().enumerate() {
            of_cpus.set(&(n as u32), &[*cpu])?;
        }
        let maps = Maps { groups: map("GROUPS")?, plans: map("PLANS")?, counters: map("COUNTERS")?, end: map("END")? };
        let copies = aya::util::nr_cpus().map_err(|(_, why)| SchedulerError::refused("number of CPUs", why))?;
        let mut attached = Self { link: None, operations, maps, copies };
        for (cgroup, group) in seeds.iter().take(MAX_GROUPS as usize) {
            attached.maps.groups.set(&cgroup.0, &[*group])?;
        }
        first(&attached)?;
        attached.switch()?;
        Ok(attached)
    }

    /// Switches the host, by a real-time thread. On kernels before the cure ("Fix starvation of scx_enable() under fair-class
    /// saturation") the one that switches all tasks is itself moved below the fair class at first, and then waits for those that
    /// are not moved yet: a busy host stands still.
    fn switch(&mut self) -> Result<(), SchedulerError> {
        let operations = &self.operations.map;
        let switched = thread::scope(|scope| {
            let switcher = scope.spawn(|| {
                become_real_time().map_err(|source| SchedulerError::NotRealTime { source })?;
                calls::link(operations.as_fd()).map_err(|source| SchedulerError::NotAttached { source })
            });
            switcher.join().unwrap_or_else(|_| Err(SchedulerError::refused("switch", "the thread died")))
        });
        self.link = Some(switched?);
        Ok(())
    }

    /// Gives the host back to the kernel's own scheduler. Gives why it ended, which may have been before.
    ///
    /// # Errors
    /// When what the kernel said cannot be read.
    pub fn let_go(mut self) -> Result<SchedulerEnd, SchedulerError> {
        let before = self.ended()?;
        self.link = None;
        Ok(before.unwrap_or(SchedulerEnd::LetGo))
    }

    /// Whether the kernel has ended it, and why.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn ended(&self) -> Result<Option<SchedulerEnd>, SchedulerError> {
        let end: End = self.maps.end.get(0)?;
        Ok((end.kind != 0).then(|| ended(&end)))
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn counted(&self) -> Result<SchedulerCounts, SchedulerError> {
        let mut copies = vec![Counters::default(); self.copies];
        let unread = |why| SchedulerError::refused("map of counters", why);
        self.maps.counters.lookup(&0u32, &mut copies).map_err(unread)?;
        Ok(copies.iter().fold(SchedulerCounts::default(), |sum, one| sum.and(one.into())))
    }

    /// What is known of each cgroup.
    pub(super) fn groups(&self) -> Result<HashMap<CgroupId, Group>, SchedulerError> {
        let all = self.maps.groups.read_hash::<u64, Group>(MAX_GROUPS)?;
        Ok(all.into_iter().map(|(id, group)| (CgroupId(id), group)).collect())
    }

    /// Tells the programs what is planned for a cgroup.
    pub(super) fn plan(&self, cgroup: u64, plan: GroupPlan) -> Result<(), SchedulerError> {
        Ok(self.maps.plans.set(&cgroup, &[plan])?)
    }

    /// Forgets a cgroup that is gone.
    pub(super) fn forget(&self, cgroup: CgroupId) -> Result<(), SchedulerError> {
        self.maps.groups.remove(&cgroup.0)?;
        Ok(self.maps.plans.remove(&cgroup.0)?)
    }
}

impl From<&Counters> for SchedulerCounts {
    fn from(one: &Counters) -> Self {
        Self {
            to_idle: one.to_idle,
            queued: one.queued,
            dispatched: one.dispatched,
            stolen: one.stolen,
            kept: one.kept,
            preempted: one.preempted,
            overdue: one.overdue,
            longest_overdue_ns: one.longest_overdue,
            unknown: one.unknown,
        }
    }
}

impl SchedulerCounts {
    /// What both did.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            to_idle: self.to_idle + other.to_idle,
            queued: self.queued + other.queued,
            dispatched: self.dispatched + other.dispatched,
            stolen: self.stolen + other.stolen,
            kept: self.kept + other.kept,
            preempted: self.preempted + other.preempted,
            overdue: self.overdue + other.overdue,
            longest_overdue_ns: self.longest_overdue_ns.max(other.longest_overdue_ns),
            unknown: self.unknown + other.unknown,
        }
    }
}

/// Gives this thread the lowest real-time priority, until it ends.
fn become_real_time() -> std::io::Result<()> {
    // SAFETY: plain integers; how many there are is the C library's affair.
    let mut least: libc::sched_param = unsafe { std::mem::zeroed() };
    least.sched_priority = 1;
    // Threads that this one may start must not inherit it.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads the parameters of this thread.
    if unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const least) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// The offsets of the fields, or the first field that is missing.
fn offsets(btf: &Btf) -> Result<Offsets, &'static str> {
    let of = |structure: &str, path: &'static str| btf.offset(structure, path).ok_or(path);
    Ok(Offsets {
        task_group: of("task_struct", "sched_task_group")?,
        group_cgroup: of("task_group", "css.cgroup")?,
        cgroup_kn: of("cgroup", "kn")?,
        kn_id: of("kernfs_node", "id")?,
        task_flags: of("task_struct", "flags")?,
        task_pid: of("task_struct", "pid")?,
        task_tgid: of("task_struct", "tgid")?,
        task_start_time: of("task_struct", "start_time")?,
        task_nr_cpus_allowed: of("task_struct", "nr_cpus_allowed")?,
        task_cpus_ptr: of("task_struct", "cpus_ptr")?,
        task_slice: of("task_struct", "scx.slice")?,
        task_vtime: of("task_struct", "scx.dsq_vtime")?,
        task_scx_flags: of("task_struct", "scx.flags")?,
        exit_kind: of("scx_exit_info", "kind")?,
        exit_code: of("scx_exit_info", "exit_code")?,
        exit_message: of("scx_exit_info", "msg")?,
        exit_report: of("scx_exit_info", "dump")?,
    })
}

/// What the kernel said (`enum scx_exit_kind`, `enum scx_exit_code`, kernel/sched/ext_internal.h).
fn ended(end: &End) -> SchedulerEnd {
    const UNREGISTERED_HERE: u64 = 64;
    const UNREGISTERED_BY_KERNEL: u64 = 66;
    const SYSRQ: u64 = 67;
    const STALLED: u64 = 1_026;
    /// `SCX_ECODE_RSN_HOTPLUG`
    const HOTPLUG: u64 = 1 << 32;
    if end.kind == UNREGISTERED_HERE {
        return SchedulerEnd::LetGo;
    }
    if end.kind == UNREGISTERED_BY_KERNEL && end.code & HOTPLUG != 0 {
        return SchedulerEnd::CpusChanged;
    }
    let what = match end.kind {
        SYSRQ => "ended by SysRq-S",
        STALLED => "a runnable task was stalled",
        _ => "ended by the kernel",
    };
    let message = text(&end.message);
    let message = short_name(&message, 200).into_owned();
    let reason = if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") };
    // Pieces follow each other, each with a zero at its end.
    SchedulerEnd::ByKernel { reason, report: end.report.iter().map(|piece| text(piece)).collect() }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn ends_are_told_apart() {
        let end = |kind, code, message: &str| {
            let mut end = End { kind, code, ..End::zeroed() };
            end.message[..message.len()].copy_from_slice(message.as_bytes());
            end.report[0][..3].copy_from_slice(b"CPU");
            ended(&end)
        };
        assert_eq!(end(64, 0, ""), SchedulerEnd::LetGo);
        assert_eq!(end(66, 1 << 48 | 1 << 32, "cpu 1 going offline"), SchedulerEnd::CpusChanged);
        let SchedulerEnd::ByKernel { reason, report } = end(1_026, 0, "sh[77] failed to run for 10.0s") else {
            panic!()
        };
        assert_eq!(reason, "a runnable task was stalled: sh[77] failed to run for 10.0s");
        assert_eq!(report, "CPU");
    }

    #[test]
    fn what_cpus_counted_adds_up() {
        let one = Counters { queued: 2, longest_overdue: 5, ..Counters::default() };
        let sum = SchedulerCounts::from(&one).and((&Counters { longest_overdue: 3, ..one }).into());
        assert_eq!((sum.queued, sum.longest_overdue_ns), (4, 5));
    }
}
