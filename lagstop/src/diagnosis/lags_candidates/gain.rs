//! The figures of what a plan would do.

use super::{Judged, plan::Plan};
use crate::diagnosis::{Figure, Unit, forecast::Predicted, say};

/// For the finding.
pub(super) fn figures(judged: &Judged<'_>, plan: &Plan) -> Vec<Figure> {
    let forecast = &plan.forecast;
    let [measured, now, then] = forecast.waiting;
    let error = |name, label, error: Option<f64>, measured: f64, simulated: f64| {
        Figure::measured(name, label, error, Unit::Share, "they hardly wait").note(format!(
            "simulated as it is: {} instead of {} tasks waiting",
            say::number(simulated),
            say::number(measured)
        ))
    };
    let change = |name: &'static str, label: &'static str, of: &str| {
        let predicted = forecast.change(of);
        let figure = Figure::measured(
            name,
            label,
            predicted.map(|it| it.change),
            Unit::Share,
            forecast.why_not(of).unwrap_or("it is not simulated"),
        );
        figure.note(predicted.as_ref().map(range).unwrap_or_default())
    };
    let whole = judged.observations.whole();
    let per_cpu = |time: f64| time / whole.capacity_ns.max(1.0);
    let wait = whole.wait_ns.unwrap_or_default();
    let queue = |left: f64| per_cpu(whole.busy_ns + wait * left);
    let shorter = forecast.change("waiting").map(|it| queue(1.0 + it.change));
    let overhead = whole.overhead().zip(forecast.change("overhead"));
    let (seconds, bursts) = judged.extent.unwrap_or_default();
    vec![
        error("light_error", "simulation error, light", forecast.errors.light, measured.light, now.light),
        error("heavy_error", "simulation error, heavy", forecast.errors.heavy, measured.heavy, now.heavy),
        error(
            "others_error",
            "simulation error, all others",
            forecast.errors.others,
            measured.all - measured.light - measured.heavy,
            now.all - now.light - now.heavy,
        ),
        change("light_waiting", "waits of those that go first", "light_waiting").note(format!(
            "{}{} instead of {} tasks waiting; {} bursts in {}, simulated ten times over",
            forecast.change("light_waiting").as_ref().map(|it| format!("{}; ", range(it))).unwrap_or_default(),
            say::number(then.light),
            say::number(now.light),
            say::count(bursts),
            Unit::Seconds.show(seconds)
        )),
        Figure::measured(
            "light_gain",
            "wait spared, of each",
            plan.median,
            Unit::Share,
            forecast.why_not("light_waiting").unwrap_or("they hardly wait in the simulation"),
        )
        .note("the median of those that go first"),
        change("heavy_time", "heavy: time for the same work", "heavy_time"),
        change("others_time", "all others: time for the same work", "others_time"),
        change("waiting_change", "all waits", "waiting"),
        Figure::measured("queue_length", "tasks per CPU then", shorter, Unit::Tasks, "all waits are not predicted")
            .note(format!("running ones included; {} now", Unit::Tasks.show(queue(1.0)))),
        change("switches_change", "switches", "switches"),
        change("overhead_change", "overhead", "overhead"),
        Figure::measured(
            "cores_freed",
            "cores freed",
            overhead.map(|(now, it)| -it.change * now * judged.observations.cpus() as f64),
            Unit::Cores,
            "overhead is not predicted",
        ),
    ]
}

/// From where to where.
pub(super) fn range(predicted: &Predicted) -> String {
    format!("{} to {}", signed(predicted.low), signed(predicted.high))
}

fn signed(change: f64) -> String {
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{}", Unit::Share.show(change))
}
