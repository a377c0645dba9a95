//! What came of a run: target/calibration.json.

use lagstop::trial::{Policy, Predicted};
use serde::{Deserialize, Serialize};

use super::{
    fingerprint::{FINGERPRINT, is_same},
    load::Class,
};

/// Everything that was measured. It says nothing of when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Calibration {
    pub(super) schema: String,
    pub(super) setup: Setup,
    pub(super) cases: Vec<Case>,
}

/// What all cases share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    /// SHA-256 of the lagstop that was tried.
    pub(super) lagstop: String,
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    /// Version of the cgroup hierarchy with the `cpu` controller.
    pub(super) cgroups: u32,
    pub(super) seed: u64,
    /// How long was measured before each trial.
    pub(super) before_seconds: f64,
    /// How long each trial took.
    pub(super) trial_seconds: f64,
    /// What the forecast predicted of a host that never was.
    #[serde(default)]
    pub(super) fingerprint: Vec<String>,
}

/// A load, and a policy that was tried on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) load: String,
    pub(super) class: Class,
    /// Were the light cgroups named (`--light`), or found by diagnose?
    pub(super) is_named: bool,
    pub(super) policy: Policy,
    pub(super) repeat: u32,
    pub(super) seed: u64,
    pub(super) outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Predicted and measured.
    Measured(Measured),
    /// The policy is not for this kernel or these cgroups.
    Refused { why: String },
    /// It went wrong.
    Failed { why: String },
    /// It was not its turn.
    NotRun { why: String },
}

/// What was predicted and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// How many cgroups were to go first.
    pub(super) light: usize,
    /// How many paid.
    pub(super) heavy: usize,
    /// Blocks with the policy.
    pub(super) pairs: usize,
    /// Why the trial ended before its time.
    pub(super) ended: Option<String>,
    /// The longest time between two looks of the oracle.
    pub(super) longest_gap_ms: f64,
    /// CPUs' worth of time that everything but the load took meanwhile, lagstop itself included, by the oracle.
    pub(super) others_cores: Option<f64>,
    pub(super) figures: Vec<CalibratedFigure>,
}

/// One figure's change with the policy, as shares of what it was without: predicted, measured by the trial, and summed by the
/// oracle over the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CalibratedFigure {
    pub(super) name: String,
    pub(super) predicted: Estimate,
    pub(super) measured: Estimate,
    pub(super) oracle: Estimate,
}

/// A change, and between what it is. `None` is not known, and then it is said why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Estimate {
    pub(super) change: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why_not: Option<String>,
}

impl Setup {
    /// Does this lagstop predict as that one did?
    pub(super) fn is_of_this_forecast(&self) -> bool {
        is_same(&self.fingerprint, &FINGERPRINT)
    }
}

impl Calibration {
    /// Without the predictions whose intervals lagstop takes for too wide to state: it did not always.
    pub(super) fn stated_now(&self) -> Self {
        let mut stated = self.clone();
        for case in &mut stated.cases {
            let Outcome::Measured(measured) = &mut case.outcome else { continue };
            for Estimate { change, low, high, why_not } in
                measured.figures.iter_mut().map(|figure| &mut figure.predicted)
            {
                let (Some(at), Some(from), Some(to)) = (*change, *low, *high) else { continue };
                if let Some(why) = (Predicted { change: at, low: from, high: to }).why_too_wide() {
                    (*change, *low, *high, *why_not) = (None, None, None, Some(why.to_string()));
                }
            }
        }
        stated
    }

    pub(super) const SCHEMA: &'static str = "lagstop.calibration/1";

    /// Puts it in place of the same case.
    pub(super) fn put(&mut self, case: Case) {
        match self.cases.iter_mut().find(|there| there.is_same(&case)) {
            Some(there) => *there = case,
            None => self.cases.push(case),
        }
    }
}

impl Case {
    /// Is it of the same load, policy and repetition?
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.load, self.policy, self.repeat) == (&other.load, other.policy, other.repeat)
    }

    /// Is it known what comes of it?
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.outcome, Outcome::Measured(_) | Outcome::Refused { .. })
    }

    pub(super) const fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            _ => None,
        }
    }
}

impl Estimate {
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Is this within the interval? `None` without either.
    pub(super) fn holds(&self, value: Option<f64>) -> Option<bool> {
        let (low, high) = self.interval()?;
        value.map(|value| low <= value && value <= high)
    }

    /// Is it told from no change? `None` without an interval.
    pub(super) fn is_change(&self) -> Option<bool> {
        self.interval().map(|(low, high)| low > 0.0 || high < 0.0)
    }
}
