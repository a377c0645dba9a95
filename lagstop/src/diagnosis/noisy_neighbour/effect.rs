//! What more weight for a victim would do for it, and to its neighbour.

use std::{rc::Rc, sync::Arc};

use super::{Neighbour, Victim};
use crate::{
    diagnosis::{
        Figure, ForecastFigure, Observations, Predicted, Subject, Thresholds,
        forecast::{Tail, siblings},
        lags_candidates,
        noisy_neighbour::figures,
        overload,
        reweighting::{HARDLY_LONGER, Reweighting, Simulations, figure, price},
        shell,
    },
    model::Nanos,
    units,
};

/// A trial of new weights between a victim and its neighbour, and its predicted effect.
pub(super) struct Effect {
    /// The victim, and its number in the trace: the prediction is of its waits, not of those of all that weigh more with it.
    victim: Subject,
    number: usize,
    /// It waits long for a part of the time only, but the simulation covers all of it.
    is_part: bool,
    /// The victim, or the ancestor of it that competes with the neighbour.
    pub(super) light: Subject,
    /// Those that weigh less in the trial: the neighbour, or what it is inside of, and others that use as much.
    pub(super) heavy: String,
    /// What the trial does for `light`, as predicted. `None` where nothing was simulated.
    made: Option<Rc<Reweighting>>,
    least_gain: f64,
}

/// The most heavy cgroups that are named.
const NAMED: usize = 2;

impl Effect {
    /// `None` if `lagstop trial --light` would be refused, or would not affect the neighbour.
    pub(super) fn of(
        observations: &Observations,
        simulations: &Simulations<'_>,
        thresholds: &Thresholds,
        victim: &Victim<'_>,
        neighbour: &Neighbour<'_>,
    ) -> Option<Self> {
        // A weight matters where the two compete: for the children of their lowest common ancestor.
        let asked = &observations.asked;
        let number = asked.number(victim.id)?;
        let (first, other) = siblings(asked, number, asked.number(neighbour.id)?)?;
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
        let made = simulations.reweighting(&sides);
        Some(Self {
            victim: victim.subject(),
            number,
            is_part: victim.part.is_some(),
            light,
            heavy,
            made,
            least_gain: thresholds.light_gain,
        })
    }

    /// The change of the victim's wait.
    fn wait(&self) -> Option<Predicted> {
        self.made.as_ref()?.forecast.member(self.number)?.wait.ok()
    }

    /// The change of its 99th percentile, if it is sure to fall.
    fn tail(&self) -> Option<Tail> {
        let tail = self.made.as_ref()?.forecast.member(self.number)?.tail.ok()?;
        (tail.change.high < 0.0 && !self.is_part).then_some(tail)
    }

    /// Why its 99th percentile is not promised to fall.
    fn why_no_tail(&self) -> String {
        let member = self.made.as_ref().and_then(|made| made.forecast.member(self.number));
        match member.map(|member| &member.tail) {
            _ if self.is_part => "its waits are a matter of a part of the time".to_owned(),
            Some(Err(why)) => why.to_string(),
            _ => "no fall of it is predicted".to_owned(),
        }
    }

    /// Why its wait is not predicted.
    fn why_not(&self) -> Option<String> {
        let forecast = &self.made.as_ref()?.forecast;
        match forecast.member(self.number) {
            Some(member) => member.wait.as_ref().err().map(ToString::to_string),
            None => forecast.why_not(ForecastFigure::LightWaiting).map(|why| why.to_string()),
        }
    }

    /// Is the effect predicted, but too small for a trial?
    pub(super) fn is_small(&self) -> bool {
        self.wait().is_some_and(|wait| wait.change > -self.least_gain)
    }

    /// "that should cut the p99 wait of /shop from 46.0 ms to about 9.20 ms (4.60 ms to 13.8 ms), while the same work takes /etl about
    /// 22.3 % longer".
    pub(super) fn promise(&self) -> Option<String> {
        let wait = self.wait().filter(|wait| wait.change <= -self.least_gain && wait.is_significant())?;
        let victim = &self.victim;
        let less = match self.tail() {
            Some(tail) => format!("that should cut the p99 wait of {victim} {}", tail.fall()),
            None => {
                let less = units::percent(wait.change.abs());
                format!("{victim} should wait about {less} less ({})", wait.magnitudes())
            }
        };
        let longer =
            self.made.as_ref()?.forecast.change(ForecastFigure::HeavyTime).filter(|time| time.change >= HARDLY_LONGER);
        let price = longer.map(|time| {
            format!(", while the same work takes {} about {} longer", self.heavy, units::percent(time.change))
        });
        Some(less + &price.unwrap_or_default())
    }

    pub(super) fn caveat(&self) -> Option<String> {
        let Self { victim, light, heavy, .. } = self;
        let forecast = &self.made.as_ref()?.forecast;
        Some(match self.wait() {
            _ if self.is_small() => {
                let wait = self.wait().map(|wait| wait.range()).unwrap_or_default();
                format!(
                    "More weight for {light} against {heavy} would hardly change the wait of {victim} (predicted: {wait})."
                )
            }
            Some(_) => format!("In return, {}.", price(forecast, ForecastFigure::HeavyTime, heavy)),
            None => format!("The effect of more weight for {light} on {victim} is not predicted: {}.", self.why_not()?),
        })
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let Some(made) = &self.made else { return Vec::new() };
        let wait = self.wait();
        let why_not = self.why_not().unwrap_or_default();
        let tail = self.tail();
        let then = tail.map(|tail| Nanos((tail.now.0 as f64 * (1.0 + tail.change.change)) as u64));
        let tail = figures::victim_p99
            .measured(then, &self.why_no_tail())
            .note(tail.map(|tail| tail.fall()).unwrap_or_default());
        let waits = figures::victim_waiting
            .measured(wait.map(|wait| wait.change), &why_not)
            .note(wait.map(|wait| wait.range()).unwrap_or_default());
        let pays = figure(&made.forecast, &lags_candidates::figures::heavy_time, ForecastFigure::HeavyTime);
        vec![tail, waits, pays]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Forecast, Unpredicted, forecast::Member};

    /// The light side as a whole gains whatever its member does.
    fn effect(wait: Result<Predicted, Unpredicted>, longer: f64) -> Effect {
        let time = Predicted { change: longer, low: longer - 0.1, high: longer + 0.1 };
        let whole = Predicted { change: -0.9, low: -0.95, high: -0.85 };
        let forecast =
            Forecast::with([(ForecastFigure::LightWaiting, Ok(whole)), (ForecastFigure::HeavyTime, Ok(time))]);
        let forecast = forecast.with_member(7, Member { wait, tail: Err(Unpredicted::FewWaits) });
        let made = Some(Rc::new(Reweighting { weights: Vec::new(), forecast }));
        let cgroup =
            |path: &str| Subject::Cgroup { id: None, path: path.into(), name: path.trim_start_matches('/').into() };
        let (victim, light) = (cgroup("/shop/checkout"), cgroup("/shop"));
        Effect { victim, number: 7, is_part: false, light, heavy: "etl".to_owned(), made, least_gain: 0.2 }
    }

    #[test]
    fn the_tail_is_promised_where_it_is_predicted_to_fall() {
        let with_tail = |high: f64| {
            let mut it = effect(between(-0.7, -0.5, -0.3), 0.25);
            let change = Predicted { change: -0.8, low: -0.9, high };
            let tail = Some(Tail { now: Nanos(46_000_000), change });
            let tail = tail.ok_or(Unpredicted::FewWaits);
            let member = Member { wait: between(-0.7, -0.5, -0.3), tail };
            let made = it.made.unwrap();
            let forecast = made.forecast.clone().with_member(7, member);
            it.made = Some(Rc::new(Reweighting { weights: Vec::new(), forecast }));
            it
        };
        assert_eq!(
            with_tail(-0.7).promise().unwrap(),
            "that should cut the p99 wait of shop/checkout from 46.0 ms to about 9.20 ms (4.60 ms to 13.8 ms), while the same work \
             takes etl about 25.0 % longer"
        );
        assert_eq!(with_tail(-0.7).figures()[0].name, "victim_p99");
        let may_grow = with_tail(0.1);
        assert!(!may_grow.promise().unwrap().contains("p99"), "{:?}", may_grow.promise());
        assert_eq!(may_grow.figures()[0].value, None);
    }

    const fn between(low: f64, change: f64, high: f64) -> Result<Predicted, Unpredicted> {
        Ok(Predicted { change, low, high })
    }

    #[test]
    fn only_what_is_sure_and_worth_it_is_promised_and_its_price_is_said() {
        let it = effect(between(-0.7, -0.5, -0.3), 0.25);
        assert_eq!(
            it.promise().unwrap(),
            "shop/checkout should wait about 50.0 % less (30.0 % to 70.0 %), while the same work takes etl about 25.0 % longer"
        );
        assert!(!effect(between(-0.7, -0.5, -0.3), 0.01).promise().unwrap().contains("longer"));
        let may_be_a_loss = effect(between(-0.6, -0.3, 0.2), 0.25);
        assert!(may_be_a_loss.promise().is_none() && !may_be_a_loss.is_small());
        let small = effect(between(-0.15, -0.1, -0.05), 0.0);
        assert!(small.promise().is_none() && small.is_small());
        assert!(
            small.caveat().unwrap().contains("would hardly change the wait of shop/checkout"),
            "{:?}",
            small.caveat()
        );
        let unknown = effect(Err(Unpredicted::NeverSleeps), 0.0);
        assert!(unknown.promise().is_none() && unknown.caveat().unwrap().contains("is not predicted"));
    }
}
