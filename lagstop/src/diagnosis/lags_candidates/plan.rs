//! What could be done for light cgroups that wait, and what it would do.

use std::sync::Arc;

use super::arena::{Arena, Sibling};
use crate::diagnosis::{
    Thresholds,
    forecast::{Competitors, Forecast, ForecastFigure, Predicted},
    reweighting::Simulations,
};

/// A plan in which some light cgroups weigh more and the heavy ones less, and its predicted effect.
#[derive(Clone, Debug)]
pub(super) struct WeightPlan {
    /// Who is to go first, by number, the lightest first.
    pub(super) first: Vec<usize>,
    /// New weights, as `cpu.weight` has them.
    pub(super) weights: Vec<(Arc<str>, f64)>,
    pub(super) forecast: Forecast,
    /// Of each of those that go first, the part of its wait that it is spared: the median.
    pub(super) median: Option<f64>,
}

impl WeightPlan {
    /// At the unfavourable end of the interval, others may take longer by up to this many times `heavy_tolerance`. Chosen: it is
    /// seldom that bad.
    const AT_WORST: f64 = 2.0;

    /// Tries all that wait long, and if that costs others too much, the lightest half and quarter of them. Returns the
    /// first tolerable plan, otherwise that for all. `None` if nothing can be simulated.
    pub(super) fn best(
        arena: &Arena<'_>,
        simulations: &Simulations<'_>,
        thresholds: &Thresholds,
    ) -> Option<(Self, Option<Self>)> {
        let mut waiting: Vec<&Sibling<'_>> = arena.waiting(thresholds).collect();
        waiting.sort_by(|a, b| a.cpu.total_cmp(&b.cpu).then(a.number.cmp(&b.number)));
        let all = Self::of(&waiting, arena, simulations)?;
        if waiting.len() < 2 || all.is_borne(thresholds) {
            return Some((all, None));
        }
        let sizes = [waiting.len().div_ceil(2), waiting.len().div_ceil(4)];
        let fewer = sizes.into_iter().filter(|&size| size < waiting.len()).find_map(|size| {
            let some = Self::of(&waiting[..size], arena, simulations)?;
            (some.is_borne(thresholds) && some.is_worthwhile(thresholds)).then_some(some)
        });
        Some((all, fewer))
    }

    fn of(first: &[&Sibling<'_>], arena: &Arena<'_>, simulations: &Simulations<'_>) -> Option<Self> {
        let heavy: Vec<&Sibling<'_>> = arena.siblings.iter().filter(|it| !it.is_light()).collect();
        let paths = |siblings: &[&Sibling<'_>]| siblings.iter().map(|it| Arc::clone(&it.path)).collect();
        let made = simulations.reweighting(&Competitors { light: paths(first), heavy: paths(&heavy) })?;
        let (weights, forecast) = (made.weights.clone(), made.forecast.clone());
        let mut spared: Vec<f64> =
            first.iter().filter_map(|it| Some(1.0 - forecast.left(it.number)?)).filter(|it| it.is_finite()).collect();
        spared.sort_by(f64::total_cmp);
        let median =
            (!spared.is_empty()).then(|| f64::midpoint(spared[(spared.len() - 1) / 2], spared[spared.len() / 2]));
        Some(Self { first: first.iter().map(|it| it.number).collect(), weights, forecast, median })
    }

    /// Is the cost for the heavy and for all other cgroups within the tolerance?
    pub(super) fn is_borne(&self, thresholds: &Thresholds) -> bool {
        let bears = |figure| {
            // A side that hardly waits has no measurable cost.
            self.forecast.change(figure).is_none_or(|it| it.change <= thresholds.heavy_tolerance)
        };
        bears(ForecastFigure::HeavyTime) && bears(ForecastFigure::OthersTime)
    }

    /// Are the light ones spared at both ends of the interval, and is the cost for others known and at most
    /// [`Self::AT_WORST`] times the tolerance?
    pub(super) fn is_sure(&self, thresholds: &Thresholds) -> bool {
        let [measured, ..] = self.forecast.waiting;
        let bears = |figure, waiting: f64| {
            let is_borne = |it: Predicted| it.high <= Self::AT_WORST * thresholds.heavy_tolerance;
            // A side that hardly waits has little to lose.
            waiting < thresholds.contended_wait || self.forecast.change(figure).is_some_and(is_borne)
        };
        let others = measured.all - measured.light - measured.heavy;
        let is_spared = self.forecast.change(ForecastFigure::LightWaiting).is_some_and(|it| it.high < 0.0);
        is_spared && bears(ForecastFigure::HeavyTime, measured.heavy) && bears(ForecastFigure::OthersTime, others)
    }

    /// Is what it spares worth it?
    pub(super) fn is_worthwhile(&self, thresholds: &Thresholds) -> bool {
        // Of the median cgroup, not of all: one that hardly gains may have most of the waits.
        self.median.is_some_and(|it| it >= thresholds.light_gain)
    }
}
