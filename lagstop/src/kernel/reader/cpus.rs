//! The CPUs' own totals.

use lagstop_ebpf::{self as abi, CpuState};

use super::measured::Measured;
use crate::model::{CpuReading, CpuTotals, Lost, Nanos};

/// The reading of one CPU; what is not measured is `None`.
pub(super) fn totals(state: &CpuState, is_online: bool, measured: Measured) -> CpuReading {
    let Measured { pick, swap, kept, waits, .. } = measured;
    let totals = &state.totals;
    let totals = CpuTotals {
        switches: Some(totals.switches),
        kept_calls: kept.then_some(totals.kept_calls),
        pick_ns: pick.then_some(Nanos(totals.pick_ns)),
        swap_ns: swap.then_some(Nanos(totals.swap_ns)),
        runq_waits: waits.then_some(totals.runq_waits),
        runq_wait_ns: waits.then_some(Nanos(totals.runq_wait_ns)),
        busy_ns: Nanos(totals.busy_ns),
        idle_ns: Nanos(totals.idle_ns),
    };
    CpuReading { is_online, totals }
}

pub(super) fn lost(state: &CpuState) -> Lost {
    let of = |kind: abi::Lost| state.totals.lost[kind as usize];
    Lost {
        entries: of(abi::Lost::Entries),
        exits: of(abi::Lost::Exits),
        switches: of(abi::Lost::Switches),
        task_states: of(abi::Lost::Tasks),
        cgroup_overflows: of(abi::Lost::Rows),
        connections: of(abi::Lost::Connections),
        accepts: of(abi::Lost::Accepts),
        listener_overflows: of(abi::Lost::Listeners),
        acceptors: of(abi::Lost::Acceptors),
        wakeups: of(abi::Lost::Wakeups),
        pairs: of(abi::Lost::Pairs),
        // Not counted by a CPU but by each program.
        missed_runs: 0,
    }
}

#[cfg(test)]
mod tests {
    use lagstop_ebpf::{MAX_ACCEPTORS, MAX_LISTENERS, MAX_PENDING, MAX_TASKS};

    use crate::model::Lost;

    #[test]
    fn what_was_lost_is_told_with_the_room_that_there_is() {
        let room = [
            ("task_states", MAX_TASKS),
            ("connections", MAX_PENDING),
            ("listener_overflows", MAX_LISTENERS),
            ("acceptors", MAX_ACCEPTORS),
        ];
        for (name, room) in room {
            let counter = Lost::COUNTERS.into_iter().find(|counter| counter.name == name).unwrap();
            let written = format!("{},{:03}", room / 1_000, room % 1_000);
            assert!(counter.meaning.contains(&written), "{name}, {written}: {}", counter.meaning);
        }
    }
}
