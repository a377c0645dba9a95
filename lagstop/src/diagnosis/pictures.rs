//! What pictures of a recording show.

mod victims;

pub use victims::{Part, VictimTime};

use super::{CandidateClass, CostCurve, Finding, HistoryPiece, Observations, Report, Rule};

/// Buckets of waits and how many waits there were in each.
type Waits = Vec<(f64, f64)>;

/// What pictures of a recording show.
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// Those that wait long, the worst first, and what for.
    pub victims: Vec<VictimTime>,
    /// The host over time.
    pub moments: Vec<HistoryPiece>,
    /// Runnable tasks per CPU, and the mean cost of a switch in nanoseconds, of each interval.
    pub costs: Vec<(f64, f64)>,
    /// What the intervals make of that. `None` where costs were not measured.
    pub curve: Option<CostCurve>,
    /// Load Credit in tasks, wait per CPU time, class, and whether it waits long, of each cgroup that was compared.
    pub cgroups: Vec<(f64, f64, CandidateClass, bool)>,
    /// Run-queue waits of light cgroups, in nanoseconds, and how many there were: as measured, and with the lightest first.
    pub light_waits: Option<(Waits, Waits)>,
}

impl Observations {
    /// What pictures show, beside the report.
    pub fn pictures(&self, report: &Report) -> Pictures {
        let findings: &[Finding] = &report.findings;
        let candidates =
            || findings.iter().filter(|finding| finding.rule == Rule::LagsCandidates).flat_map(|it| &it.cgroups);
        let cgroups = candidates()
            .filter_map(|one| Some((one.load_credit.as_f64(), one.wait_per_cpu?.as_f64(), one.class, one.waits_long)));
        let mut before = Waits::new();
        let mut after = Waits::new();
        for one in candidates().filter(|one| one.class == CandidateClass::Light) {
            let Some(left) = one.wait_left else { continue };
            let waits = self.inside(&one.cgroup).filter_map(|observed| observed.runq_wait.as_ref());
            for (wait, count) in waits.flat_map(crate::model::Distribution::bins) {
                let (wait, count) = (wait.0 as f64, f64::from(count));
                before.push((wait, count));
                // Each of its waits is taken to shrink alike: the simulation knows their sum.
                after.push((wait * left.as_f64(), count));
            }
        }
        let costs = self.samples.iter().filter(|sample| sample.capacity_ns > 0.0);
        Pictures {
            victims: victims::victims(self, &report.verdict, &report.thresholds),
            moments: self.history.moments().to_vec(),
            costs: costs.filter_map(|sample| Some((sample.load_per_cpu(), sample.mean_cost_ns()?))).collect(),
            curve: CostCurve::of(&self.samples),
            cgroups: cgroups.collect(),
            light_waits: (!before.is_empty()).then_some((before, after)),
        }
    }
}
