//! What lagstop predicts of made-up hosts. If it predicts something else, the forecast is not the one that was
//! calibrated.
//!
//! It recognises another forecast only by its results. It knows nothing of what neither host has, such as thousands of
//! cgroups. How strong an intervention is, is not part of it: that is up to lagstop trial.

use std::sync::{Arc, LazyLock};

use lagstop::{
    diagnosis::{Competitors, ForecastFigure, Forecaster, Intervention, Observations, Ranking},
    model::{Cgroup, CgroupId, Distribution, Interval, Level, Nanos, Session, Totals},
};

const MS: u64 = 1_000_000;

/// Each figure of each intervention on each host, in tenths of a percent.
pub(super) static FINGERPRINT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (name, host) in [("flat", flat()), ("nested", nested())] {
        let sides = host.competitors(|path| path.contains("light"));
        let (Ok(sides), Some(forecaster)) = (sides, host.forecaster()) else { continue };
        for (what, intervention) in interventions(&sides) {
            all.extend(figures(&forecaster, &sides, &format!("{name}, {what}"), &intervention));
        }
    }
    all
});

/// Whether both are of the same forecast. A simulation amplifies small differences: the last digits of `exp` and `ln`,
/// which C libraries round differently, moved figures by 2.2 points.
pub(super) fn is_same(some: &[String], others: &[String]) -> bool {
    const CHANCE: f64 = 3.0;
    let number = |word: &str| word.trim_matches(['[', ']', ',']).parse::<f64>().ok();
    let are_near = |one: &str, other: &str| match (number(one), number(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= CHANCE,
        _ => one == other,
    };
    let is_near = |one: &String, other: &String| {
        one.split(' ').count() == other.split(' ').count()
            && one.split(' ').zip(other.split(' ')).all(|(one, other)| are_near(one, other))
    };
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_near(one, other))
}

fn figures(forecaster: &Forecaster<'_>, sides: &Competitors, what: &str, intervention: &Intervention) -> Vec<String> {
    let forecast = forecaster.forecast(sides, intervention);
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let figure = |figure: ForecastFigure| {
        let name = figure.name();
        match (forecast.change(figure), forecast.why_not(figure)) {
            (Some(it), _) => {
                format!("{what}: {name} {} [{}, {}]", percent(it.change), percent(it.low), percent(it.high))
            }
            (None, why) => format!("{what}: {name} n/a: {}", why.map(|why| why.to_string()).unwrap_or_default()),
        }
    };
    ForecastFigure::ALL.map(figure).into()
}

/// One intervention of each kind.
fn interventions(sides: &Competitors) -> [(&'static str, Intervention); 6] {
    let Competitors { light, heavy } = sides;
    let weights = |of: &[Arc<str>], weight: f64| of.iter().map(|path| (Arc::clone(path), weight)).collect::<Vec<_>>();
    let slices = |of: &[Arc<str>], slice| of.iter().map(|path| (Arc::clone(path), Nanos(slice))).collect::<Vec<_>>();
    let all = [&**light, &**heavy].concat();
    let none = Intervention::default;
    let dynamic = Ranking {
        ranked: all.clone(),
        heavy: heavy.clone(),
        every: Nanos(500 * MS),
        heavy_from: 1.2,
        light_below: 0.8,
    };
    [
        ("weights", Intervention { weights: [weights(light, 400.0), weights(heavy, 50.0)].concat(), ..none() }),
        ("idle", Intervention { idle: heavy[..heavy.len().min(1)].into(), ..none() }),
        ("slices", Intervention { slices: [slices(light, MS / 2), slices(heavy, 20 * MS)].concat(), ..none() }),
        ("real time", Intervention { real_time: light.clone(), ..none() }),
        ("dynamic", Intervention { dynamic: Some(dynamic), ..none() }),
        ("lightest first", Intervention { lightest_first: all, ..none() }),
    ]
}

/// A cgroup in an interval: its path, threads, CPU time and waits in milliseconds, and how often its threads fell asleep.
struct Row(&'static str, u64, u64, u64, u64);

/// On two CPUs two cgroups never sleep, three work for a millisecond now and then, and one does neither.
fn flat() -> Observations {
    let rows = |_| {
        vec![
            Row("/light-1", 1, 85, 140, 85),
            Row("/light-2", 1, 85, 140, 85),
            Row("/light-3", 1, 85, 140, 85),
            Row("/heavy-1", 2, 820, 1_180, 0),
            Row("/heavy-2", 2, 820, 1_180, 0),
            Row("/others", 2, 80, 80, 20),
        ]
    };
    observed(2, 8.0, rows, |_| {})
}

/// On three CPUs, pods of unequal weights, one with a quota and one with a CPU of its own; one of them sleeps in every other
/// interval only, and another in many short naps, more than are simulated.
fn nested() -> Observations {
    let rows = |seq: u64| {
        vec![
            Row("/pods/light-a/web", 2, 120, 330, 100),
            Row("/pods/light-b/queue", 4, 200, 520, 3_200),
            Row("/pods/heavy-a/batch", 3, 1_300, 1_700, 0),
            Row("/pods/heavy-b/report", 2, 700, 800, if seq.is_multiple_of(2) { 0 } else { 14 }),
            Row("/system/agent", 2, 200, 620 + 40 * (seq % 4), 60),
        ]
    };
    observed(3, 80.0, rows, |cgroup| {
        let weight = |weight| Level { weight: Some(weight), ..Level::DEFAULT };
        let pod = match &*cgroup.path {
            path if path.contains("light") => weight(60.0),
            path if path.contains("report") => {
                Level { quota_ns: Some(Nanos(75 * MS)), period_ns: Some(Nanos(100 * MS)), ..weight(150.0) }
            }
            path if path.contains("agent") => {
                cgroup.cpus = Some("2".into());
                cgroup.levels = Some([Level::DEFAULT, weight(100.0)].into());
                return;
            }
            _ => weight(200.0),
        };
        cgroup.levels = Some([weight(800.0), pod, Level::DEFAULT].into());
    })
}

/// `count` waits that add up to `sum` nanoseconds, of which one in fifty is `tail` times as long as the others.
fn skewed(sum: u64, count: u64, tail: f64) -> Distribution {
    let usual = sum as f64 / count.max(1) as f64 / (0.98 + 0.02 * tail);
    let long = (count / 50) as u32;
    let short = (count as u32).saturating_sub(long);
    Distribution::of([(Nanos(usual as u64), short), (Nanos((tail * usual) as u64), long)])
}

/// Eight intervals of a second. A switch costs 2 µs and more the more wait.
fn observed(cpus: u64, tail: f64, rows: impl Fn(u64) -> Vec<Row>, place: impl Fn(&mut Cgroup)) -> Observations {
    let mut observations = Observations::new(Session { cpus_online: cpus, ..Session::default() });
    for seq in 0..8 {
        let cgroup = |(id, Row(path, threads, cpu_ms, wait_ms, sleeps)): (u64, Row)| {
            let switches = sleeps + cpu_ms / 3;
            let each = 2_000 + 500 * (seq % 4);
            let mut cgroup = Cgroup {
                id: CgroupId(id),
                path: path.into(),
                name: path.into(),
                levels: Some([Level::DEFAULT].into()),
                totals: Totals {
                    switches,
                    voluntary_switches: sleeps,
                    involuntary_switches: cpu_ms / 3,
                    cpu_ns: Nanos(cpu_ms * MS),
                    threads,
                    schedule_calls: Some(switches),
                    pick_ns: Some(Nanos(switches * each)),
                    kept_ns: Some(Nanos(0)),
                    swap_ns: Some(Nanos(switches * each)),
                    runq_waits: Some(switches),
                    runq_wait_ns: Some(Nanos(wait_ms * MS)),
                    ..Totals::default()
                },
                runq_wait: Some(skewed(wait_ms * MS, switches, tail)),
                ..Cgroup::default()
            };
            place(&mut cgroup);
            cgroup
        };
        let cgroups: Vec<Cgroup> = (11..).zip(rows(seq)).map(cgroup).collect();
        let mut interval = Interval {
            seq,
            start_ns: Nanos(seq * Nanos::SECOND.0),
            duration_ns: Nanos::SECOND,
            cgroups,
            ..Interval::default()
        };
        let totals = interval.cgroups.iter().map(|cgroup| cgroup.totals).reduce(|mut sum, totals| {
            sum.add(&totals);
            sum
        });
        let host = &mut interval.host;
        host.totals = totals.unwrap_or_default();
        host.cpus_online = cpus;
        host.times.busy_ns = host.totals.cpu_ns;
        host.times.idle_ns = Nanos((cpus * Nanos::SECOND.0).saturating_sub(host.times.busy_ns.0));
        let none = Some(Nanos(0));
        (host.idle.schedule_calls, host.idle.pick_ns, host.idle.kept_ns, host.idle.swap_ns) =
            (Some(0), none, none, none);
        observations.add(&interval);
    }
    observations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_forecast_is_told_from_another_c_library() {
        let of = |text: &str| vec![text.to_owned()];
        let measured = of("nested, slices: light_waiting -15.4 [-38.9, 17.3]");
        assert!(is_same(&measured, &of("nested, slices: light_waiting -14.3 [-36.7, 16.2]")));
        assert!(!is_same(&measured, &of("nested, slices: light_waiting -12.3 [-36.7, 16.2]")));
        assert!(!is_same(&measured, &of("nested, slices: heavy_waiting -15.4 [-38.9, 17.3]")));
        assert!(!is_same(&measured, &of("nested, slices: light_waiting n/a: nobody waits")));
        assert!(!is_same(&measured, &[]));
    }

    #[test]
    fn every_figure_is_predicted_and_no_two_interventions_do_the_same() {
        let all = &*FINGERPRINT;
        assert_eq!(all.len(), 2 * 6 * ForecastFigure::ALL.len());
        for host in ["flat", "nested"] {
            for figure in ForecastFigure::ALL.map(ForecastFigure::name) {
                let is_it = |line: &&String| line.starts_with(host) && line.contains(figure) && !line.contains("n/a");
                assert!(all.iter().filter(is_it).count() >= 4, "{host}, {figure}: {all:#?}");
            }
            let of: Vec<&[String]> =
                all.chunks(ForecastFigure::ALL.len()).filter(|lines| lines[0].starts_with(host)).collect();
            let figures = |lines: &[String]| -> Vec<String> {
                lines.iter().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect()
            };
            for (number, one) in of.iter().enumerate() {
                assert!(of[..number].iter().all(|other| figures(other) != figures(one)), "{one:#?}");
            }
        }
    }
}
