//! What more weight for a victim would do for it, and to its neighbour.

use std::{rc::Rc, sync::Arc};

use super::{Neighbour, Victim};
use crate::{
    diagnosis::{
        Figure, Observations, Predicted, Subject, Thresholds,
        forecast::siblings,
        lags_candidates, overload,
        reweighting::{HARDLY_LONGER, Reweighting, Simulations, figure, price},
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

    /// "it should wait about 62.0 % less (40.1 % to 75.2 %), while the same work takes /etl about 22.3 % longer".
    pub(super) fn promise(&self) -> Option<String> {
        let wait = self.wait().filter(|wait| wait.change <= -self.least_gain && wait.is_significant())?;
        let less = format!("it should wait about {} less ({})", units::percent(wait.change.abs()), wait.magnitudes());
        let longer = self.made.as_ref()?.forecast.change("heavy_time").filter(|time| time.change >= HARDLY_LONGER);
        let price = longer.map(|time| {
            format!(", while the same work takes {} about {} longer", self.heavy, units::percent(time.change))
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
        vec![
            figure(&made.forecast, &lags_candidates::figures::light_waiting, "light_waiting").of(self.light.clone()),
            figure(&made.forecast, &lags_candidates::figures::heavy_time, "heavy_time"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Forecast, Unpredicted};

    fn effect(wait: Result<Predicted, Unpredicted>, longer: f64) -> Effect {
        let time = Predicted { change: longer, low: longer - 0.1, high: longer + 0.1 };
        let forecast = Forecast::with([("light_waiting", wait), ("heavy_time", Ok(time))]);
        let made = Some(Rc::new(Reweighting { weights: Vec::new(), forecast }));
        let light = Subject::Cgroup { id: None, path: "/shop".into(), name: "shop".into() };
        Effect { light, heavy: "etl".to_owned(), made, least_gain: 0.2 }
    }

    const fn between(low: f64, change: f64, high: f64) -> Result<Predicted, Unpredicted> {
        Ok(Predicted { change, low, high })
    }

    #[test]
    fn only_what_is_sure_and_worth_it_is_promised_and_its_price_is_said() {
        let it = effect(between(-0.7, -0.5, -0.3), 0.25);
        assert_eq!(
            it.promise().unwrap(),
            "it should wait about 50.0 % less (30.0 % to 70.0 %), while the same work takes etl about 25.0 % longer"
        );
        assert!(!effect(between(-0.7, -0.5, -0.3), 0.01).promise().unwrap().contains("longer"));
        let may_be_a_loss = effect(between(-0.6, -0.3, 0.2), 0.25);
        assert!(may_be_a_loss.promise().is_none() && !may_be_a_loss.is_small());
        let small = effect(between(-0.15, -0.1, -0.05), 0.0);
        assert!(small.promise().is_none() && small.is_small());
        assert!(small.caveat().unwrap().contains("would hardly change its wait"), "{:?}", small.caveat());
        let unknown = effect(Err(Unpredicted::NeverSleeps), 0.0);
        assert!(unknown.promise().is_none() && unknown.caveat().unwrap().contains("is not predicted"));
    }
}
