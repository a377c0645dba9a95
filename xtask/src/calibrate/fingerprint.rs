//! What lagstop predicts of a host that never was: a forecast that predicts otherwise is another one than was calibrated.

use std::sync::{Arc, LazyLock};

use lagstop::{
    diagnosis::{Forecaster, Intervention, Observations, Ranking},
    model::{Cgroup, CgroupId, Interval, Level, Nanos, Session, Totals},
};

use super::case::FIGURES;

const LIGHT: [&str; 3] = ["/light-1", "/light-2", "/light-3"];
const HEAVY: [&str; 2] = ["/heavy-1", "/heavy-2"];
const INTERVALS: u64 = 8;
const MS: u64 = 1_000_000;

/// Each figure of each intervention, in tenths of a percent: where they are the same, so is the forecast.
pub(super) static FINGERPRINT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let host = host();
    let Some(forecaster) = host.forecaster() else { return Vec::new() };
    interventions().iter().flat_map(|(name, intervention)| figures(&forecaster, &host, name, intervention)).collect()
});

fn figures(forecaster: &Forecaster<'_>, host: &Observations, name: &str, intervention: &Intervention) -> Vec<String> {
    let Ok(sides) = host.competitors(|path| LIGHT.contains(&path)) else { return Vec::new() };
    let forecast = forecaster.forecast(&sides, intervention);
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let figure = |figure| match forecast.change(figure) {
        Some(it) => format!("{name} {figure} {} [{}, {}]", percent(it.change), percent(it.low), percent(it.high)),
        None => format!("{name} {figure} n/a: {}", forecast.why_not(figure).unwrap_or_default()),
    };
    FIGURES.map(figure).into()
}

/// One of each kind that there is.
fn interventions() -> [(&'static str, Intervention); 6] {
    let paths = |paths: &[&str]| -> Vec<Arc<str>> { paths.iter().map(|&path| path.into()).collect() };
    let weights = |of: &[&str], weight: f64| paths(of).into_iter().map(move |path| (path, weight)).collect::<Vec<_>>();
    let slices = |of: &[&str], slice| paths(of).into_iter().map(move |path| (path, Nanos(slice))).collect::<Vec<_>>();
    let all = [paths(&LIGHT), paths(&HEAVY)].concat();
    let none = Intervention::default;
    let dynamic = Ranking {
        ranked: all.clone(),
        heavy: paths(&HEAVY),
        every: Nanos(500 * MS),
        heavy_from: 1.2,
        light_below: 0.8,
    };
    [
        ("weights", Intervention { weights: [weights(&LIGHT, 400.0), weights(&HEAVY, 50.0)].concat(), ..none() }),
        ("idle", Intervention { idle: paths(&HEAVY[..1]), ..none() }),
        ("slices", Intervention { slices: [slices(&LIGHT, MS / 2), slices(&HEAVY, 20 * MS)].concat(), ..none() }),
        ("real time", Intervention { real_time: paths(&LIGHT), ..none() }),
        ("dynamic", Intervention { dynamic: Some(dynamic), ..none() }),
        ("lightest first", Intervention { lightest_first: all, ..none() }),
    ]
}

/// Two CPUs, on which two cgroups never sleep, three work for a millisecond now and then, and one does neither.
fn host() -> Observations {
    let row = |id, path: &str, threads, cpu_ms: u64, wait_ms: u64, sleeps| Cgroup {
        id: CgroupId(id),
        path: path.into(),
        name: path.into(),
        levels: Some([Level::DEFAULT].into()),
        totals: Totals {
            cpu_ns: Nanos(cpu_ms * MS),
            runq_wait_ns: Some(Nanos(wait_ms * MS)),
            voluntary_switches: sleeps,
            threads,
            ..Totals::default()
        },
        ..Cgroup::default()
    };
    let mut observations = Observations::new(Session { cpus_online: 2, ..Session::default() });
    for seq in 0..INTERVALS {
        let mut interval = Interval {
            seq,
            start_ns: Nanos(seq * Nanos::SECOND.0),
            duration_ns: Nanos::SECOND,
            cgroups: vec![
                row(11, LIGHT[0], 1, 85, 140, 85),
                row(12, LIGHT[1], 1, 85, 140, 85),
                row(13, HEAVY[0], 2, 820, 1_180, 0),
                row(14, HEAVY[1], 2, 820, 1_180, 0),
                row(15, LIGHT[2], 1, 85, 140, 85),
                row(16, "/others", 2, 80, 80, 20),
            ],
            ..Interval::default()
        };
        interval.host.cpus_online = 2;
        observations.add(&interval);
    }
    observations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_intervention_is_predicted_and_no_two_alike() {
        let all = &*FINGERPRINT;
        assert_eq!(all.len(), interventions().len() * FIGURES.len());
        let of = |name: &str| -> Vec<&str> { all.iter().filter_map(|line| line.strip_prefix(name)).collect() };
        let interventions = interventions();
        for (name, _) in &interventions {
            // Switches cost nothing there.
            let predicted = of(name).iter().filter(|line| !line.contains("n/a")).count();
            assert_eq!(predicted, FIGURES.len() - 1, "{all:#?}");
            let same = interventions.iter().filter(|(other, _)| of(other) == of(name)).count();
            assert_eq!(same, 1, "{name}: {all:#?}");
        }
    }
}
