//! Rule: which light cgroups would gain from priority, what that costs the others, and what it would do to the host.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §4.1, §4.2): fair scheduling serves light groups late although they would be done soon.
//! Light and heavy are told apart among siblings, where the kernel shares CPU time, by what they use of it beside what their
//! weights entitle them to ([`arena`]). What another weight does is simulated on what was measured ([`plan`]).

mod advice;
mod arena;
mod gain;
mod plan;

use arena::{Arena, Class, Sibling};
use plan::WeightPlan;

use super::{
    Candidate, CandidateClass, Confidence, Figure, FigureDefinition, Finding, Limit, Observations, Rule, Severity,
    Subject, Thresholds,
    confidence::{Basis, NEARLY_ALL_AGREE},
    figure::{
        figures,
        sources::{COUNTED, LAGS, SIMULATED},
    },
    forecast::{ForecastFigure, Held, MOST_OFF},
    observations::Observed,
    overload,
    reweighting::{self, Simulations},
};
use crate::{
    model::{GroupBy, Measure, Nanos},
    units,
};

figures! {
    waiting_per_cpu: Tasks, "tasks waiting per CPU" = "(light_wait_ns + heavy_wait_ns) / capacity_ns", COUNTED;
    compared_wait_per_cpu: Factor, "wait per CPU time" = "(light_wait_ns + heavy_wait_ns) / (light_cpu_ns + heavy_cpu_ns)", COUNTED;
    light: Count, "light cgroups" = "siblings with light_cpu_ns / weight below Σ cpu_ns / Σ weight", COUNTED;
    light_wait: Factor, "light: wait per CPU time" = "light_wait_ns / light_cpu_ns", COUNTED;
    heavy: Count, "heavy cgroups" = "their other siblings", COUNTED;
    heavy_wait: Factor, "heavy: wait per CPU time" = "heavy_wait_ns / heavy_cpu_ns", COUNTED;
    light_error: Share, "simulation error, light" = "wait of the prioritised, simulated without a change / measured − 1", SIMULATED;
    heavy_error: Share, "simulation error, heavy" = "wait of the heavy, simulated without a change / measured − 1", SIMULATED;
    others_error: Share, "simulation error, others" = "wait of all others, simulated without a change / measured − 1", SIMULATED;
    light_waiting: Share, "predicted wait, prioritised" = "wait of the prioritised, simulated with more weight / without − 1", SIMULATED;
    light_gain: Share, "wait saved per cgroup (median)" = "median of 1 − wait simulated with more weight / without, over the prioritised", SIMULATED;
    heavy_time: Share, "predicted time per work, heavy" = "(CPU time + wait) / CPU time of the heavy, simulated with more weight for the light / without − 1", SIMULATED;
    others_time: Share, "predicted time per work, others" = "the same for all that are neither light nor heavy", SIMULATED;
    waiting_change: Share, "predicted wait, all cgroups" = "waits of all, simulated with more weight for the light / without − 1", SIMULATED;
    queue_length: Tasks, "predicted tasks per CPU" = "(busy_ns + runq_wait_ns · (1 + waiting_change)) / capacity_ns", SIMULATED;
    switches_change: Share, "predicted switches" = "switches simulated with more weight for the light / without − 1", SIMULATED;
    overhead_change: Share, "predicted overhead" = "switch costs simulated with more weight for the light / without − 1; costs by this host's own curve", SIMULATED;
    cores_freed: Cores, "predicted cores freed" = "−overhead_change · overhead · cpus_online", SIMULATED;
    can_go_first: Count, "light cgroups to prioritise" = "all that wait long, or the lightest half or quarter: as many as the others tolerate", LAGS;
    heaviest: Tasks, "heavy" = "mean Load Credit of all inside of the cgroup", LAGS;
    light_gaining_most: Tasks, "light, most to gain" = "mean Load Credit of the cgroup while it was runnable", LAGS;
}

/// The most cgroups of each class that people are shown.
const TOP: usize = 5;
/// The most heavy cgroups that a verdict names.
const NAMED: usize = 2;
/// From this error of the simulated waits on, as a share of the measured ones, predictions count for less. Chosen: half of
/// [`MOST_OFF`].
const OFF: f64 = 0.25;
/// The share of such predictions that must have held in calibration for a high confidence: what intervals are meant for
/// (docs/accuracy.md).
const HOLDS: f64 = 0.8;
/// The fewest predictions for that. Chosen: of fewer, a single one is more than a tenth.
const FEWEST_HELD: u32 = 10;

pub(super) fn judge(observations: &Observations, simulations: &Simulations<'_>, thresholds: &Thresholds) -> Finding {
    Judged::new(observations, simulations, thresholds).finding()
}

struct Judged<'a> {
    observations: &'a Observations,
    thresholds: &'a Thresholds,
    /// The group of siblings that are compared. `None` if none can be.
    arena: Option<Arena<'a>>,
    light: Class,
    heavy: Class,
    /// Light, and wait long.
    waiting: Class,
    /// The plan for all of those, and if that costs others too much, the plan for some of them.
    plans: Option<(WeightPlan, Option<WeightPlan>)>,
    /// Length of the simulated part in seconds, and its number of bursts.
    extent: Option<(f64, u64)>,
}

impl<'a> Judged<'a> {
    fn new(observations: &'a Observations, simulations: &Simulations<'_>, thresholds: &'a Thresholds) -> Self {
        let arena = Arena::worst(observations, thresholds);
        let siblings = || arena.iter().flat_map(|arena| &arena.siblings);
        let light = Class::of(siblings().filter(|one| one.is_light()));
        let heavy = Class::of(siblings().filter(|one| !one.is_light()));
        let waiting = Class::of(arena.iter().flat_map(|arena| arena.waiting(thresholds)));
        let mut judged = Self { observations, thresholds, arena, light, heavy, waiting, plans: None, extent: None };
        if judged.has_enough() && judged.is_contended() && judged.waiting.size > 0 {
            judged.plans = judged.arena.as_ref().and_then(|arena| WeightPlan::best(arena, simulations, thresholds));
            judged.extent = judged.plans.as_ref().and_then(|_| observations.forecast_extent());
        }
        judged
    }

    fn siblings(&self) -> impl Iterator<Item = &Sibling<'a>> {
        self.arena.iter().flat_map(|arena| &arena.siblings)
    }

    fn heavy_siblings(&self) -> impl Iterator<Item = &Sibling<'a>> {
        self.siblings().filter(|one| !one.is_light())
    }

    fn has_enough(&self) -> bool {
        self.observations.too_short(self.thresholds).is_none() && self.siblings().next().is_some()
    }

    fn is_contended(&self) -> bool {
        self.waiting_per_cpu() >= self.thresholds.contended_wait
    }

    /// The recommended plan: for all, or for those that can go first at a tolerable cost for the others.
    fn plan(&self) -> Option<&WeightPlan> {
        self.plans.as_ref().map(|(all, some)| some.as_ref().unwrap_or(all))
    }

    fn weights(&self) -> &[(std::sync::Arc<str>, f64)] {
        self.plan().map_or(&[], |plan| &plan.weights)
    }

    /// The light cgroups that wait long and can go first, sorted by their gain.
    fn advised(&self) -> Vec<&Sibling<'a>> {
        let Some(plan) = self.plan() else { return Vec::new() };
        let mut advised: Vec<&Sibling<'a>> = self.siblings().filter(|one| plan.first.contains(&one.number)).collect();
        advised.sort_by(|a, b| self.spared(b).total_cmp(&self.spared(a)).then(a.number.cmp(&b.number)));
        advised
    }

    /// The part of its wait that a cgroup would be spared, in nanoseconds. All of it if nothing could be simulated.
    fn spared(&self, one: &Sibling<'_>) -> f64 {
        one.wait * (1.0 - self.left_of(one).unwrap_or(0.0))
    }

    fn finding(&self) -> Finding {
        let (severity, verdict) = self.verdict();
        let is_sure = self.plan().is_some_and(|plan| plan.is_sure(self.thresholds));
        let advice = match severity {
            Severity::Warning | Severity::Critical if is_sure => advice::advice(self),
            Severity::Warning | Severity::Critical => advice::trials(self),
            Severity::Info if self.is_far_off() => advice::trials(self),
            Severity::NotEnoughData
                if self.is_one_group() && self.observations.too_short(self.thresholds).is_none() =>
            {
                advice::where_there_is_one_group()
            }
            _ => Vec::new(),
        };
        let mut caveats = self.caveats_of_plan();
        caveats.extend(self.throttled());
        caveats.extend(advice::caveats(self));
        caveats.extend(self.observations.common_caveats());
        Finding {
            rule: Rule::LagsCandidates,
            culprits: self.culprits(),
            severity,
            subject: Subject::Host,
            verdict,
            measured: self.measured(),
            threshold: [
                Limit::contended_wait,
                Limit::light_credit,
                Limit::light_wait_per_cpu,
                Limit::light_wait_p99,
                Limit::light_gain,
                Limit::heavy_tolerance,
            ]
            .map(|limit| self.thresholds.state(limit))
            .into(),
            confidence: self.confidence(),
            caveats,
            advice,
            cgroups: self.candidates(),
        }
    }

    /// The heavy cgroups that use most CPU time.
    fn culprits(&self) -> Vec<Subject> {
        let mut heavy: Vec<&Sibling<'a>> = self.heavy_siblings().collect();
        heavy.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then(a.number.cmp(&b.number)));
        heavy.iter().take(TOP).map(|one| self.observations.subject_of(one.number)).collect()
    }

    fn verdict(&self) -> (Severity, String) {
        if let Some(too_short) = self.observations.too_short(self.thresholds) {
            return (
                Severity::NotEnoughData,
                format!("Cannot judge whether short jobs wait behind long ones: {too_short}."),
            );
        }
        if self.siblings().next().is_none() {
            let verdict = if self.is_one_group() {
                "Cannot judge whether short jobs wait behind long ones: the scheduler puts all tasks of this host into one group, \
                 because the cpu controller is enabled in no cgroup."
                    .to_owned()
            } else if self.has_waits() {
                "Cannot judge whether short jobs wait behind long ones: only the root cgroup ran.".to_owned()
            } else {
                format!("Cannot judge whether short jobs wait behind long ones: run-queue wait is {}.", self.why_not())
            };
            return (Severity::NotEnoughData, verdict);
        }
        let waiting = units::number(self.waiting_per_cpu());
        if !self.is_contended() {
            return (Severity::Ok, format!("Tasks hardly wait for a CPU: on average, {waiting} are waiting per CPU."));
        }
        let place = self.arena.as_ref().and_then(|arena| arena.parent.as_deref());
        let place = place.map_or_else(String::new, |path| format!(" in {}", units::quoted(path)));
        let light = units::plural(self.light.size, "light cgroup");
        // Explains the terms, so that nobody needs the paper.
        let means =
            if self.light.size == 1 { "using less than its fair share" } else { "using less than their fair share" };
        if self.waiting.size == 0 {
            let verdict = format!(
                "The CPUs are contended ({waiting} tasks waiting per CPU), but none of {light}{place} ({means}) waits long \
                 behind heavier ones."
            );
            return (Severity::Info, verdict);
        }
        let heavy = match (self.heavy.size, self.heavy_siblings().next()) {
            (1, Some(one)) => format!("the heavy {} (using its share or more) takes", one.subject()),
            (size, _) => {
                let named = overload::names(self.culprits().into_iter().take(NAMED), size);
                format!("{size} heavy ones ({named}, using their share or more) take")
            }
        };
        let found = format!(
            "Short jobs wait behind long ones (LAGS): {} of {light}{place} ({means}) {} {} of {} runnable time, while {heavy} {} \
             of the CPU time{}",
            self.waiting.size,
            if self.waiting.size == 1 { "waits" } else { "wait" },
            units::percent(self.waiting.wait / (self.waiting.wait + self.waiting.cpu)),
            if self.waiting.size == 1 { "its" } else { "their" },
            units::percent(self.share_of_cpu(&self.heavy)),
            if place.is_empty() { "" } else { " there" },
        );
        // They wait, even if it is unknown what helps.
        let Some((all, some)) = &self.plans else {
            return (Severity::Warning, format!("{found}."));
        };
        let (Some(gain), None) = (all.forecast.change(ForecastFigure::LightWaiting), self.unpredicted()) else {
            return (Severity::Warning, format!("{found}; the effect of more weight cannot be predicted."));
        };
        if !all.is_worthwhile(self.thresholds) {
            let median = units::if_measured(all.median, units::percent);
            return (Severity::Info, format!("{found}; more weight would save only {median} of their wait (median)."));
        }
        let range = gain.magnitudes();
        let gain = changed(gain.change);
        let tail = all.forecast.light_tail().filter(|tail| tail.change.high < 0.0);
        let tail =
            tail.map(|tail| format!(", and the p99 of all their waits fall {}", tail.fall())).unwrap_or_default();
        match some {
            _ if all.is_borne(self.thresholds) => (
                Severity::Warning,
                format!("{found}. More weight for the light ones would make their wait about {gain} ({range}){tail}."),
            ),
            Some(some) => (
                Severity::Warning,
                format!(
                    "{found}; more weight for the {} lightest would make their wait {}.",
                    some.first.len(),
                    some.forecast
                        .change(ForecastFigure::LightWaiting)
                        .map_or("shorter".to_owned(), |it| changed(it.change)),
                ),
            ),
            None => (Severity::Info, format!("{found}; more weight would make their wait {gain}, but {}.", price(all))),
        }
    }

    /// Why nothing is predicted for the plan. `None` if something is, or if there is no plan.
    fn unpredicted(&self) -> Option<String> {
        let (all, _) = self.plans.as_ref()?;
        if all.forecast.change(ForecastFigure::LightWaiting).is_some() && !self.is_far_off() {
            return None;
        }
        let why = [ForecastFigure::LightWaiting, ForecastFigure::HeavyTime]
            .into_iter()
            .find_map(|name| all.forecast.why_not(name));
        Some(why.map_or_else(|| "the simulation error is too large".to_owned(), |why| why.to_string()))
    }

    /// What the plan costs others, or why that is not predicted.
    fn caveats_of_plan(&self) -> Vec<String> {
        let Some((all, some)) = &self.plans else { return Vec::new() };
        if let Some(why) = self.unpredicted() {
            return vec![format!("The effect of more weight is not predicted: {why}.")];
        }
        if !all.is_worthwhile(self.thresholds) {
            return Vec::new();
        }
        match some {
            _ if all.is_borne(self.thresholds) => vec![format!("In return, {}.", price(all))],
            Some(some) => vec![
                format!("In return, {}.", price(some)),
                format!("More weight for all {} of them costs too much: {}.", self.waiting.size, price(all)),
            ],
            None if self.waiting.size > 1 => {
                vec![
                    "More weight for only the lightest half or quarter saves too little or also costs too much."
                        .to_owned(),
                ]
            }
            None => Vec::new(),
        }
    }

    /// Does the simulation fail to reproduce what was measured, for those that the verdict is about?
    fn is_far_off(&self) -> bool {
        self.plan().is_some_and(|plan| {
            plan.forecast.change(ForecastFigure::LightWaiting).is_none() || !plan.forecast.is_near()
        })
    }

    /// Are cgroups nothing to the scheduler?
    fn is_one_group(&self) -> bool {
        if self.siblings().next().is_some() {
            return false;
        }
        let session = &self.observations.session;
        session.group_by == GroupBy::Scheduler && session.cgroup_version == 2 && session.cpu_files.is_empty()
    }

    fn has_waits(&self) -> bool {
        self.observations.host.as_ref().is_some_and(|host| host.totals.runq_wait_ns.is_some())
    }

    fn has_causes(&self) -> bool {
        self.observations.tasks().is_some_and(|totals| totals.wait_self_ns.is_some())
    }

    fn why_not(&self) -> String {
        self.observations.session.why_not(Measure::RunqWait)
    }

    /// Tasks of the compared cgroups that wait, per CPU.
    fn waiting_per_cpu(&self) -> f64 {
        (self.light.wait + self.heavy.wait) / self.observations.whole().capacity_ns.max(1.0)
    }

    fn share_of_cpu(&self, class: &Class) -> f64 {
        let all = self.light.cpu + self.heavy.cpu;
        if all > 0.0 { class.cpu / all } else { 0.0 }
    }

    fn confidence(&self) -> Confidence {
        let lost = self.observations.host.as_ref().map_or(0, |host| host.lost.task_states);
        let basis = Basis {
            intervals: self.observations.span.intervals,
            samples: self.light.waits.saturating_add(self.heavy.waits),
            samples_are: "waits",
            agreeing: None,
            lost,
        };
        let confidence = basis.confidence();
        let Some(plan) = self.plan() else { return confidence };
        let confidence = match plan.forecast.change(ForecastFigure::LightWaiting) {
            Some(_) => by_calibration(
                confidence,
                Held::of("weight", &[ForecastFigure::LightWaiting, ForecastFigure::HeavyTime]),
            ),
            None => confidence,
        };
        // If a p99 is promised, its calibration counts, too.
        let confidence = match plan.forecast.light_tail() {
            Some(_) => by_calibration(confidence, Held::of("weight", &[ForecastFigure::LightP99])),
            None => confidence,
        };
        let confidence = if advice::schedules_otherwise(&self.observations.session.kernel).is_some() {
            confidence.lowered("the simulation models another scheduler")
        } else {
            confidence
        };
        let (agree, of) = plan.forecast.agreeing(self.thresholds.light_gain);
        let is_steady = agree as f64 >= NEARLY_ALL_AGREE * of as f64 || !plan.is_worthwhile(self.thresholds);
        let confidence = if is_steady {
            confidence
        } else {
            confidence.lowered(&format!("only {agree} of {of} simulation halves reach light_gain"))
        };
        plan.forecast.errors.worst().map_or(confidence.clone(), |error| held_against(confidence, error))
    }

    fn measured(&self) -> Vec<Figure> {
        let is_empty = self.siblings().next().is_none();
        if is_empty && !self.has_waits() && self.observations.span.intervals > 0 {
            return vec![figures::compared_wait_per_cpu.measured::<f64>(None, &self.why_not())];
        }
        if is_empty {
            return Vec::new();
        }
        let class = |class: &Class, share: &str, count: &FigureDefinition, wait: &FigureDefinition| {
            let mean = Nanos(class.wait as u64).mean(class.waits);
            let note = mean.map_or_else(|| "no waits".to_owned(), |mean| format!("{mean} per wait on average"));
            [
                count
                    .is(class.size)
                    .note(format!("{share}; {} of the CPU time", units::percent(self.share_of_cpu(class)))),
                wait.is(class.wait / class.cpu).note(note),
            ]
        };
        let (wait, cpu) = (self.light.wait + self.heavy.wait, self.light.cpu + self.heavy.cpu);
        let mut figures = vec![
            figures::waiting_per_cpu.is(self.waiting_per_cpu()),
            figures::compared_wait_per_cpu.is(wait / cpu).note("of all compared cgroups"),
        ];
        figures.extend(class(&self.light, "below their fair share", &figures::light, &figures::light_wait));
        figures.extend(class(&self.heavy, "at or above their fair share", &figures::heavy, &figures::heavy_wait));
        if let Some(plan) = self.plan() {
            figures.extend(gain::figures(self, plan));
            figures.push(
                figures::can_go_first
                    .is(plan.first.len() as u64)
                    .note(format!("of {} that wait long", self.waiting.size)),
            );
        }
        figures.extend(self.top(&figures::heaviest, |one| !one.is_light(), |one| one.credit));
        figures.extend(self.top(&figures::light_gaining_most, |one| one.is_light(), |one| self.spared(one)));
        figures
    }

    /// Those of a class with the highest value of a figure.
    fn top(
        &self,
        figure: &FigureDefinition,
        is_in: impl Fn(&Sibling<'_>) -> bool,
        by: impl Fn(&Sibling<'_>) -> f64,
    ) -> Vec<Figure> {
        let mut members: Vec<&Sibling<'_>> = self.siblings().filter(|one| is_in(one)).collect();
        members.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.number.cmp(&b.number)));
        members.iter().take(TOP).map(|one| self.member(one, figure)).collect()
    }

    fn member(&self, one: &Sibling<'_>, figure: &FigureDefinition) -> Figure {
        let p99 = one.p99.map(|p99| format!(", p99 wait {p99}")).unwrap_or_default();
        let all = self.light.cpu + self.heavy.cpu;
        let share = if all > 0.0 { one.cpu / all } else { 0.0 };
        let left =
            self.left_of(one).map(|left| format!("; {} of the wait remains with more weight", units::percent(left)));
        let waited = match one.cpu {
            cpu if cpu > 0.0 => format!("waited {}x its CPU time", units::number(one.wait_per_cpu())),
            _ => "got no CPU time".to_owned(),
        };
        figure.is(one.credit).of(one.subject()).note(format!(
            "demand over the last seconds (Load Credit); {} of the CPU time, {waited}{p99}{}",
            units::percent(share),
            left.unwrap_or_default()
        ))
    }

    /// The predicted share of its wait that is left if those that wait long go first.
    fn left_of(&self, one: &Sibling<'_>) -> Option<f64> {
        self.plan()?.forecast.left(one.number)
    }

    /// Every cgroup that is compared: the light ones by what they would gain, then the heavy ones by their Load Credit.
    fn candidates(&self) -> Vec<Candidate> {
        let duration = self.observations.span.duration_ns;
        let waits_long = |one: &Sibling<'_>| self.arena.as_ref().is_some_and(|it| it.waits_long(one, self.thresholds));
        let candidate = |one: &Sibling<'_>| Candidate {
            cgroup: one.subject(),
            class: if one.is_light() { CandidateClass::Light } else { CandidateClass::Heavy },
            waits_long: waits_long(one),
            load_credit: one.credit.into(),
            cpu: (one.cpu / duration.0.max(1) as f64).into(),
            wait_per_cpu: finite(one.wait_per_cpu()).map(Into::into),
            wait_p99_ns: one.p99,
            wait_left: self.left_of(one).and_then(finite).map(Into::into),
        };
        let mut ranked: Vec<&Sibling<'_>> = self.siblings().collect();
        let rank = |one: &Sibling<'_>| if one.is_light() { self.spared(one) } else { one.cpu };
        ranked.sort_by(|a, b| {
            b.is_light().cmp(&a.is_light()).then(rank(b).total_cmp(&rank(a))).then(a.number.cmp(&b.number))
        });
        ranked.into_iter().map(candidate).collect()
    }

    /// Names quotas that explain a part of the waits of those who would go first.
    fn throttled(&self) -> Option<String> {
        let matters =
            |one: &&Sibling<'_>| one.throttled_share().is_some_and(|share| share >= Observed::THROTTLED_MATTERS);
        let waiting = self.arena.iter().flat_map(|arena| arena.waiting(self.thresholds));
        let count = waiting.filter(matters).count() as u64;
        (count > 0).then(|| {
            format!(
                "{} of the light cgroups that wait long used up their own quota (cpu.max) at times; more weight does \
                 not shorten that part of the wait.",
                units::count(count)
            )
        })
    }
}

/// What a plan costs others.
fn price(plan: &WeightPlan) -> String {
    let of = |name, who| reweighting::price(&plan.forecast, name, who);
    [of(ForecastFigure::HeavyTime, "heavy cgroups"), of(ForecastFigure::OthersTime, "all others")].join(", and ")
}

fn changed(change: f64) -> String {
    let how = if change < 0.0 { "shorter" } else { "longer" };
    format!("{} {how}", units::percent(change.abs()))
}

/// The confidence in a prediction, given how many such predictions held in calibration: docs/accuracy.md.
fn by_calibration(confidence: Confidence, held: Option<Held>) -> Confidence {
    match held {
        Some(held) if held.share() >= HOLDS && held.of >= FEWEST_HELD => confidence,
        Some(Held { inside, of, .. }) => confidence
            .lowered(&format!("in calibration, {inside} of {of} measured changes were within the predicted interval")),
        None => confidence.lowered("this kind of prediction was not calibrated"),
    }
}

/// The confidence in a prediction, given the `error` of the simulation.
fn held_against(confidence: Confidence, error: f64) -> Confidence {
    let found = format!("simulated waits are {:+.0} % off", 100.0 * error);
    match error.abs() {
        error if error <= OFF => confidence,
        error if error <= MOST_OFF => confidence.lowered(&found),
        // NaN is handled like a large error.
        _ => confidence.lowered(&found).lowered("too far off to predict from"),
    }
}

fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests;
