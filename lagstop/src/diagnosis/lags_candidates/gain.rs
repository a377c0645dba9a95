//! What putting the light cgroups first would do to the host: the simulation's answer, carried over to what was measured.

use super::prediction::{After, Prediction};
use crate::diagnosis::{Figure, Observations, Unit, cost_curve::CostCurve, say};

const NO_ANSWER: &str = "more is asked than can be served, which the formula has no answer for";

/// What would change, each figure with its measured counterpart. Waits are carried over by what is left of them in the
/// simulation, so that where it is off as a whole that cancels out.
#[derive(Clone, Debug)]
pub(super) struct Gain {
    /// Part of the light cgroups' wait that would go.
    pub(super) of_light: f64,
    /// Part of all wait that would go.
    pub(super) of_all: f64,
    /// How much longer the heavy ones would take, as a part of the time they take now; below 0 where they take less, without
    /// end where they would get nothing done. `None` where there are none.
    pub(super) heavy_time: Option<f64>,
    /// Tasks on a CPU, running ones included: as measured, and with the light first.
    pub(super) queue: (f64, f64),
    /// Switches a second: as measured, and with the light first. `None` where there are none.
    pub(super) switches: Option<(f64, f64)>,
    /// Overhead, as a share of all CPU time: as measured, and with the light first. `None` where costs were not measured.
    pub(super) overhead: Option<(f64, f64)>,
    /// Cores that it would free.
    pub(super) cores: Option<f64>,
    /// The host was never measured with so short a queue.
    pub(super) is_beyond_curve: bool,
}

impl Gain {
    /// Of the policy that `after` is of.
    pub(super) fn of(prediction: &Prediction, after: &After, observations: &Observations) -> Self {
        let now = &prediction.status_quo;
        let gone = |before: f64, after: f64| if before > 0.0 { 1.0 - after / before } else { 0.0 };
        let of_all = gone(now.all, after.waits.all);
        let whole = observations.whole();
        let per_cpu = |time: f64| time / whole.capacity_ns.max(1.0);
        let wait = whole.wait_ns.unwrap_or_default();
        let queue = (per_cpu(whole.busy_ns + wait), per_cpu(whole.busy_ns + wait * (1.0 - of_all)));
        let changed = |(before, part): (f64, f64)| (before * part).is_finite().then_some((before, before * part));
        let switches = switches(observations).and_then(|now| changed((now, after.switches)));
        let overhead = whole.overhead().and_then(|now| changed((now, after.overhead)));
        Self {
            of_light: gone(now.light, after.waits.light),
            of_all,
            heavy_time: (!after.heavy_time.is_nan()).then_some(after.heavy_time - 1.0),
            queue,
            switches,
            overhead,
            cores: overhead.map(|(before, after)| (before - after) * observations.cpus() as f64),
            is_beyond_curve: CostCurve::of(&observations.samples).is_some_and(|curve| !curve.covers(queue.1)),
        }
    }
}

/// Of the cgroups, each second.
fn switches(observations: &Observations) -> Option<f64> {
    let tasks = observations.tasks()?;
    let switches = tasks.voluntary_switches.saturating_add(tasks.involuntary_switches);
    Some(switches as f64 / observations.span.duration_ns.seconds()).filter(|&switches| switches > 0.0)
}

/// For the finding.
pub(super) fn figures(prediction: &Prediction, gain: &Gain) -> Vec<Figure> {
    let first = prediction.static_first.as_ref();
    let waiting = |before: f64, after: f64| format!("{} instead of {} tasks", say::number(after), say::number(before));
    let change = |change: Option<(f64, f64)>| change.map(|(before, after)| after / before - 1.0);
    let of = |unit: Unit, change: Option<(f64, f64)>| {
        change.map_or_else(String::new, |(before, after)| {
            format!("{} instead of {}", unit.show(after), unit.show(before))
        })
    };
    let (measured, now) = (&prediction.measured, &prediction.status_quo);
    vec![
        Figure::measured(
            "model_error",
            "formula against measurement",
            prediction.model.map(|model| model.waiting / measured.all - 1.0),
            Unit::Share,
            NO_ANSWER,
        )
        .note("all waits by processor sharing of one CPU's part of the load"),
        Figure::new("simulation_error", "simulation against measurement", prediction.error(), Unit::Share).note(format!(
            "all waits, simulated as it is: {}; {} bursts in {}",
            waiting(measured.all, now.all),
            say::count(prediction.bursts),
            Unit::Seconds.show(prediction.seconds)
        )),
        Figure::new("light_gain", "light cgroups' wait spared", gain.of_light, Unit::Share).note(format!(
            "lightest Load Credit first, simulated: {}",
            waiting(now.light, prediction.lightest_first.waits.light)
        )),
        Figure::measured(
            "light_gain_model",
            "the same by formula",
            prediction.model.map(|model| 1.0 - model.light_left),
            Unit::Share,
            NO_ANSWER,
        )
        .note("preemptive priority against processor sharing, one CPU's part of the load"),
        Figure::measured(
            "heavy_time",
            "heavy cgroups' time for their work",
            gain.heavy_time.filter(|longer| longer.is_finite()),
            Unit::Share,
            if gain.heavy_time.is_some() { "they would get nothing done" } else { "no heavy cgroup ran in the simulation" },
        )
        .note("waits included; below 0 they are done sooner"),
        Figure::new("wait_gain", "all wait spared", gain.of_all, Unit::Share)
            .note(waiting(now.all, prediction.lightest_first.waits.all)),
        Figure::new("queue_length", "tasks per CPU with the lightest first", gain.queue.1, Unit::Tasks)
            .note(format!("running ones included; {} now", Unit::Tasks.show(gain.queue.0))),
        Figure::measured("switches_change", "change of switches", change(gain.switches), Unit::Share, "there are none")
            .note(of(Unit::PerSecond, gain.switches)),
        Figure::measured(
            "overhead_change",
            "change of overhead",
            gain.overhead.map(|(before, after)| after - before),
            Unit::SharePoints,
            "switch costs were not measured in enough intervals",
        )
        .note(of(Unit::Share, gain.overhead)),
        Figure::measured(
            "cores_freed",
            "cores freed",
            gain.cores,
            Unit::Cores,
            "switch costs were not measured in enough intervals",
        ),
        Figure::new("static_first", "light cgroups that can go first", first.map_or(0, |first| first.first.len() as u64), Unit::Count)
            .note(first.map_or_else(
                || "all the time, without heavy ones taking too long: none".to_owned(),
                |first| {
                    format!(
                        "all the time, the lightest of them: spares all light ones {} of their wait, heavy ones take {} as long",
                        say::percent(1.0 - first.after.waits.light / now.light),
                        Unit::Factor.show(first.after.heavy_time)
                    )
                },
            )),
    ]
}
