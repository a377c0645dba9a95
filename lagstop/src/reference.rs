//! The tables of the docs that are generated from code. `cargo xtask docs` writes them.

use std::fmt::Write as _;

use crate::{
    diagnosis::{Limit, Rule, Thresholds},
    metrics::{self, About},
    model::{
        Counter, CounterUnit, CpuTotals, FileCounters, HostTimes, Idle, ListenerTotals, Lost, OwnCost, Pressure, Totals,
    },
    top,
    units::Unit,
};

/// A table, by the name that the docs call it by.
#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub markdown: String,
}

pub fn tables() -> Vec<Table> {
    let table = |name: &str, markdown: String| Table { name: name.to_owned(), markdown };
    let mut all = vec![
        table("keys", top::key_table()),
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
        table("metrics of the host", metrics(About::Host)),
        table("metrics of cgroups", metrics(About::Cgroups)),
        table("metrics of listeners", metrics(About::Listeners)),
        table("metrics of lagstop", metrics(About::Itself)),
        table("thresholds", thresholds()),
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

fn metrics(about: About) -> String {
    let row = |family: &metrics::Family| {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (help, source) = (family.help.to_owned(), family.source.to_owned());
        vec![format!("`{}`", family.name), family.kind.name().to_owned(), labels.join(", "), help, source]
    };
    rows("metric | type | labels | meaning | source", metrics::families_about(about).iter().map(row))
}

fn thresholds() -> String {
    let defaults = Thresholds::default();
    let row = |&(name, meaning): &(&str, &str)| {
        let stated = Limit::by_name(name).map(|limit| defaults.state(limit));
        let default = match &stated {
            Some(stated) => stated.unit.show(stated.value),
            None => defaults.get(name).unwrap_or_default(),
        };
        let source =
            stated.map_or_else(|| "lagstop's own choice".to_owned(), |stated| stated.source.replace("default; ", ""));
        vec![format!("`{name}`"), meaning.trim().trim_end_matches('.').to_owned(), default, source]
    };
    rows("name | meaning | default | source", Thresholds::NAMES.iter().map(row))
}

fn figures(rule: Rule) -> String {
    let row = |figure: &&'static crate::diagnosis::FigureDefinition| {
        let unit = match figure.unit {
            Unit::Share => "share",
            Unit::SharePoints => "share points",
            Unit::Factor => "factor",
            Unit::Ns => "ns",
            Unit::Seconds => "s",
            Unit::PerSecond => "1/s",
            Unit::Cores => "cores",
            Unit::Tasks => "tasks",
            Unit::Count => "count",
        };
        vec![
            format!("`{}`", figure.name),
            figure.label.to_owned(),
            unit.to_owned(),
            figure.formula.to_owned(),
            figure.source.to_owned(),
        ]
    };
    rows("metric | meaning | unit | formula | source", rule.figures().iter().map(row))
}
