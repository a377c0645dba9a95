//! Runs of programs that the kernel left out, because the same program was interrupted on that CPU.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::Ebpf;
use aya_obj::generated::{bpf_attr, bpf_cmd, bpf_prog_info};

use super::{map::bpf, plan::AttachPlan};
use crate::model::Measure;

/// Runs that were left out, of the programs whose events are known by nothing else: a call to `__schedule()` whose entry
/// or exit was missed shows by itself. Known since Linux 5.12; 0 before.
pub(super) fn of(ebpf: &Ebpf, plan: &AttachPlan) -> u64 {
    let measures = [Measure::RunqWait, Measure::Migrations, Measure::TcpState, Measure::Accept];
    let programs = measures.into_iter().filter_map(|measure| plan.way(measure)).flat_map(|way| way.probes);
    programs
        .filter_map(|probe| ebpf.program(&probe.program(plan.has_types()))?.fd().ok())
        .filter_map(|fd| Some(info(fd.as_fd())?.recursion_misses))
        .sum()
}

/// What the kernel says about a program.
fn info(program: BorrowedFd<'_>) -> Option<bpf_prog_info> {
    // SAFETY: plain integers, for which zero is valid.
    let (mut info, mut attr): (bpf_prog_info, bpf_attr) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    attr.info.bpf_fd = program.as_raw_fd().unsigned_abs();
    attr.info.info = &raw mut info as u64;
    attr.info.info_len = size_of::<bpf_prog_info>() as u32;
    // SAFETY: `info` is as large as is said; the kernel writes no more.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }.ok()?;
    Some(info)
}
