//! Figures of the host that are in files.

use std::fs;

use super::{HostError, read};
use crate::model::{HostFigures, Lost, Nanos, Pressure};

/// Reads them. What the kernel side counts is for the caller to add.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub fn figures(cpus_online: u64) -> Result<HostFigures, HostError> {
    Ok(HostFigures {
        cpus_online,
        steal_ns: steal(&read("/proc/stat")?, clock_tick()),
        self_cpu_ns: own_cpu_time(),
        self_probe_ns: None,
        pressure: fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| pressure(&text)),
        lost: Lost::default(),
    })
}

/// Length of the ticks that `/proc` counts in.
pub(super) fn clock_tick() -> Nanos {
    Nanos(Nanos::SECOND.0 / rustix::param::clock_ticks_per_second().max(1))
}

/// The eighth figure of the line `cpu`, proc_stat(5).
pub(super) fn steal(stat: &str, tick: Nanos) -> Option<Nanos> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_whitespace().nth(7)?.parse().ok()?;
    Some(Nanos(ticks.saturating_mul(tick.0)))
}

/// CPU time of this process, all its threads.
fn own_cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec.unsigned_abs() * Nanos::SECOND.0 + time.tv_nsec.unsigned_abs())
}

/// `some … total=<µs>`, Documentation/accounting/psi.rst.
pub(super) fn pressure(text: &str) -> Option<Pressure> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total: u64 = some.split("total=").nth(1)?.trim().parse().ok()?;
    Some(Pressure { some_ns: Nanos(total.saturating_mul(1_000)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal(stat, Nanos(10_000_000)), Some(Nanos(800_000_000)));
        assert_eq!(steal("cpu  1 2 3\n", Nanos(1)), None, "kernels without it");
    }

    #[test]
    fn pressure_is_in_microseconds() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure(text), Some(Pressure { some_ns: Nanos(1_234_000) }));
        assert_eq!(pressure(""), None);
    }
}
