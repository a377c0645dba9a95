//! How long each CPU was busy and idle, as the kernel's ticks tell.

use super::{HostError, figures::clock_tick, read};
use crate::model::Nanos;

/// A CPU's time since boot, in steps of a clock tick. Time that a hypervisor took is in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    pub cpu: u32,
    /// In tasks and interrupts.
    pub busy_ns: Nanos,
    /// In idle, also while a task waited for a disk.
    pub idle_ns: Nanos,
}

/// That of the CPUs that are online.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub fn busy() -> Result<Vec<Busy>, HostError> {
    Ok(parse(&read("/proc/stat")?, clock_tick()))
}

/// `cpu<n> user nice system idle iowait irq softirq …`, proc_stat(5). What runs for guests is in `user` already.
pub(super) fn parse(stat: &str, tick: Nanos) -> Vec<Busy> {
    let line = |line: &str| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let mut ticks = ticks.split_whitespace().map(|ticks| ticks.parse::<u64>().unwrap_or(0));
        let mut next = || ticks.next().unwrap_or(0);
        let [user, nice, system, idle, iowait, irq, softirq] = std::array::from_fn(|_| next());
        let sum = |ticks: &[u64]| ticks.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
        let time = |ticks: &[u64]| Nanos(sum(ticks).saturating_mul(tick.0));
        // The line of all CPUs has no number.
        let cpu = cpu.parse().ok()?;
        Some(Busy { cpu, busy_ns: time(&[user, nice, system, irq, softirq]), idle_ns: time(&[idle, iowait]) })
    };
    stat.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_time() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu2 1 0 0 4\nintr 5 6 7\n";
        let expected = [(0, 19, 9), (2, 1, 4)].map(|(cpu, busy, idle)| Busy {
            cpu,
            busy_ns: Nanos(busy * 10),
            idle_ns: Nanos(idle * 10),
        });
        assert_eq!(parse(stat, Nanos(10)), expected);
    }
}
