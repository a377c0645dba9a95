//! What more weight for a victim would do for it, and to its neighbour.

use std::{rc::Rc, sync::Arc};

use super::{Neighbour, Victim};
use crate::{
    diagnosis::{
        Figure, FigureDefinition, Observations, Predicted, Subject, Thresholds,
        forecast::siblings,
        lags_candidates, overload,
        reweighting::{HARDLY_LONGER, Reweighting, Simulations, price},
        shell,
    },
    units,
};

/// A trial of new weights between a victim and its neighbour, and what it would do.
pub(super) struct Effect {
    /// The victim, or what it is inside of.
    pub(super) light: Subject,
    /// Those that weigh less in the trial: the neighbour, or what it is inside of, and others that use as much.
    pub(super) heavy: String,
    /// What the trial does for `light`, as predicted. `None` where nothing was simulated.
    made: Option<Rc<Reweighting>>,
    least_gain: f64,
}

/// Heavy ones that are named.
const NAMED: usize = 2;

impl Effect {
    /// `None` where `lagstop trial --light` would be refused, or would not touch the neighbour.
    pub(super) fn of(
        observations: &Observations,
        simulations: &Simulations<'_>,
        thresholds: &Thresholds,
        victim: &Victim<'_>,
        neighbour: &Neighbour<'_>,
    ) -> Option<Self> {
        // A weight counts where the two compete: at the cgroups right below the lowest that both are inside of.
        let asked = &observations.asked;
        let (first, other) = siblings(asked, asked.number(victim.id)?, asked.number(neighbour.id)?)?;
        let (light, neighbour) = (observations.subject_of(first), asked.path(other));
        let named = light.path().filter(|path| shell::glob(path).is_some())?;
        let mut sides = observations.competitors(|path| path == named).ok()?;
        let has_weight = |path: &Arc<str>| asked.number_at(path).is_some_and(|it| !asked.trace().groups[it].is_idle);
        sides.light.retain(has_weight);
        sides.heavy.retain(has_weight);
        if sides.light.is_empty() || !sides.heavy.contains(neighbour) {
            return None;
        }
        // The neighbour first.
        let mut heavy: Vec<&Arc<str>> = sides.heavy.iter().collect();
        heavy.sort_by_key(|path| *path != neighbour);
        let subjects = heavy.into_iter().filter_map(|path| Some(observations.subject_of(asked.number_at(path)?)));
        let heavy = overload::names(subjects.take(NAMED), sides.heavy.len() as u64);
        Some(Self { light, heavy, made: simulations.reweighting(&sides), least_gain: thresholds.light_gain })
    }

    /// How its wait changes.
    fn wait(&self) -> Option<Predicted> {
        self.made.as_ref()?.forecast.change("light_waiting")
    }

    /// It is predicted, and not worth a trial.
    pub(super) fn is_small(&self) -> bool {
        self.wait().is_some_and(|wait| wait.change > -self.least_gain)
    }

    /// "it should wait about 62.0 % less (40.1 % to 75.2 %), while /etl takes about 22.3 % longer for the same work".
    pub(super) fn promise(&self) -> Option<String> {
        let wait = self.wait().filter(|wait| wait.change <= -self.least_gain && wait.is_significant())?;
        let less = format!("it should wait about {} less ({})", units::percent(wait.change.abs()), wait.magnitudes());
        let longer = self.made.as_ref()?.forecast.change("heavy_time").filter(|time| time.change >= HARDLY_LONGER);
        let price = longer.map(|time| {
            format!(", while {} takes about {} longer for the same work", self.heavy, units::percent(time.change))
        });
        Some(less + &price.unwrap_or_default())
    }

    pub(super) fn caveat(&self) -> Option<String> {
        let Self { light, heavy, .. } = self;
        let forecast = &self.made.as_ref()?.forecast;
        Some(match self.wait() {
            _ if self.is_small() => {
                let wait = self.wait().map(|wait| wait.range()).unwrap_or_default();
                format!("More weight for {light} against {heavy} would hardly change its wait (predicted: {wait}).")
            }
            Some(_) => format!("In return, {}.", price(forecast, "heavy_time", heavy)),
            None => format!(
                "The effect of more weight for {light} is not predicted: {}.",
                forecast.why_not("light_waiting")?
            ),
        })
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let Some(made) = &self.made else { return Vec::new() };
        let figure = |definition: &FigureDefinition, name: &str| {
            let predicted = made.forecast.change(name);
            let why_not = made.forecast.why_not(name).map_or_else(|| "not simulated".to_owned(), |why| why.to_string());
            let range = predicted.map(|it| it.range()).unwrap_or_default();
            definition.measured(predicted.map(|it| it.change), &why_not).note(range)
        };
        vec![
            figure(&lags_candidates::figures::light_waiting, "light_waiting").of(self.light.clone()),
            figure(&lags_candidates::figures::heavy_time, "heavy_time"),
        ]
    }
}
