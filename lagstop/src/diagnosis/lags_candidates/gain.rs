//! The figures of what a plan would do.

use super::{Judged, figures, plan::WeightPlan};
use crate::{
    diagnosis::{Figure, FigureDefinition, ForecastFigure, forecast::Forecast, reweighting},
    units::{self, Unit},
};

/// Figures for the finding.
pub(super) fn figures(judged: &Judged<'_>, plan: &WeightPlan) -> Vec<Figure> {
    let forecast = &plan.forecast;
    let [measured, now, then] = forecast.waiting;
    let error = |figure: &FigureDefinition, error: Option<f64>, measured: f64, simulated: f64| {
        figure.measured(error, "they hardly wait").note(format!(
            "{} tasks waiting in the simulation, {} measured",
            units::number(simulated),
            units::number(measured)
        ))
    };
    let change = |definition: &FigureDefinition, of| reweighting::figure(forecast, definition, of);
    let whole = judged.observations.whole();
    let per_cpu = |time: f64| time / whole.capacity_ns.max(1.0);
    let wait = whole.wait_ns.unwrap_or_default();
    let queue = |left: f64| per_cpu(whole.busy_ns + wait * left);
    let shorter = forecast.change(ForecastFigure::Waiting).map(|it| queue(1.0 + it.change));
    let overhead = whole.overhead().zip(forecast.change(ForecastFigure::Overhead));
    let (seconds, bursts) = judged.extent.unwrap_or_default();
    vec![
        error(&figures::light_error, forecast.errors.light, measured.light, now.light),
        error(&figures::heavy_error, forecast.errors.heavy, measured.heavy, now.heavy),
        error(
            &figures::others_error,
            forecast.errors.others,
            measured.all - measured.light - measured.heavy,
            now.all - now.light - now.heavy,
        ),
        change(&figures::light_waiting, ForecastFigure::LightWaiting).note(format!(
            "{}{} instead of {} tasks waiting; {} bursts in {}, simulated 10 times",
            forecast
                .change(ForecastFigure::LightWaiting)
                .as_ref()
                .map(|it| format!("{}; ", it.range()))
                .unwrap_or_default(),
            units::number(then.light),
            units::number(now.light),
            units::count(bursts),
            Unit::Seconds.show(seconds)
        )),
        figures::light_gain
            .measured(
                plan.median,
                &why_not(forecast, ForecastFigure::LightWaiting, "they hardly wait in the simulation"),
            )
            .note("of the prioritised cgroups"),
        change(&figures::heavy_time, ForecastFigure::HeavyTime),
        change(&figures::others_time, ForecastFigure::OthersTime),
        change(&figures::waiting_change, ForecastFigure::Waiting),
        figures::queue_length
            .measured(shorter, "the wait of all cgroups is not predicted")
            .note(format!("including running tasks; {} now", Unit::Tasks.show(queue(1.0)))),
        change(&figures::switches_change, ForecastFigure::Switches),
        change(&figures::overhead_change, ForecastFigure::Overhead),
        figures::cores_freed.measured(
            overhead.map(|(now, it)| -it.change * now * judged.observations.cpus() as f64),
            "overhead is not predicted",
        ),
    ]
}

/// Why a figure is not predicted. `else_why` if there is no particular reason.
fn why_not(forecast: &Forecast, figure: ForecastFigure, else_why: &str) -> String {
    forecast.why_not(figure).map_or_else(|| else_why.to_owned(), |why| why.to_string())
}
