//! A benchmark, for people and for programs.

use super::{
    json,
    page::{Colour, Page, PageOptions},
};
use crate::{
    bench::{Bench, BenchRun, Latency, MissingRun},
    model::Nanos,
    trial::Policy,
    units::{Unit, ending, if_measured},
};

const HEADINGS: [&str; 14] = [
    "policy",
    "functions",
    "per CPU",
    "offered",
    "in time",
    "p50",
    "p95",
    "overhead",
    "pick",
    "swap",
    "switches",
    "waiting",
    "CPU used",
    "effective",
];

/// The verdict in one sentence.
pub(super) fn verdict(bench: &Bench) -> String {
    let host = &bench.host;
    let runs = bench.points.len();
    format!(
        "{} on {}: {} CPUs, Linux {}, cgroup v{}; {runs} run{} with seed {}{}",
        bench.workload.name(),
        host.hostname,
        host.cpus,
        host.kernel,
        host.cgroup_version,
        ending(runs),
        bench.seed,
        if bench.light_alone { "; the light functions alone" } else { "" }
    )
}

fn shown(value: Option<f64>, unit: Unit) -> String {
    unit.show_if_measured(value)
}

fn time(time: Option<Nanos>) -> String {
    if_measured(time, |time| time.to_string())
}

/// The name of the policy, for tables.
pub(super) fn policy(point: &BenchRun) -> &'static str {
    point.policy.map_or("none", Policy::name)
}

/// A run, cell by cell.
fn cells(point: &BenchRun) -> Vec<String> {
    vec![
        policy(point).to_owned(),
        point.functions.to_string(),
        point.density.to_string(),
        Unit::PerSecond.show(point.offered as f64 / point.seconds),
        Unit::PerSecond.show(point.throughput),
        time(point.latency.p50_ns),
        time(point.latency.p95_ns),
        shown(point.overhead, Unit::Share),
        shown(point.pick_ns, Unit::Ns),
        shown(point.swap_ns, Unit::Ns),
        Unit::PerSecond.show(point.switches_per_second),
        shown(point.waiting, Unit::Tasks),
        Unit::Share.show(point.cpu_utilisation),
        shown(point.effective_utilisation, Unit::Share),
    ]
}

/// Headings, then a row for each run.
pub(super) fn table(bench: &Bench) -> Vec<Vec<String>> {
    let headings = HEADINGS.map(str::to_owned).into();
    std::iter::once(headings).chain(bench.points.iter().map(cells)).collect()
}

/// For a terminal.
pub fn text(bench: &Bench, options: PageOptions) -> String {
    let mut page = Page::new(options);
    page.text("", Colour::Bold, &format!("{}.", verdict(bench)));
    page.blank();
    page.table(&HEADINGS, &bench.points.iter().map(cells).collect::<Vec<_>>());
    if bench.points.iter().any(|point| point.light.is_some()) {
        page.blank();
        let headings = [
            "policy",
            "functions",
            "light p50",
            "light p95",
            "light waiting",
            "heavy p50",
            "heavy p95",
            "heavy waiting",
        ];
        page.table(&headings, &bench.points.iter().map(sides).collect::<Vec<_>>());
    }
    page.blank();
    missing(bench).iter().for_each(|why| page.text("", Colour::Yellow, why));
    page.text(
        "",
        Colour::Dim,
        "In time: served within 1 s. Waiting: average number of tasks waiting on run queues. See docs/bench.md.",
    );
    page.finish()
}

/// Runs that were not made, and why: a sentence for each reason.
pub(super) fn missing(bench: &Bench) -> Vec<String> {
    let mut reasons: Vec<&str> = bench.missing.iter().map(|missing| missing.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let of = |why: &str| {
        let runs = bench.missing.iter().filter(|missing| missing.why == why);
        let runs = runs.map(|MissingRun { density, policy, round, .. }| {
            let policy = policy.map_or("none", Policy::name);
            format!("{density} per CPU, {policy}, round {}", round + 1)
        });
        format!("Incomplete runs: {}: {why}.", runs.collect::<Vec<_>>().join("; "))
    };
    reasons.into_iter().map(of).collect()
}

fn sides(point: &BenchRun) -> Vec<String> {
    let mut cells = vec![policy(point).to_owned(), point.functions.to_string()];
    for side in [&point.light, &point.heavy] {
        let Latency { p50_ns, p95_ns, .. } = side.as_ref().map(|side| side.latency).unwrap_or_default();
        let waiting = side.as_ref().and_then(|side| side.waiting);
        cells.extend([time(p50_ns), time(p95_ns), shown(waiting, Unit::Tasks)]);
    }
    cells
}

/// For programs.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn json(bench: &Bench) -> Result<String, serde_json::Error> {
    json::document(bench)
}

/// What [`json()`] writes, as a JSON Schema.
pub fn schema() -> serde_json::Value {
    json::schema_of::<Bench>(Bench::SCHEMA)
}

/// For spreadsheets: a row a run. What was not measured is empty.
///
/// # Errors
/// When it cannot be written as text.
pub fn csv(bench: &Bench) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "workload",
        "policy",
        "round",
        "density",
        "functions",
        "seconds",
        "offered",
        "in_time",
        "unfinished",
        "throughput",
        "p50_ns",
        "p95_ns",
        "p99_ns",
        "light_p50_ns",
        "light_p95_ns",
        "light_waiting",
        "heavy_p50_ns",
        "heavy_p95_ns",
        "heavy_waiting",
        "overhead",
        "pick_ns",
        "swap_ns",
        "switches_per_second",
        "waiting",
        "cpu_utilisation",
        "effective_utilisation",
    ])?;
    let real = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let ns = |time: Option<Nanos>| time.map(|time| time.0.to_string()).unwrap_or_default();
    for point in &bench.points {
        let mut row = vec![bench.workload.name().to_owned(), policy(point).to_owned()];
        row.extend([point.round, point.density, point.functions].map(|count| count.to_string()));
        row.push(point.seconds.to_string());
        row.extend([point.offered, point.in_time, point.unfinished].map(|count| count.to_string()));
        row.push(point.throughput.to_string());
        row.extend([point.latency.p50_ns, point.latency.p95_ns, point.latency.p99_ns].map(ns));
        for side in [&point.light, &point.heavy] {
            let latency = side.as_ref().map(|side| side.latency).unwrap_or_default();
            row.extend([ns(latency.p50_ns), ns(latency.p95_ns), real(side.as_ref().and_then(|side| side.waiting))]);
        }
        row.extend([point.overhead, point.pick_ns, point.swap_ns].map(real));
        row.push(point.switches_per_second.to_string());
        row.push(real(point.waiting));
        row.push(point.cpu_utilisation.to_string());
        row.push(real(point.effective_utilisation));
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{BenchHost, BenchSettings, BenchSide, BenchWorkload, Latencies};

    /// Made-up runs at densities of 1 and 9, the second without costs, on a host with a hostile name.
    pub(in crate::report) fn example() -> Bench {
        let settings = BenchSettings {
            workload: BenchWorkload::Azure,
            densities: vec![1, 9],
            policies: Vec::new(),
            switch: crate::trial::SwitchSettings::default(),
            rounds: 1,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            work: Duration::from_millis(40),
            latency_target: Duration::from_millis(100),
            demand: 0.1,
            light_alone: false,
            depth: 0,
            base: "lagstop-bench".to_owned(),
            seed: 7,
            traces: Vec::new(),
        };
        let host = BenchHost {
            hostname: "<script>alert(1)</script>\u{1b}[2J".to_owned(),
            kernel: "6.12".to_owned(),
            cpus: 2,
            cgroup_version: 2,
        };
        let mut bench = Bench::new(&settings, host);
        for (density, is_measured) in [(1, true), (9, false)] {
            let mut latencies = Latencies::default();
            (1..=100).for_each(|n| latencies.add(Nanos(n * u64::from(density) * 10_000_000)));
            let cost = |ns: f64| is_measured.then_some(ns);
            let latency = Latency::from(&latencies);
            let side = BenchSide { functions: density, offered: 50, latency, cpu: 0.5, waiting: cost(1.5) };
            bench.points.push(BenchRun {
                density,
                functions: 2 * density,
                seconds: 10.0,
                offered: 100,
                in_time: 90,
                unfinished: 3,
                throughput: 9.0,
                latency,
                light: Some(side.clone()),
                heavy: Some(side),
                overhead: cost(0.012),
                pick_ns: cost(3_000.0),
                swap_ns: cost(1_500.0),
                switches_per_second: 1_234.0,
                waiting: cost(3.0),
                cpu_utilisation: 0.9,
                effective_utilisation: cost(0.888),
                latencies,
                ..BenchRun::default()
            });
        }
        bench
    }

    #[test]
    fn a_benchmark_reads_like_this() {
        insta::assert_snapshot!(text(&example(), PageOptions { width: 160, colour: false }));
    }

    #[test]
    fn what_was_not_run_is_said_with_its_reason() {
        let mut bench = example();
        let missing = |density, policy, why: &str| MissingRun { density, policy, round: 0, why: why.to_owned() };
        bench.missing = vec![
            missing(9, Some(Policy::Slice), "slice cannot be tried: why"),
            missing(13, None, "stopped"),
            missing(19, None, "stopped"),
        ];
        let said = text(&bench, PageOptions { width: 160, colour: false });
        assert!(said.contains("Incomplete runs: 9 per CPU, slice, round 1: slice cannot be tried: why."), "{said}");
        assert!(said.contains("13 per CPU, none, round 1; 19 per CPU, none, round 1: stopped."), "{said}");
        let written: serde_json::Value = serde_json::from_str(&json(&bench).unwrap()).unwrap();
        assert_eq!(written["missing"][0]["policy"], "slice");
        assert_eq!(written["missing"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn what_is_written_fits_the_schema() {
        let written: serde_json::Value = serde_json::from_str(&json(&example()).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(written["points"][1]["overhead"], serde_json::Value::Null, "not measured is not 0");
    }

    #[test]
    fn a_table_has_a_row_a_run() {
        let table = csv(&example()).unwrap();
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let headings = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| rows[row].get(headings.iter().position(|it| it == name).unwrap()).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((cell(0, "overhead"), cell(1, "overhead"), cell(1, "functions")), ("0.012", "", "18"));
    }
}
