//! Several hosts, for people and for programs.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    json, markdown,
    page::{Colour, Page, PageOptions},
};
use crate::{
    diagnosis::{HostCosts, Hosts, Severity},
    units::{Unit, Value},
};

/// What the fields of the JSON mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.hosts/2";

const HEADINGS: [&str; 7] = ["host", "CPUs", "overhead", "cores lost", "waiting", "light spared", "cores freed"];

/// The verdict in one sentence.
fn verdict(all: &Hosts) -> String {
    let hosts = all.hosts.len();
    let lost = shown(all.total.cores_lost, Unit::Cores);
    let mut verdict = format!("{hosts} hosts lose {lost} of {} to scheduling", Unit::Cores.show(all.total.cpus as f64));
    if all.unmeasured > 0 {
        let _ = write!(verdict, " ({} of them not measured)", all.unmeasured);
    }
    match all.pays_most() {
        Some(host) => {
            let name = &host.report.session.hostname;
            let freed = shown(host.figures.cores_freed, Unit::Cores);
            let _ = write!(
                verdict,
                "; lightest first would free {} of them, most on {name}: {freed}.",
                shown(all.total.cores_freed, Unit::Cores)
            );
        }
        None => verdict.push('.'),
    }
    verdict
}

fn shown(value: Option<Value>, unit: Unit) -> String {
    unit.show_if_measured(value)
}

fn cells(name: &str, figures: &HostCosts) -> [String; 7] {
    let or_dash = |value: Option<Value>, unit: Unit| value.map_or_else(|| "–".to_owned(), |value| unit.show(value));
    [
        name.to_owned(),
        figures.cpus.to_string(),
        shown(figures.overhead, Unit::Share),
        shown(figures.cores_lost, Unit::Cores),
        shown(figures.waiting, Unit::Tasks),
        or_dash(figures.light_gain, Unit::Share),
        or_dash(figures.cores_freed, Unit::Cores),
    ]
}

fn rows(all: &Hosts) -> Vec<[String; 7]> {
    let mut rows: Vec<[String; 7]> =
        all.hosts.iter().map(|host| cells(&host.report.session.hostname, &host.figures)).collect();
    rows.push(cells("all", &all.total));
    rows
}

/// For a terminal.
pub fn text(all: &Hosts, options: PageOptions) -> String {
    let mut page = Page::new(options);
    page.text("", Colour::Bold, &verdict(all));
    page.blank();
    page.table(&HEADINGS, &rows(all).into_iter().map(Vec::from).collect::<Vec<_>>());
    for host in &all.hosts {
        page.blank();
        page.text("", Colour::Bold, &format!("{}: {}", host.report.session.hostname, host.report.verdict.headline));
        for cause in host.report.verdict.beneath() {
            page.labelled(cause.severity.word(), &cause.says);
        }
    }
    page.blank();
    page.text("", Colour::Dim, "lagstop diagnose FILE says more on one host: evidence, doubts, and what to do.");
    page.finish()
}

/// For a ticket: the ranking, then the report on each host.
pub fn markdown(all: &Hosts) -> String {
    let mut page = format!("# {}\n\n", markdown::text(&verdict(all)));
    let line = |row: &[String; 7]| format!("| {} |\n", row.clone().map(|cell| markdown::text(&cell)).join(" | "));
    page += &line(&HEADINGS.map(str::to_owned));
    page += "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    rows(all).iter().for_each(|row| page += &line(row));
    for host in &all.hosts {
        page.push('\n');
        page += &markdown::render(&host.report);
    }
    page
}

/// A report of `lagstop diagnose` on several hosts.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// What the fields mean; the number goes up when one of them changes its meaning or goes away.
    schema: &'static str,
    /// All of it in a sentence.
    verdict: String,
    /// How bad the worst finding of all hosts is.
    severity: Severity,
    #[serde(flatten)]
    all: &'a Hosts,
}

/// The JSON Schema of that. Published as `docs/hosts.schema.json`.
pub fn schema() -> serde_json::Value {
    json::schema_of::<Document<'_>>("A report of lagstop diagnose on several hosts")
}

/// For programs.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn json(all: &Hosts) -> Result<String, serde_json::Error> {
    json::document(&Document { schema: SCHEMA, verdict: verdict(all), severity: all.worst(), all })
}

/// The ranking as a table for the page.
pub(super) fn table(all: &Hosts) -> (String, Vec<[String; 7]>) {
    let mut table = vec![HEADINGS.map(str::to_owned)];
    table.extend(rows(all));
    (verdict(all), table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{Thresholds, diagnose},
        model::{Session, fixture},
    };

    fn all() -> Hosts {
        let report = |hostname: &str, intervals| {
            let session = Session { hostname: hostname.to_owned(), ..fixture::session() };
            diagnose(&session, intervals, &Thresholds::default())
        };
        Hosts::new(vec![
            report("quiet", &fixture::idle(60)),
            report("busy", &fixture::overloaded(60)),
            report("blind\u{1b}[2J|<b>", &fixture::without_cost(60)),
        ])
    }

    #[test]
    fn several_hosts_read_like_this() {
        insta::assert_snapshot!(text(&all(), PageOptions::default()), @"
        3 hosts lose 0.42 cores of 12.0 cores to scheduling (1 of them not measured).

        host           CPUs  overhead     cores lost      waiting  light spared  cores freed
        busy              4    10.6 %     0.42 cores   12.3 tasks             –            –
        quiet             4    0.01 %  < 0.001 cores  0.001 tasks             –            –
        blind�[2J|<b>     4       n/a            n/a   12.3 tasks             –            –
        all              12     5.3 %     0.42 cores   24.6 tasks             –            –

        busy: The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as much
        when busy as when quiet, because of more switches (59.6 % of the growth) and costlier ones (40.4 %);
        top contributor: batch (58.8 %).
            WARNING     Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice”
                        (using less than their fair share) wait 70.1 % of their runnable time, while the
                        heavy batch (using its share or more) takes 77.1 % of the CPU time there; the effect
                        of more weight cannot be predicted.

        quiet: Healthy: 99 % of all waits for a CPU end within 4.61 µs (the longest: about 4.61 µs),
        switching takes 0.01 % of the CPU time, and the CPUs are 0.3 % busy.

        blind�[2J|<b>: Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice” (using
        less than their fair share) wait 70.1 % of their runnable time, while the heavy batch (using its
        share or more) takes 77.1 % of the CPU time there; the effect of more weight cannot be predicted.

        lagstop diagnose FILE says more on one host: evidence, doubts, and what to do.
        ");
    }

    #[test]
    fn what_is_written_fits_the_schema() {
        let written: serde_json::Value = serde_json::from_str(&json(&all()).unwrap()).unwrap();
        let error = jsonschema::validate(&schema(), &written).err().map(|error| error.to_string());
        assert_eq!(error, None);
    }

    #[test]
    fn names_are_nothing_but_text() {
        let written = markdown(&all()) + &text(&all(), PageOptions::default()) + &json(&all()).unwrap();
        assert!(!written.contains('\u{1b}'));
        assert!(markdown(&all()).contains("| blind\u{fffd}\\[2J\\|&lt;b&gt; |"));
    }
}
