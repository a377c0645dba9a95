//! What is loaded: its maps and programs.

use aya::{
    Ebpf,
    programs::{Program, ProgramError},
};
use lagstop_ebpf::CpuState;

use super::{
    error::{KernelError, Source},
    map::Map,
    per_cpu::PerCpu,
};

/// The maps that user space reads or writes by system calls.
pub(super) struct Maps {
    pub(super) row_of: Map,
    pub(super) free_rows: Map,
    pub(super) lineages: Map,
    pub(super) cpu: PerCpu<CpuState>,
    pub(super) listeners: Map,
    pub(super) pairs: Map,
}

/// Values that a per-CPU map has for a key.
pub(super) fn possible_copies() -> Result<usize, KernelError> {
    aya::util::nr_cpus().map_err(|(what, source)| KernelError::refused(format!("question for {what}"), source))
}

pub(super) fn program<'e, P>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut P, KernelError>
where
    &'e mut P: TryFrom<&'e mut Program, Error = ProgramError>,
{
    let absent = || KernelError::refused(format!("program {name}"), "not in the object");
    ebpf.program_mut(name).ok_or_else(absent)?.try_into().map_err(|error: ProgramError| refused(name, error))
}

pub(super) fn refused(what: &str, error: impl Into<Source>) -> KernelError {
    KernelError::refused(format!("program on {what}"), error)
}
