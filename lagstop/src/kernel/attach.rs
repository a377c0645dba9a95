//! Does what the plan says.

use std::path::Path;

use aya::{
    Btf as AyaBtf, Ebpf, EbpfLoader, Endianness,
    maps::Map as AyaMap,
    programs::{RawTracePoint, RawTracePointRunOptions, TestRun},
};
use bytemuck::{Pod, Zeroable, bytes_of};
use lagstop_ebpf::{self as abi, CpuState, DISPLACED, MAX_PAIRS, MAX_SHARDS, MAX_TASKS, MAX_THROTTLES, ROW_FIRST};

use super::{
    OBJECT,
    answer::Answer,
    attachment::Attachment,
    btf::Btf,
    clock::now,
    error::{KernelError, errno},
    facts::{Facts, Types},
    loaded::{Maps, possible_copies, program, refused},
    map::Map,
    memlock,
    options::AttachOptions,
    per_cpu::PerCpu,
    plan::{AttachPlan, Wishes},
    probe_cost::ProbeCost,
    proof,
    reader::{Attached, KernelReader, Shards, Tables, lines},
    setback::Setback,
    table::Table,
    way::At,
};

/// Loads and attaches the programs. What the kernel refuses, or what does not fire, becomes a fact, and the rest is
/// planned again; only when the switch itself cannot be seen is there nothing to measure. Where programs cannot be attached a
/// second time, all switches are timed: see [`KernelReader::samples_cost`].
///
/// # Errors
/// When the kernel refuses the object or what nothing can be measured without.
pub fn attach(facts: &mut Facts, wishes: &Wishes, options: &AttachOptions) -> Result<KernelReader, KernelError> {
    let mut options = options.clone();
    // Each turn refuses something that is not tried again.
    loop {
        let plan = AttachPlan::from_facts(facts, wishes)?;
        match Attempt::new(facts, &plan, &options)?.run(&options)? {
            Outcome::Attached(reader) => return Ok(*reader),
            Outcome::Setback(at, setback) => facts.refuse(at, setback),
            Outcome::AttachesOnce => options.samples_cost = false,
        }
    }
}

/// The names of the running kernel's types, by which programs are attached.
fn kernel_types() -> Result<AyaBtf, KernelError> {
    let names = Btf::read(Path::new(Btf::VMLINUX)).map_err(refused_object)?.names_only();
    AyaBtf::parse(&names, Endianness::default()).map_err(refused_object)
}

/// How an attempt ended.
enum Outcome {
    Attached(Box<KernelReader>),
    /// Something could not be attached, or did not fire.
    Setback(At, Setback),
    /// What times switches cannot come off its hooks and go back. Before Linux 5.13 a program that was on a function once is not
    /// attached to it again (f3a95075549e).
    AttachesOnce,
}

/// A loaded object that is being attached as a plan says.
struct Attempt<'a> {
    ebpf: Ebpf,
    facts: &'a Facts,
    plan: &'a AttachPlan,
    /// Where programs can be attached by types.
    btf: Option<AyaBtf>,
    /// Of the tables: rows, CPUs, and copies of each distribution.
    rows: u32,
    cpus: u32,
    shards: Shards,
}

impl<'a> Attempt<'a> {
    /// Loads the object with what the plan tells the programs.
    fn new(facts: &'a Facts, plan: &'a AttachPlan, options: &AttachOptions) -> Result<Self, KernelError> {
        let rows = options.max_cgroups.saturating_add(ROW_FIRST);
        let possible = options.places.iter().map(|place| place.cpu + 1).max().unwrap_or(1);
        let read = MAX_SHARDS.min(possible);
        // Those that nobody reads have a copy of their own.
        let shards = read + u32::from(!options.excluded.is_empty());
        let tasks = options.max_tasks.clamp(DISPLACED, MAX_TASKS).next_power_of_two();
        let settings = plan.settings(options, now().0, (read, shards, possible), tasks);
        let limit = memlock::raise(&facts.release);
        let ebpf = EbpfLoader::new()
            // It has read all of the kernel's types by now. They are let go before any others are read: nothing here is
            // relocated by them.
            .btf(None)
            .override_global("OFFSETS", bytes_of(&facts.offsets), true)
            .override_global("SETTINGS", bytes_of(&settings), true)
            .map_max_entries("ROW_OF", rows)
            .map_max_entries("FREE_ROWS", rows)
            .map_max_entries("ROW_TOTALS", rows.saturating_mul(possible))
            .map_max_entries("MARKS", lines(rows) * possible)
            .map_max_entries("DISTRIBUTIONS", rows * shards)
            .map_max_entries("ACCEPTS", rows)
            .map_max_entries("LINEAGES", rows)
            .map_max_entries("THROTTLES", if settings.sees_throttling != 0 { MAX_THROTTLES } else { 1 })
            .map_max_entries("PAIRS", if settings.blame != 0 { MAX_PAIRS } else { 1 })
            .map_max_entries("PLACES", possible)
            .map_max_entries("TASKS", tasks)
            .map_max_entries("DISPLACED_TASKS", tasks / DISPLACED)
            .load(OBJECT)
            .map_err(|error| match limit {
                Some(limit) => KernelError::LockedMemory { limit, source: error.into() },
                None => refused_object(error),
            })?;
        let btf = match facts.types {
            Types::Kernel => Some(kernel_types()?),
            _ => None,
        };
        let attempt = Self { ebpf, facts, plan, btf, rows, cpus: possible, shards: Shards { read, all: shards } };
        attempt.fill(options)?;
        Ok(attempt)
    }

    /// Attaches everything, and sees it fire.
    fn run(mut self, options: &AttachOptions) -> Result<Outcome, KernelError> {
        let settle: &mut RawTracePoint = program(&mut self.ebpf, "settle")?;
        settle.load().map_err(|error| refused("settle", error))?;
        if matches!(self.facts.types, Types::File(_)) && self.facts.in_host_pid_namespace == Answer::Known(true) {
            self.try_fields()?;
        }
        let cost = ProbeCost::start(options.samples_cost);
        let mut attachments = Vec::new();
        for probe in self.plan.probes() {
            let Self { ebpf, facts, plan, btf, .. } = &mut self;
            match Attachment::new(probe, (plan.has_types(), plan.times_by(probe)), facts, btf.as_ref(), ebpf) {
                Ok(attachment) => attachments.push(attachment),
                Err(error) => return Ok(Outcome::Setback(probe.at, error.into())),
            }
        }
        let mut maps = self.maps()?;
        if !options.clock_only
            && let Some((at, setback)) = proof::what_does_not_fire(self.plan, &mut maps.cpu)?
        {
            return Ok(Outcome::Setback(at, setback));
        }
        let tables = self.tables(&options.excluded)?;
        let Self { ebpf, plan, .. } = self;
        let attached = Attached { ebpf, attachments, maps, cost };
        let mut reader = KernelReader::new(attached, tables, plan.clone(), options);
        if options.samples_cost && reader.attach_timing_again().is_err() {
            return Ok(Outcome::AttachesOnce);
        }
        Ok(Outcome::Attached(Box::new(reader)))
    }

    /// Asks a program which process runs here, to check the fields that it was told: the kernel does not check those of a file.
    fn try_fields(&mut self) -> Result<(), KernelError> {
        let settle: &mut RawTracePoint = program(&mut self.ebpf, "settle")?;
        let options = RawTracePointRunOptions { args: [0; 12], cpu: None };
        let seen = settle.test_run(options).map_err(|error| refused("settle", error))?.return_value;
        if seen == std::process::id() { Ok(()) } else { Err(KernelError::WrongTypes) }
    }

    fn maps(&self) -> Result<Maps, KernelError> {
        let copies = possible_copies()?;
        Ok(Maps {
            row_of: self.map("ROW_OF")?,
            free_rows: self.map("FREE_ROWS")?,
            lineages: self.map("LINEAGES")?,
            cpu: PerCpu::new(self.map("CPU")?, copies),
            listeners: self.map("LISTENERS")?,
            pairs: self.map("PAIRS")?,
        })
    }

    fn tables(&self, excluded: &[u32]) -> Result<Tables, KernelError> {
        let Self { rows, cpus: possible, shards, .. } = *self;
        Ok(Tables {
            totals: self.table("ROW_TOTALS", rows as usize * possible as usize)?,
            marks: self.table("MARKS", lines(rows) as usize * possible as usize)?,
            distributions: self.table("DISTRIBUTIONS", rows as usize * shards.all as usize)?,
            accepts: self.table("ACCEPTS", rows as usize)?,
            rows,
            cpus: (0..possible).filter(|cpu| !excluded.contains(cpu)).collect(),
            possible,
            shards,
        })
    }

    fn table<V: Pod>(&self, name: &str, values: usize) -> Result<Table<V>, KernelError> {
        Table::map(self.map(name)?.fd(), values).map_err(|why| KernelError::refused(format!("map {name}"), why))
    }

    fn map(&self, name: &str) -> Result<Map, KernelError> {
        let wrong = |why: &str| KernelError::refused(format!("map {name}"), why);
        match self.ebpf.map(name).ok_or_else(|| wrong("not in the object"))? {
            AyaMap::Array(data) | AyaMap::PerCpuArray(data) | AyaMap::HashMap(data) | AyaMap::Stack(data) => {
                Map::new(std::os::fd::AsFd::as_fd(data.fd()))
            }
            _ => Err(wrong("it is of an unexpected type")),
        }
    }

    /// Fills the maps that the programs only read.
    fn fill(&self, options: &AttachOptions) -> Result<(), KernelError> {
        let free_rows = self.map("FREE_ROWS")?;
        // The last one pushed is the first one taken: low rows first, so that reads can stop early.
        for row in (ROW_FIRST..self.rows).rev() {
            free_rows.push(&row)?;
        }
        let places = self.map("PLACES")?;
        for place in &options.places {
            places.set(&place.cpu, &[abi::CpuPlace { llc: place.llc, numa: place.numa }])?;
        }
        // Neighbours share a copy of the distributions. Epoch 0 means never: the first is 1.
        let [rows, cpus, shards] = [self.rows, self.cpus, self.shards.read].map(u64::from);
        let is_excluded = |cpu: usize| options.excluded.iter().any(|excluded| *excluded as usize == cpu);
        let state = |cpu: usize| CpuState {
            epoch: KernelReader::FIRST_EPOCH,
            is_timed: 1,
            // Any number but 0, another one for each.
            random: (cpu as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            shard: if is_excluded(cpu) { shards } else { (cpu as u64 * shards / cpus).min(shards - 1) },
            is_excluded: is_excluded(cpu).into(),
            // The map may have entries for more CPUs than there can be: theirs only have to be inside of the tables.
            first_totals: (cpu as u64).min(cpus - 1) * rows,
            first_marks: (cpu as u64).min(cpus - 1) * u64::from(lines(self.rows)),
            ..CpuState::zeroed()
        };
        let states: Vec<CpuState> = (0..possible_copies()?).map(state).collect();
        self.map("CPU")?.set(&0u32, &states)
    }
}

fn refused_object(error: impl std::error::Error + Send + Sync + 'static) -> KernelError {
    match errno(&error) {
        Some(libc::ENOMEM) => KernelError::NoMemory(error.into()),
        _ => KernelError::refused("eBPF object", error),
    }
}
