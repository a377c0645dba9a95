//! Sees that what is attached fires: an attach that succeeds is no proof (`pick_task_fair` of Linux 6.1 can be attached to
//! and is never called).

use std::{
    thread,
    time::{Duration, Instant},
};

use lagstop_ebpf::{CpuState, CpuTotals, Lost};

use super::{error::KernelError, per_cpu::PerCpu, plan::AttachPlan, setback::Setback, way::At};
use crate::model::Measure;

/// Switches after which a program that did not run is taken for silent.
const ENOUGH: u64 = 40;
/// How long to wait for that many switches.
const PATIENCE: Duration = Duration::from_secs(2);

/// The first part of the plan whose programs do not run, with what was seen. Sleeps briefly again and again, which causes
/// switches.
pub(super) fn what_does_not_fire(
    plan: &AttachPlan,
    cpus: &mut PerCpu<CpuState>,
) -> Result<Option<(At, Setback)>, KernelError> {
    let started = Instant::now();
    let mut totals = sum(cpus)?;
    while totals.switches < ENOUGH && started.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
        totals = sum(cpus)?;
    }
    let cost = plan.uses(Measure::SwitchCost);
    // The first probe of a way sees the entry, the second one the exit.
    let silent = [
        (Measure::Switches, 0, true, totals.switches),
        (Measure::SwitchCost, 0, cost, totals.pick_ns),
        (Measure::SwitchCost, 1, plan.sees_exits(), totals.swap_ns),
        (Measure::Pick, 0, plan.uses(Measure::Pick), totals.pick_function_calls),
    ]
    .into_iter()
    .find_map(|(measure, probe, is_used, count)| (is_used && count == 0).then_some((measure, probe)));
    let at = silent.and_then(|(measure, probe)| plan.way(measure)?.probes.get(probe)).map(|probe| probe.at);
    Ok(at.map(|at| (at, Setback::Silent { switches: totals.switches })))
}

fn sum(cpus: &mut PerCpu<CpuState>) -> Result<CpuTotals, KernelError> {
    let mut sum = CpuTotals::default();
    for CpuState { totals, .. } in cpus.read()? {
        // Until the program at the switch is attached, the one at the exit counts switches as missed: they prove nothing.
        sum.switches += totals.switches - totals.lost[Lost::Switches as usize].min(totals.switches);
        sum.pick_ns += totals.pick_ns;
        sum.swap_ns += totals.swap_ns;
        sum.pick_function_calls += totals.pick_function_calls;
    }
    Ok(sum)
}
