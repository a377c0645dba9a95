//! Figures of the host that are in files.

use std::fs;

use super::{HostError, pressure, read};
use crate::model::{HostFigures, Lost, Nanos, OwnCost, Pressure};

/// Reads them. What the kernel side counts is for the caller to add. `cpus_online` and steal are without the CPUs that are
/// `excluded`; pressure is of all.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub fn figures(cpus_online: u64, excluded: &[u32]) -> Result<HostFigures, HostError> {
    Ok(HostFigures {
        cpus_online,
        steal_ns: steal(&read("/proc/stat")?, excluded, clock_tick()),
        own_cost: OwnCost { self_cpu_ns: own_cpu_time(), self_probe_ns: None },
        pressure: fs::read_to_string("/proc/pressure/cpu")
            .ok()
            .and_then(|text| pressure::parse(&text).some_ns)
            .map(|some_ns| Pressure { some_ns }),
        lost: Lost::default(),
    })
}

/// Length of the ticks that `/proc` counts in.
pub(super) fn clock_tick() -> Nanos {
    Nanos(Nanos::SECOND.0 / rustix::param::clock_ticks_per_second().max(1))
}

/// The eighth figure of the line `cpu`, proc_stat(5), without those of the lines of excluded CPUs.
pub(super) fn steal(stat: &str, excluded: &[u32], tick: Nanos) -> Option<Nanos> {
    let of = |name: &str| -> Option<u64> {
        let figures = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        figures.split_whitespace().nth(7)?.parse().ok()
    };
    // One that is offline has no line.
    let not_ours = excluded.iter().filter_map(|cpu| of(&format!("cpu{cpu}"))).fold(0, u64::saturating_add);
    Some(Nanos(of("cpu")?.saturating_sub(not_ours).saturating_mul(tick.0)))
}

/// CPU time of this process, all its threads.
fn own_cpu_time() -> Nanos {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal(stat, &[], Nanos(10_000_000)), Some(Nanos(800_000_000)));
        assert_eq!(steal(stat, &[0, 1], Nanos(10_000_000)), Some(Nanos(720_000_000)), "less those of CPU 0");
        assert_eq!(steal("cpu  1 2 3\n", &[], Nanos(1)), None, "kernels without it");
    }
}
