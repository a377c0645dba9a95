//! Rule: how many active cgroups this host bears, and how far it is from that.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §3.1): with more functions on a host throughput grows, peaks at about nine for each
//! CPU, and falls again as scheduling eats the CPUs up.

use super::{
    Advice, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds, Unit, confidence::Basis,
    observations::is_rated, say,
};
use crate::{
    model::{DistributionSum, Interval, Nanos},
    random::Random,
};

/// Densities that are told apart at most.
const BINS: usize = 6;
/// How often the intervals are drawn anew, for the interval of the peak; and what the draws begin with.
const RESAMPLES: usize = 200;
const SEED: u64 = 1;
/// Part of the draws that the interval holds.
const HOLDS: f64 = 0.9;

/// One interval of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    /// Cgroups that ran.
    pub active: u64,
    /// CPU time that went into the tasks' own work, as a share of all there was.
    pub work: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// 99th percentile of all run-queue waits, in nanoseconds. `None` where they were not measured.
    pub wait_p99: Option<f64>,
}

impl Density {
    /// `None` where switch costs were not measured.
    pub(super) fn of(interval: &Interval) -> Option<Self> {
        let host = &interval.host;
        let capacity = (host.busy_ns + host.idle_ns).0 as f64;
        let overhead = host.overhead()?;
        let mut waits = DistributionSum::default();
        let rated = interval.cgroups.iter().filter(|cgroup| is_rated(cgroup.id) && cgroup.totals.cpu_ns > Nanos::ZERO);
        let active = rated.inspect(|cgroup| cgroup.runq_wait.iter().for_each(|more| waits.add(more))).count() as u64;
        let point = Self {
            active,
            work: host.busy_ns.0 as f64 / capacity - overhead,
            overhead,
            wait_p99: waits.total().quantile(0.99).map(|wait| wait.0 as f64),
        };
        (point.work.is_finite() && active > 0).then_some(point)
    }

    /// Share of all CPU time that was not idle.
    fn busy(&self) -> f64 {
        self.work + self.overhead
    }

    /// More goes to scheduling, or waits are longer.
    fn is_worse_than(&self, other: &Self) -> bool {
        self.overhead > other.overhead || self.wait_p99.zip(other.wait_p99).is_some_and(|(mine, theirs)| mine > theirs)
    }

    fn mean(points: &[Self]) -> Self {
        let count = points.len().max(1) as f64;
        let waits: Vec<f64> = points.iter().filter_map(|point| point.wait_p99).collect();
        Self {
            active: (points.iter().map(|point| point.active as f64).sum::<f64>() / count).round() as u64,
            work: points.iter().map(|point| point.work).sum::<f64>() / count,
            overhead: points.iter().map(|point| point.overhead).sum::<f64>() / count,
            wait_p99: (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64),
        }
    }
}

/// Intervals of about the same density, the emptiest first, each as one.
fn bins(points: &mut [Density]) -> Vec<Density> {
    points.sort_by_key(|point| point.active);
    points.chunks(points.len().div_ceil(BINS).max(1)).map(Density::mean).collect()
}

fn peak(bins: &[Density]) -> Option<usize> {
    bins.iter().enumerate().max_by(|(_, a), (_, b)| a.work.total_cmp(&b.work)).map(|(at, _)| at)
}

/// Where the host does most, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
struct Peak {
    bins: Vec<Density>,
    at: Density,
    /// The least and the most that it may be.
    from: u64,
    to: u64,
    /// It is where the most cgroups ran: there may be more to it.
    is_last: bool,
}

impl Peak {
    fn find(points: &[Density], thresholds: &Thresholds) -> Result<Self, String> {
        let fewest = thresholds.density_intervals.max(BINS as u64);
        if (points.len() as u64) < fewest {
            return Err(format!("it takes {fewest} intervals at least, and there are {}", points.len()));
        }
        let bins = bins(&mut points.to_vec());
        let (Some(first), Some(last), Some(at)) = (bins.first(), bins.last(), peak(&bins)) else {
            return Err("nothing ran".to_owned());
        };
        if (last.active as f64) < thresholds.density_spread * first.active as f64 {
            return Err(format!(
                "not enough spread: from {} to {} cgroups were active at a time",
                first.active, last.active
            ));
        }
        if bins[at].busy() < thresholds.density_full {
            return Err(format!("the CPUs were never full: {} busy at most", say::percent(bins[at].busy())));
        }
        let mut random = Random::new(SEED, 0);
        let mut drawn: Vec<u64> = (0..RESAMPLES)
            .filter_map(|_| {
                let mut again: Vec<Density> = points.iter().map(|_| points[random.below(points.len())]).collect();
                let bins = self::bins(&mut again);
                peak(&bins).map(|at| bins[at].active)
            })
            .collect();
        drawn.sort_unstable();
        let quantile = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
        let (from, to) = (quantile((1.0 - HOLDS) / 2.0), quantile((1.0 + HOLDS) / 2.0));
        Ok(Self {
            at: bins[at],
            from: from.min(bins[at].active),
            to: to.max(bins[at].active),
            is_last: at + 1 == bins.len(),
            bins,
        })
    }
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let points = &observations.densities;
    let found = match observations.too_short(thresholds) {
        Some(too_short) => Err(too_short),
        None if points.is_empty() && observations.samples.iter().all(|sample| sample.overhead().is_some()) => {
            Err("no cgroup but the root ran".to_owned())
        }
        None if points.is_empty() => Err(format!("switch cost is {}", observations.session.why_not("switch cost"))),
        None => Peak::find(points, thresholds),
    };
    let now = Density::mean(&points[points.len() - points.len() / 4..]);
    let (severity, verdict) = match &found {
        Err(why) => (Severity::NotEnoughData, format!("How many cgroups this host bears cannot be said: {why}.")),
        Ok(peak) => verdict(peak, &now, thresholds),
    };
    Finding {
        rule: Rule::Density,
        severity,
        subject: Subject::Host,
        verdict,
        measured: found.as_ref().map(|peak| measured(peak, &now, observations.cpus())).unwrap_or_default(),
        threshold: [Limit::DensitySpread, Limit::DensityFull].map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: observations.whole().switches,
            samples_are: "switches",
            agreeing: None,
            lost: observations.lost_switches(),
        }
        .confidence(),
        against: vec![
            "That more or less was to do at the time shows as work, too: the peak is of this load, not of the host alone."
                .to_owned(),
            "Cgroups count alike, however much they ask for.".to_owned(),
        ],
        advice: if severity >= Severity::Warning {
            vec![Advice::new(format!(
                "Place no more than {} active cgroups on a host like this at a time: the scheduler of the cluster has a limit for \
                 pods for each node, and priorities that spread them.",
                found.as_ref().map_or(0, |peak| peak.at.active)
            ))]
        } else {
            Vec::new()
        },
        cgroups: Vec::new(),
    }
}

fn verdict(peak: &Peak, now: &Density, thresholds: &Thresholds) -> (Severity, String) {
    let Peak { at, from, to, .. } = peak;
    let about = format!("{} active cgroups (between {from} and {to})", at.active);
    if peak.is_last || *to >= peak.bins.last().map_or(0, |last| last.active) {
        let verdict = format!(
            "The host did most with the most cgroups that were active, {}: its peak was not reached.",
            peak.bins.last().map_or(0, |last| last.active)
        );
        return (Severity::Ok, verdict);
    }
    if now.active > *to && now.busy() >= thresholds.density_full && now.is_worse_than(at) {
        let lost = at.work - now.work;
        let waits = now
            .wait_p99
            .zip(at.wait_p99)
            .map(|(now, at)| format!(", and the p99 wait is {} instead of {}", Nanos(now as u64), Nanos(at as u64)));
        let verdict = format!(
            "The host did most with {about}, and with {} now it does {} less of all CPU time{}.",
            now.active,
            say::percent(lost.max(0.0)),
            waits.unwrap_or_default()
        );
        return (Severity::Warning, verdict);
    }
    (Severity::Info, format!("The host did most with {about}; now {} are active.", now.active))
}

fn measured(peak: &Peak, now: &Density, cpus: u64) -> Vec<Figure> {
    let waits =
        |point: &Density| point.wait_p99.map(|wait| format!(", p99 wait {}", Nanos(wait as u64))).unwrap_or_default();
    let point = |name, label, point: &Density| {
        Figure::new(name, label, point.active, Unit::Count).note(format!(
            "{} of all CPU time is work, {} overhead{}",
            say::percent(point.work),
            say::percent(point.overhead),
            waits(point)
        ))
    };
    let mut figures = vec![
        point("peak", "active cgroups at the peak", &peak.at),
        Figure::new("peak_from", "at least", peak.from, Unit::Count)
            .note("nine in ten draws of the intervals have it between"),
        Figure::new("peak_to", "at most", peak.to, Unit::Count),
        Figure::new("peak_per_cpu", "the same per CPU", peak.at.active as f64 / cpus as f64, Unit::Factor),
        point("now", "active cgroups in the last quarter", now),
        Figure::new("headroom", "more cgroups until the peak", peak.at.active as f64 - now.active as f64, Unit::Count)
            .note(format!(
                "between {} and {}; below 0 the host is beyond it",
                peak.from as f64 - now.active as f64,
                peak.to as f64 - now.active as f64
            )),
    ];
    figures.extend(peak.bins.iter().map(|bin| point("at_density", "with so many active", bin)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(points: &[Density]) -> Result<Peak, String> {
        Peak::find(points, &Thresholds::default())
    }

    /// Work grows with density up to a peak, and falls beyond it.
    fn points(most: u64, peak: f64) -> Vec<Density> {
        let mut random = Random::new(5, 5);
        (0..240)
            .map(|n| {
                let active = 10 + (most - 10) * n / 239;
                let x = active as f64 / peak;
                let work = 0.9 * x.min(1.0) - 0.1 * (x - 1.0).max(0.0) + 0.01 * random.unit();
                Density { active, work, overhead: 0.02 * x + 0.1 * (x - 1.0).max(0.0), wait_p99: Some(1e6 * x) }
            })
            .collect()
    }

    #[test]
    fn a_peak_is_found_with_what_it_may_be() {
        let found = find(&points(300, 120.0)).unwrap();
        assert!(!found.is_last && found.from <= found.at.active && found.at.active <= found.to);
        assert!((90..=160).contains(&found.at.active), "{found:?}");
    }

    #[test]
    fn a_peak_that_was_not_reached_is_none() {
        let found = find(&points(115, 120.0)).unwrap();
        assert!(found.is_last);
        assert_eq!(verdict(&found, &found.at, &Thresholds::default()).0, Severity::Ok);
    }

    #[test]
    fn a_host_beyond_its_peak_is_told_so() {
        let all = points(600, 120.0);
        let found = find(&all).unwrap();
        let (severity, verdict) = verdict(&found, &Density::mean(&all[200..]), &Thresholds::default());
        assert_eq!(severity, Severity::Warning, "{verdict}");
        assert!(verdict.contains("the p99 wait is"), "{verdict}");
        let at = |active| {
            let now = Density { active, ..Density::mean(&all[200..]) };
            super::verdict(&found, &now, &Thresholds::default()).0
        };
        assert_eq!([found.to, found.to + 1].map(at), [Severity::Info, Severity::Warning]);
    }

    #[test]
    fn a_host_with_little_to_do_has_no_peak() {
        let mut quiet = points(300, 120.0);
        quiet.iter_mut().for_each(|point| (point.work, point.overhead) = (point.work / 2.0, point.overhead / 2.0));
        assert!(find(&quiet).unwrap_err().contains("never full"));
        let all = points(600, 120.0);
        let idle = Density { work: 0.1, ..Density::mean(&all[200..]) };
        assert_eq!(
            verdict(&find(&all).unwrap(), &idle, &Thresholds::default()).0,
            Severity::Info,
            "more cgroups, but nothing to do"
        );
    }

    #[test]
    fn without_spread_nothing_is_said() {
        let same = vec![points(100, 120.0)[0]; 60];
        assert!(find(&same).unwrap_err().contains("not enough spread"));
        assert!(find(&same[..5]).unwrap_err().contains("24 intervals"));
    }
}
