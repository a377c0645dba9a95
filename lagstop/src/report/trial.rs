//! A trial, for people and for programs.

mod answer;

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    json,
    page::{Colour, Page, PageOptions},
};
use crate::{
    diagnosis::ForecastFigure,
    display::short_name,
    trial::{
        Policy, PolicyChange, Predicted, Prediction, PreparedTrial, Sides, TimeOfBlock, TrialOutcome, Tried,
        TriedFigure, TriedGroup, name,
    },
    units::{Unit, if_measured, plural, signed_percent},
};

/// The most cgroups, and changes of a kind, that people are shown.
const TOP: usize = 8;

/// What would be changed.
pub fn plan(policy: Option<Policy>, prepared: &PreparedTrial, options: PageOptions) -> String {
    let PreparedTrial { sides, changes, prediction, .. } = prepared;
    plan_of(policy, sides, changes, prediction, options)
}

fn plan_of(
    policy: Option<Policy>,
    sides: &Sides,
    changes: &[PolicyChange],
    prediction: &Prediction,
    options: PageOptions,
) -> String {
    let mut page = Page::new(options);
    page.text(
        "",
        Colour::Bold,
        &format!("{}: plan of the trial. Nothing was changed. Use --apply to run it.", name(policy)),
    );
    page.blank();
    side(&mut page, "light", &paths(&sides.light));
    side(&mut page, "heavy", &paths(&sides.heavy));
    page.blank();
    predicted(&mut page, prediction);
    page.blank();
    let (threads, others): (Vec<&PolicyChange>, Vec<&PolicyChange>) =
        changes.iter().partition(|change| matches!(change, PolicyChange::Thread { .. }));
    for change in others.iter().take(TOP).chain(threads.iter().take(TOP)) {
        page.text("  ", Colour::Cyan, &change.to_string());
    }
    if let Some(policy) = policy.filter(|policy| policy.switches_scheduler()) {
        page.text("  ", Colour::Cyan, &format!("the host's scheduler: {policy} instead of the kernel's own"));
    }
    let shown = others.len().min(TOP) + threads.len().min(TOP);
    if changes.len() > shown {
        page.text("  ", Colour::Dim, &format!("and {} more: --format json lists all", changes.len() - shown));
    }
    page.finish()
}

/// What this policy is predicted to do to these cgroups.
fn predicted(page: &mut Page, prediction: &Prediction) {
    for figure in [ForecastFigure::LightWaiting, ForecastFigure::HeavyTime] {
        let label = figure.label();
        let text = match (prediction.change(figure), prediction.why_not(figure)) {
            (Some(it), _) => {
                format!(
                    "predicted to change by {} ({} to {})",
                    signed_percent(it.change),
                    signed_percent(it.low),
                    signed_percent(it.high)
                )
            }
            (None, Some(why)) => format!("not predicted: {why}"),
            (None, None) => "not predicted".to_owned(),
        };
        page.text("", Colour::None, &format!("{label}: {text}."));
    }
}

fn paths(groups: &[TriedGroup]) -> Vec<String> {
    groups.iter().map(|group| group.path.clone()).collect()
}

fn side(page: &mut Page, what: &str, paths: &[String]) {
    let shown = paths.iter().take(TOP).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(TOP);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    page.labelled(what, &format!("{}: {shown}{more}", paths.len()));
}

/// What would be changed, for programs.
#[derive(Serialize)]
struct Plan<'a> {
    schema: &'static str,
    policy: Option<Policy>,
    light: Vec<&'a str>,
    heavy: Vec<&'a str>,
    /// By the name of the figure.
    predicted: BTreeMap<&'static str, PlannedFigure>,
    changes: &'a [PolicyChange],
}

/// What is predicted of a figure: a change and its interval, or why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum PlannedFigure {
    Predicted { change: f64, low: f64, high: f64 },
    Not { why_not: String },
}

/// The same for programs.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn plan_json(policy: Option<Policy>, prepared: &PreparedTrial) -> Result<String, serde_json::Error> {
    let (light, heavy) = (paths(&prepared.sides.light), paths(&prepared.sides.heavy));
    json::document(&Plan {
        schema: "lagstop.trial-plan/1",
        policy,
        light: light.iter().map(String::as_str).collect(),
        heavy: heavy.iter().map(String::as_str).collect(),
        predicted: prepared
            .prediction
            .figures()
            .map(|(figure, predicted)| {
                let planned = match predicted {
                    Ok(Predicted { change, low, high }) => PlannedFigure::Predicted { change, low, high },
                    Err(why) => PlannedFigure::Not { why_not: why.to_string() },
                };
                (figure.name(), planned)
            })
            .collect(),
        changes: &prepared.changes,
    })
}

/// What came of it, for a terminal.
pub fn text(tried: &Tried, options: PageOptions) -> String {
    let mut page = Page::new(options);
    let outcome = &tried.outcome;
    let TrialOutcome { policy, pairs, light, heavy, block_seconds, .. } = outcome;
    if let Some(why) = &outcome.ended {
        page.text("", Colour::Yellow, &format!("The trial ended early: {why}."));
    }
    answer::answer(outcome).iter().for_each(|line| page.text("", Colour::Bold, line));
    undone(&mut page, tried);
    if let Some(next) = answer::next(tried) {
        page.text("", Colour::Cyan, &next);
    }
    page.blank();
    let blocks = plural(*pairs as u64, "block");
    page.text(
        "",
        Colour::None,
        &format!(
            "{} on {}, Linux {}: {blocks} of {block_seconds:.1} s with the policy, each between two without.",
            name(*policy),
            outcome.hostname,
            outcome.kernel,
        ),
    );
    side(&mut page, "light", light);
    side(&mut page, "heavy", heavy);
    if *pairs == 0 {
        return page.finish();
    }
    page.blank();
    let headings =
        ["", "without", "with", "change", "95 % interval", "more than chance", "predicted change", "within prediction"];
    page.table(&headings, &outcome.figures.iter().map(cells).collect::<Vec<_>>());
    for figure in &outcome.figures {
        if let Some(why) = &figure.why_not {
            let what = if figure.change.is_some() { "Interval n/a" } else { "n/a" };
            page.text("", Colour::Dim, &format!("{what} for {}: {why}.", figure.label));
        }
    }
    let mut unpredicted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for figure in &outcome.figures {
        if let Some(why) = &figure.predicted_why_not {
            unpredicted.entry(why).or_default().push(figure.label);
        }
    }
    for (why, labels) in unpredicted {
        page.text("", Colour::Dim, &format!("No prediction for {}: {why}.", labels.join(", ")));
    }
    page.blank();
    how_measured(&mut page, outcome);
    page.text(
        "",
        Colour::Dim,
        "Change: each block with the policy against the two beside it, so it can differ from what the two columns give. \
         More than chance: tested over all metrics; on average, at most 5 % of the metrics with \"yes\" changed by chance. Predicted \
         change: simulated for this policy and these cgroups, from data before the trial. Within prediction: the measured change, \
         without its own interval, is in the predicted interval. See docs/trial.md.",
    );
    page.finish()
}

/// Whether the changes were undone.
fn undone(page: &mut Page, tried: &Tried) {
    let Tried { outcome, changed_by_others, loaded_scheduler, notes, .. } = tried;
    if !outcome.not_undone.is_empty() {
        page.text("", Colour::Red, "Not everything could be undone:");
        outcome.not_undone.iter().for_each(|why| page.text("  ", Colour::Red, why));
    } else if changed_by_others.is_empty() {
        let (colour, said) = match loaded_scheduler.as_deref() {
            Some("") => (Colour::Green, "The kernel's own scheduler is back.".to_owned()),
            Some(name) => (Colour::Red, format!("The sched_ext scheduler {} is loaded now.", short_name(name, 64))),
            None => (Colour::Green, format!("All changes were undone ({} in all, over all blocks).", outcome.undone)),
        };
        page.text("", colour, &said);
    } else {
        let undone = outcome.undone;
        page.text(
            "",
            Colour::Green,
            &format!("All changes that were still in place were undone ({undone} in all, over all blocks)."),
        );
    }
    if !changed_by_others.is_empty() {
        page.text("", Colour::Yellow, "Changed by other programs during the trial, and left as is:");
        changed_by_others.iter().for_each(|left| page.text("  ", Colour::Yellow, left));
    }
    notes.iter().for_each(|note| page.text("", Colour::Yellow, &format!("Note: {note}.")));
}

fn shown(unit: Unit, value: Option<f64>) -> String {
    match unit {
        Unit::Seconds => Unit::Ns.show_if_measured(value.map(|seconds| seconds * 1e9)),
        unit => unit.show_if_measured(value),
    }
}

fn cells(figure: &TriedFigure) -> Vec<String> {
    let shown = |value| shown(figure.unit, value);
    let from_to = |low: Option<f64>, high: Option<f64>| {
        low.zip(high).map(|(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high)))
    };
    let interval = from_to(figure.low, figure.high).unwrap_or_else(|| "n/a".to_owned());
    let predicted = match (figure.predicted, from_to(figure.predicted_low, figure.predicted_high)) {
        (Some(change), Some(interval)) => format!("{} ({interval})", signed_percent(change)),
        _ => "n/a".to_owned(),
    };
    vec![
        figure.label.to_owned(),
        shown(figure.without),
        shown(figure.with),
        if_measured(figure.change, signed_percent),
        interval,
        yes_or_no(figure.changed),
        predicted,
        yes_or_no(figure.is_inside()),
    ]
}

fn yes_or_no(is: Option<bool>) -> String {
    is.map_or("n/a", |is| if is { "yes" } else { "no" }).to_owned()
}

/// Explains what the figures measure.
fn how_measured(page: &mut Page, outcome: &TrialOutcome) {
    let TrialOutcome { blocks, block_seconds, .. } = outcome;
    if blocks.is_empty() {
        return;
    }
    let count = blocks.len() as f64;
    let counted = blocks.iter().map(TimeOfBlock::seconds).sum::<f64>() / count;
    let mut counts = format!("On average, {counted:.1} of {block_seconds:.1} s of each block count.");
    let how_many = |is_steady| blocks.iter().filter(|block| block.is_steady == is_steady).count();
    let (unsteady, unknown) = (how_many(Some(false)), how_many(None));
    if unknown > 0 {
        counts += &format!(
            " {unknown} of {} blocks have too few intervals to tell whether waiting was steady. Use longer blocks.",
            blocks.len()
        );
    }
    if unsteady > 0 {
        counts += &format!(
            " In {unsteady} of {} blocks, the light cgroups' waiting was still rising or falling half-way through. Effects of \
             one block may count in the next.",
            blocks.len()
        );
    }
    page.text("", if unsteady + unknown > 0 { Colour::Yellow } else { Colour::Dim }, &counts);
    let moved = |is_with: bool, of: fn(&TimeOfBlock) -> Option<f64>| {
        let of_these = || blocks.iter().filter(move |block| block.is_with == is_with);
        let sum = of_these().map(of).sum::<Option<f64>>()?;
        // In tasks, on average, like the figures.
        Some(sum / of_these().map(TimeOfBlock::seconds).sum::<f64>())
    };
    let heavy = |is_with| moved(is_with, |block| block.heavy_moved_seconds).filter(|moved| moved.is_finite());
    match (outcome.looked_every_seconds, heavy(false), heavy(true)) {
        (Some(every), Some(without), Some(with)) => page.text(
            "",
            Colour::Dim,
            &format!(
                "Waits count when they were spent, not when they ended, but for their p99. For heavy cgroups, this adds {with:+.2} waiting tasks to \
                 the time with the policy, and {without:+.2} to the time without it. Threads were sampled every {:.0} ms.",
                every * 1e3
            ),
        ),
        _ => page.text(
            "",
            Colour::Yellow,
            "Waits count when they ended, because waits in progress at the ends of a block are unknown. If the policy makes a \
             wait longer than a block, the wait counts as a wait without the policy.",
        ),
    }
}

/// What came of it, for programs.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn json(tried: &Tried) -> Result<String, serde_json::Error> {
    json::document(tried)
}

/// What [`json()`] writes, as a JSON Schema.
pub fn schema() -> serde_json::Value {
    json::schema_of::<Tried>(TrialOutcome::SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn figure(
        name: &'static str,
        label: &'static str,
        change: Option<f64>,
        predicted: Option<f64>,
    ) -> TriedFigure {
        TriedFigure {
            name,
            label,
            unit: Unit::Tasks,
            without: Some(4.0),
            with: Some(1.0),
            change,
            low: change.map(|change| change - 0.1),
            high: change.map(|change| change + 0.1),
            p: change.map(|change| 0.05 - change.abs() / 20.0),
            changed: change.map(|change| change.abs() > 0.1),
            predicted,
            predicted_low: predicted.map(|predicted| predicted - 0.05),
            predicted_high: predicted.map(|predicted| predicted + 0.05),
            predicted_why_not: None,
            inside: change.zip(predicted).map(|(change, predicted)| change <= predicted + 0.05),
            why_not: change
                .is_none()
                .then(|| "it was 0 in all blocks without the policy, so there is no ratio".to_owned()),
        }
    }

    /// A block that counted for so many milliseconds.
    fn block(is_with: bool, ms: u64) -> TimeOfBlock {
        TimeOfBlock {
            is_with,
            from_ns: 5_000_000_000,
            to_ns: 5_000_000_000 + ms * 1_000_000,
            is_steady: Some(!is_with),
            light_moved_seconds: Some(0.0),
            heavy_moved_seconds: Some(if is_with { 1.25 } else { -0.5 }),
        }
    }

    pub(super) fn example() -> Tried {
        let outcome = TrialOutcome {
            schema: TrialOutcome::SCHEMA,
            policy: Some(Policy::Weight),
            hostname: "host".to_owned(),
            kernel: "6.12".to_owned(),
            light: vec!["/web".to_owned()],
            heavy: vec!["/batch".to_owned()],
            pairs: 6,
            block_seconds: 4.5,
            blocks: vec![block(false, 3_500), block(true, 2_500), block(false, 3_500)],
            looked_every_seconds: Some(0.052),
            figures: vec![
                figure("light_waiting", "light: tasks waiting", Some(-0.75), Some(-0.9)),
                figure("heavy_waiting", "heavy: tasks waiting", None, Some(0.2)),
                figure("heavy_cpu", "heavy: CPU time", Some(0.01), None),
            ],
            ended: None,
            undone: 12,
            not_undone: Vec::new(),
        };
        Tried { outcome, changed_by_others: Vec::new(), loaded_scheduler: None, ignored: Vec::new(), notes: Vec::new() }
    }

    #[test]
    fn what_somebody_else_decided_is_told_and_is_no_failure() {
        let mut tried = example();
        tried.changed_by_others = vec!["/web/cpu.weight: changed by another program to 700: left as it is".to_owned()];
        tried.notes = vec!["the watchdog has no cgroup of its own".to_owned()];
        let text = text(&tried, PageOptions { width: 120, colour: false });
        for said in ["still in place were undone (12 in", "another program to 700", "Note: the watchdog has no"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&json(&tried).unwrap()).unwrap();
        assert!(json["changed_by_others"][0].as_str().unwrap().contains("700") && json["undone"] == 12, "{json}");
        assert!(json["not_undone"].as_array().unwrap().is_empty());
    }

    #[test]
    fn a_plan_reads_like_this() {
        let group = |path: &str| TriedGroup {
            id: crate::model::CgroupId(9),
            path: path.to_owned(),
            directory: format!("/sys/fs/cgroup{path}").into(),
            cores: 1.0,
        };
        let sides = Sides { light: vec![group("/web"), group("/api")], heavy: vec![group("/batch")] };
        let change = |path: &str, before: &str, after: &str| PolicyChange::File {
            directory: group(path).directory,
            inode: 9,
            file: "cpu.weight".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let changes = [change("/web", "100", "800"), change("/api", "100", "400"), change("/batch", "100", "50")];
        let prediction = Prediction::with([
            (ForecastFigure::LightWaiting, Ok(Predicted { change: -0.514, low: -0.62, high: -0.38 })),
            (ForecastFigure::HeavyTime, Err(crate::trial::Unpredicted::NoRatio)),
        ]);
        let options = PageOptions { width: 100, colour: false };
        insta::assert_snapshot!(plan_of(Some(Policy::Weight), &sides, &changes, &prediction, options));
        let switched = plan_of(Some(Policy::Lags), &sides, &[], &Prediction::default(), options);
        assert!(switched.contains("the host's scheduler: lags instead of the kernel's own"), "{switched}");
    }

    #[test]
    fn a_trial_reads_like_this() {
        insta::assert_snapshot!(text(&example(), PageOptions { width: 120, colour: false }));
    }

    #[test]
    fn what_is_written_fits_the_schema() {
        let written: serde_json::Value = serde_json::from_str(&json(&example()).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(written["figures"][1]["change"], serde_json::Value::Null);
    }
}
