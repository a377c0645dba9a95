//! Rule: which light cgroups would gain from going first, who would pay, and what it would do to the host.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §4.1, §4.2): fair scheduling serves light groups late although they would be done soon.
//! Light and heavy are below and above the fair share by Load Credit; the fair share is the mean of the credits of all
//! cgroups that were runnable, for equal weights. What putting the light ones first does is simulated on what was measured
//! ([`prediction`]).

mod advice;
mod classes;
mod gain;
mod prediction;

use std::cmp::Reverse;

use classes::{Class, Classed};
use gain::Gain;
use prediction::{Kind, Prediction, Static};

use super::{
    Candidate, CandidateClass, Confidence, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    Unit, confidence::Basis, cost_curve::CostCurve, observations::Observed, say,
};
use crate::model::Nanos;

/// Cgroups of each class that are shown to people.
const TOP: usize = 5;
/// How far the simulation may be off, of what was measured, before its predictions count for less; and for little.
const OFF: f64 = 0.25;
const FAR_OFF: f64 = 0.5;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    Judged::new(observations, thresholds).finding()
}

struct Judged<'a> {
    observations: &'a Observations,
    thresholds: &'a Thresholds,
    /// All that are compared, those that waited most first.
    classed: Vec<Classed<'a>>,
    light: Class,
    heavy: Class,
    /// Light, and wait long: how many, and their part of the wait.
    waiting: usize,
    prediction: Option<Prediction>,
}

impl<'a> Judged<'a> {
    fn new(observations: &'a Observations, thresholds: &'a Thresholds) -> Self {
        let mut classed = Classed::all(observations);
        classed.sort_by_key(|one| (Reverse(one.wait as u64), one.id));
        let light = Class::of(classed.iter().filter(|one| one.is_light()));
        let heavy = Class::of(classed.iter().filter(|one| !one.is_light()));
        let waiting = classed.iter().filter(|one| one.waits_long(heavy.credit(), thresholds)).count();
        let mut judged = Self { observations, thresholds, classed, light, heavy, waiting, prediction: None };
        if judged.has_enough() && judged.is_contended() {
            judged.prediction = judged.predict();
        }
        judged
    }

    fn predict(&self) -> Option<Prediction> {
        let asked = &self.observations.asked;
        let mut kinds = vec![Kind::Unrated; asked.trace().groups];
        let mut lightest = Vec::new();
        for one in &self.classed {
            let Some(number) = asked.number(one.id) else { continue };
            kinds[number] = if one.is_light() { Kind::Light } else { Kind::Heavy };
            if one.is_light() {
                lightest.push((number, one.credit));
            }
        }
        lightest.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let lightest: Vec<usize> = lightest.into_iter().map(|(number, _)| number).collect();
        let curve = CostCurve::of(&self.observations.samples);
        prediction::predict(asked.trace(), &kinds, &lightest, self.thresholds.heavy_tolerance, curve.as_ref())
    }

    fn has_enough(&self) -> bool {
        self.observations.too_short(self.thresholds).is_none() && !self.classed.is_empty()
    }

    fn is_contended(&self) -> bool {
        self.waiting_per_cpu() >= self.thresholds.contended_wait
    }

    fn gain(&self) -> Option<Gain> {
        self.prediction.as_ref().map(|prediction| Gain::of(prediction, &prediction.lightest_first, self.observations))
    }

    /// Who can go first without the heavy ones taking longer than they bear.
    fn first(&self) -> First<'_> {
        let Some(prediction) = &self.prediction else { return First::All };
        // Where there are no heavy ones there is nobody to pay.
        let bears = |longer: f64| longer.is_nan() || longer <= 1.0 + self.thresholds.heavy_tolerance;
        if bears(prediction.lightest_first.heavy_time) {
            return First::All;
        }
        let spared = |first: &Static| 1.0 - first.after.waits.light / prediction.status_quo.light;
        let worthwhile = prediction.static_first.as_ref().filter(|first| spared(first) >= self.thresholds.light_gain);
        worthwhile.map_or(First::Nobody, |first| First::Some(first, spared(first)))
    }

    /// The light cgroups that wait long and can go first, those that gain most before the others.
    fn advised(&self) -> Vec<&Classed<'a>> {
        let goes = |one: &Classed<'_>| match self.first() {
            First::All => true,
            First::Nobody => false,
            First::Some(first, _) => {
                self.observations.asked.number(one.id).is_some_and(|number| first.first.contains(&number))
            }
        };
        let mut advised: Vec<&Classed<'a>> = self
            .classed
            .iter()
            .filter(|one| one.waits_long(self.heavy.credit(), self.thresholds) && goes(one))
            .collect();
        advised.sort_by(|a, b| self.spared(b).total_cmp(&self.spared(a)).then(a.id.cmp(&b.id)));
        advised
    }

    /// What a light cgroup would be spared of its wait, in nanoseconds; all of it where nothing could be simulated.
    fn spared(&self, one: &Classed<'_>) -> f64 {
        one.wait * (1.0 - self.left_of(one).unwrap_or(0.0))
    }

    fn finding(&self) -> Finding {
        let gain = self.gain();
        let (severity, verdict) = self.verdict(gain.as_ref());
        let advises = severity >= Severity::Warning;
        let mut against = advice::doubts(self.prediction.as_ref(), gain.as_ref());
        against.extend(self.throttled());
        against.extend(self.observations.common_doubts());
        Finding {
            rule: Rule::LagsCandidates,
            severity,
            subject: Subject::Host,
            verdict,
            measured: self.measured(gain.as_ref()),
            threshold: [
                Limit::ContendedWait,
                Limit::LightCredit,
                Limit::LightWaitPerCpu,
                Limit::LightWaitP99,
                Limit::LightGain,
                Limit::HeavyTolerance,
            ]
            .map(|limit| self.thresholds.state(limit))
            .into(),
            confidence: self.confidence(),
            against,
            advice: if advises { advice::advice(self) } else { Vec::new() },
            cgroups: self.candidates(),
        }
    }

    fn verdict(&self, gain: Option<&Gain>) -> (Severity, String) {
        if let Some(too_short) = self.observations.too_short(self.thresholds) {
            return (Severity::NotEnoughData, format!("Who waits cannot be said: {too_short}."));
        }
        if self.classed.is_empty() {
            let verdict = if self.has_waits() {
                "Who waits cannot be said: no cgroup but the root ran, so there is none to compare.".to_owned()
            } else {
                format!("Who waits cannot be said: run-queue wait is {}.", self.why_not())
            };
            return (Severity::NotEnoughData, verdict);
        }
        let waited = format!("{} tasks wait per CPU on average", say::number(self.waiting_per_cpu()));
        if !self.is_contended() {
            return (Severity::Ok, format!("Nobody waits: {waited}."));
        }
        let (light, heavy) = (say::plural(self.light.size, "cgroup"), self.heavy.size);
        if self.waiting == 0 {
            let verdict = format!(
                "The CPUs are contended, {waited}, but none of the {light} below their fair share is much lighter than the \
                 others and waits long for them: priority by Load Credit would have nobody to put first."
            );
            return (Severity::Info, verdict);
        }
        let found = format!(
            "{} of {light} below their fair share {} long, while {heavy} above it used {} of the cgroups' CPU time",
            self.waiting,
            if self.waiting == 1 { "waits" } else { "wait" },
            say::percent(self.share_of_cpu(&self.heavy)),
        );
        let Some(gain) = gain else {
            return (Severity::Warning, format!("{found}. What going first would do cannot be simulated."));
        };
        let first = if self.is_far_off() { "By a simulation that is far off here, going first" } else { "Going first" };
        let light = say::percent(gain.of_light);
        let heavy = match gain.heavy_time {
            Some(longer) if longer < 0.0 => format!("the heavy ones would take {} less time", say::percent(-longer)),
            Some(longer) if longer.is_finite() => format!("the heavy ones would take {} longer", say::percent(longer)),
            Some(_) => "the heavy ones would get nothing done".to_owned(),
            None => "there are no heavy ones to pay for it".to_owned(),
        };
        if gain.of_light < self.thresholds.light_gain {
            return (Severity::Info, format!("{found}. {first} would spare them only {light} of their wait."));
        }
        match self.first() {
            First::All => (
                Severity::Warning,
                format!("{found}. {first} would spare the light ones {light} of their wait; {heavy}."),
            ),
            First::Some(first_ones, spared) => (
                Severity::Warning,
                format!(
                    "{found}. {first} would spare the light ones {light} of their wait, but {heavy}, which is more than \
                     they should; with none but the {} lightest first it is {}, and they take {} longer.",
                    first_ones.first.len(),
                    say::percent(spared),
                    say::percent((first_ones.after.heavy_time - 1.0).max(0.0)),
                ),
            ),
            First::Nobody => (
                Severity::Info,
                format!(
                    "{found}. {first} would spare the light ones {light} of their wait, but {heavy}, which is more than \
                     they should, and to put fewer first spares too little."
                ),
            ),
        }
    }

    /// Does the simulation not reproduce what was measured?
    fn is_far_off(&self) -> bool {
        // No number at all is as bad.
        let is_near = |prediction: &Prediction| prediction.error().abs() <= FAR_OFF;
        !self.prediction.as_ref().is_none_or(is_near)
    }

    fn has_waits(&self) -> bool {
        self.observations.host.as_ref().is_some_and(|host| host.totals.runq_wait_ns.is_some())
    }

    fn why_not(&self) -> String {
        self.observations.session.why_not("run-queue wait")
    }

    /// Of the cgroups that are compared.
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
        let Some(prediction) = &self.prediction else { return confidence };
        held_against(confidence, prediction.error())
    }

    fn measured(&self, gain: Option<&Gain>) -> Vec<Figure> {
        if self.classed.is_empty() && !self.has_waits() && self.observations.span.intervals > 0 {
            return vec![Figure::measured::<f64>(
                "wait_per_cpu",
                "wait per CPU time",
                None,
                Unit::Factor,
                &self.why_not(),
            )];
        }
        if self.classed.is_empty() {
            return Vec::new();
        }
        let class = |class: &Class, count: (&'static str, &'static str), wait: (&'static str, &'static str)| {
            let mean = Nanos(class.wait as u64).mean(class.waits);
            let note = mean.map_or_else(|| "no waits".to_owned(), |mean| format!("{mean} each on average"));
            [
                Figure::new(count.0, count.1, class.size, Unit::Count)
                    .note(format!("{} of the CPU time", say::percent(self.share_of_cpu(class)))),
                Figure::new(wait.0, wait.1, class.wait / class.cpu, Unit::Factor).note(note),
            ]
        };
        let (wait, cpu) = (self.light.wait + self.heavy.wait, self.light.cpu + self.heavy.cpu);
        let mut figures = vec![
            Figure::new("waiting_per_cpu", "tasks waiting per CPU", self.waiting_per_cpu(), Unit::Tasks),
            Figure::new("wait_per_cpu", "wait per CPU time", wait / cpu, Unit::Factor).note("of all cgroups compared"),
        ];
        figures.extend(class(&self.light, ("light", "light cgroups"), ("light_wait", "their wait per CPU time")));
        figures.extend(class(&self.heavy, ("heavy", "heavy cgroups"), ("heavy_wait", "their wait per CPU time")));
        if let Some((prediction, gain)) = self.prediction.as_ref().zip(gain) {
            figures.extend(gain::figures(prediction, gain));
        }
        figures.extend(self.top("heaviest", "heavy", |one| !one.is_light(), |one| one.credit));
        figures.extend(self.top(
            "light_gaining_most",
            "light, gaining most",
            |one| one.is_light(),
            |one| self.spared(one),
        ));
        figures
    }

    /// Those of a class with the most of something.
    fn top(
        &self,
        name: &'static str,
        label: &'static str,
        is_in: impl Fn(&Classed<'_>) -> bool,
        by: impl Fn(&Classed<'_>) -> f64,
    ) -> Vec<Figure> {
        let mut members: Vec<&Classed<'_>> = self.classed.iter().filter(|one| is_in(one)).collect();
        members.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.id.cmp(&b.id)));
        members.iter().take(TOP).map(|one| self.member(one, name, label)).collect()
    }

    fn member(&self, one: &Classed<'_>, name: &'static str, label: &'static str) -> Figure {
        let p99 = one.p99().map(|p99| format!(", p99 wait {p99}")).unwrap_or_default();
        let all = self.light.cpu + self.heavy.cpu;
        let share = if all > 0.0 { one.cpu / all } else { 0.0 };
        let left = self.left_of(one).map(|left| format!("; {} of it left with the lightest first", say::percent(left)));
        Figure::new(name, label, one.credit, Unit::Tasks).of(one.observed.subject(one.id)).note(format!(
            "Load Credit; {} of the CPU time, waited {} its own{p99}{}",
            say::percent(share),
            if one.cpu > 0.0 { Unit::Factor.show(one.wait_per_cpu()) } else { "n/a".to_owned() },
            left.unwrap_or_default()
        ))
    }

    /// What is left of a cgroup's wait with the lightest first, as predicted.
    fn left_of(&self, one: &Classed<'_>) -> Option<f64> {
        let prediction = self.prediction.as_ref()?;
        prediction.lightest_first.of_group[self.observations.asked.number(one.id)?]
    }

    /// Every cgroup that is compared: the light ones by what they would gain, then the heavy ones by their Load Credit.
    fn candidates(&self) -> Vec<Candidate> {
        let duration = self.observations.span.duration_ns;
        let candidate = |one: &Classed<'_>| Candidate {
            cgroup: one.observed.subject(one.id),
            class: if one.is_light() { CandidateClass::Light } else { CandidateClass::Heavy },
            waits_long: one.waits_long(self.heavy.credit(), self.thresholds),
            load_credit: one.credit.into(),
            cpu: one.observed.totals.cpu_ns.cores(duration).0.into(),
            wait_per_cpu: finite(one.wait_per_cpu()).map(Into::into),
            wait_p99_ns: one.p99(),
            wait_left: self.left_of(one).and_then(finite).map(Into::into),
        };
        let mut ranked: Vec<&Classed<'_>> = self.classed.iter().collect();
        let rank = |one: &Classed<'_>| if one.is_light() { self.spared(one) } else { one.credit };
        ranked.sort_by(|a, b| b.is_light().cmp(&a.is_light()).then(rank(b).total_cmp(&rank(a))).then(a.id.cmp(&b.id)));
        ranked.into_iter().map(candidate).collect()
    }

    /// Quotas that explain a part of the waits of those who would go first.
    fn throttled(&self) -> Option<String> {
        let throttled = |one: &&Classed<'_>| {
            one.waits_long(self.heavy.credit(), self.thresholds)
                && one.observed.throttled_share().is_some_and(|share| share >= Observed::THROTTLED_MATTERS)
        };
        let count = self.classed.iter().filter(throttled).count() as u64;
        (count > 0).then(|| {
            format!(
                "{} of the light ones that wait long used up their own quota (cpu.max) at times: some of that wait may be \
                 throttling, which priority does not cure.",
                say::count(count)
            )
        })
    }
}

/// Who can go first.
enum First<'a> {
    /// All that are light.
    All,
    /// Some of them, and the part of the wait of all light ones that it would spare.
    Some(&'a Static, f64),
    Nobody,
}

/// How sure a prediction is where the simulation of what was measured is off by `error`.
fn held_against(confidence: Confidence, error: f64) -> Confidence {
    let found = format!("simulated as it is, waits come out {} of the measured", say::percent(1.0 + error));
    match error.abs() {
        error if error <= OFF => confidence,
        error if error <= FAR_OFF => confidence.lowered(&found),
        // No number at all, too.
        _ => confidence.lowered(&found).lowered("what is predicted is a direction at best"),
    }
}

fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests;
