//! `struct sched_ext_ops` of this kernel, filled with programs.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use super::{
    NAME,
    calls::{self, Program},
    error::SchedulerError,
    object::Object,
};
use crate::kernel::{Btf, Structure};

/// Both halves are needed: the kernel's functions are for GPL-compatible programs only.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// The operations in a map, ready to be put into force, and the programs that they are.
pub(super) struct Operations {
    pub(super) map: OwnedFd,
    _programs: Vec<OwnedFd>,
}

/// A program that the kernel did not load, with what the verifier said.
#[derive(Debug, thiserror::Error)]
#[error("{source}. Verifier output: {log}")]
struct Rejected {
    log: String,
    source: io::Error,
}

/// Where the members are.
struct Layout {
    operations: Structure,
    /// What the kernel wraps the structure in, and where it is in there.
    value: Structure,
    data: usize,
}

impl Layout {
    fn of(btf: &Btf) -> Option<Self> {
        let value = btf.structure("bpf_struct_ops_sched_ext_ops")?;
        let data = value.members.iter().find(|member| member.name == "data")?.offset as usize;
        Some(Self { operations: btf.structure("sched_ext_ops")?, value, data })
    }

    /// The number of the member `name`, and its place in the value.
    fn member(&self, name: &str) -> Option<(u32, usize)> {
        let index = self.operations.members.iter().position(|member| member.name == name)?;
        Some((index as u32, self.data + self.operations.members[index].offset as usize))
    }
}

impl Operations {
    /// Loads the programs and fills the structure. A runnable task may wait as long as `patience` says.
    pub(super) fn load(btf: &Btf, object: &Object, patience: Duration) -> Result<Self, SchedulerError> {
        let lacks =
            |what: &str| SchedulerError::refused(format!("member {what}"), "sched_ext_ops has none of that name");
        let layout = Layout::of(btf).ok_or_else(|| lacks("data"))?;
        let mut value = vec![0u8; layout.value.size as usize];
        let mut put = |at: usize, bytes: &[u8]| match value.get_mut(at..at + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(lacks("behind the end")),
        };
        let mut programs = Vec::new();
        for (name, instructions) in &object.programs {
            let operation = name.strip_prefix("lags_").unwrap_or(name);
            let (member, at) = layout.member(operation).ok_or_else(|| lacks(operation))?;
            let program = Program {
                name,
                instructions,
                licence: LICENCE,
                structure: layout.operations.id,
                member,
                may_sleep: matches!(operation, "init" | "exit"),
            };
            let mut log = String::new();
            let loaded = calls::load(&program, &mut log).map_err(|source| {
                SchedulerError::refused(format!("program {name}"), Rejected { log: std::mem::take(&mut log), source })
            })?;
            put(at, &u64::from(loaded.as_raw_fd().unsigned_abs()).to_le_bytes())?;
            programs.push(loaded);
        }
        let (_, at) = layout.member("name").ok_or_else(|| lacks("name"))?;
        put(at, NAME.as_bytes())?;
        let (_, at) = layout.member("timeout_ms").ok_or_else(|| lacks("timeout_ms"))?;
        put(at, &u32::try_from(patience.as_millis()).unwrap_or(u32::MAX).to_le_bytes())?;
        let map = calls::make_operations("lags_ops", layout.value.id, &value)
            .map_err(|why| SchedulerError::refused("map of operations", why))?;
        Ok(Self { map, _programs: programs })
    }
}
