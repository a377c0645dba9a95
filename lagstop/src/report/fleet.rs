//! A fleet as a Prometheus server knows it, for people and for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    json,
    page::{Colour, Page, PageOptions},
};
use crate::{
    display::utc,
    fleet::{
        Analysis, FleetSettings, FleetTotals, Gathered, Knee, NodeFigures, NodeMetric, PackedFleet, Packing, Refused,
        Source, WorkloadFigures,
    },
    model::Derived,
    units::{Unit, ending},
};

/// What the fields of the JSON mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.fleet/2";

/// The most names that are listed in a sentence.
const NAMED: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct FleetReport<'a> {
    pub server: &'a str,
    pub gathered: &'a Gathered,
    pub analysis: &'a Analysis,
    pub settings: &'a FleetSettings,
}

fn shown(value: Option<f64>, unit: Unit) -> String {
    unit.show_if_measured(value)
}

fn time(seconds: Option<f64>) -> String {
    shown(seconds.map(|seconds| seconds * 1e9), Unit::Ns)
}

fn number(value: Option<f64>) -> String {
    shown(value, Unit::Factor).trim_start_matches("× ").to_owned()
}

/// Some names, and the number of the others.
fn names<'n>(all: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let some: Vec<&str> = all.take(NAMED).collect();
    let some = some.join(", ");
    if more > 0 { format!("{some} and {more} more") } else { some }
}

/// "1 node", "2 nodes".
fn nodes(count: u64) -> String {
    format!("{count} node{}", ending(count))
}

fn fewer(count: i64) -> String {
    match count {
        ..0 => format!("{} more", count.unsigned_abs()),
        0 => "as many".to_owned(),
        _ => format!("{count} fewer"),
    }
}

/// The number of nodes compared with today's, with its interval.
fn takes(packed: &PackedFleet, today: u64) -> String {
    let taken = nodes(packed.nodes);
    let interval = format!("90 % interval: {} to {}", fewer(packed.fewer_low), fewer(packed.fewer_high));
    if packed.fewer == 0 {
        format!("takes {taken}, as many as today ({interval})")
    } else if (packed.fewer_low..=packed.fewer_high).contains(&0) {
        format!("takes {taken} instead of {today}, which may be chance ({interval})")
    } else {
        format!("takes {taken} instead of {today} ({interval})")
    }
}

/// The verdict in a few sentences.
pub(super) fn verdict(report: &FleetReport<'_>) -> String {
    let FleetTotals { nodes: count, cpus, cores_lost, overhead, .. } = report.analysis.totals;
    let mut verdict = format!(
        "{} lose {} of {} to switching ({})",
        nodes(count),
        shown(cores_lost, Unit::Cores),
        Unit::Cores.show(cpus),
        shown(overhead, Unit::Share)
    );
    let unmeasured = report.analysis.gaps.unmeasured.len();
    if unmeasured > 0 {
        verdict += &format!(", {unmeasured} of them not measured");
    }
    verdict.push('.');
    if let Some(packing) = &report.analysis.packing {
        let same = if packing.wait_limit_is_todays { "the same p99 wait" } else { "the requested p99 wait" };
        verdict += &match packing.measured() {
            Some(packed) => format!(" At {same}, the same work {}.", takes(packed, packing.today.nodes)),
            None => format!(" By the measured curve, no number of nodes has {same}."),
        };
    } else if let Some(why) = &report.analysis.packing_missing {
        verdict += &format!(" The number of nodes for the same work is unknown: {why}.");
    }
    if let Some(noisiest) = WorkloadFigures::noisiest(&report.analysis.workloads) {
        verdict += &format!(
            " {} makes its neighbours wait {} per second, {} of the wait caused by all workloads.",
            name(noisiest),
            shown(noisiest.wait_caused, Unit::Seconds),
            shown(noisiest.wait_caused_share, Unit::Share)
        );
    }
    verdict
}

const NODE_HEADINGS: [&str; 11] = [
    "node",
    "CPUs",
    "cgroups per CPU",
    "overhead",
    "cores lost",
    "switch",
    "p99 wait",
    "CPU used",
    "effective",
    "light wait",
    "coverage",
];

fn node_cells(node: &NodeFigures) -> Vec<String> {
    vec![
        node.node.clone(),
        number(node.cpus),
        number(node.density),
        shown(node.overhead, Unit::Share),
        shown(node.cores_lost, Unit::Cores),
        time(node.switch_cost),
        time(node.wait_p99),
        shown(node.utilisation, Unit::Share),
        shown(node.effective, Unit::Share),
        shown(node.light_wait, Unit::Factor),
        shown(node.coverage, Unit::Share),
    ]
}

fn total_cells(totals: &FleetTotals) -> Vec<String> {
    let density = totals.active.map(|active| active / totals.cpus).filter(|density| density.is_finite());
    vec![
        "all".to_owned(),
        number(Some(totals.cpus)),
        number(density),
        shown(totals.overhead, Unit::Share),
        shown(totals.cores_lost, Unit::Cores),
        String::new(),
        time(totals.wait_p99),
        shown(totals.utilisation, Unit::Share),
        shown(totals.effective, Unit::Share),
        String::new(),
        String::new(),
    ]
}

const WORKLOAD_HEADINGS: [&str; 6] =
    ["workload", "switch cost", "of all", Derived::CPU.label, "of its CPU time", Derived::WAIT_PER_CPU.label];

/// Cluster, namespace and workload, without those that are empty.
fn name(workload: &WorkloadFigures) -> String {
    let parts = [&workload.cluster, &workload.namespace, &workload.workload];
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

fn workload_cells(workload: &WorkloadFigures) -> Vec<String> {
    vec![
        name(workload),
        shown(workload.switch_cost, Unit::Cores),
        shown(workload.share, Unit::Share),
        shown(workload.cpu, Unit::Cores),
        shown(workload.cost_of_cpu, Unit::Share),
        shown(workload.wait_per_cpu, Unit::Factor),
    ]
}

const NEIGHBOUR_HEADINGS: [&str; 5] =
    ["workload", "wait caused per second", "of all", Derived::CPU.label, Derived::WAIT_PER_CPU.label];

fn neighbour_cells(workload: &WorkloadFigures) -> Vec<String> {
    vec![
        name(workload),
        shown(workload.wait_caused, Unit::Seconds),
        shown(workload.wait_caused_share, Unit::Share),
        shown(workload.cpu, Unit::Cores),
        shown(workload.wait_per_cpu, Unit::Factor),
    ]
}

const BIN_HEADINGS: [&str; 5] = ["cgroups per CPU", "overhead", "p99 wait", "CPU used", "node-steps"];

const PACKED_HEADINGS: [&str; 9] =
    ["basis", "nodes", "change", "90 % interval", "cgroups per CPU", "p99 wait", "overhead", "CPU used", "limited by"];

fn packed_cells(packed: &PackedFleet) -> Vec<String> {
    let name = match packed.strength {
        0.0 => "measured".to_owned(),
        1.0 => "assumed: LAGS".to_owned(),
        part => format!("assumed: {} of LAGS", Unit::Share.show(part)),
    };
    vec![
        name,
        packed.nodes.to_string(),
        fewer(packed.fewer),
        format!("{} to {}", fewer(packed.fewer_low), fewer(packed.fewer_high)),
        number(Some(packed.density)),
        time(Some(packed.wait_p99)),
        Unit::Share.show(packed.overhead),
        Unit::Share.show(packed.utilisation),
        packed.bound_by.words().to_owned(),
    ]
}

/// Tables with their headings, at most `rows` rows of nodes and workloads.
pub(super) struct Tables {
    pub nodes: Vec<Vec<String>>,
    pub workloads: Vec<Vec<String>>,
    /// Workloads that make others wait.
    pub neighbours: Vec<Vec<String>>,
    pub bins: Vec<Vec<String>>,
    pub packed: Vec<Vec<String>>,
}

/// The headings of tables, in their order.
pub(super) const HEADINGS: [&[&str]; 5] =
    [&NODE_HEADINGS, &WORKLOAD_HEADINGS, &NEIGHBOUR_HEADINGS, &BIN_HEADINGS, &PACKED_HEADINGS];

pub(super) fn tables(report: &FleetReport<'_>, rows: usize) -> Tables {
    let analysis = report.analysis;
    let mut nodes: Vec<Vec<String>> = analysis.nodes.iter().take(rows).map(node_cells).collect();
    nodes.push(total_cells(&analysis.totals));
    let bins = analysis.density.iter().flat_map(|density| &density.bins).map(|bin| {
        vec![
            number(Some(bin.density)),
            Unit::Share.show(bin.overhead),
            time(bin.wait_p99),
            Unit::Share.show(bin.utilisation),
            bin.count.to_string(),
        ]
    });
    Tables {
        nodes,
        workloads: analysis.workloads.iter().take(rows).map(workload_cells).collect(),
        neighbours: WorkloadFigures::by_wait_caused(&analysis.workloads)
            .into_iter()
            .take(rows)
            .map(neighbour_cells)
            .collect(),
        bins: bins.collect(),
        packed: analysis.packing.iter().flat_map(|packing| &packing.options).map(packed_cells).collect(),
    }
}

/// What the tables are of, in a line: server, time range, steps and number of nodes.
pub(super) fn headline(report: &FleetReport<'_>) -> String {
    let window = report.analysis.window;
    let totals = report.analysis.totals;
    format!(
        "{}, {} to {} in {} steps of {}; {} nodes on average.",
        report.server,
        utc(window.start()),
        utc(window.end),
        window.steps,
        Unit::Seconds.show(window.step as f64),
        number(Some(totals.nodes_at_a_time))
    )
}

/// How busy the CPUs are with and without switching, in a sentence. `None` where they were not measured.
pub(super) fn utilisation(totals: &FleetTotals) -> Option<String> {
    let (utilisation, effective) = totals.utilisation.zip(totals.effective)?;
    let gap = (utilisation - effective).max(0.0);
    Some(format!(
        "The CPUs are {} busy, and {} busy without switching, which takes {} of the CPU time in use.",
        Unit::Share.show(utilisation),
        Unit::Share.show(effective),
        Unit::Share.show(gap / utilisation)
    ))
}

/// Where curves bend, in sentences.
pub(super) fn knees(report: &FleetReport<'_>) -> Vec<String> {
    let Some(density) = &report.analysis.density else {
        let why = report.analysis.density_missing.as_deref().unwrap_or_default();
        return vec![format!("The effect of density is unknown: {why}.")];
    };
    let sentence = |what: &str, knee: &Option<Knee>, missing: &Option<String>, unit: &dyn Fn(f64) -> String| match knee
    {
        Some(knee) => format!(
            "{what} has its knee at {} active cgroups per CPU (90 % interval {} to {}). Each additional cgroup per CPU adds {} below \
             the knee and {} above it.",
            number(Some(knee.density)),
            number(Some(knee.low)),
            number(Some(knee.high)),
            unit(knee.before),
            unit(knee.beyond)
        ),
        None => format!("{what} has no knee: {}.", missing.as_deref().unwrap_or("the reason is unknown")),
    };
    let points = |share: f64| Unit::SharePoints.show(share);
    let seconds = |seconds: f64| {
        let sign = if seconds < 0.0 { "−" } else { "" };
        format!("{sign}{}", time(Some(seconds.abs())))
    };
    vec![
        sentence("Overhead", &density.overhead_knee, &density.overhead_knee_missing, &points),
        sentence("The p99 wait", &density.wait_knee, &density.wait_knee_missing, &seconds),
    ]
}

/// What the packing is based on: today's figures in the busiest steps, and the limits of the plan.
pub(super) fn limits(packing: &Packing) -> String {
    let today = &packing.today;
    format!(
        "In the busiest steps, {} with {:.0} CPUs have {} active cgroups per CPU, a p99 wait of {} and a CPU utilisation of {}. Limits of the plan: p99 wait {}, CPU utilisation {}.",
        nodes(today.nodes),
        today.cpus,
        number(Some(today.density)),
        time(Some(today.wait_p99)),
        Unit::Share.show(today.utilisation),
        if packing.wait_limit_is_todays { "as today".to_owned() } else { time(Some(packing.wait_limit)) },
        Unit::Share.show(packing.utilisation_limit)
    )
}

/// Caveats that the reader should know.
pub(super) fn doubts(report: &FleetReport<'_>) -> Vec<String> {
    let gaps = &report.analysis.gaps;
    let mut doubts = Vec::new();
    if gaps.steps_with_data < gaps.steps {
        doubts.push(format!(
            "The server has data for {} of {} steps. All metrics exclude the other steps.",
            gaps.steps_with_data, gaps.steps
        ));
    }
    if !gaps.thin.is_empty() {
        let with_share = gaps.thin.iter().map(|thin| format!("{} ({})", thin.node, Unit::Share.show(thin.coverage)));
        let with_share: Vec<String> = with_share.take(NAMED + 1).collect();
        let all = gaps.thin.iter().enumerate().map(|(n, thin)| with_share.get(n).map_or(&*thin.node, String::as_str));
        doubts.push(format!(
            "The server has less than 90 % of the samples of {}: {}. Their metrics cover only the steps with data.",
            nodes(gaps.thin.len() as u64),
            names(all)
        ));
    }
    if !gaps.unmeasured.is_empty() {
        doubts.push(format!(
            "Switch costs were not measured on {}: {}. No sum includes them. Run `lagstop check` on the node for the reason.",
            nodes(gaps.unmeasured.len() as u64),
            names(gaps.unmeasured.iter().map(String::as_str))
        ));
    }
    if let Some(restarts) = gaps.restarts.filter(|&restarts| restarts > 0) {
        doubts.push(format!(
            "lagstop restarted {restarts} time{} on {}. Rates account for this, except at the moment of a restart.",
            ending(restarts),
            names(gaps.restarted.iter().map(String::as_str))
        ));
    }
    if gaps.dropped > 0 {
        doubts.push("There are more nodes than lagstop can process. Select some of them with --match.".to_owned());
    }
    if report.analysis.totals.lost.is_some_and(|lost| lost > 0.0) {
        doubts.push(format!(
            "lagstop lost {} events over all nodes. No metric includes their cost.",
            shown(report.analysis.totals.lost, Unit::PerSecond)
        ));
    }
    if let Some(steal) = report.analysis.totals.steal.filter(|&steal| steal >= 0.01) {
        doubts
            .push(format!("Hypervisors took {} of the CPU time. Waits and costs include it.", Unit::Share.show(steal)));
    }
    let raw: Vec<&str> = report
        .gathered
        .sources
        .iter()
        .filter(|(figure, source)| *source == Source::Raw && *figure != NodeMetric::Restarts)
        .map(|(figure, _)| figure.label())
        .collect();
    if !raw.is_empty() {
        doubts.push(format!(
            "The server has no recording rules for {}. It computed them from raw series, over whole steps.",
            names(raw.into_iter())
        ));
    }
    if report.gathered.workload_source == Some(Source::Raw) {
        doubts.push(
            "Without recording rules, metrics of workloads come from five-minute samples, not from the whole window."
                .to_owned(),
        );
    }
    for missing in &report.gathered.missing {
        doubts.push(format!("{} is n/a: {}.", missing.figure, missing.why));
    }
    doubts.extend(report.gathered.refused.iter().map(Refused::to_string));
    doubts.extend(report.gathered.warnings.iter().map(|warning| format!("Warning from the server: {warning}")));
    doubts
}

/// For a terminal: at most `rows` nodes and workloads.
pub fn text(report: &FleetReport<'_>, rows: usize, options: PageOptions) -> String {
    let tables = tables(report, rows);
    let analysis = report.analysis;
    let mut page = Page::new(options);
    page.text("", Colour::Bold, &verdict(report));
    page.text("", Colour::Dim, &headline(report));
    if let Some(utilisation) = utilisation(&analysis.totals) {
        page.text("", Colour::None, &utilisation);
    }
    page.blank();
    page.table(&NODE_HEADINGS, &tables.nodes);
    rest(&mut page, analysis.nodes.len(), rows, "nodes");
    page.blank();
    if tables.workloads.is_empty() {
        page.text("", Colour::None, "There are no workloads: no cgroup belongs to a pod.");
    } else {
        page.table(&WORKLOAD_HEADINGS, &tables.workloads);
        rest(&mut page, analysis.workloads.len(), rows, "workloads");
    }
    if !tables.neighbours.is_empty() {
        page.blank();
        page.table(&NEIGHBOUR_HEADINGS, &tables.neighbours);
    }
    page.blank();
    knees(report).iter().for_each(|knee| page.text("", Colour::None, knee));
    if !tables.bins.is_empty() {
        page.table(&BIN_HEADINGS, &tables.bins);
    }
    if let Some(packing) = &analysis.packing {
        page.blank();
        page.text("", Colour::Bold, "The same work on fewer nodes");
        page.text("", Colour::None, &limits(packing));
        page.table(&PACKED_HEADINGS, &tables.packed);
        packing.assumptions.iter().for_each(|assumption| page.hanging("  * ", assumption));
    }
    let doubts = doubts(report);
    if !doubts.is_empty() {
        page.blank();
        page.text("", Colour::Bold, "Caveats");
        doubts.iter().for_each(|doubt| page.hanging("  * ", doubt));
    }
    page.blank();
    page.text("", Colour::Dim, "docs/fleet.md explains how each metric is computed.");
    page.finish()
}

fn rest(page: &mut Page, all: usize, rows: usize, what: &str) {
    if all > rows {
        page.text("", Colour::Dim, &format!("and {} more {what}: --rows {all} lists all", all - rows));
    }
}

/// Source of a metric.
#[derive(Serialize, JsonSchema)]
struct Origin {
    /// The metric.
    figure: NodeMetric,
    /// Recording rules, or the exporter's series.
    source: Source,
}

/// A report of `lagstop fleet`.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// Version of this format. The number increases when a field changes its meaning or is removed.
    schema: &'static str,
    /// Summary in a few sentences.
    verdict: String,
    /// The server's address.
    server: &'a str,
    /// Settings of the analysis.
    settings: &'a FleetSettings,
    #[serde(flatten)]
    analysis: &'a Analysis,
    /// Sources of the available metrics.
    sources: Vec<Origin>,
    /// Source of the metrics of workloads.
    workload_source: Option<Source>,
    /// Caveats about the results.
    doubts: Vec<String>,
    /// Missing metrics, and the reasons.
    missing: &'a [crate::fleet::MissingMetric],
    /// Queries that the server refused.
    refused: &'a [Refused],
    /// Warnings from the server.
    warnings: &'a [String],
    /// Number of queries sent to the server.
    requests: u64,
    /// Total size of its answers, in bytes.
    bytes: u64,
}

/// The JSON Schema of that. Published as `docs/fleet.schema.json`.
pub fn schema() -> serde_json::Value {
    json::schema_of::<Document<'_>>("A report of lagstop fleet")
}

/// For programs: all nodes and workloads.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn json(report: &FleetReport<'_>) -> Result<String, serde_json::Error> {
    let FleetReport { server, gathered, analysis, settings } = *report;
    json::document(&Document {
        schema: SCHEMA,
        verdict: verdict(report),
        server,
        settings,
        analysis,
        sources: gathered.sources.iter().map(|&(figure, source)| Origin { figure, source }).collect(),
        workload_source: gathered.workload_source,
        doubts: doubts(report),
        missing: &gathered.missing,
        refused: &gathered.refused,
        warnings: &gathered.warnings,
        requests: gathered.requests,
        bytes: gathered.bytes,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fleet::{NodeTable, fixture};

    /// Made-up answers from a table, with workloads that have hostile names.
    pub(in crate::report) fn gathered(table: NodeTable) -> Gathered {
        Gathered::example(table, &["checkout", "</td><script>alert(1)</script>\u{1b}[2J"])
    }

    pub(in crate::report) fn with<T>(gathered: &Gathered, then: impl FnOnce(&FleetReport<'_>) -> T) -> T {
        let settings = FleetSettings { draws: 100, ..FleetSettings::default() };
        let analysis = Analysis::new(gathered, &settings);
        then(&FleetReport { server: "http://prometheus:9090", gathered, analysis: &analysis, settings: &settings })
    }

    #[test]
    fn a_fleet_reads_like_this() {
        let written =
            with(&gathered(fixture::dense(40)), |report| text(report, 3, PageOptions { width: 110, colour: false }));
        insta::assert_snapshot!(written);
    }

    #[test]
    fn a_fleet_with_gaps_reads_like_this() {
        let written =
            with(&gathered(fixture::with_gaps()), |report| text(report, 3, PageOptions { width: 110, colour: false }));
        insta::assert_snapshot!(written);
    }

    #[test]
    fn what_is_written_fits_the_schema() {
        for table in [fixture::dense(40), fixture::with_gaps(), fixture::equal(1), NodeTable::new(fixture::window())] {
            let written = with(&gathered(table), |report| json(report).unwrap());
            let written: serde_json::Value = serde_json::from_str(&written).unwrap();
            let error = jsonschema::validate(&schema(), &written).err().map(|error| error.to_string());
            assert_eq!(error, None);
            assert_eq!(written["schema"], SCHEMA);
        }
    }

    #[test]
    fn names_are_nothing_but_text() {
        let mut table = fixture::equal(3);
        table.set("node\u{1b}[2J", 0, NodeMetric::Cpus, 8.0);
        let mut gathered = gathered(table);
        gathered.warnings.push("a store is down\u{1b}[31m".to_owned());
        let written = with(&gathered, |report| json(report).unwrap() + &text(report, 99, PageOptions::default()));
        assert!(
            !written.contains('\u{1b}') && written.contains("node\u{fffd}[2J") && written.contains("down\u{fffd}[31m")
        );
    }

    #[test]
    fn of_nothing_there_is_a_report() {
        let written =
            with(&gathered(NodeTable::new(fixture::window())), |report| text(report, 10, PageOptions::default()));
        assert!(
            written.starts_with("0 nodes lose n/a of 0 cores to switching (n/a). The number of nodes"),
            "{written}"
        );
        assert!(!written.contains("NaN") && !written.contains("inf"));
    }
}
