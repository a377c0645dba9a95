//! More weight for those that go first and less for those that pay: what `lagstop trial --policy weight` writes, and what is
//! predicted of it.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use super::{
    CandidateClass, Competitors, Figure, FigureDefinition, Forecast, ForecastFigure, Forecaster, Intervention,
    Observations, shell::WeightSetting,
};
use crate::{model::Level, units};

/// The largest factor of a weight that is raised, and the smallest of one that is lowered. Chosen: the heavy ones go on, and a
/// usual weight stays within what `cpu.weight` takes (1 to 10,000).
const MOST: f64 = 10.0;
const LEAST: f64 = 0.25;
/// The least factor for cgroups that go first. Chosen: with less, one that uses nearly as much as the heavy ones would hardly
/// notice.
const FIRST: f64 = 4.0;
/// A smaller change of the time for the same work, as a share, is not told as one. Chosen: less than the least half-width of such a
/// prediction (`forecast::predicted`).
pub(super) const HARDLY_LONGER: f64 = 0.05;
/// The most pairs of sides that are simulated for a report: each takes some tenths of a second.
const MOST_SIDES: usize = 8;

/// By how much a cgroup's weight is to change that uses `used` where those of both sides use `fair` on average: the lighter, the
/// more.
pub fn weight_factor(side: CandidateClass, fair: f64, used: f64) -> f64 {
    let factor = if used > 0.0 { fair / used } else { MOST };
    match side {
        _ if factor.is_nan() => 1.0,
        CandidateClass::Light => factor.clamp(FIRST, MOST),
        CandidateClass::Heavy => factor.clamp(LEAST, 1.0),
    }
}

/// New weights, as `cpu.weight` has them, and what they would do.
#[derive(Clone, Debug)]
pub(super) struct Reweighting {
    pub(super) weights: Vec<(Arc<str>, f64)>,
    pub(super) forecast: Forecast,
}

/// Simulations of a recording. Each is made when first asked for, or never if they are turned off.
pub(super) struct Simulations<'a> {
    observations: &'a Observations,
    is_wanted: bool,
    forecaster: OnceCell<Option<Forecaster<'a>>>,
    tried: RefCell<Vec<(Competitors, Rc<Reweighting>)>>,
}

impl<'a> Simulations<'a> {
    pub(super) const fn new(observations: &'a Observations) -> Self {
        Self { observations, is_wanted: true, forecaster: OnceCell::new(), tried: RefCell::new(Vec::new()) }
    }

    /// Turns simulations off, because they take a while.
    pub(super) fn none(observations: &'a Observations) -> Self {
        Self { is_wanted: false, ..Self::new(observations) }
    }

    /// New weights for both sides. `None` if nothing can be simulated, or if enough was.
    pub(super) fn reweighting(&self, sides: &Competitors) -> Option<Rc<Reweighting>> {
        let known = self.tried.borrow().iter().find(|(tried, _)| tried == sides).map(|(_, it)| Rc::clone(it));
        if known.is_some() || self.tried.borrow().len() >= MOST_SIDES || !self.is_wanted {
            return known;
        }
        let forecaster = self.forecaster.get_or_init(|| self.observations.forecaster()).as_ref()?;
        let weights = weights(self.observations, sides);
        let forecast =
            forecaster.forecast(sides, &Intervention { weights: weights.clone(), ..Intervention::default() });
        let made = Rc::new(Reweighting { weights, forecast });
        self.tried.borrow_mut().push((sides.clone(), Rc::clone(&made)));
        Some(made)
    }
}

/// New weights, as `cpu.weight` has them, rounded to what the files can express. Cgroups with `cpu.idle` have no
/// weight.
fn weights(observations: &Observations, sides: &Competitors) -> Vec<(Arc<str>, f64)> {
    let light = sides.light.iter().map(|path| (CandidateClass::Light, path));
    let heavy = sides.heavy.iter().map(|path| (CandidateClass::Heavy, path));
    let asked = &observations.asked;
    let group = |path: &Arc<str>| asked.number_at(path).map(|number| &asked.trace().groups[number]);
    let with_weight = light.chain(heavy).filter_map(|(side, path)| {
        let weight = group(path).filter(|group| !group.is_idle)?.whole_weight();
        Some((side, path, weight, observations.cores_inside(path)))
    });
    let all: Vec<_> = with_weight.collect();
    let fair = all.iter().map(|(.., used)| used).sum::<f64>() / all.len() as f64;
    let setting = WeightSetting::file(&observations.session);
    all.into_iter()
        .map(|(side, path, weight, used)| {
            let new = setting.rounded(weight * weight_factor(side, fair, used));
            (Arc::clone(path), new * Level::DEFAULT_WEIGHT)
        })
        .collect()
}

/// The figure that `definition` declares, with its predicted change and interval, or why there is no prediction.
pub(super) fn figure(forecast: &Forecast, definition: &FigureDefinition, of: ForecastFigure) -> Figure {
    let predicted = forecast.change(of);
    let why_not = forecast.why_not(of).map_or_else(|| "not simulated".to_owned(), |why| why.to_string());
    definition
        .measured(predicted.map(|it| it.change), &why_not)
        .note(predicted.map(|it| it.range()).unwrap_or_default())
}

/// The cost for `who`, whose time for the same work is the figure `of`, as a sentence.
pub(super) fn price(forecast: &Forecast, of: ForecastFigure, who: &str) -> String {
    match forecast.change(of) {
        Some(it) if it.change.abs() < HARDLY_LONGER => format!("{who} would take about as long ({})", it.range()),
        Some(it) => {
            let how = if it.change > 0.0 { "longer" } else { "less time" };
            format!("{who} would take {} {how} for the same work ({})", units::percent(it.change.abs()), it.range())
        }
        None => format!("the cost to {who} is not predicted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_goes_first_weighs_notably_more_however_much_it_uses() {
        let light = |used| weight_factor(CandidateClass::Light, 1.0, used);
        let heavy = |used| weight_factor(CandidateClass::Heavy, 1.0, used);
        assert_eq!([0.0, 0.01, 0.2, 0.9, 2.0].map(light), [10.0, 10.0, 5.0, 4.0, 4.0]);
        assert_eq!([0.0, 0.5, 2.0, 100.0].map(heavy), [1.0, 1.0, 0.5, 0.25]);
        assert_eq!((weight_factor(CandidateClass::Light, f64::NAN, 1.0), light(f64::NAN)), (1.0, 10.0));
    }

    #[test]
    fn weights_are_as_the_files_take_them_and_idle_cgroups_have_none() {
        let of = |change: fn(&mut [Level; 2])| {
            let mut observations = Observations::new(crate::model::fixture::session());
            for mut interval in crate::diagnosis::fixture::bullied(5) {
                let mut levels = [Level::DEFAULT; 2];
                change(&mut levels);
                interval.cgroups[0].levels = Some(levels.into());
                observations.add(&interval);
            }
            let path = |n: usize| Arc::clone(&crate::diagnosis::fixture::bullied(1)[0].cgroups[n].path);
            let sides = Competitors { light: vec![path(0)], heavy: vec!["/apps.slice/etl".into()] };
            weights(&observations, &sides)
        };
        let least_and_most = |levels: &mut [Level; 2]| levels[1].weight = Some(10_000.0);
        assert_eq!(of(least_and_most)[0].1, 10_000.0, "no file takes more");
        assert!(of(|_| ())[0].1 >= 400.0);
        let idle = of(|levels| levels[1].is_idle = true);
        assert!(idle.iter().all(|(path, _)| **path == *"/apps.slice/etl"), "{idle:?}");
    }
}
