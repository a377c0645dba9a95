//! Whether this host can take a benchmark now.

use std::{fs, thread, time::Duration};

use crate::{
    bench::Settings,
    cli::Failure,
    host::{Busy, busy},
    model::Nanos,
};

/// A host that is busier is not for benchmarks, as a share of its CPUs' time.
const BUSY: f64 = 0.2;
/// How long it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Memory that a function takes, in KiB: it was 2.5 MiB, threads under load included.
const FUNCTION_KIB: u64 = 4 << 10;

/// Refuses what this host is not for.
pub(super) fn check(settings: &Settings, cpus: u32, force: bool) -> Result<(), Failure> {
    let functions = settings.densities.iter().max().map_or(0, |most| most.saturating_mul(cpus));
    if functions > Settings::MOST_FUNCTIONS {
        let most = Settings::MOST_FUNCTIONS;
        return Err(format!("{functions} functions are too many: {most} at most. Give --sweep lower densities").into());
    }
    if let Some(available) = available_kib()
        && available < FUNCTION_KIB * u64::from(functions)
    {
        let (needs, has) = ((FUNCTION_KIB * u64::from(functions)) >> 10, available >> 10);
        return Err(format!(
            "{functions} functions take up to {needs} MiB of memory, and {has} are available: give --sweep lower densities"
        )
        .into());
    }
    if !force {
        let share = busy_share()?;
        if share > BUSY {
            return Err(format!(
                "the CPUs are {:.0} % busy already: the benchmark would disturb what runs here, and measure it. Wait for a \
                 quiet moment, or use --force",
                share * 100.0
            )
            .into());
        }
    }
    Ok(())
}

/// `MemAvailable` of proc_meminfo(5). `None` where it is not told.
fn available_kib() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Part of the time of all CPUs that was not idle, just now.
fn busy_share() -> Result<f64, Failure> {
    let sum = |all: Vec<Busy>| {
        all.iter().fold((Nanos::ZERO, Nanos::ZERO), |sum, cpu| (sum.0.plus(cpu.busy_ns), sum.1.plus(cpu.idle_ns)))
    };
    let before = sum(busy()?);
    thread::sleep(LOOK);
    let after = sum(busy()?);
    let (busy, idle) = (after.0.minus(before.0).0 as f64, after.1.minus(before.1).0 as f64);
    Ok(if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 })
}
