//! Why overhead is higher when the host is busy: more switches, or more expensive ones.
//!
//! What switches cost is rate × mean cost ("multiplicatively", CFS-LAGS paper, arXiv 2508.15703, abstract), so its growth
//! is the product of theirs: `ln(O₁/O₀) = ln(r₁/r₀) + ln(c₁/c₀)`. The additive logarithmic mean Divisia index (B. W. Ang,
//! "The LMDI approach to decomposition analysis", Energy Policy 33, 2005) turns it into shares of CPU time that add up
//! without a remainder: `ΔO = L·ln(r₁/r₀) + L·ln(c₁/c₀)` with the logarithmic mean `L = (O₁ − O₀) / ln(O₁/O₀)`.

use super::{HostSample, Thresholds};

/// How overhead changed from quiet to busy times, and by what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// `O₁/O₀` of what switches cost.
    pub factor: f64,
    /// `r₁/r₀`: how many times as many switches.
    pub rate_factor: f64,
    /// `c₁/c₀`: how many times as expensive each is.
    pub cost_factor: f64,
    /// Share of CPU time that the change of rate added.
    pub by_rate: f64,
    /// Share of CPU time that the change of cost added.
    pub by_cost: f64,
    /// Share of CPU time that calls added which kept the running task.
    pub by_kept: f64,
}

impl Growth {
    /// From `quiet` to `busy`. `None` where one of them has no switches, or what they cost was not measured.
    pub fn between(quiet: &HostSample, busy: &HostSample) -> Option<Self> {
        let (rate0, rate1) = (quiet.rate(), busy.rate());
        let (cost0, cost1) = (quiet.mean_cost_ns()?, busy.mean_cost_ns()?);
        let by_kept = busy.kept()? - quiet.kept()?;
        let o0 = rate0 * cost0 / 1e9;
        let (rate_factor, cost_factor) = (rate1 / rate0, cost1 / cost0);
        let (ln_rate, ln_cost) = (rate_factor.ln(), cost_factor.ln());
        let ln = ln_rate + ln_cost;
        // L = O₀ (eᶻ − 1)/z: exact where O₁ ≈ O₀, too.
        let mean = if ln == 0.0 { o0 } else { o0 * (ln.exp_m1() / ln) };
        let growth = Self {
            factor: ln.exp(),
            rate_factor,
            cost_factor,
            by_rate: mean * ln_rate,
            by_cost: mean * ln_cost,
            by_kept,
        };
        growth.figures().iter().all(|figure| figure.is_finite()).then_some(growth)
    }

    /// Share of CPU time that was added in all.
    pub fn added(&self) -> f64 {
        self.by_rate + self.by_cost + self.by_kept
    }

    /// Share of the growth of what switches cost that comes from there being more of them. Below 0 or above 1 where
    /// rate and cost went opposite ways.
    pub fn rate_share(&self) -> Option<f64> {
        let switching = self.by_rate + self.by_cost;
        Some(self.by_rate / switching).filter(|share| share.is_finite())
    }

    /// Is the change large enough to be reported?
    pub fn is_notable(&self, thresholds: &Thresholds) -> bool {
        self.factor >= thresholds.growth_notable
    }

    const fn figures(&self) -> [f64; 6] {
        [self.factor, self.rate_factor, self.cost_factor, self.by_rate, self.by_cost, self.by_kept]
    }
}

/// Why there is no quiet time to compare with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NoQuiet {
    /// Too few intervals with switches to form quarters.
    TooFew(usize),
    /// The load hardly varied. Holds the load per CPU in the quietest and in the busiest quarter.
    Steady(f64, f64),
    /// A quarter has too few switches for a mean.
    FewSwitches(u64),
}

/// The fewest intervals in a quarter: a single one may be an outlier.
const SMALLEST_QUARTER: usize = 2;

/// The load must differ by this factor between the quarters for one of them to be the quiet one. Chosen: the quarters of an even
/// load differ by chance, as they are sorted by it.
const LOAD_VARIES: f64 = 1.25;

/// The quietest and the busiest quarter of the intervals by runnable load per CPU, each summed.
pub(super) fn quarters(samples: &[HostSample], thresholds: &Thresholds) -> Result<(HostSample, HostSample), NoQuiet> {
    let mut by_load: Vec<(f64, &HostSample)> =
        samples.iter().filter(|s| s.capacity_ns > 0.0 && s.switches > 0).map(|s| (s.load_per_cpu(), s)).collect();
    by_load.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let size = by_load.len() / 4;
    if size < SMALLEST_QUARTER {
        return Err(NoQuiet::TooFew(by_load.len()));
    }
    let quiet = HostSample::sum(by_load[..size].iter().map(|&(_, s)| s));
    let busy = HostSample::sum(by_load[by_load.len() - size..].iter().map(|&(_, s)| s));
    let fewest = quiet.switches.min(busy.switches);
    if fewest < thresholds.min_switches {
        return Err(NoQuiet::FewSwitches(fewest));
    }
    if busy.load_per_cpu() < quiet.load_per_cpu() * LOAD_VARIES {
        return Err(NoQuiet::Steady(quiet.load_per_cpu(), busy.load_per_cpu()));
    }
    Ok((quiet, busy))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(switches: u64, switching_ns: f64, kept_ns: f64, capacity_ns: f64) -> HostSample {
        HostSample {
            capacity_ns,
            busy_ns: capacity_ns / 2.0,
            wait_ns: Some(0.0),
            switches,
            switching_ns: Some(switching_ns),
            kept_ns: Some(kept_ns),
        }
    }

    #[test]
    fn twice_as_many_switches_twice_as_dear_are_half_and_half() {
        let g = Growth::between(&sample(1_000, 5e6, 0.0, 1e9), &sample(2_000, 2e7, 1e6, 1e9)).unwrap();
        assert_eq!((g.rate_factor, g.cost_factor), (2.0, 2.0));
        assert!((g.factor - 4.0).abs() < 1e-12);
        assert!((g.rate_share().unwrap() - 0.5).abs() < 1e-12);
        assert!((g.by_rate - 0.0075).abs() < 1e-12 && (g.by_kept - 0.001).abs() < 1e-12, "{g:?}");
    }

    #[test]
    fn opposite_ways_show_as_such() {
        let g = Growth::between(&sample(1_000, 1e7, 0.0, 1e9), &sample(4_000, 2e7, 0.0, 1e9)).unwrap();
        assert!(g.by_rate > 0.01 && g.by_cost < 0.0 && g.rate_share().unwrap() > 1.0, "{g:?}");
    }

    #[test]
    fn a_quiet_quarter_needs_a_load_that_varies() {
        let t = Thresholds::default();
        let steady = vec![sample(1_000, 1e6, 0.0, 1e9); 40];
        assert_eq!(quarters(&steady, &t), Err(NoQuiet::Steady(0.5, 0.5)));
        assert_eq!(quarters(&steady[..7], &t), Err(NoQuiet::TooFew(7)));
        assert_eq!(quarters(&[sample(1, 1e3, 0.0, 1e9); 40], &t), Err(NoQuiet::FewSwitches(10)));
        let varying: Vec<HostSample> =
            (1..=40).map(|i| HostSample { busy_ns: f64::from(i) * 1e7, ..sample(1_000, 1e6, 0.0, 1e9) }).collect();
        let (quiet, busy) = quarters(&varying, &t).unwrap();
        assert!((quiet.load_per_cpu() - 0.055).abs() < 1e-9 && (busy.load_per_cpu() - 0.355).abs() < 1e-9);
    }

    prop_compose! {
        fn any_sample()(
            switches in prop_oneof![Just(0), 1u64..1 << 40, Just(u64::MAX)],
            switching in prop_oneof![Just(0.0), 1.0f64..1e15, Just(u64::MAX as f64)],
            kept in prop_oneof![Just(0.0), 0.0f64..1e15],
            capacity in prop_oneof![Just(0.0), 1.0f64..1e18],
        ) -> HostSample { sample(switches, switching, kept, capacity) }
    }

    proptest! {
        #[test]
        fn the_parts_add_up(a in any_sample(), b in any_sample()) {
            let Some(g) = Growth::between(&a, &b) else {
                let zero = |s: &HostSample| s.switches == 0 || s.switching_ns == Some(0.0) || s.capacity_ns == 0.0;
                prop_assert!(zero(&a) || zero(&b), "only zeros may have no growth: {a:?} {b:?}");
                return Ok(());
            };
            let (o0, o1) = (a.switching().unwrap(), b.switching().unwrap());
            prop_assert!((g.rate_factor.ln() + g.cost_factor.ln() - (o1 / o0).ln()).abs() < 1e-9);
            let scale = o0.max(o1).max(g.by_rate.abs());
            prop_assert!((g.by_rate + g.by_cost - (o1 - o0)).abs() <= 1e-9 * scale, "{g:?}: {o0} to {o1}");
            let whole = b.overhead().unwrap() - a.overhead().unwrap();
            prop_assert!((g.added() - whole).abs() <= 1e-9 * scale.max(b.kept().unwrap()).max(a.kept().unwrap()));
            prop_assert!(!g.rate_share().is_some_and(f64::is_nan));
        }

        #[test]
        fn quarters_never_panic(samples in prop::collection::vec(any_sample(), 0..40)) {
            if let Ok((quiet, busy)) = quarters(&samples, &Thresholds::default()) {
                prop_assert!(quiet.load_per_cpu() <= busy.load_per_cpu());
            }
        }
    }
}
