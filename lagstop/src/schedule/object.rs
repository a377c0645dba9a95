//! The object, on its way into the kernel: its maps made, its programs made to point at them and at the kernel's functions.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use aya_obj::{Map as AyaMap, Object as AyaObject, generated::bpf_insn};
use bytemuck::bytes_of;
use lagstop_scheduler_ebpf::{KFUNC_BASE, Kfunc, Offsets, Settings};

use super::{
    calls::{self, MapKind},
    error::SchedulerError,
};

/// Programs whose calls lead where they should, and the maps that they use.
pub(super) struct Object {
    pub(super) maps: HashMap<String, OwnedFd>,
    /// By name.
    pub(super) programs: Vec<(String, Vec<bpf_insn>)>,
}

/// What differs between kernels and hosts.
pub(super) struct Parameters {
    pub(super) offsets: Offsets,
    pub(super) settings: Settings,
    /// Of the functions, in the order of [`Kfunc::ALL`], the ids in the kernel's BTF.
    pub(super) functions: [Option<u32>; Kfunc::ALL.len()],
    /// How many CPUs there may be.
    pub(super) cpus: u32,
}

impl Object {
    /// Makes its maps and relocates its programs.
    pub(super) fn prepare(elf: &[u8], parameters: &Parameters) -> Result<Self, SchedulerError> {
        let mut object = AyaObject::parse(elf).map_err(unreadable)?;
        let globals =
            [("OFFSETS", (bytes_of(&parameters.offsets), true)), ("SETTINGS", (bytes_of(&parameters.settings), true))];
        object.patch_map_data(globals.into_iter().collect()).map_err(unreadable)?;
        let mut maps = HashMap::new();
        for (name, map) in &mut object.maps {
            if name == "CPUS" {
                map.set_max_entries(parameters.cpus);
            }
            maps.insert(name.clone(), make(name, map)?);
        }
        let places: Vec<(String, RawFd, AyaMap)> =
            maps.iter().map(|(name, fd)| (name.clone(), fd.as_raw_fd(), object.maps[name].clone())).collect();
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_maps(places.iter().map(|(name, fd, map)| (&**name, *fd, map)), &text).map_err(unreadable)?;
        object.relocate_calls(&text).map_err(unreadable)?;
        let programs = object.programs.iter().filter_map(|(name, program)| {
            let mut instructions = object.functions.get(&program.function_key())?.instructions.clone();
            redirect(&mut instructions, &parameters.functions);
            Some((name.clone(), instructions))
        });
        Ok(Self { programs: programs.collect(), maps })
    }
}

fn unreadable(error: impl Error + Send + Sync + 'static) -> SchedulerError {
    SchedulerError::refused("scheduler object", error)
}

fn make(name: &str, map: &AyaMap) -> Result<OwnedFd, SchedulerError> {
    let made = if map.data().is_empty() {
        calls::make_map(
            name,
            MapKind {
                map_type: map.map_type(),
                key_size: map.key_size(),
                value_size: map.value_size(),
                max_entries: map.max_entries(),
                flags: map.map_flags(),
            },
        )
    } else {
        calls::make_constants(name, map.data())
    };
    made.map_err(|why| SchedulerError::refused(format!("map {name}"), why))
}

/// Turns calls of helper numbers that do not exist into calls of the kernel's functions.
fn redirect(instructions: &mut [bpf_insn], functions: &[Option<u32>; Kfunc::ALL.len()]) {
    /// `BPF_JMP | BPF_CALL`
    const CALL: u8 = 0x85;
    /// What `src_reg` says of such a call: a helper's, or a function's of the kernel.
    const HELPER: u8 = 0;
    const KFUNC: u8 = 2;
    for instruction in instructions {
        let number = instruction.imm.cast_unsigned().wrapping_sub(KFUNC_BASE) as usize;
        if instruction.code == CALL
            && instruction.src_reg() == HELPER
            && let Some(function) = functions.get(number)
        {
            instruction.set_src_reg(KFUNC);
            instruction.off = 0;
            // The verifier accepts 0 where the call is never made.
            instruction.imm = function.unwrap_or(0).cast_signed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{OBJECT, plan::OPERATIONS};

    fn call(src: u8, imm: u32) -> bpf_insn {
        // SAFETY: plain integers.
        let mut instruction: bpf_insn = unsafe { std::mem::zeroed() };
        instruction.code = 0x85;
        instruction.set_src_reg(src);
        instruction.imm = imm.cast_signed();
        instruction
    }

    #[test]
    fn calls_lead_to_the_kernels_functions() {
        let mut functions = [None; Kfunc::ALL.len()];
        functions[Kfunc::Now as usize] = Some(77);
        let mut code = [
            call(0, Kfunc::Now.call()),
            call(0, Kfunc::SetSlice.call()),
            // A helper, a call within the program, and a number behind the last.
            call(0, 5),
            call(1, Kfunc::Now.call()),
            call(0, KFUNC_BASE + Kfunc::ALL.len() as u32),
        ];
        redirect(&mut code, &functions);
        let seen: Vec<(u8, u32)> = code.iter().map(|one| (one.src_reg(), one.imm.cast_unsigned())).collect();
        let untouched = [(0, 5), (1, Kfunc::Now.call()), (0, KFUNC_BASE + Kfunc::ALL.len() as u32)];
        assert_eq!((&seen[..2], &seen[2..]), (&[(2, 77), (2, 0)][..], &untouched[..]));
    }

    #[test]
    fn the_object_has_a_program_for_each_operation_and_calls_what_is_planned() {
        let object = AyaObject::parse(OBJECT).unwrap();
        let mut programs: Vec<&str> = object.programs.keys().map(|name| name.trim_start_matches("lags_")).collect();
        let mut operations = OPERATIONS.to_vec();
        programs.sort_unstable();
        operations.sort_unstable();
        assert_eq!(programs, operations);
        let called: HashSet<u32> = object
            .functions
            .values()
            .flat_map(|function| &function.instructions)
            .filter(|one| one.code == 0x85 && one.src_reg() == 0 && one.imm.cast_unsigned() >= KFUNC_BASE)
            .map(|one| one.imm.cast_unsigned())
            .collect();
        assert_eq!(called, Kfunc::ALL.map(Kfunc::call).into());
    }
}
