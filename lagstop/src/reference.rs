//! The tables of the docs that are generated from code. `cargo xtask docs` writes them.

use std::fmt::Write as _;

use crate::{
    diagnosis::{Rule, ThresholdDefinition, Thresholds},
    diff::{self, ChangeVerdict},
    kernel::Way,
    metrics::{self, About},
    model::{
        Counter, CounterUnit, CpuTotals, Derived, FileCounters, HostTimes, Idle, ListenerTotals, Lost, Measure,
        OwnCost, Pressure, Reading, Totals, WaitCause,
    },
    run::{Disturbance, Limits},
    top, trial,
    units::{Unit, Value},
};

/// A table, by the name that the docs call it by.
#[derive(Debug)]
pub struct DocTable {
    pub name: String,
    pub markdown: String,
}

pub fn tables() -> Vec<DocTable> {
    let table = |name: &str, markdown: String| DocTable { name: name.to_owned(), markdown };
    let mut all = vec![
        table("keys", top::key_table()),
        table("marks", marks()),
        table("columns", columns()),
        table("totals", counters(&Totals::COUNTERS)),
        table("file counters", counters(&FileCounters::COUNTERS)),
        table("CPU totals", counters(&CpuTotals::COUNTERS)),
        table("host times", counters(&HostTimes::COUNTERS)),
        table("own cost", counters(&OwnCost::COUNTERS)),
        table("idle", counters(&Idle::COUNTERS)),
        table("pressure", counters(&Pressure::COUNTERS)),
        table("lost", counters(&Lost::COUNTERS)),
        table("listener totals", counters(&ListenerTotals::COUNTERS)),
        table("readings of cgroups", readings(&[Reading::QUOTA])),
        table("readings of the host", readings(&[Reading::CPUS_ONLINE])),
        table("readings of listeners", readings(&[Reading::BACKLOG, Reading::BACKLOG_CAPACITY, Reading::DROPS])),
        table("readings of network namespaces", readings(&[Reading::LISTEN_OVERFLOWS])),
        table("metrics of the host", metrics(About::Host)),
        table("metrics of cgroups", metrics(About::Cgroups)),
        table("metrics of listeners", metrics(About::Listeners)),
        table("metrics of lagstop", metrics(About::Itself)),
        table("thresholds", thresholds()),
        table("figures of diff", compared()),
        table("verdicts of diff", verdicts()),
        table("causes of waits", causes()),
        table("causes in top", causes_in_top()),
        table("limits of run", limits()),
        table("policies", rows("policy | changes | where", trial::policy_table().into_iter())),
        table("methods", methods()),
    ];
    #[cfg(feature = "mcp")]
    all.push(table("tools", rows("tool | answers | arguments", crate::mcp::reference().map(Vec::from))));
    all.extend(Rule::ALL.map(|rule| table(&format!("figures of {rule}"), figures(rule))));
    all
}

fn rows(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let columns = head.matches('|').count() + 1;
    let mut table = format!("| {head} |\n|{}\n", " --- |".repeat(columns));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

fn columns() -> String {
    let row = |(name, meaning): (&str, &str)| vec![format!("`{name}`"), meaning.to_owned()];
    rows("name | meaning", top::TopSettings::column_names().map(row))
}

fn marks() -> String {
    let row = |(mark, meaning): (&str, &str)| vec![format!("`{mark}`"), meaning.to_owned()];
    rows("mark | means", top::Mark::explained().map(row))
}

fn counters(counters: &[Counter]) -> String {
    let row = |counter: &Counter| {
        let Counter { name, meaning, unit, source, .. } = counter;
        let unit = match unit {
            CounterUnit::Count => "",
            CounterUnit::Nanos => "ns",
        };
        vec![format!("`{name}`"), meaning.trim_end_matches('.').to_owned(), unit.to_owned(), (*source).to_owned()]
    };
    rows("field | meaning | unit | source", counters.iter().map(row))
}

fn readings(readings: &[Reading]) -> String {
    let row = |reading: &Reading| vec![format!("`{}`", reading.name), reading.description(), reading.source.to_owned()];
    rows("field | meaning | source", readings.iter().map(row))
}

fn metrics(about: About) -> String {
    let row = |family: &metrics::Family| {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (help, source) = (family.help.to_owned(), family.source.to_owned());
        vec![format!("`{}`", family.name), family.kind.name().to_owned(), labels.join(", "), help, source]
    };
    rows("metric | type | labels | meaning | source", metrics::families_about(about).iter().map(row))
}

fn thresholds() -> String {
    let row = |(threshold, default): (&ThresholdDefinition, Value)| {
        let ThresholdDefinition { name, meaning, unit, source } = *threshold;
        [&format!("`{name}`"), meaning.trim().trim_end_matches('.'), &unit.show(default), source]
            .map(str::to_owned)
            .into()
    };
    let defaults = Thresholds::default();
    rows("name | meaning | default | source", Thresholds::ALL.iter().zip(defaults.values()).map(row))
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "share",
        Unit::SharePoints => "share points",
        Unit::Factor => "factor",
        Unit::Ns => "ns",
        Unit::Seconds => "s",
        Unit::PerSecond => "1/s",
        Unit::Cores => "cores",
        Unit::Tasks => "tasks",
        Unit::Count => "count",
    }
}

fn causes() -> String {
    let row = |cause: WaitCause| {
        [&format!("`{}`", cause.name()), &format!("`{}`", cause.counter().name), cause.meaning()]
            .map(str::to_owned)
            .into()
    };
    rows("cause | field | what happened during the wait", WaitCause::ALL.into_iter().map(row))
}

fn causes_in_top() -> String {
    let row = |cause: WaitCause| vec![format!("`{}`", cause.label()), cause.meaning().to_owned()];
    rows("cause | what happened during the wait", WaitCause::ALL.into_iter().map(row))
}

fn limits() -> String {
    let defaults = Limits::default();
    let row = |cause: Disturbance| {
        let mut limit = Unit::Share.show(defaults.of(cause));
        if cause == Disturbance::Steal {
            let _ = write!(limit, ", and at least {}", Limits::LEAST_STEAL);
        }
        [cause.label(), cause.meaning(), &limit, &format!("`{}`", cause.flag())].map(str::to_owned).into()
    };
    rows("limit | share | default | flag", Disturbance::ALL.into_iter().map(row))
}

fn methods() -> String {
    let row = |way: &'static Way| {
        [&format!("`{}`", way.measure), &format!("`{}`", way.name), way.note].map(str::to_owned).into()
    };
    rows("measure (`--hooks`) | method | how", Measure::ALL.into_iter().flat_map(Measure::ways).map(row))
}

fn compared() -> String {
    let row = |(of, derived): (&str, Derived)| {
        let Derived { name, label, formula, .. } = derived;
        [&format!("`{name}`"), label, of, formula, unit(derived.unit)].map(str::to_owned).into()
    };
    rows("metric | meaning | for | formula | unit", diff::reference().into_iter().map(row))
}

fn verdicts() -> String {
    let row = |verdict: ChangeVerdict| {
        let json = serde_json::to_value(verdict).ok();
        let json = json.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
        [verdict.words(), &format!("`{json}`"), verdict.meaning()].map(str::to_owned).into()
    };
    rows("verdict | JSON | means", ChangeVerdict::ALL.into_iter().map(row))
}

fn figures(rule: Rule) -> String {
    let row = |figure: &&'static crate::diagnosis::FigureDefinition| {
        vec![
            format!("`{}`", figure.name),
            figure.label.to_owned(),
            unit(figure.unit).to_owned(),
            figure.formula.to_owned(),
            figure.source.to_owned(),
        ]
    };
    rows("metric | meaning | unit | formula | source", rule.figures().iter().map(row))
}
