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

/// The program called `name` in the object.
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

/// Takes every program off its hook, and those that never got there are no matter.
pub(super) fn detach_all(ebpf: &mut Ebpf) -> Result<(), KernelError> {
    for (name, program) in ebpf.programs_mut() {
        let detached = match program {
            Program::BtfTracePoint(program) => program.unload(),
            // Read on: it is run on request, and attached to nothing.
            Program::RawTracePoint(_) if name == "settle" => continue,
            Program::RawTracePoint(program) => program.unload(),
            Program::FEntry(program) => program.unload(),
            Program::FExit(program) => program.unload(),
            Program::KProbe(program) => program.unload(),
            Program::TracePoint(program) => program.unload(),
            _ => continue,
        };
        match detached {
            Ok(()) | Err(ProgramError::NotLoaded) => {}
            Err(error) => return Err(KernelError::refused(format!("end of {name}"), error)),
        }
    }
    Ok(())
}
