//! Reads all totals at one moment.

mod causes;
mod counted;
mod cpus;
mod made_up;
mod measured;
mod pairs;
mod path;
mod row;
mod tables;
mod traffic;
mod unwatched;

use std::sync::Arc;

use aya::{
    Ebpf,
    programs::{RawTracePoint, RawTracePointRunOptions, TestRun},
};
use lagstop_ebpf::{self as abi, Lineage, ListenerKey, MAX_LISTENERS, ROW_FIRST, ROW_IDLE, ROW_OTHER};

pub use self::made_up::MadeUpHost;
pub(super) use self::tables::{Shards, Tables, lines};
use self::{
    counted::{Counted, Touched},
    measured::Measured,
    pairs::{PairWaits, Pairs},
    path::path_of,
    traffic::{TrafficLog, traffic},
    unwatched::Unwatched,
};
use super::{
    attachment::Attachment,
    clock::now,
    error::{KernelError, errno},
    loaded::{Maps, program},
    misses,
    options::AttachOptions,
    plan::AttachPlan,
    probe_cost::ProbeCost,
    rows::Owners,
};
use crate::model::{
    ById, CgroupCounters, CgroupId, CpuReading, Hook, Lost, Measure, Nanos, Totals, Traffic, WaitBehind,
};

/// All totals in the kernel at one moment.
#[derive(Clone, Debug, Default)]
pub struct KernelSnapshot {
    /// When it was taken, CLOCK_MONOTONIC: up to when the CPUs' time is booked.
    pub at: Nanos,
    /// The idle tasks.
    pub idle: Totals,
    /// Every cgroup that has a row, and [`CgroupId::OTHER`].
    pub cgroups: ById<KernelCgroup>,
    /// CPUs, by number.
    pub cpus: Vec<CpuReading>,
    /// Local addresses that connections came to. Empty where TCP is not watched.
    pub traffic: Vec<Traffic>,
    /// What could not be measured.
    pub lost: Lost,
    /// Time in the programs.
    pub probe_ns: Option<Nanos>,
    /// Were switches timed since the snapshot before? Else the counters of their costs stood still.
    pub switches_timed: bool,
}

/// A cgroup at that moment.
#[derive(Clone, Debug)]
pub struct KernelCgroup {
    pub path: Arc<str>,
    pub counters: Arc<CgroupCounters>,
    /// See [`CgroupState::behind`](crate::model::CgroupState::behind).
    pub behind: Vec<WaitBehind>,
}

impl KernelCgroup {
    /// Adds what another row has of it.
    fn add(&mut self, other: &Self) {
        Arc::make_mut(&mut self.counters).add(&other.counters);
        self.behind = WaitBehind::summed(self.behind.iter().chain(&other.behind));
    }
}

/// The programs on their hooks, and what they fill.
pub(super) struct Attached {
    pub(super) ebpf: Ebpf,
    pub(super) attachments: Vec<Attachment>,
    pub(super) maps: Maps,
    pub(super) cost: ProbeCost,
}

/// What the program that settles a CPU is told.
struct Settling {
    epoch: u64,
    has_free_rows: bool,
    /// It was not settled the last time.
    restart: bool,
    /// Its switches are timed from then on.
    times: bool,
}

/// The attached programs and their maps. Dropping it detaches them.
pub struct KernelReader {
    /// Before the programs, which it takes off their hooks.
    attachments: Vec<Attachment>,
    ebpf: Ebpf,
    maps: Maps,
    plan: AttachPlan,
    measured: Measured,
    counted: Counted,
    owners: Owners,
    max_rows: u32,
    epoch: u64,
    attached: bool,
    /// Switches are timed only between some readings.
    samples_cost: bool,
    /// Whether they are timed up to the next reading.
    is_timed: bool,
    /// Whether they are timed after the next reading.
    times_next: bool,
    unwatched: Unwatched,
    /// CPUs that were settled by the last reading.
    settled: Vec<u32>,
    /// Those of the reading before.
    settled_before: Vec<u32>,
    /// Whether they are the same.
    same_settled: bool,
    /// Switches on CPUs that were not settled.
    switches_elsewhere: u64,
    /// Rows that had been given out on the settled CPUs.
    rows_allocated: u32,
    /// Rows that had been given out on all CPUs, also those that are offline.
    rows_allocated_anywhere: u64,
    /// Some of these rows may have owners that are not known yet.
    has_new_rows: bool,
    /// How often a row was asked for, given out or not.
    rows_asked_for: u64,
    /// Whether one was between the last two readings.
    wants_rows: bool,
    traffic: TrafficLog,
    pairs: Pairs,
    cost: ProbeCost,
}

impl KernelReader {
    /// What the programs start with; 0 would mean never.
    pub(super) const FIRST_EPOCH: u64 = 1;

    pub(super) fn new(attached: Attached, tables: Tables, plan: AttachPlan, options: &AttachOptions) -> Self {
        let measured = if options.clock_only { Measured::NOTHING } else { Measured::by(&plan) };
        let Attached { ebpf, attachments, maps, cost } = attached;
        Self {
            attachments,
            ebpf,
            maps,
            measured,
            plan,
            max_rows: tables.rows,
            counted: Counted::new(tables, measured),
            owners: Owners::default(),
            epoch: Self::FIRST_EPOCH,
            attached: true,
            samples_cost: options.samples_cost,
            is_timed: true,
            times_next: true,
            unwatched: Unwatched::default(),
            settled: Vec::new(),
            settled_before: Vec::new(),
            same_settled: false,
            switches_elsewhere: 0,
            rows_allocated: 0,
            rows_allocated_anywhere: 0,
            has_new_rows: false,
            rows_asked_for: 0,
            wants_rows: false,
            traffic: TrafficLog::default(),
            pairs: Pairs::default(),
            cost,
        }
    }

    /// What is attached, and what is not and why.
    pub fn hooks(&self) -> Vec<Hook> {
        self.plan.hooks()
    }

    /// The way in which `measure` is taken, by its name.
    pub fn way(&self, measure: Measure) -> Option<&'static str> {
        self.plan.way(measure).map(|way| way.name)
    }

    pub fn measures(&self, measure: Measure) -> bool {
        self.plan.uses(measure)
    }

    /// Does what reading does, without any effect: fails when it is not permitted.
    pub(super) fn try_to_read(&mut self) -> Result<(), KernelError> {
        if self.samples_cost {
            self.attach_timing_again()?;
        }
        self.maps.lineages.get::<Lineage>(0).map(drop)
    }

    /// Are switches timed only between some readings? Not where the kernel cannot do that, whatever was asked for.
    pub const fn samples_cost(&self) -> bool {
        self.samples_cost
    }

    /// Stops the programs; what they counted can still be read.
    pub fn detach(&mut self) {
        self.attached = false;
        self.attachments.clear();
    }

    /// Says whether switches are timed from the next reading to the one after it. Has no effect where all are: see
    /// [`AttachOptions::samples_cost`].
    pub const fn time_next(&mut self, times: bool) {
        self.times_next = times || !self.samples_cost;
    }

    /// Are rows asked for, and more than half of them given out? Then those of cgroups that are gone are missed.
    pub fn is_crowded(&self) -> bool {
        self.wants_rows && self.owners.count() > self.max_rows / 2
    }

    /// Takes back the rows of cgroups that are gone. They stay in snapshots until their rows are free.
    ///
    /// # Errors
    /// When the map cannot be written.
    pub fn retire(&mut self, gone: impl IntoIterator<Item = CgroupId>) -> Result<(), KernelError> {
        for id in gone {
            if self.owners.retire(id) {
                self.maps.row_of.remove(&id.0)?;
            }
        }
        Ok(())
    }

    /// Reads everything. `online` are the CPUs to settle first.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn snapshot(&mut self, online: &[u32]) -> Result<KernelSnapshot, KernelError> {
        let switches_timed = self.is_timed;
        if self.attached {
            self.settle_timing(online)?;
        }
        let at = now();
        if std::mem::take(&mut self.has_new_rows) || !self.attached {
            self.note_owners()?;
        }
        // Before the totals that they are a part of: what is named is never more than that.
        let behind = if self.measured.blame { self.pairs.read(&self.maps.pairs)? } else { PairWaits::default() };
        let owned: Vec<u32> = [ROW_IDLE, ROW_OTHER].into_iter().chain(self.owners.iter().map(|(row, _)| row)).collect();
        let is_marked = self.marks_hold()?;
        self.read_rows(&owned, &behind, is_marked);

        let mut snapshot = KernelSnapshot {
            at,
            idle: self.counted.totals(ROW_IDLE),
            cgroups: self.cgroups(),
            traffic: self.read_traffic()?,
            switches_timed,
            ..KernelSnapshot::default()
        };
        self.read_cpus(&mut snapshot)?;
        snapshot.lost.missed_runs = misses::of(&self.ebpf, &self.plan);
        let switches = snapshot.cpus.iter().filter_map(|cpu| cpu.totals.switches).sum();
        self.cost.update(&self.ebpf, switches, switches_timed);
        snapshot.probe_ns = self.cost.total();

        // Only now: detaching may take the kernel long, and what happens meanwhile must not count as timed.
        if !self.is_timed {
            self.detach_timing();
        }
        let Self { owners, counted, .. } = self;
        for row in owners.release(|row| counted.changed(row)) {
            self.maps.free_rows.push(&row)?;
        }
        Ok(snapshot)
    }

    /// Settles the CPUs. From then on switches are timed, or not.
    fn settle_timing(&mut self, online: &[u32]) -> Result<(), KernelError> {
        if self.times_next && !self.is_timed {
            self.attach_timing()?;
        }
        self.settle(online)?;
        self.is_timed = self.times_next;
        Ok(())
    }

    /// Takes what times switches off its hooks, and puts it back. Until the next reading no switch is timed: none that comes
    /// meanwhile counts as missed.
    pub(super) fn attach_timing_again(&mut self) -> Result<(), KernelError> {
        let has_free_rows = self.has_free_rows();
        for cpu in self.counted.cpus().to_vec() {
            self.settle_cpu(cpu, Settling { epoch: self.epoch, has_free_rows, restart: false, times: false })?;
        }
        self.detach_timing();
        self.attach_timing()
    }

    fn detach_timing(&mut self) {
        self.attachments.iter_mut().filter(|attachment| attachment.times).for_each(Attachment::detach);
    }

    fn attach_timing(&mut self) -> Result<(), KernelError> {
        let Self { attachments, ebpf, .. } = self;
        attachments.iter_mut().filter(|attachment| attachment.times).try_for_each(|attachment| attachment.attach(ebpf))
    }

    /// Books the running tasks' time on every CPU and starts the next epoch.
    fn settle(&mut self, online: &[u32]) -> Result<(), KernelError> {
        self.epoch += 1;
        let has_free_rows = self.has_free_rows();
        let mut settled = Vec::with_capacity(online.len());
        let mut rows_allocated = 0u32;
        for &cpu in online {
            let restart = !self.settled.is_empty() && !self.settled.contains(&cpu);
            let settling = Settling { epoch: self.epoch, has_free_rows, restart, times: self.times_next };
            if let Some(rows) = self.settle_cpu(cpu, settling)? {
                settled.push(cpu);
                rows_allocated = rows_allocated.wrapping_add(rows);
            }
        }
        self.same_settled = settled == self.settled;
        self.has_new_rows |= rows_allocated != self.rows_allocated || !self.same_settled;
        self.rows_allocated = rows_allocated;
        self.settled_before = std::mem::replace(&mut self.settled, settled);
        Ok(())
    }

    /// The rows that were given out on `cpu`; none where it went offline just now: it runs nothing that could be booked.
    fn settle_cpu(&mut self, cpu: u32, settling: Settling) -> Result<Option<u32>, KernelError> {
        let Settling { epoch, has_free_rows, restart, times } = settling;
        let settle: &mut RawTracePoint = program(&mut self.ebpf, "settle")?;
        let mut args = [0; 12];
        args[..4].copy_from_slice(&[epoch, has_free_rows.into(), restart.into(), times.into()]);
        match settle.test_run(RawTracePointRunOptions { args, cpu: Some(cpu) }) {
            Ok(result) => Ok(Some(result.return_value)),
            Err(error) if errno(&error) == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(KernelError::refused("program settle", error)),
        }
    }

    fn has_free_rows(&self) -> bool {
        self.owners.count() + ROW_FIRST < self.max_rows
    }

    fn note_owners(&mut self) -> Result<(), KernelError> {
        let max_rows = self.max_rows;
        for (id, row) in self.maps.row_of.read_hash::<u64, u32>(max_rows)? {
            if row >= max_rows || self.owners.has(row, CgroupId(id)) {
                continue;
            }
            let path = path_of(&self.maps.lineages.get(row)?);
            self.owners.note(row, CgroupId(id), path.into());
            self.counted.pass_on(row);
        }
        Ok(())
    }

    /// Was all that was touched since the last reading marked on CPUs that were settled in both? One that is not settled any more, or
    /// that came and went between the two, has marked what it did in an epoch of its own.
    fn marks_hold(&mut self) -> Result<bool, KernelError> {
        let Self { maps, counted, settled, switches_elsewhere, .. } = self;
        let is_elsewhere = |cpu: &u32| counted.reads(*cpu) && !settled.contains(cpu);
        let mut switches = 0u64;
        if counted.cpus() != settled.as_slice() {
            for (_, state) in (0u32..).zip(maps.cpu.read()?).filter(|(cpu, _)| is_elsewhere(cpu)) {
                switches = switches.wrapping_add(state.totals.switches);
            }
        }
        let is_quiet_elsewhere = std::mem::replace(switches_elsewhere, switches) == switches;
        Ok(self.attached && self.same_settled && is_quiet_elsewhere)
    }

    fn read_rows(&mut self, owned: &[u32], behind: &PairWaits, is_marked: bool) {
        let Self { counted, owners, settled, epoch, .. } = self;
        let touched = if is_marked { Touched::Marked(settled, *epoch) } else { Touched::Any };
        counted.read(owned, &touched, |row| {
            let owner = if row == ROW_OTHER { Some(CgroupId::OTHER) } else { owners.of(row) };
            owner.map_or(&[][..], |owner| behind.of(owner))
        });
    }

    /// Every cgroup that owns a row.
    fn cgroups(&self) -> ById<KernelCgroup> {
        let of = |row: u32, path: Arc<str>| KernelCgroup {
            path,
            counters: self.counted.counters(row),
            behind: self.counted.behind(row).to_vec(),
        };
        let other = (CgroupId::OTHER, of(ROW_OTHER, "(other)".into()));
        let owned = self.owners.iter().map(|(row, owner)| (owner.id, of(row, Arc::clone(&owner.path))));
        let mut all: Vec<_> = std::iter::once(other).chain(owned).collect();
        all.sort_by_key(|(id, _)| *id);
        // A straggler may have given a cgroup that is being taken back a second row.
        all.dedup_by(|(id, more), (first, sum)| {
            let same = id == first;
            if same {
                sum.add(more);
            }
            same
        });
        all.into_iter().collect()
    }

    fn read_cpus(&mut self, snapshot: &mut KernelSnapshot) -> Result<(), KernelError> {
        let mut booked = Vec::with_capacity(self.settled.len());
        let mut rows_allocated = 0u64;
        let Self { maps, settled, settled_before, measured, counted, unwatched, .. } = self;
        for (cpu, state) in (0u32..).zip(maps.cpu.read()?) {
            rows_allocated = rows_allocated.wrapping_add(state.rows_allocated);
            if !counted.reads(cpu) {
                snapshot.cpus.push(CpuReading::default());
                continue;
            }
            let is_online = settled.contains(&cpu);
            if is_online {
                booked.push(state.booked_ns);
            }
            snapshot.cpus.push(cpus::totals(state, is_online, *measured));
            let is_watched = snapshot.switches_timed || settled_before.contains(&cpu);
            snapshot.lost.add(&unwatched.take_out(cpu, cpus::lost(state), is_watched));
        }
        // A CPU may have come and gone between two readings.
        self.has_new_rows |= rows_allocated != self.rows_allocated_anywhere;
        self.rows_allocated_anywhere = rows_allocated;
        let asked_for = rows_allocated.wrapping_add(snapshot.lost.cgroup_overflows);
        self.wants_rows = std::mem::replace(&mut self.rows_asked_for, asked_for) != asked_for;
        // The moment up to which the CPUs' time is booked, on average. On a crowded host the clock may be read much later.
        if let Some(mean) = Nanos(booked.iter().sum()).mean(booked.len() as u64) {
            snapshot.at = mean;
        }
        Ok(())
    }

    /// Reads what happened on each address, and takes those out on which nothing has for long: their listener may be gone,
    /// and the table has an end.
    fn read_traffic(&mut self) -> Result<Vec<Traffic>, KernelError> {
        let addresses = self.maps.listeners.read_hash::<ListenerKey, abi::ListenerTotals>(MAX_LISTENERS)?;
        for key in self.traffic.quiet(&addresses) {
            self.maps.listeners.remove(&key)?;
        }
        Ok(addresses.into_iter().map(|(key, totals)| traffic(key, &totals)).collect())
    }
}
