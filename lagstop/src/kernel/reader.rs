//! Reads all totals at one moment.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use aya::{
    Ebpf,
    programs::{RawTracePoint, RawTracePointRunOptions, TestRun},
};
use bytemuck::Zeroable;
use lagstop_ebpf::{
    self as abi, AcceptTotals, BUCKETS, CpuState, Distributions, Lineage, ListenerKey, MAX_LISTENERS, ROW_FIRST,
    ROW_IDLE, ROW_OTHER, RowTotals, bucket_middle,
};

use super::{
    attach::{Maps, detach_all, now, possible_copies, program},
    error::{KernelError, chain},
    misses,
    plan::Plan,
    probe_cost::ProbeCost,
    rows::Owners,
    way::Measure,
};
use crate::model::{
    ByCpu, CgroupCounters, CgroupId, CpuTotals, Distribution, Hook, ListenerTotals, Lost, Nanos, Totals, Traffic,
};

/// All totals in the kernel at one moment.
#[derive(Clone, Debug, Default)]
pub struct KernelSnapshot {
    /// When it was taken, CLOCK_MONOTONIC: up to when the CPUs' time is booked.
    pub at: Nanos,
    /// The idle tasks.
    pub idle: Totals,
    /// Path and totals of every cgroup that has a row, and of [`CgroupId::OTHER`].
    pub cgroups: BTreeMap<CgroupId, (Arc<str>, Arc<CgroupCounters>)>,
    /// CPUs, by number.
    pub cpus: Vec<CpuTotals>,
    /// Local addresses that connections came to. Empty where TCP is not watched.
    pub traffic: Vec<Traffic>,
    /// What could not be measured.
    pub lost: Lost,
    /// Time in the programs.
    pub probe_ns: Option<Nanos>,
}

/// One row as it is in the maps, its copies added up.
#[derive(Clone, PartialEq)]
struct RawRow {
    totals: RowTotals,
    switch_cost: [u32; BUCKETS],
    runq_wait: [u32; BUCKETS],
    accepts: AcceptTotals,
    by_cpu: ByCpu,
}

/// What is kept about a row from read to read.
struct Row {
    /// The last read while it had an owner.
    raw: Box<RawRow>,
    /// The read that its owner starts from, where it had another one before.
    base: Option<Box<RawRow>>,
    /// The owner's counters.
    counters: Arc<CgroupCounters>,
    /// Whether the last read added anything.
    changed: bool,
}

/// What the plan measures.
#[derive(Clone, Copy)]
struct Measured {
    pick: bool,
    swap: bool,
    kept: bool,
    pick_function: bool,
    waits: bool,
    migrations: bool,
    accepts: bool,
}

impl Measured {
    fn by(plan: &Plan) -> Self {
        Self {
            pick: plan.uses(Measure::SwitchCost),
            swap: plan.sees_exits(),
            kept: plan.way(Measure::SwitchCost).is_some_and(|way| way.sees_kept),
            pick_function: plan.uses(Measure::Pick),
            waits: plan.uses(Measure::RunqWait),
            migrations: plan.uses(Measure::Migrations),
            accepts: plan.uses(Measure::Accept),
        }
    }

    const NOTHING: Self = Self {
        pick: false,
        swap: false,
        kept: false,
        pick_function: false,
        waits: false,
        migrations: false,
        accepts: false,
    };
}

/// The attached programs and their maps. Dropping it detaches them.
pub struct Reader {
    ebpf: Ebpf,
    maps: Maps,
    plan: Plan,
    measured: Measured,
    rows: Vec<Row>,
    owners: Owners,
    copies: usize,
    shards: u32,
    max_rows: u32,
    epoch: u64,
    attached: bool,
    /// CPUs that were settled the last time.
    settled: Vec<u32>,
    traffic: TrafficLog,
    cost: ProbeCost,
}

impl Reader {
    /// What the programs start with; 0 would mean never.
    pub(super) const FIRST_EPOCH: u64 = 1;

    pub(super) fn new(
        ebpf: Ebpf,
        maps: Maps,
        plan: Plan,
        clock_only: bool,
        max_rows: u32,
        shards: u32,
        cost: ProbeCost,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            ebpf,
            maps,
            measured: if clock_only { Measured::NOTHING } else { Measured::by(&plan) },
            plan,
            rows: Vec::new(),
            owners: Owners::default(),
            copies: possible_copies()?,
            shards,
            max_rows,
            epoch: Self::FIRST_EPOCH,
            attached: true,
            settled: Vec::new(),
            traffic: TrafficLog::default(),
            cost,
        })
    }

    /// What is attached, and what is not and why.
    pub fn hooks(&self) -> Vec<Hook> {
        self.plan.hooks()
    }

    /// The way in which `measure` is taken, by its name.
    pub fn way(&self, measure: Measure) -> Option<&'static str> {
        self.plan.way(measure).map(|way| way.name)
    }

    /// Is `measure` taken?
    pub fn measures(&self, measure: Measure) -> bool {
        self.plan.uses(measure)
    }

    /// Does what reading does, without any effect: fails when it is not permitted.
    pub(super) fn try_to_read(&self) -> Result<(), KernelError> {
        self.maps.lineages.get::<Lineage>(0).map(drop)
    }

    /// Stops the programs; what they counted can still be read.
    ///
    /// # Errors
    /// When the kernel refuses to detach one.
    pub fn detach(&mut self) -> Result<(), KernelError> {
        self.attached = false;
        detach_all(&mut self.ebpf)
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
        if self.attached {
            self.settle(online)?;
        }
        let at = now();
        self.note_owners()?;
        let fixed = [ROW_IDLE, ROW_OTHER];
        let owned: Vec<u32> = fixed.into_iter().chain(self.owners.iter().map(|(row, _)| row)).collect();
        self.read_rows(&owned)?;

        let mut snapshot = KernelSnapshot {
            at,
            idle: self.rows[ROW_IDLE as usize].counters.totals,
            traffic: self.read_traffic()?,
            ..KernelSnapshot::default()
        };
        snapshot
            .cgroups
            .insert(CgroupId::OTHER, ("(other)".into(), Arc::clone(&self.rows[ROW_OTHER as usize].counters)));
        for (row, owner) in self.owners.iter() {
            let counters = &self.rows[row as usize].counters;
            let entry = snapshot.cgroups.entry(owner.id);
            // A straggler may have given a cgroup that is being taken back a second row.
            entry
                .and_modify(|(_, all)| Arc::make_mut(all).add(counters))
                .or_insert_with(|| (Arc::clone(&owner.path), Arc::clone(counters)));
        }
        self.read_cpus(&mut snapshot)?;
        snapshot.lost.missed_runs = misses::of(&self.ebpf, &self.plan);
        let switches = snapshot.cpus.iter().map(|cpu| cpu.switches).sum();
        self.cost.update(&self.ebpf, switches);
        snapshot.probe_ns = self.cost.of(switches);

        let Self { owners, rows, .. } = self;
        for row in owners.release(|row| rows[row as usize].changed) {
            self.maps.free_rows.push(&row)?;
        }
        Ok(snapshot)
    }

    /// Books the running tasks' time on every CPU and starts the next epoch.
    fn settle(&mut self, online: &[u32]) -> Result<(), KernelError> {
        self.epoch += 1;
        let has_free_rows = self.owners.count() + ROW_FIRST < self.max_rows;
        let settle: &mut RawTracePoint = program(&mut self.ebpf, "settle")?;
        let mut settled = Vec::with_capacity(online.len());
        for &cpu in online {
            let restart = !self.settled.is_empty() && !self.settled.contains(&cpu);
            let mut args = [0; 12];
            args[..3].copy_from_slice(&[self.epoch, has_free_rows.into(), restart.into()]);
            match settle.test_run(RawTracePointRunOptions { args, cpu: Some(cpu) }) {
                Ok(_) => settled.push(cpu),
                // Went offline just now: it runs nothing that could be booked.
                Err(error) if chain(&error).contains("No such device or address") => {}
                Err(error) => {
                    return Err(KernelError::Refused { what: "program settle".to_owned(), why: chain(&error) });
                }
            }
        }
        self.settled = settled;
        Ok(())
    }

    fn note_owners(&mut self) -> Result<(), KernelError> {
        let max_rows = self.max_rows;
        for (id, row) in self.maps.row_of.read_hash::<u64, u32>(max_rows)? {
            if row >= max_rows || self.owners.has(row, CgroupId(id)) {
                continue;
            }
            let path = path_of(&self.maps.lineages.get(row)?);
            self.owners.note(row, CgroupId(id), path.into());
            // The row is quiet since its last owner went: what it holds now is none of the new one's.
            if let Some(row) = self.rows.get_mut(row as usize) {
                row.base = Some(row.raw.clone());
                row.counters = Arc::new(counters(&row.raw, row.base.as_deref(), self.measured));
            }
        }
        Ok(())
    }

    /// Reads the rows of `owned`. The others keep what was read of them last: a row that a cgroup got a moment ago, and
    /// that is not in `owned` yet, must not lose what it has counted since.
    fn read_rows(&mut self, owned: &[u32]) -> Result<(), KernelError> {
        let end = owned.iter().map(|row| row + 1).max().unwrap_or(0);
        let mut raws: Vec<RawRow> = vec![RawRow::zeroed(); end as usize];
        let (rows, measured) = (&self.rows, self.measured);
        self.maps.totals.read_array::<RowTotals>(end, self.copies, |row, copies| {
            let raw = &mut raws[row as usize];
            for copy in copies {
                add(&mut raw.totals, copy);
            }
            raw.by_cpu = match rows.get(row as usize) {
                // Most rows are quiet between two reads: they take no room of their own.
                Some(row) if row.raw.totals == raw.totals => row.raw.by_cpu.clone(),
                _ => by_cpu(copies, measured),
            };
        })?;
        let shards = self.shards;
        self.maps.distributions.read_array::<Distributions>(end * shards, 1, |index, value| {
            let raw = &mut raws[(index / shards) as usize];
            for (sums, counts) in
                [(&mut raw.switch_cost, &value[0].switch_cost), (&mut raw.runq_wait, &value[0].runq_wait)]
            {
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum = sum.wrapping_add(*count);
                }
            }
        })?;
        self.maps.accepts.read_array::<AcceptTotals>(end, 1, |row, value| raws[row as usize].accepts = value[0])?;

        self.rows.resize_with(self.rows.len().max(end as usize), || Row {
            raw: Box::new(RawRow::zeroed()),
            base: None,
            counters: Arc::new(counters(&RawRow::zeroed(), None, measured)),
            changed: false,
        });
        for &index in owned {
            let row = &mut self.rows[index as usize];
            let raw = &raws[index as usize];
            row.changed = *row.raw != *raw;
            if row.changed {
                row.raw.clone_from(&Box::new(raw.clone()));
                row.counters = Arc::new(counters(raw, row.base.as_deref(), self.measured));
            }
        }
        Ok(())
    }

    fn read_cpus(&self, snapshot: &mut KernelSnapshot) -> Result<(), KernelError> {
        let Lost {
            entries,
            exits,
            switches,
            task_states,
            cgroup_overflows,
            connections,
            accepts,
            listener_overflows,
            wakeups,
            missed_runs: _,
        } = &mut snapshot.lost;
        let Measured { pick, swap, kept, waits, .. } = self.measured;
        let cpus = &mut snapshot.cpus;
        let mut booked = Vec::with_capacity(self.settled.len());
        self.maps.cpu.read_array::<CpuState>(1, self.copies, |_, copies| {
            for (cpu, CpuState { totals, booked_ns, .. }) in (0u32..).zip(copies) {
                if self.settled.contains(&cpu) {
                    booked.push(*booked_ns);
                }
                cpus.push(CpuTotals {
                    is_online: self.settled.contains(&cpu),
                    switches: totals.switches,
                    kept_calls: kept.then_some(totals.kept_calls),
                    pick_ns: pick.then_some(Nanos(totals.pick_ns)),
                    swap_ns: swap.then_some(Nanos(totals.swap_ns)),
                    runq_waits: waits.then_some(totals.runq_waits),
                    runq_wait_ns: waits.then_some(Nanos(totals.runq_wait_ns)),
                    busy_ns: Nanos(totals.busy_ns),
                    idle_ns: Nanos(totals.idle_ns),
                });
                let lost = |kind: abi::Lost| totals.lost[kind as usize];
                *entries += lost(abi::Lost::Entries);
                *exits += lost(abi::Lost::Exits);
                *switches += lost(abi::Lost::Switches);
                *task_states += lost(abi::Lost::Tasks);
                *cgroup_overflows += lost(abi::Lost::Rows);
                *connections += lost(abi::Lost::Connections);
                *accepts += lost(abi::Lost::Accepts);
                *listener_overflows += lost(abi::Lost::Listeners);
                *wakeups += lost(abi::Lost::Wakeups);
            }
        })?;
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

/// How long nothing has happened on each address.
#[derive(Default)]
struct TrafficLog(HashMap<ListenerKey, (abi::ListenerTotals, u32)>);

impl TrafficLog {
    /// Reads after which an address is taken for dead.
    const PATIENCE: u32 = 120;

    /// Notes what was read; gives the addresses to forget.
    fn quiet(&mut self, read: &[(ListenerKey, abi::ListenerTotals)]) -> Vec<ListenerKey> {
        let mut log = HashMap::with_capacity(read.len());
        let mut dead = Vec::new();
        for (key, totals) in read {
            let reads = match self.0.get(key) {
                Some((last, reads)) if last == totals => reads + 1,
                _ => 0,
            };
            // Somebody may still wait there.
            let all_settled = totals.established == totals.accepts + totals.abandoned;
            if reads >= Self::PATIENCE && all_settled {
                dead.push(*key);
            } else {
                log.insert(*key, (*totals, reads));
            }
        }
        self.0 = log;
        dead
    }
}

impl RawRow {
    fn zeroed() -> Self {
        Self {
            totals: RowTotals::zeroed(),
            switch_cost: [0; BUCKETS],
            runq_wait: [0; BUCKETS],
            accepts: AcceptTotals::zeroed(),
            by_cpu: ByCpu::default(),
        }
    }
}

/// What the copies of a row's totals, one a CPU, say of each CPU.
fn by_cpu(copies: &[RowTotals], measured: Measured) -> ByCpu {
    ByCpu::of(copies, |copy| (Nanos(copy.cpu_ns), Nanos(copy.runq_wait_ns)), measured.waits)
}

fn add(sum: &mut RowTotals, copy: &RowTotals) {
    let copy: &[u64] = bytemuck::cast_slice(std::slice::from_ref(copy));
    let sum: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(sum));
    for (sum, copy) in sum.iter_mut().zip(copy) {
        *sum = sum.wrapping_add(*copy);
    }
}

/// What was counted in `raw` on top of `base`, with `None` for what is not measured.
fn counters(raw: &RawRow, base: Option<&RawRow>, measured: Measured) -> CgroupCounters {
    let zero = RawRow::zeroed();
    let base = base.unwrap_or(&zero);
    let Measured { pick, swap, kept, pick_function, waits, migrations, accepts } = measured;

    let of = |figure: fn(&RawRow) -> u64| figure(raw).wrapping_sub(figure(base));
    let ns = |figure: fn(&RawRow) -> u64| Nanos(of(figure));
    let voluntary_switches = of(|row| row.totals.voluntary_switches);
    let involuntary_switches = of(|row| row.totals.involuntary_switches);
    let switches = voluntary_switches + involuntary_switches;
    let totals = Totals {
        switches,
        voluntary_switches,
        involuntary_switches,
        cross_cgroup_switches: Some(of(|row| row.totals.cross_cgroup_switches)),
        cpu_ns: ns(|row| row.totals.cpu_ns),
        threads: of(|row| row.totals.threads),
        schedule_calls: kept.then(|| switches + of(|row| row.totals.kept_calls)),
        pick_ns: pick.then(|| ns(|row| row.totals.pick_ns)),
        kept_ns: kept.then(|| ns(|row| row.totals.kept_ns)),
        swap_ns: swap.then(|| ns(|row| row.totals.swap_ns)),
        pick_function_ns: pick_function.then(|| ns(|row| row.totals.pick_function_ns)),
        runq_waits: waits.then(|| of(|row| row.totals.runq_waits)),
        runq_wait_ns: waits.then(|| ns(|row| row.totals.runq_wait_ns)),
        migrations: migrations.then(|| of(|row| row.totals.migrations)),
        migrations_cross_llc: migrations.then(|| of(|row| row.totals.migrations_cross_llc)),
        migrations_cross_numa: migrations.then(|| of(|row| row.totals.migrations_cross_numa)),
        accepts: accepts.then(|| of(|row| row.accepts.accepts)),
        accept_wait_ns: accepts.then(|| ns(|row| row.accepts.accept_wait_ns)),
    };
    CgroupCounters {
        totals,
        switch_cost: swap.then(|| distribution(&raw.switch_cost, &base.switch_cost)),
        runq_wait: waits.then(|| distribution(&raw.runq_wait, &base.runq_wait)),
        accept_wait: accepts.then(|| distribution(&raw.accepts.accept_wait, &base.accepts.accept_wait)),
        by_cpu: raw.by_cpu.since(&base.by_cpu),
    }
}

fn distribution(counts: &[u32; BUCKETS], base: &[u32; BUCKETS]) -> Distribution {
    let bins = counts.iter().zip(base).enumerate().filter_map(|(bucket, (count, base))| {
        let count = count.wrapping_sub(*base);
        // HdrHistogram has no 0: the bucket of exactly 0 ns is read as 1 ns.
        (count > 0).then(|| (Nanos(bucket_middle(bucket).max(1)), count))
    });
    Distribution::from_bins(bins)
}

/// `/grandparent/parent/itself`, from the names kept when the cgroup was first seen. `…` stands for what is above, where
/// the way to the root was longer than is kept, and for the end of a longer name.
fn path_of(lineage: &Lineage) -> String {
    let ancestors: Vec<_> = lineage.ancestors.iter().take_while(|ancestor| ancestor.id != 0).collect();
    let reached_root = ancestors.last().is_some_and(|last| last.id == CgroupId::ROOT.0);
    let mut path = String::new();
    if !reached_root {
        path.push('…');
    }
    for ancestor in ancestors.iter().rev().filter(|ancestor| ancestor.id != CgroupId::ROOT.0) {
        let end = ancestor.name.iter().position(|&byte| byte == 0).unwrap_or(ancestor.name.len());
        path.push('/');
        path.push_str(&String::from_utf8_lossy(&ancestor.name[..end]));
        if end + 1 >= ancestor.name.len() {
            path.push('…');
        }
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

fn traffic(key: ListenerKey, totals: &abi::ListenerTotals) -> Traffic {
    let ip = if i32::from(key.family) == libc::AF_INET6 {
        IpAddr::V6(Ipv6Addr::from(key.address)).to_canonical()
    } else {
        let [a, b, c, d, ..] = key.address;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    Traffic {
        netns: key.netns,
        address: SocketAddr::new(ip, key.port),
        totals: ListenerTotals {
            established: totals.established,
            accepts: totals.accepts,
            accept_wait_ns: Nanos(totals.accept_wait_ns),
            abandoned: totals.abandoned,
        },
        cgroup: (totals.cgroup != 0).then_some(CgroupId(totals.cgroup)),
        tgid: (totals.tgid != 0).then_some(totals.tgid as u32),
    }
}

#[cfg(test)]
mod tests {
    use lagstop_ebpf::{Ancestor, NAME_LEN};

    use super::*;

    fn lineage(names: &[(u64, &str)]) -> Lineage {
        let mut lineage = Lineage::zeroed();
        for (ancestor, (id, name)) in lineage.ancestors.iter_mut().zip(names) {
            *ancestor = Ancestor { id: *id, name: [0; NAME_LEN] };
            ancestor.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        lineage
    }

    #[test]
    fn paths_are_built_from_the_names_up_to_the_root() {
        assert_eq!(path_of(&lineage(&[(9, "c"), (8, "b"), (7, "a"), (1, "/")])), "/a/b/c");
        assert_eq!(path_of(&lineage(&[(1, "/")])), "/");
        let deep: Vec<_> = (2..10).map(|id| (id, "x")).collect();
        assert_eq!(path_of(&lineage(&deep)), "…/x/x/x/x/x/x/x/x");
        let cut = "y".repeat(NAME_LEN - 1);
        assert_eq!(path_of(&lineage(&[(9, &cut), (1, "/")])), format!("/{cut}…"));
    }

    #[test]
    fn a_new_owner_of_a_row_starts_from_nothing_on_every_cpu() {
        let all = Measured { waits: true, ..Measured::NOTHING };
        let read = |cpus: &[(u64, u64)]| {
            let mut raw = RawRow::zeroed();
            let copies: Vec<RowTotals> = cpus
                .iter()
                .map(|&(cpu_ns, runq_wait_ns)| RowTotals { cpu_ns, runq_wait_ns, ..RowTotals::zeroed() })
                .collect();
            copies.iter().for_each(|copy| add(&mut raw.totals, copy));
            raw.by_cpu = by_cpu(&copies, all);
            raw
        };
        let first = read(&[(5, 1), (0, 0), (7, 0)]);
        let of_first = counters(&first, None, all);
        assert_eq!(of_first.by_cpu, first.by_cpu);
        assert!(Arc::ptr_eq(&of_first.by_cpu.cpu_ns, &first.by_cpu.cpu_ns), "nothing is kept twice");
        assert_eq!(counters(&first, Some(&first), all).by_cpu.end(), 0);
        let of_second = counters(&read(&[(5, 1), (2, 3), (8, 0)]), Some(&first), all);
        let on = |cpu| of_second.by_cpu.on(cpu);
        assert_eq!(
            [on(0), on(1), on(2)],
            [(0, 0), (2, 3), (1, 0)].map(|(time, wait)| (Nanos(time), Some(Nanos(wait))))
        );
        assert_eq!((of_second.totals.cpu_ns, of_second.totals.runq_wait_ns), (Nanos(3), Some(Nanos(3))));
        assert_eq!(by_cpu(&[RowTotals::zeroed()], Measured::NOTHING).runq_wait_ns, None);
    }

    #[test]
    fn an_address_is_forgotten_when_it_has_been_quiet_for_long() {
        let key = ListenerKey { port: 80, ..ListenerKey::default() };
        let read = |accepts| [(key, abi::ListenerTotals { established: 5, accepts, ..Zeroable::zeroed() })];
        let mut log = TrafficLog::default();
        let reads = |log: &mut TrafficLog, accepts| {
            (0..=TrafficLog::PATIENCE).map(|_| log.quiet(&read(accepts))).collect::<Vec<_>>().concat()
        };
        assert_eq!(reads(&mut log, 4), [], "one still waits");
        assert_eq!(reads(&mut log, 5), [key]);
    }

    #[test]
    fn mapped_ipv4_addresses_are_shown_as_ipv4() {
        let mut key = ListenerKey { netns: 1, port: 80, family: libc::AF_INET6 as u16, address: [0; 16] };
        key.address[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(traffic(key, &Zeroable::zeroed()).address, "127.0.0.1:80".parse().unwrap());
    }
}
