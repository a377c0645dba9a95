//! Rule: with how many active cgroups the CPUs had most time for the tasks themselves, and whether there are too many now.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §3.1): with more functions on a host the requests that it serves in time grow in number, peak
//! at about nine for each CPU, and fall again as scheduling eats the CPUs up. Requests are not measured here: it is the CPU time
//! that is not lost to switching.

mod peak;

use std::fmt;

use thiserror::Error;

use super::{
    Advice, Density, Figure, FigureDefinition, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{
        figures,
        sources::{COUNTED, DRAWN, LAGS},
    },
};
use crate::{
    model::{Measure, Nanos},
    units,
};
use peak::{BINS, Peak};

figures! {
    peak: Count, "active cgroups at the peak" = "active cgroups where (busy_ns − overhead) / capacity_ns is largest, of six densities", LAGS;
    peak_from: Count, "peak, at least" = "5th percentile of the peak in draws of the intervals", DRAWN;
    peak_to: Count, "peak, at most" = "95th percentile", DRAWN;
    peak_per_cpu: Factor, "peak per CPU" = "peak / cpus_online", LAGS;
    now: Count, "active cgroups in the last quarter" = "mean of active cgroups in the last quarter of the intervals", COUNTED;
    headroom: Count, "more cgroups until the peak" = "peak − now; of peak_from and peak_to beside it", COUNTED;
    lost: SharePoints, "CPU time lost since the peak" = "(busy_ns − overhead) / capacity_ns at the peak − that in the last quarter", DRAWN;
    independent: Count, "independent intervals" = "intervals / their integrated autocorrelation time", DRAWN;
    at_density: Count, "active cgroups, by sixth" = "mean of active cgroups in a sixth of the intervals", COUNTED;
}

/// Why it cannot be told how many cgroups a host can take.
#[derive(Clone, Debug, PartialEq, Error)]
enum NoPeak {
    #[error("{0}")]
    TooShort(String),
    #[error("only the root cgroup ran")]
    OnlyRoot,
    #[error("switch cost is {0}")]
    NotMeasured(String),
    #[error("this needs at least {fewest} intervals (measured: {intervals})")]
    TooFew { fewest: u64, intervals: usize },
    #[error("no task ran")]
    NothingRan,
    #[error("the number of active cgroups hardly varied ({0})")]
    Narrow(Spread),
    #[error("the CPUs were never full ({} busy at most)", units::percent(*.0))]
    NeverFull(f64),
    #[error(
        "this needs at least {fewest} independent intervals, and the {intervals} measured count as only \
         {independent:.1}"
    )]
    Alike { fewest: u64, intervals: usize, independent: f64 },
    #[error("the peak may be below the measured range ({0})")]
    MayBeFewer(Spread),
}

/// How many cgroups were active.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    first: u64,
    last: u64,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} active cgroups", self.first, self.last)
    }
}

/// The peak, or why nothing can be said.
fn find(points: &[Density], thresholds: &Thresholds) -> Result<Peak, NoPeak> {
    let (fewest, intervals) = (thresholds.density_intervals.max(BINS as u64), points.len());
    if (intervals as u64) < fewest {
        return Err(NoPeak::TooFew { fewest, intervals });
    }
    let peak = Peak::find(points).ok_or(NoPeak::NothingRan)?;
    let active = |bin: Option<&Density>| bin.map_or(0, |bin| bin.active);
    let spread = Spread { first: active(peak.bins.first()), last: active(peak.bins.last()) };
    if (spread.last as f64) < thresholds.density_spread * spread.first as f64 {
        return Err(NoPeak::Narrow(spread));
    }
    if peak.at.busy() < thresholds.density_full {
        return Err(NoPeak::NeverFull(peak.at.busy()));
    }
    if peak.independent < fewest as f64 {
        return Err(NoPeak::Alike { fewest, intervals, independent: peak.independent });
    }
    if peak.may_be_first() {
        return Err(NoPeak::MayBeFewer(spread));
    }
    Ok(peak)
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let points = &observations.densities;
    let found = match observations.too_short(thresholds) {
        Some(too_short) => Err(NoPeak::TooShort(too_short)),
        None if points.is_empty() && observations.samples.iter().all(|sample| sample.overhead().is_some()) => {
            Err(NoPeak::OnlyRoot)
        }
        None if points.is_empty() => Err(NoPeak::NotMeasured(observations.session.why_not(Measure::SwitchCost))),
        None => find(points, thresholds),
    };
    let (severity, verdict) = match &found {
        Err(why) => (Severity::NotEnoughData, format!("Cannot judge how many cgroups this host can take: {why}.")),
        Ok(peak) => verdict(peak, thresholds),
    };
    Finding {
        rule: Rule::Density,
        culprits: Vec::new(),
        severity,
        subject: Subject::Host,
        verdict,
        measured: found.as_ref().map(|peak| measured(peak, observations.cpus())).unwrap_or_default(),
        threshold: [Limit::density_spread, Limit::density_full, Limit::density_loss]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: observations.whole().switches,
            samples_are: "switches",
            agreeing: None,
            lost: observations.lost_switches(),
        }
        .confidence(),
        caveats: vec![
            "This measures CPU time not lost to switching, not served requests, which may suffer earlier.".to_owned(),
            "The peak depends on the load during the measurement, not on the host alone.".to_owned(),
            "All cgroups count the same, whatever their demand.".to_owned(),
        ],
        advice: if severity >= Severity::Warning {
            vec![Advice::new(format!(
                "Keep this host at {} active cgroups or fewer. In Kubernetes a pod is several cgroups: divide by the \
                 cgroups per pod, then set the kubelet's maxPods or topologySpreadConstraints.",
                found.as_ref().map_or(0, |peak| peak.at.active)
            ))]
        } else {
            Vec::new()
        },
        cgroups: Vec::new(),
    }
}

fn verdict(peak: &Peak, thresholds: &Thresholds) -> (Severity, String) {
    let Peak { at, from, to, now, lost, .. } = peak;
    if peak.may_be_last() {
        let verdict = format!(
            "The host is not overfilled: tasks got the most CPU time near the highest density seen ({} active \
             cgroups).",
            peak.bins.last().map_or(0, |last| last.active)
        );
        return (Severity::Ok, verdict);
    }
    let best = format!("{} active cgroups ({from} to {to})", at.active);
    if now.active <= *to || now.busy() < thresholds.density_full {
        let now = now.active;
        return (
            Severity::Info,
            format!(
                "Tasks got the most CPU time with {best}; {now} were active in the last \
                                         quarter."
            ),
        );
    }
    let more = format!(
        "The host is beyond its best density of {best}: with {} in the last quarter, tasks got {} less CPU time",
        now.active,
        units::points(lost.value).trim_start_matches('+')
    );
    if lost.value < thresholds.density_loss || lost.low <= 0.0 {
        let why = if lost.low <= 0.0 { "may be chance" } else { "is too little to act on" };
        return (Severity::Info, format!("{more}, which {why}."));
    }
    let waits = now.wait_p99.zip(at.wait_p99).zip(peak.waits_more);
    let Some(((now, at), waits_more)) = waits else {
        return (Severity::Info, format!("{more}; whether they wait longer was not measured."));
    };
    let [now, at] = [now, at].map(|wait| Nanos(wait as u64));
    if waits_more.low <= 0.0 {
        return (Severity::Info, format!("{more}, but waits are not clearly longer (p99 {now} instead of {at})."));
    }
    (Severity::Warning, format!("{more}, and the p99 wait rose from {at} to {now}."))
}

fn measured(peak: &Peak, cpus: u64) -> Vec<Figure> {
    let waits =
        |point: &Density| point.wait_p99.map(|wait| format!(", p99 wait {}", Nanos(wait as u64))).unwrap_or_default();
    let point = |figure: &FigureDefinition, point: &Density| {
        figure.is(point.active).note(format!(
            "{} of all CPU time for tasks, {} overhead{}",
            units::percent(point.work),
            units::percent(point.overhead),
            waits(point)
        ))
    };
    let Peak { at, from, to, now, lost, .. } = peak;
    let mut figures = vec![
        point(&figures::peak, at),
        figures::peak_from.is(*from).note("90 % bootstrap interval"),
        figures::peak_to.is(*to),
        figures::peak_per_cpu.is(at.active as f64 / cpus as f64),
        point(&figures::now, now),
        figures::headroom.is(at.active as f64 - now.active as f64).note(format!(
            "between {} and {}; negative beyond the peak",
            *from as f64 - now.active as f64,
            *to as f64 - now.active as f64
        )),
        figures::lost.is(lost.value).note(format!("at least {}", units::points(lost.low))),
        figures::independent.is(peak.independent),
    ];
    figures.extend(peak.bins.iter().map(|bin| point(&figures::at_density, bin)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::stats::fixture::series;

    fn found(points: &[Density]) -> Result<Peak, NoPeak> {
        find(points, &Thresholds::default())
    }

    /// As a finding is judged by default.
    fn severity(points: &[Density]) -> Severity {
        found(points).map_or(Severity::NotEnoughData, |peak| verdict(&peak, &Thresholds::default()).0)
    }

    /// Full CPUs, of which these cgroups leave so much for the tasks, give or take a point or what `noise` says.
    fn full(active: impl IntoIterator<Item = u64>, noise: &[f64], left: impl Fn(f64) -> f64) -> Vec<Density> {
        let point = |(active, noise): (u64, &f64)| {
            let work = left(active as f64) + noise;
            Density { active, work, overhead: 1.0 - work, wait_p99: Some(1e6 * active as f64) }
        };
        active.into_iter().zip(noise).map(point).collect()
    }

    fn noise(count: usize, memory: f64, size: f64, seed: u64) -> Vec<f64> {
        series(count, memory, seed).iter().map(|value| size * value).collect()
    }

    /// What is left rises up to nine active cgroups, and falls again: in the bins by 6 points.
    fn bends(active: f64) -> f64 {
        if active < 9.0 { 0.93 - 0.03 * (9.0 - active) } else { 0.93 - 0.01 * (active - 9.0) }
    }

    /// A host that fills up, and stays full for the last quarter.
    fn filling(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |n| (4 + 15 * n * 4 / 3 / count).min(18))
    }

    /// Work grows with density up to a peak, and falls beyond it.
    fn points(most: u64, peak: f64) -> Vec<Density> {
        let noise = noise(240, 0.0, 0.02, 5);
        let point = |(n, noise): (u64, &f64)| {
            let active = 10 + (most - 10) * n / 239;
            let x = active as f64 / peak;
            let work = 0.9 * x.min(1.0) - 0.1 * (x - 1.0).max(0.0) + noise;
            Density { active, work, overhead: 0.02 * x + 0.1 * (x - 1.0).max(0.0), wait_p99: Some(1e6 * x) }
        };
        (0..240).zip(&noise).map(point).collect()
    }

    #[test]
    fn a_peak_is_found_with_what_it_may_be() {
        let found = found(&points(300, 120.0)).unwrap();
        assert!(!found.may_be_last() && found.from <= found.at.active && found.at.active <= found.to);
        assert!((90..=160).contains(&found.at.active), "{found:?}");
    }

    #[test]
    fn a_peak_that_was_not_reached_is_none() {
        let found = found(&points(115, 120.0)).unwrap();
        assert!(found.may_be_last());
        assert_eq!(verdict(&found, &Thresholds::default()).0, Severity::Ok);
    }

    #[test]
    fn a_true_loss_with_longer_waits_is_a_warning() {
        for (memory, count) in [(0.0, 120), (0.5, 400)] {
            let points = full(filling(count), &noise(count as usize, memory, 0.01, 3), bends);
            let peak = found(&points).unwrap();
            let (severity, verdict) = verdict(&peak, &Thresholds::default());
            assert_eq!(severity, Severity::Warning, "{verdict} {peak:?}");
            assert!(
                verdict.contains("points less CPU time, and the p99 wait rose from")
                    && verdict.ends_with(" to 18.0 ms."),
                "{verdict}"
            );
            assert!((0.04..0.08).contains(&peak.lost.value) && peak.lost.low > 0.0, "{:?}", peak.lost);
        }
    }

    #[test]
    fn a_loss_is_none_without_longer_waits_or_where_it_is_small() {
        let noise = noise(120, 0.0, 0.01, 3);
        let all = full(filling(120), &noise, bends);
        let with = |change: fn(&mut Density)| {
            let mut points = all.clone();
            points.iter_mut().for_each(change);
            let peak = found(&points).unwrap();
            verdict(&peak, &Thresholds::default())
        };
        let equal = with(|point| point.wait_p99 = Some(1e6));
        assert!(equal.0 == Severity::Info && equal.1.contains("not clearly longer"), "{equal:?}");
        let unknown = with(|point| point.wait_p99 = None);
        assert!(unknown.0 == Severity::Info && unknown.1.contains("was not measured"), "{unknown:?}");
        let peak = found(&all).unwrap();
        for (set, says) in [("5%", None), ("8%", Some("is too little to act on"))] {
            let mut thresholds = Thresholds::default();
            thresholds.set("density_loss", set).unwrap();
            let (severity, verdict) = verdict(&peak, &thresholds);
            assert_eq!(severity == Severity::Warning, says.is_none(), "{set}: {verdict}");
            assert!(says.is_none_or(|says| verdict.contains(says)), "{verdict}");
        }
        let mut idle = peak;
        idle.now.work = 0.1;
        idle.now.overhead = 0.1;
        assert_eq!(verdict(&idle, &Thresholds::default()).0, Severity::Info, "more cgroups, but nothing to do");
    }

    /// Six, then eighteen cgroups that take all CPUs: switching takes a little more, as it always does.
    #[test]
    fn full_cpus_alone_are_no_finding() {
        let noise = noise(120, 0.0, 0.0002, 7);
        let points =
            full((0..120).map(|n| if n < 60 { 6 } else { 18 }), &noise, |active| 0.998 - 0.000_075 * (active - 6.0));
        assert_eq!(severity(&points), Severity::NotEnoughData);
        assert!(
            found(&points).unwrap_err().to_string().contains("below the measured range (6 to 18"),
            "{:?}",
            found(&points)
        );
        // With a peak inside, it is too small.
        let peaked = |active: f64| 0.998 - 0.000_075 * (active - 9.0).max(0.0) - 0.000_2 * (9.0 - active).max(0.0);
        let points = full(filling(120), &noise, peaked);
        assert_eq!(severity(&points), Severity::Info, "{:?}", found(&points));
    }

    /// Whatever order they come in, and however much an interval is like the one before.
    #[test]
    fn without_any_effect_there_is_hardly_a_warning() {
        const RUNS: u64 = 100;
        let mixed = |n: u64| if n < 300 { 4 + n * 7 % 15 } else { 16 + n % 3 };
        for active in [filling(400).collect(), (0..400).map(mixed).collect::<Vec<u64>>()] {
            let is_warned = |seed: &u64| {
                let points = full(active.iter().copied(), &noise(400, 0.9, 0.03, *seed), |_| 0.93);
                severity(&points) == Severity::Warning
            };
            let warnings = (0..RUNS).filter(is_warned).count() as u64;
            println!("{warnings} of {RUNS}, active {:?} and on", &active[..5]);
            assert!(warnings * 20 <= RUNS, "{warnings} of {RUNS}, active {:?} and on", &active[..5]);
        }
    }

    #[test]
    fn a_host_with_little_to_do_has_no_peak() {
        let mut quiet = points(300, 120.0);
        quiet.iter_mut().for_each(|point| (point.work, point.overhead) = (point.work / 2.0, point.overhead / 2.0));
        assert!(found(&quiet).unwrap_err().to_string().contains("never full"));
    }

    #[test]
    fn without_spread_or_independent_intervals_nothing_is_said() {
        let same = vec![points(100, 120.0)[0]; 60];
        assert!(found(&same).unwrap_err().to_string().contains("hardly varied"));
        assert!(found(&same[..5]).unwrap_err().to_string().contains("24 intervals"));
        let slow = full(filling(120), &noise(120, 0.95, 0.03, 1), bends);
        assert!(found(&slow).unwrap_err().to_string().contains("count as only"), "{:?}", found(&slow));
    }
}
