//! What a trial says, a sentence a line: what the policy did for whom, at what price, and what to do next.

use crate::{
    diagnosis::ForecastFigure,
    trial::{Policy, TrialOutcome, Tried, TriedFigure},
    units::signed_percent,
};

/// How many times as long the next trial is to be where this one cannot tell.
const LONGER: f64 = 4.0;
/// Where the whole interval is within this, nothing has changed that matters. Chosen.
const HARDLY: f64 = 0.1;

/// What came of it.
pub(super) fn answer(outcome: &TrialOutcome) -> Vec<String> {
    let Some(policy) = outcome.policy else {
        return vec![
            "No policy was applied: the changes below show how much results vary by chance on this host.".to_owned(),
        ];
    };
    if outcome.pairs == 0 {
        return vec![format!("What {policy} does is not known: no block with it was complete.")];
    }
    let changed = |of, what| figure(outcome, of).and_then(Change::more_than_chance).map(|change| change.told(what));
    let found = [
        figure(outcome, ForecastFigure::LightWaiting).map(|light| for_light(policy, light)),
        changed(ForecastFigure::LightP99, "Light cgroups: p99 run-queue wait"),
        figure(outcome, ForecastFigure::HeavyTime).map(for_heavy),
        changed(ForecastFigure::OthersTime, "Other cgroups: time for the same work (CPU and waiting)"),
        changed(ForecastFigure::Overhead, "Host: CPU time for scheduling"),
    ];
    found.into_iter().flatten().collect()
}

/// What to do next, where there is anything. One that ended early has said why.
pub(super) fn next(tried: &Tried) -> Option<String> {
    let outcome = &tried.outcome;
    if !outcome.not_undone.is_empty() {
        return Some("Next: sudo lagstop trial --restore".to_owned());
    }
    let (policy, None) = (outcome.policy?, &outcome.ended) else { return None };
    let change = |of| figure(outcome, of).and_then(Change::of);
    let (light, heavy) = (change(ForecastFigure::LightWaiting)?, change(ForecastFigure::HeavyTime)?);
    if light.is_hardly_any() {
        return None;
    }
    Some(if !light.is_real || !(heavy.is_real || heavy.is_hardly_any()) {
        let seconds = outcome.block_seconds * (2 * outcome.pairs + 1) as f64 * LONGER;
        format!("Next: repeat the trial for longer: --duration {}m", (seconds / 60.0).ceil())
    } else if light.change > 0.0 {
        format!("Next: do not use {policy} for these cgroups: the light ones wait longer.")
    } else if policy == Policy::Lags {
        let command = ["sudo lagstop schedule"].iter().chain(&tried.ignored).copied().collect::<Vec<_>>().join(" ");
        format!("Next: if you accept that cost, schedule by LAGS until Ctrl-C: {command}")
    } else {
        "Next: if you accept that cost, make the change for good: the trial has undone it.".to_owned()
    })
}

fn figure(outcome: &TrialOutcome, of: ForecastFigure) -> Option<&TriedFigure> {
    outcome.figures.iter().find(|found| found.name == of.name())
}

fn for_light(policy: Policy, light: &TriedFigure) -> String {
    match Change::of(light) {
        Some(it) if it.is_hardly_any() => it.hardly("Light cgroups", "tasks waiting for a CPU change"),
        Some(it) if it.is_real => it.told(&format!("Light cgroups with {policy}: tasks waiting for a CPU")),
        Some(it) => format!("No clear effect on light cgroups: tasks waiting for a CPU {}.", it.by_chance()),
        None => format!("Effect on light cgroups unknown{}.", why(light)),
    }
}

fn for_heavy(heavy: &TriedFigure) -> String {
    match Change::of(heavy) {
        Some(it) if it.is_hardly_any() => {
            it.hardly("Heavy cgroups", "time for the same work (CPU and waiting) changes")
        }
        Some(it) if it.is_real => it.told("Heavy cgroups: time for the same work (CPU and waiting)"),
        Some(it) => format!("Cost to heavy cgroups not clear: time for the same work {}.", it.by_chance()),
        None => format!("Cost to heavy cgroups unknown{}.", why(heavy)),
    }
}

fn why(figure: &TriedFigure) -> String {
    figure.why_not.as_ref().map_or_else(String::new, |why| format!(": {why}"))
}

/// A change that has an interval.
struct Change<'f> {
    figure: &'f TriedFigure,
    change: f64,
    low: f64,
    high: f64,
    /// It is more than chance.
    is_real: bool,
}

impl<'f> Change<'f> {
    fn of(figure: &'f TriedFigure) -> Option<Self> {
        let is_real = figure.changed == Some(true);
        Some(Self { figure, change: figure.change?, low: figure.low?, high: figure.high?, is_real })
    }

    fn more_than_chance(figure: &'f TriedFigure) -> Option<Self> {
        Self::of(figure).filter(|it| it.is_real)
    }

    fn interval(&self) -> String {
        format!("95 % interval: {} to {}", signed_percent(self.low), signed_percent(self.high))
    }

    /// Is the whole interval so small?
    fn is_hardly_any(&self) -> bool {
        self.low >= -HARDLY && self.high <= HARDLY
    }

    fn hardly(&self, who: &str, what: &str) -> String {
        format!("{who}: {what} by less than 10 % ({}).", self.interval())
    }

    /// With what it was and became, where these means of all blocks say the same as the change between neighbours.
    fn told(&self, what: &str) -> String {
        let shown = |value| super::shown(self.figure.unit, value);
        let of_means = self.figure.with.zip(self.figure.without).map(|(with, without)| with / without - 1.0);
        let from_to = if of_means.is_some_and(|of_means| (self.low..=self.high).contains(&of_means)) {
            format!(", from {} to {}", shown(self.figure.without), shown(self.figure.with))
        } else {
            String::new()
        };
        format!("{what} {}{from_to} ({}).", signed_percent(self.change), self.interval())
    }

    fn by_chance(&self) -> String {
        // Each interval is for one metric, and all are looked at.
        let excludes_0 = self.low > 0.0 || self.high < 0.0;
        let but = if excludes_0 { "; among so many metrics, that can be chance" } else { "" };
        format!("{} ({}{but})", signed_percent(self.change), self.interval())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{example, figure as figure_of};
    use super::*;
    use crate::units::Unit;

    /// A trial in which these changed so much.
    fn tried_with(policy: Policy, light: Option<f64>, heavy: Option<f64>, overhead: Option<f64>) -> Tried {
        let of =
            |it: ForecastFigure, unit, change| TriedFigure { unit, ..figure_of(it.name(), it.label(), change, None) };
        let figures = vec![
            of(ForecastFigure::LightWaiting, Unit::Tasks, light),
            of(ForecastFigure::HeavyTime, Unit::Factor, heavy),
            of(ForecastFigure::Overhead, Unit::Share, overhead),
        ];
        let outcome = TrialOutcome { policy: Some(policy), figures, ..example().outcome };
        Tried { outcome, ..example() }
    }

    #[test]
    fn what_it_did_and_what_it_cost() {
        let tried = tried_with(Policy::Lags, Some(-0.75), Some(0.2), Some(-0.5));
        let said = answer(&tried.outcome).into_iter().chain(next(&tried));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "Light cgroups with lags: tasks waiting for a CPU -75 %, from 4.00 tasks to 1.00 tasks (95 % interval: -85 % to -65 %).",
                "Heavy cgroups: time for the same work (CPU and waiting) +20 % (95 % interval: +10 % to +30 %).",
                "Host: CPU time for scheduling -50 % (95 % interval: -60 % to -40 %).",
                "Next: if you accept that cost, schedule by LAGS until Ctrl-C: sudo lagstop schedule",
            ]
        );
    }

    #[test]
    fn what_may_be_chance_is_told_as_that() {
        let mut tried = tried_with(Policy::Idle, Some(-0.05), Some(-0.05), Some(0.05));
        tried.outcome.figures[0].high = Some(-0.01);
        let said = answer(&tried.outcome).into_iter().chain(next(&tried));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "No clear effect on light cgroups: tasks waiting for a CPU -5.0 % (95 % interval: -15 % to -1.0 %; among so many metrics, that can be chance).",
                "Cost to heavy cgroups not clear: time for the same work -5.0 % (95 % interval: -15 % to +5.0 %).",
                "Next: repeat the trial for longer: --duration 4m",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_told_with_the_reason() {
        let tried = tried_with(Policy::Weight, None, None, None);
        let said = answer(&tried.outcome).into_iter().chain(next(&tried));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "Effect on light cgroups unknown: it was 0 in all blocks without the policy, so there is no ratio.",
                "Cost to heavy cgroups unknown: it was 0 in all blocks without the policy, so there is no ratio.",
            ]
        );
    }

    #[test]
    fn what_to_do_next_depends_on_what_came_of_it() {
        let says = |tried: &Tried, what: &str| next(tried).is_some_and(|next| next.contains(what));
        assert!(says(&tried_with(Policy::Idle, Some(0.5), Some(0.2), None), "do not use idle"));
        assert!(says(&tried_with(Policy::Weight, Some(-0.5), Some(0.0), None), "make the change for good"));
        assert!(
            says(&tried_with(Policy::Weight, Some(-0.5), Some(0.05), None), "--duration"),
            "the cost may be chance"
        );
        assert_eq!(next(&tried_with(Policy::Lags, Some(-0.5), None, None)), None, "the cost is not known");
        assert_eq!(next(&tried_with(Policy::Lags, Some(0.0), Some(0.0), None)), None, "it hardly does anything");
        let mut broken = tried_with(Policy::Lags, Some(-0.5), Some(0.2), None);
        broken.outcome.ended = Some("it was interrupted".to_owned());
        assert_eq!(next(&broken), None);
        broken.outcome.not_undone = vec!["/web/cpu.weight".to_owned()];
        assert!(says(&broken, "--restore"));
        let mut allowed = tried_with(Policy::Lags, Some(-0.5), Some(0.2), None);
        allowed.ignored = vec!["--ignore-quotas"];
        assert!(says(&allowed, "sudo lagstop schedule --ignore-quotas"));
        allowed.outcome.pairs = 0;
        assert_eq!(answer(&allowed.outcome), ["What lags does is not known: no block with it was complete."]);
        let mut nothing = example();
        nothing.outcome.policy = None;
        assert!(answer(&nothing.outcome)[0].contains("vary by chance") && next(&nothing).is_none());
    }
}
