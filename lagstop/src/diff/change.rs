//! What one metric was before and after, and what is to be made of that.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    DiffSide,
    estimate::{ConfidenceQuantile, Drawn},
    figure::{ComparedFigure, ComparedSubject, CostKind, Made},
    party::{Party, View},
    series::{Amount, Series},
    side::Ways,
};
use crate::units::{Unit, six_figures};

/// One metric before and after.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Stable name in JSON.
    pub name: &'static str,
    /// Readable name.
    pub label: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Value over the whole first recording. `None` if not measured; `missing` has the reason.
    pub before: Option<f64>,
    /// Value over the whole second recording.
    pub after: Option<f64>,
    /// After − before. `None` if the values cannot be compared.
    pub change: Option<f64>,
    /// The change as a share of the value before. `None` if that is 0, too.
    pub change_share: Option<f64>,
    /// The lower end of the interval of the change.
    pub low: Option<f64>,
    /// The upper end of this interval.
    pub high: Option<f64>,
    /// p-value: the probability of a change at least this large by chance alone.
    pub p: Option<f64>,
    /// Effective sample size of the first recording: the number of independent pieces with the same precision for this
    /// metric.
    pub effective_before: Option<f64>,
    /// Effective sample size of the second recording.
    pub effective_after: Option<f64>,
    /// Verdict on the change.
    pub verdict: ChangeVerdict,
    /// Why the change or its interval is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    #[serde(skip)]
    pub(super) less_is_better: bool,
}

/// Declares verdicts: as people read them, and what they mean.
macro_rules! verdicts {
    ($($verdict:ident: $words:literal $meaning:literal;)+) => {
        /// Verdict on a change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ChangeVerdict {
            $(#[doc = $meaning] $verdict,)+
        }

        impl ChangeVerdict {
            pub(crate) const ALL: [Self; [$($words),+].len()] = [$(Self::$verdict),+];

            /// For people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$verdict => $words,)+
                }
            }

            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$verdict => $meaning,)+
                }
            }
        }
    };
}

verdicts! {
    Worse: "worse" "significantly more of a metric where less is better";
    Better: "better" "significantly less of a metric where less is better";
    More: "more" "significantly more of a neutral metric: switches, CPU time, utilisation";
    Less: "less" "significantly less of a neutral metric";
    NoSignificantChange: "no significant change" "chance may explain the change, or there is no change";
    NotEnoughIntervals: "not enough intervals" "either recording is worth too few independent pieces";
    NotComparable: "n/a" "one of the two was not measured, or with another method; `missing` gives the reason";
}

impl ChangeVerdict {
    /// More than chance.
    pub const fn is_significant(self) -> bool {
        matches!(self, Self::Worse | Self::Better | Self::More | Self::Less)
    }
}

impl Change {
    /// Is 0 outside of the interval?
    pub(super) fn excludes_zero(&self) -> bool {
        self.low.zip(self.high).is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Rounds to the precision that is known.
    fn rounded(mut self) -> Self {
        let Self { before, after, change, change_share, low, high, p, effective_before, effective_after, .. } =
            &mut self;
        for value in [before, after, change, change_share, low, high, p, effective_before, effective_after] {
            *value = value.map(six_figures);
        }
        self
    }

    /// The verdict on it where it is significant.
    pub(super) fn direction(&self) -> ChangeVerdict {
        match (self.change.is_some_and(|change| change > 0.0), self.less_is_better) {
            (true, true) => ChangeVerdict::Worse,
            (false, true) => ChangeVerdict::Better,
            (true, false) => ChangeVerdict::More,
            (false, false) => ChangeVerdict::Less,
        }
    }
}

/// Compares subjects of two recordings.
pub(super) struct Comparer<'a> {
    before: Party<'a>,
    after: Party<'a>,
    confidence: ConfidenceQuantile,
}

/// Combines statements about one or both recordings, each with the name of its recording unless both say the same.
fn on_sides(before: Option<String>, after: Option<String>) -> Option<String> {
    match (before, after) {
        (Some(before), Some(after)) if before == after => Some(before),
        (Some(before), Some(after)) => Some(format!("before: {before}; after: {after}")),
        (before, after) => before.map(|why| format!("before: {why}")).or(after.map(|why| format!("after: {why}"))),
    }
}

impl<'a> Comparer<'a> {
    pub(super) fn new(before: Party<'a>, after: Party<'a>, confidence: f64) -> Self {
        Self { before, after, confidence: ConfidenceQuantile::of(confidence) }
    }

    pub(super) const fn parties(&self) -> (&Party<'a>, &Party<'a>) {
        (&self.before, &self.after)
    }

    pub(super) const fn sides(&self) -> (&'a DiffSide, &'a DiffSide) {
        (self.before.side, self.after.side)
    }

    /// The host's metrics, not judged yet.
    pub(super) fn host(&self) -> Vec<Change> {
        let (before, after) = self.sides();
        self.changes(ComparedSubject::Host, &ComparedFigure::of_host(), &before.host, &after.host)
    }

    /// A cgroup's metrics, not judged yet.
    pub(super) fn cgroup(
        &self,
        before: &Series<{ Amount::OF_CGROUP }>,
        after: &Series<{ Amount::OF_CGROUP }>,
    ) -> Vec<Change> {
        self.changes(ComparedSubject::Cgroup, &ComparedFigure::of_cgroup(), before, after)
    }

    fn changes<const N: usize>(
        &self,
        subject: ComparedSubject,
        figures: &[ComparedFigure],
        before: &Series<N>,
        after: &Series<N>,
    ) -> Vec<Change> {
        let (before, after) = (View::new(&self.before, before), View::new(&self.after, after));
        let change = |&figure: &ComparedFigure| {
            let change = self.change(&figure.made(subject), &before, &after).rounded();
            let is_there = change.before.is_some() || change.after.is_some() || !figure.is_left_out();
            is_there.then_some(change)
        };
        figures.iter().filter_map(change).collect()
    }

    fn change<const N: usize>(&self, made: &Made, before: &View<'_, N>, after: &View<'_, N>) -> Change {
        let figure = |view: &View<'_, N>| view.figure(made).filter(|_| view.is_measured(made));
        let mut change = Change {
            name: made.derived.name,
            label: made.derived.label,
            unit: made.derived.unit,
            before: figure(before),
            after: figure(after),
            change: None,
            change_share: None,
            low: None,
            high: None,
            p: None,
            effective_before: None,
            effective_after: None,
            verdict: ChangeVerdict::NotComparable,
            missing: self.why_not(made, before, after),
            less_is_better: made.less_is_better,
        };
        let (None, Some(then), Some(now)) = (&change.missing, change.before, change.after) else { return change };
        change.change = Some(now - then);
        change.change_share = Some((now - then) / then).filter(|share| share.is_finite());
        let (drawn_before, drawn_after) = (before.drawn(made), after.drawn(made));
        let of = |view: &View<'_, N>, figures| {
            let (variance, effective) = view.precision(made);
            Drawn { figures, variance, effective }
        };
        let (of_before, of_after) = (of(before, &drawn_before), of(after, &drawn_after));
        (change.effective_before, change.effective_after) = (Some(of_before.effective), Some(of_after.effective));
        let is_enough = self.before.is_enough && self.after.is_enough;
        let estimate = is_enough.then(|| self.confidence.estimate(now - then, of_before, of_after)).flatten();
        match estimate {
            Some(estimate) => {
                (change.low, change.high, change.p) = (Some(estimate.low), Some(estimate.high), Some(estimate.p));
                change.verdict = ChangeVerdict::NoSignificantChange;
            }
            None => {
                change.verdict = ChangeVerdict::NotEnoughIntervals;
                let (before, after, least) = (of_before.effective, of_after.effective, Drawn::LEAST);
                change.missing = Some(if of_before.is_enough() && of_after.is_enough() {
                    format!("most metrics of the host have an effective sample size below {least}")
                } else {
                    format!("effective sample size: {before:.1} before, {after:.1} after; at least {least} is needed")
                });
            }
        }
        change
    }

    /// Why the two cannot be compared.
    fn why_not<const N: usize>(&self, made: &Made, before: &View<'_, N>, after: &View<'_, N>) -> Option<String> {
        let unmeasured = |view: &View<'_, N>| {
            let session = &view.party.side.session;
            if view.is_measured(made) { None } else { made.comes_from.map(|measure| session.why_not(measure)) }
        };
        let none =
            |view: &View<'_, N>| view.figure(made).is_none().then(|| format!("there was no {}", made.whole.singular()));
        on_sides(unmeasured(before), unmeasured(after))
            .or_else(|| made.way.and_then(|way| self.ways_differ(way)))
            .or_else(|| on_sides(none(before), none(after)))
    }

    fn ways_differ(&self, way: CostKind) -> Option<String> {
        let (before, after) = (self.before.side.ways(way), self.after.side.ways(way));
        let mut all: Vec<_> = before.union(after).collect();
        all.sort_unstable();
        if all.len() < 2 && !all.contains(&&None) {
            return None;
        }
        let names = |ways: &Ways| {
            let names: Vec<&str> = ways.iter().map(|way| way.as_deref().unwrap_or("an unrecorded method")).collect();
            names.join(" and ")
        };
        Some(format!(
            "measured by {} before and {} after: costs of different methods cannot be compared",
            names(before),
            names(after)
        ))
    }
}
