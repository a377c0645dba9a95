//! Whether this host can take a benchmark now.

use std::{fs, path::Path, thread, time::Duration};

use crate::{
    bench::{BenchSettings, at_once, requests},
    cli::Failure,
    host::{Busy, busy},
    model::Nanos,
    trial::{Journal, Policy, TrialPlace},
    units::whole_percent,
};

/// Hosts whose CPUs are busy for more than this share of the time are not for benchmarks.
const BUSY: f64 = 0.2;
/// How long the host is observed to find out how busy it is.
const LOOK: Duration = Duration::from_secs(1);
/// Memory to allow for a function, in KiB. Measured: 2.5 MiB, including threads under load.
const FUNCTION_KIB: u64 = 4 << 10;

/// Refuses a benchmark for which this host is not suited.
pub(super) fn check(settings: &BenchSettings, cpus: u32, force: bool) -> Result<(), Failure> {
    let functions = settings.densities.iter().max().map_or(0, |most| most.saturating_mul(cpus));
    if functions > BenchSettings::MOST_FUNCTIONS {
        let most = BenchSettings::MOST_FUNCTIONS;
        return Err(format!(
            "{functions} functions are too many; the limit is {most}. Use lower densities with --sweep"
        )
        .into());
    }
    if let Some(available) = available_kib()
        && available < FUNCTION_KIB * u64::from(functions)
    {
        let (needs, has) = ((FUNCTION_KIB * u64::from(functions)) >> 10, available >> 10);
        return Err(format!(
            "{functions} functions need up to {needs} MiB of memory, and {has} MiB are available. Use lower densities with --sweep"
        )
        .into());
    }
    if at_once(functions).is_none() {
        return Err(format!(
            "{functions} functions need more than half of the threads that this host has left. Use lower densities with --sweep"
        )
        .into());
    }
    refuse_too_many_requests(settings, functions)?;
    let policies: Vec<Policy> = settings.policies.iter().flatten().copied().collect();
    let journal = Path::new(Journal::PATH);
    refuse_policies(&policies, force, &TrialPlace::look(journal), Journal::left(journal))?;
    if !force || policies.contains(&Policy::LagsStatic) {
        refuse_busy(busy_share()?, &policies)?;
    }
    Ok(())
}

/// Policies are refused where `lagstop trial` would not change anything either.
fn refuse_policies(policies: &[Policy], force: bool, place: &TrialPlace, left: Option<&str>) -> Result<(), Failure> {
    if policies.is_empty() {
        return Ok(());
    }
    if let Some(left) = left {
        return Err(format!("cannot apply a policy: {left}").into());
    }
    match place.refusal() {
        Some(why) if !force => Err(format!("cannot apply a policy here: {why}").into()),
        _ => Ok(()),
    }
}

/// Refuses busy hosts, for real-time functions even with `--force`: nobody guards a benchmark as a trial is guarded, so
/// they are for hosts where nobody else is to run.
fn refuse_busy(share: f64, policies: &[Policy]) -> Result<(), Failure> {
    if share <= BUSY {
        return Ok(());
    }
    let why = format!("the CPUs are {} busy already", whole_percent(share));
    Err(if policies.contains(&Policy::LagsStatic) {
        format!(
            "{why}, and lags-static gives the benchmark real-time priority over other programs. Wait until the host is \
             quiet, or omit lags-static. --force does not allow this"
        )
    } else {
        format!(
            "{why}: the benchmark and the other programs would disturb each other. Wait until the host is quiet, or use --force"
        )
    }
    .into())
}

fn refuse_too_many_requests(settings: &BenchSettings, functions: u32) -> Result<(), Failure> {
    let requests = requests(settings, functions).unwrap_or_default();
    if requests <= BenchSettings::MOST_REQUESTS {
        return Ok(());
    }
    let (millions, most) = (requests / 1e6, BenchSettings::MOST_REQUESTS / 1e6);
    Err(format!(
        "{millions:.0} million requests per run are too many, because all may wait at the same time; the limit is {most} \
         million. Use a shorter --duration, a lower --demand or a longer --work"
    )
    .into())
}

/// `MemAvailable` of proc_meminfo(5). `None` if it is missing.
fn available_kib() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Part of the time of all CPUs that was not idle, just now.
fn busy_share() -> Result<f64, Failure> {
    let sum = |all: Vec<Busy>| {
        all.iter().fold((Nanos::ZERO, Nanos::ZERO), |sum, cpu| {
            (sum.0.saturating_add(cpu.busy_ns), sum.1.saturating_add(cpu.idle_ns))
        })
    };
    let before = sum(busy()?);
    thread::sleep(LOOK);
    let after = sum(busy()?);
    let (busy, idle) = (after.0.saturating_sub(before.0).0 as f64, after.1.saturating_sub(before.1).0 as f64);
    Ok(if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BenchWorkload;

    #[test]
    fn policies_are_refused_where_a_trial_is() {
        let home = tempfile::tempdir().unwrap();
        let place = TrialPlace::look(&home.path().join("trial.journal"));
        let left = Some("a trial was interrupted");
        assert!(refuse_policies(&[], false, &place, left).is_ok(), "nothing is changed");
        let refused = refuse_policies(&[Policy::Weight], true, &place, left).unwrap_err().to_string();
        assert!(refused.contains("interrupted"), "{refused}");
        let container = TrialPlace::elsewhere();
        let refused = refuse_policies(&[Policy::Weight], false, &container, None).unwrap_err().to_string();
        assert!(refused.contains("not guaranteed"), "{refused}");
        assert!(refuse_policies(&[Policy::Weight], true, &container, None).is_ok());
    }

    #[test]
    fn real_time_functions_are_for_quiet_hosts() {
        assert!(refuse_busy(0.1, &[Policy::LagsStatic]).is_ok());
        let refused = |policies: &[Policy]| refuse_busy(0.5, policies).unwrap_err().to_string();
        assert!(refused(&[Policy::Weight]).contains("or use --force"));
        assert!(refused(&[Policy::Weight, Policy::LagsStatic]).contains("--force does not allow"));
    }

    #[test]
    fn more_requests_than_memory_could_hold_are_refused() {
        let settings = |workload, work| BenchSettings {
            workload,
            densities: vec![19],
            policies: Vec::new(),
            switch: crate::trial::SwitchSettings::default(),
            rounds: 1,
            duration: Duration::from_secs(20),
            warm_up: Duration::from_secs(3),
            work,
            latency_target: Duration::from_millis(100),
            demand: 0.1,
            light_alone: false,
            depth: 0,
            base: "bench".to_owned(),
            seed: 1,
            traces: Vec::new(),
        };
        let usual = Duration::from_millis(40);
        assert!(refuse_too_many_requests(&settings(BenchWorkload::Azure, usual), 38).is_ok());
        let short = Duration::from_micros(100);
        // 1,000 a second of each of 5,000, for 23 s.
        let refused = refuse_too_many_requests(&settings(BenchWorkload::Azure, short), 5_000).unwrap_err().to_string();
        assert!(refused.starts_with("115 million requests") && refused.contains("--duration"), "{refused}");
        assert!(refuse_too_many_requests(&settings(BenchWorkload::Resctl, short), 5_000).is_ok(), "closed loops wait");
    }
}
