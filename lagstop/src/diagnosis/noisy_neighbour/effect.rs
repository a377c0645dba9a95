//! What more weight for a victim would do for it, and to its neighbour.

use std::rc::Rc;

use super::{Neighbour, Victim};
use crate::{
    diagnosis::{
        Competitors, Figure, FigureDefinition, Observations, Predicted, Subject, Thresholds,
        forecast::siblings,
        lags_candidates,
        reweighting::{HARDLY_LONGER, Reweighting, Simulations, price},
    },
    units,
};

/// The cgroups whose weights count between a victim and its neighbour, and what new weights of them would do.
pub(super) struct Effect {
    /// The victim, or what it is inside of.
    pub(super) light: Subject,
    /// The neighbour, or what it is inside of.
    pub(super) heavy: Subject,
    /// What `lagstop trial` does for `light`, as predicted. `None` where nothing was simulated.
    made: Option<Rc<Reweighting>>,
    least_gain: f64,
}

impl Effect {
    pub(super) fn of(
        observations: &Observations,
        simulations: &Simulations<'_>,
        thresholds: &Thresholds,
        victim: &Victim<'_>,
        neighbour: &Neighbour<'_>,
    ) -> Self {
        // A weight counts where the two compete: at the cgroups right below the lowest that both are inside of.
        let asked = &observations.asked;
        let level = asked
            .number(victim.id)
            .zip(asked.number(neighbour.id))
            .and_then(|(one, other)| siblings(asked, one, other));
        let (light, heavy) = match level {
            Some((one, other)) => (observations.subject_of(one), observations.subject_of(other)),
            None => (victim.subject(), neighbour.subject()),
        };
        // The trial takes every cgroup for heavy that competes with it and uses much.
        let sides: Option<Competitors> =
            light.path().and_then(|first| observations.competitors(|path| path == first).ok());
        let pays = |sides: &Competitors| heavy.path().is_some_and(|path| sides.heavy.iter().any(|one| **one == *path));
        let made = level.and(sides).filter(pays).and_then(|sides| simulations.reweighting(&sides));
        Self { light, heavy, made, least_gain: thresholds.light_gain }
    }

    /// How its wait changes.
    fn wait(&self) -> Option<Predicted> {
        self.made.as_ref()?.forecast.change("light_waiting")
    }

    /// It is predicted, and not worth a trial.
    pub(super) fn is_small(&self) -> bool {
        self.wait().is_some_and(|wait| wait.change > -self.least_gain)
    }

    /// "it should wait about 62.0 % less (40.1 % to 75.2 %), while /etl takes about 22.3 % longer".
    pub(super) fn promise(&self) -> Option<String> {
        let wait = self.wait().filter(|wait| wait.change <= -self.least_gain)?;
        let less = format!("it should wait about {} less ({})", units::percent(wait.change.abs()), wait.magnitudes());
        let longer = self.made.as_ref()?.forecast.change("heavy_time").filter(|time| time.change >= HARDLY_LONGER);
        let price =
            longer.map(|time| format!(", while {} takes about {} longer", self.heavy, units::percent(time.change)));
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
            Some(_) => format!("In return, {}.", price(forecast, "heavy_time", &heavy.to_string())),
            None => format!(
                "The effect of more weight for {light} is not predicted: {}.",
                forecast.why_not("light_waiting")?
            ),
        })
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let Some(made) = &self.made else { return Vec::new() };
        let figure = |definition: &FigureDefinition, name: &str, of: &Subject| {
            let predicted = made.forecast.change(name);
            let why_not = made.forecast.why_not(name).map_or_else(|| "not simulated".to_owned(), |why| why.to_string());
            let range = predicted.map(|it| it.range()).unwrap_or_default();
            definition.measured(predicted.map(|it| it.change), &why_not).of(of.clone()).note(range)
        };
        vec![
            figure(&lags_candidates::figures::light_waiting, "light_waiting", &self.light),
            figure(&lags_candidates::figures::heavy_time, "heavy_time", &self.heavy),
        ]
    }
}
