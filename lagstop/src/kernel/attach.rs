//! Does what the plan says.

use aya::{
    Btf as AyaBtf, Ebpf, EbpfLoader,
    maps::Map as AyaMap,
    programs::{BtfTracePoint, ProgramError, RawTracePoint, TracePoint},
};
use bytemuck::{Zeroable, bytes_of};
use lagstop_ebpf::{self as abi, CpuState, DEFAULT_ROWS, MAX_SHARDS, ROW_FIRST};

use super::{
    CpuPlace, OBJECT,
    error::{KernelError, chain},
    facts::Facts,
    map::Map,
    plan::{HookId, Plan},
    probe_cost::ProbeCost,
    reader::Reader,
    tracefs::with_tracefs,
};
use crate::model::{GroupBy, Nanos};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// What groups tasks.
    pub group_by: GroupBy,
    /// Cgroups that can be told apart at once; the surplus shares one row.
    pub max_cgroups: u32,
    /// The programs only read the clock and return: for measuring what no program could do without.
    pub clock_only: bool,
    /// Every possible CPU.
    pub places: Vec<CpuPlace>,
}

impl Options {
    /// Cgroups that can be told apart at once, unless asked otherwise.
    pub const DEFAULT_MAX_CGROUPS: u32 = DEFAULT_ROWS - ROW_FIRST;
}

/// The maps that user space reads or writes.
pub(super) struct Maps {
    pub(super) row_of: Map,
    pub(super) free_rows: Map,
    pub(super) totals: Map,
    pub(super) distributions: Map,
    pub(super) accepts: Map,
    pub(super) lineages: Map,
    pub(super) cpu: Map,
    pub(super) listeners: Map,
}

/// Loads and attaches the programs. A hook that the kernel refuses is off, with the reason in the plan; only when the
/// switch itself cannot be seen is there nothing to measure.
///
/// # Errors
/// When the kernel refuses the object or what nothing can be measured without.
pub fn attach(facts: &Facts, mut plan: Plan, options: &Options) -> Result<Reader, KernelError> {
    let rows = options.max_cgroups.saturating_add(ROW_FIRST);
    let possible = options.places.iter().map(|place| place.cpu + 1).max().unwrap_or(1);
    let shards = MAX_SHARDS.min(possible);
    let settings = plan.settings(options, now().0, shards);
    let refused_object =
        |error: &dyn std::error::Error| KernelError::Refused { what: "eBPF object".to_owned(), why: chain(error) };
    let btf = AyaBtf::from_sys_fs().map_err(|error| refused_object(&error))?;
    let mut ebpf = EbpfLoader::new()
        .btf(Some(&btf))
        .allow_unsupported_maps()
        .override_global("OFFSETS", bytes_of(&facts.offsets), true)
        .override_global("SETTINGS", bytes_of(&settings), true)
        .map_max_entries("ROW_OF", rows)
        .map_max_entries("FREE_ROWS", rows)
        .map_max_entries("ROW_TOTALS", rows)
        .map_max_entries("DISTRIBUTIONS", rows * shards)
        .map_max_entries("ACCEPTS", rows)
        .map_max_entries("LINEAGES", rows)
        .map_max_entries("PLACES", possible)
        .load(OBJECT)
        .map_err(|error| refused_object(&error))?;

    let maps = Maps {
        row_of: map(&ebpf, "ROW_OF")?,
        free_rows: map(&ebpf, "FREE_ROWS")?,
        totals: map(&ebpf, "ROW_TOTALS")?,
        distributions: map(&ebpf, "DISTRIBUTIONS")?,
        accepts: map(&ebpf, "ACCEPTS")?,
        lineages: map(&ebpf, "LINEAGES")?,
        cpu: map(&ebpf, "CPU")?,
        listeners: map(&ebpf, "LISTENERS")?,
    };
    fill(&ebpf, &maps, options, rows, possible, shards)?;

    let settle: &mut RawTracePoint = program(&mut ebpf, "settle")?;
    settle.load().map_err(|error| refused("settle", &error))?;
    let cost = ProbeCost::start();
    let wanted = plan.to_attach();
    for &hook in &wanted {
        if !plan.uses(hook) {
            continue;
        }
        if let Err(error) = attach_hook(&mut ebpf, &btf, hook) {
            if hook == HookId::SchedSwitch {
                return Err(error);
            }
            plan.refuse(hook, &error.reason());
        }
    }
    // One that was attached already may have lost its use with one that was refused later.
    for hook in wanted.into_iter().filter(|hook| !plan.uses(*hook)) {
        detach_hook(&mut ebpf, hook)?;
    }
    if options.clock_only {
        for hook in plan.to_attach().into_iter().chain([HookId::SchedInfo]) {
            plan.refuse(hook, "the programs only read the clock, to measure what that costs");
        }
    }
    Reader::new(ebpf, maps, plan, rows, shards, cost)
}

/// Fills the maps that the programs only read.
fn fill(ebpf: &Ebpf, maps: &Maps, options: &Options, rows: u32, possible: u32, shards: u32) -> Result<(), KernelError> {
    // The last one pushed is the first one taken: low rows first, so that reads can stop early.
    for row in (ROW_FIRST..rows).rev() {
        maps.free_rows.push(&row)?;
    }
    let places = map(ebpf, "PLACES")?;
    for place in &options.places {
        places.set(&place.cpu, &[abi::CpuPlace { llc: place.llc, numa: place.numa }])?;
    }
    // Neighbours share a copy of the distributions. Epoch 0 means never: the first is 1.
    let state = |cpu: usize| CpuState {
        epoch: Reader::FIRST_EPOCH,
        shard: (cpu as u64 * u64::from(shards) / u64::from(possible)).min(u64::from(shards - 1)),
        ..CpuState::zeroed()
    };
    let states: Vec<CpuState> = (0..possible_copies()?).map(state).collect();
    maps.cpu.set(&0u32, &states)
}

/// Values that a per-CPU map has for a key.
pub(super) fn possible_copies() -> Result<usize, KernelError> {
    aya::util::nr_cpus().map_err(|(what, source)| KernelError::Refused {
        what: format!("question for {what}"),
        why: source.to_string(),
    })
}

fn attach_hook(ebpf: &mut Ebpf, btf: &AyaBtf, hook: HookId) -> Result<(), KernelError> {
    let name = hook.name();
    let failed = |error: ProgramError| refused(name, &error);
    match hook {
        HookId::SysExitAccept | HookId::SysExitAccept4 => {
            let program: &mut TracePoint = program(ebpf, program_of(hook))?;
            program.load().map_err(failed)?;
            with_tracefs(|| program.attach("syscalls", name).map(drop))
                .map_err(|why| KernelError::Refused { what: name.to_owned(), why })?
                .map_err(failed)
        }
        _ => {
            let program: &mut BtfTracePoint = program(ebpf, program_of(hook))?;
            program.load(name, btf).map_err(failed)?;
            program.attach().map(drop).map_err(failed)
        }
    }
}

/// Takes a program off its hook. One that never got there is no matter.
fn detach_hook(ebpf: &mut Ebpf, hook: HookId) -> Result<(), KernelError> {
    let unloaded = match hook {
        HookId::SysExitAccept | HookId::SysExitAccept4 => program::<TracePoint>(ebpf, program_of(hook))?.unload(),
        _ => program::<BtfTracePoint>(ebpf, program_of(hook))?.unload(),
    };
    match unloaded {
        Ok(()) | Err(ProgramError::NotLoaded) => Ok(()),
        Err(error) => Err(refused(hook.name(), &error)),
    }
}

/// The program that is made for `hook`.
const fn program_of(hook: HookId) -> &'static str {
    match hook {
        HookId::SchedEntry => "entry",
        HookId::SchedExit => "exit",
        HookId::SchedMigrateTask => "migrate",
        HookId::InetSockSetState => "tcp_state",
        HookId::SysExitAccept => "accept",
        HookId::SysExitAccept4 => "accept4",
        // The last two have none: what they give comes with the switch.
        HookId::SchedSwitch | HookId::SchedInfo | HookId::PickNextTaskFair => "switch",
    }
}

fn refused(what: &str, error: &dyn std::error::Error) -> KernelError {
    KernelError::Refused { what: format!("program on {what}"), why: chain(error) }
}

/// The program called `name` in the object.
pub(super) fn program<'e, P>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut P, KernelError>
where
    &'e mut P: TryFrom<&'e mut aya::programs::Program, Error = ProgramError>,
{
    let absent = || KernelError::Refused { what: format!("program {name}"), why: "it is not in the object".to_owned() };
    ebpf.program_mut(name).ok_or_else(absent)?.try_into().map_err(|error: ProgramError| refused(name, &error))
}

fn map(ebpf: &Ebpf, name: &str) -> Result<Map, KernelError> {
    let wrong = |why: &str| KernelError::Refused { what: format!("map {name}"), why: why.to_owned() };
    match ebpf.map(name).ok_or_else(|| wrong("it is not in the object"))? {
        AyaMap::Array(data) | AyaMap::PerCpuArray(data) | AyaMap::HashMap(data) | AyaMap::Stack(data) => {
            Map::new(std::os::fd::AsFd::as_fd(data.fd()))
        }
        _ => Err(wrong("it is of an unexpected type")),
    }
}

/// CLOCK_MONOTONIC, which the programs' clock is too.
pub(super) fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(time.tv_sec.unsigned_abs() * Nanos::SECOND.0 + time.tv_nsec.unsigned_abs())
}
