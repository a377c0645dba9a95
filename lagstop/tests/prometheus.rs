//! Rules, alerts, runbooks and the dashboard in docs/: that Prometheus takes them and they do what they say, and that none contradicts the others or
//! the thresholds. What needs promtool counts as ignored where there is none, and says so.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::{Command, ExitCode},
};

use lagstop::diagnosis::Thresholds;
use libtest_mimic::{Arguments, Failed, Trial};
use regex::Regex;
use serde_json::Value;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let has_promtool = Command::new("promtool").arg("--version").output().is_ok();
    if !has_promtool && !arguments.list {
        eprintln!(
            "\n*** SKIPPED: there is no promtool here (Debian's package prometheus). Whether alerts fire is not tried. ***\n"
        );
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let trials = vec![
        trial("prometheus_takes_the_rules_and_the_configuration", checked).with_ignored_flag(!has_promtool),
        trial("rules_record_what_they_say", recorded).with_ignored_flag(!has_promtool),
        trial("alerts_fire_at_their_thresholds_and_not_below", fired).with_ignored_flag(!has_promtool),
        trial("alerts_have_the_default_thresholds", thresholds),
        trial("every_alert_has_a_test_and_a_runbook", runbooks),
        trial("the_dashboard_is_whole", dashboard),
        trial("the_dashboard_has_the_default_thresholds", steps),
        trial("the_dashboard_asks_for_series_that_are_recorded", asked),
        trial("the_dashboard_computes_as_the_rules_do", computed),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn read(path: &str) -> String {
    fs::read_to_string(format!("{DOCS}/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn promtool(arguments: &[&str]) {
    let output =
        Command::new("promtool").args(arguments).current_dir(format!("{DOCS}/deploy/prometheus")).output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    println!("{said}");
}

fn checked() {
    promtool(&["check", "rules", "lagstop.rules.yml", "lagstop.alerts.yml"]);
    promtool(&["check", "config", "prometheus.yml"]);
}

fn recorded() {
    promtool(&["test", "rules", "lagstop.rules.test.yml"]);
}

fn fired() {
    promtool(&["test", "rules", "lagstop.alerts.test.yml"]);
}

/// An alert, as far as it matters here.
struct Alert {
    name: String,
    severity: String,
    expr: String,
    /// Names of the thresholds that it holds figures against.
    thresholds: Vec<String>,
    runbook: String,
}

/// All of lagstop.alerts.yml. That it is YAML is promtool's to say; here it is read as it is laid out.
fn alerts() -> Vec<Alert> {
    let text = read("deploy/prometheus/lagstop.alerts.yml");
    let comment = Regex::new(r"(?m)^ *#.*$").unwrap();
    let text = comment.replace_all(&text, "");
    let alerts: Vec<Alert> = text.split("- alert: ").skip(1).map(alert).collect();
    assert!(!alerts.is_empty());
    alerts
}

fn alert(text: &str) -> Alert {
    let field = |name: &str| {
        text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
    };
    let name = text.lines().next().unwrap().to_owned();
    let (_, expr) = text.split_once("expr: ").unwrap();
    let (expr, _) = expr.split_once("\n        for: ").unwrap();
    let thresholds = field("threshold").map(|names| names.split(", ").map(str::to_owned).collect()).unwrap_or_default();
    let (severity, runbook) = (field("severity").unwrap(), field("runbook_url").unwrap());
    Alert { name, severity, expr: expr.trim_start_matches('|').trim().to_owned(), thresholds, runbook }
}

/// The default of a threshold, in Prometheus' units: times in seconds.
fn default_of(name: &str) -> f64 {
    let value = serde_json::to_value(Thresholds::default()).unwrap()[name].as_f64();
    let value = value.unwrap_or_else(|| panic!("no threshold is called {name}"));
    let is_time = Thresholds::default().get(name).unwrap().ends_with('s');
    if is_time { value / 1e9 } else { value }
}

/// What alerts compare with and that is no threshold of `diagnose`, by alert.
const OWN: &[(&str, &[f64])] = &[
    // What must be waiting, or running, for a ratio to mean anything: as in `lagstop top`.
    ("LagstopCgroupsWait", &[0.01]),
    ("LagstopMigrations", &[0.01]),
    ("LagstopNoisyNeighbour", &[0.01]),
    // Periods that a share of them needs: as in `lagstop top`.
    ("LagstopThrottled", &[5.0]),
    // There is a backlog, there are drops.
    ("LagstopBacklog", &[0.0]),
    ("LagstopListenerDrops", &[0.0]),
    ("LagstopListenOverflows", &[0.0]),
    // It is down, it is off.
    ("LagstopDown", &[0.0]),
    ("LagstopNotMeasured", &[1.0]),
    // Seconds.
    ("LagstopStale", &[60.0]),
    // Where what was lost lowers the confidence of a finding; and there was something to lose.
    ("LagstopLostSwitches", &[0.0, 0.01]),
    ("LagstopLostConnections", &[0.0, 0.01]),
    // A share of all CPU time.
    ("LagstopOwnCost", &[0.02]),
];

fn thresholds() {
    let compared = Regex::new(r"(?:[<>]=?|==) ([0-9][0-9.e-]*)").unwrap();
    for alert in alerts() {
        let numbers = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(f64::to_bits).collect::<BTreeSet<u64>>();
        let own = OWN.iter().find(|(name, _)| *name == alert.name).map_or(&[][..], |(_, own)| own);
        let found = numbers(&mut compared.captures_iter(&alert.expr).map(|found| found[1].parse().unwrap()));
        let expected = numbers(&mut alert.thresholds.iter().map(|name| default_of(name)).chain(own.iter().copied()));
        let show = |bits: &BTreeSet<u64>| bits.iter().map(|&bits| f64::from_bits(bits)).collect::<Vec<_>>();
        assert_eq!(
            show(&found),
            show(&expected),
            "{} compares with the former; {:?} are the latter, with OWN",
            alert.name,
            alert.thresholds
        );
        // A warning of a threshold that is critical, or the other way round, was mixed up.
        let worst = alert.thresholds.first().map_or("", |name| name.as_str());
        assert!(!worst.ends_with("_critical") || alert.severity == "critical", "{} {worst}", alert.name);
        assert!(!worst.ends_with("_warn") || alert.severity != "critical", "{} {worst}", alert.name);
    }
}

fn runbooks() {
    let (runbooks, tests) = (read("runbooks.md"), read("deploy/prometheus/lagstop.alerts.test.yml"));
    let sections: BTreeMap<&str, &str> =
        runbooks.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let alerts = alerts();
    for Alert { name, severity, runbook, .. } in &alerts {
        assert_eq!(*runbook, format!("docs/runbooks.md#{}", name.to_lowercase()));
        let section = sections.get(name.as_str()).unwrap_or_else(|| panic!("runbooks.md has no section {name}"));
        for part in ["**Means**: ", "**Check**", "**Do**"] {
            assert!(section.contains(part) || section.contains("**Check** and **do**"), "{name} has no {part}");
        }
        let row = runbooks.lines().find(|line| line.starts_with(&format!("| [{name}](#{}) |", name.to_lowercase())));
        assert!(row.is_some_and(|row| row.contains(severity)), "the table has no {severity} {name}");
        let fires = format!(r#"ALERTS{{alertname="{name}", alertstate="firing""#);
        let fires =
            tests.lines().any(|line| line.contains(&fires) && line.contains(&format!(r#"severity="{severity}""#)));
        assert!(fires, "no test has {name} fire as {severity}");
    }
    let named: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(named, sections.into_keys().collect(), "alerts, and sections of runbooks.md");
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/lagstop.json")).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn dashboard() {
    let panels = panels();
    let mut ids = BTreeSet::new();
    let mut taken: BTreeMap<(u64, u64), String> = BTreeMap::new();
    for panel in &panels {
        let title = text(panel, "title");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24 && at("w") > 0, "{title} is wider than the dashboard");
        for place in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            let other = taken.insert(place, title.to_owned());
            assert_eq!(other, None, "{title} lies on another panel at {place:?}");
        }
        if text(panel, "type") == "row" {
            continue;
        }
        assert!(text(panel, "description").ends_with('.'), "{title} does not say what it shows");
        let has_unit = match text(panel, "type") {
            "table" => panel["fieldConfig"]["overrides"].as_array().is_some_and(|columns| !columns.is_empty()),
            "heatmap" => panel["options"]["yAxis"]["unit"].is_string(),
            _ => panel["fieldConfig"]["defaults"]["unit"].is_string(),
        };
        assert!(has_unit, "{title} has no unit");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        let source = |value: &Value| text(&value["datasource"], "uid") == "${datasource}";
        assert!(source(panel) && targets.iter().all(source), "{title} has a data source of its own");
    }
    let rows = panels.iter().filter(|panel| panel["type"] == "row").map(|row| text(row, "title")).collect::<Vec<_>>();
    assert_eq!(rows.len(), 5, "{rows:?}");
}

/// The numbers of all steps of colour in `value`.
fn numbers(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            if let Some(steps) = fields.get("steps").and_then(Value::as_array) {
                found.extend(steps.iter().filter_map(|step| step["value"].as_f64()).map(f64::to_bits));
            }
            fields.values().for_each(|field| numbers(field, found));
        }
        Value::Array(values) => values.iter().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

fn steps() {
    let mut any = false;
    for panel in panels() {
        let title = text(&panel, "title").to_owned();
        let mut found = BTreeSet::new();
        numbers(&panel["fieldConfig"], &mut found);
        let description = panel["description"].as_str().unwrap_or_default();
        let names = description.split_once("Thresholds: ").map_or("", |(_, names)| names.trim_end_matches('.'));
        let expected =
            names.split(", ").filter(|name| !name.is_empty()).map(|name| default_of(name).to_bits()).collect();
        any |= !found.is_empty();
        assert_eq!(found, expected, "{title}: steps of colour, and the thresholds that its description names");
    }
    assert!(any);
    let counted = panels().into_iter().find(|panel| panel["title"] == "Nodes at 5 % overhead or more").unwrap();
    assert!(text(&counted["targets"][0], "expr").contains(&format!(">= {})", default_of("overhead_warn"))));
}

/// What is recorded, and computed anew by a panel for whatever range it shows.
const COMPUTED: [&str; 5] = [
    "node:lagstop_cpu_utilisation:ratio5m",
    "node:lagstop_runqueue_wait:p50_5m",
    "node:lagstop_runqueue_wait:p99_5m",
    "node:lagstop_runnable_per_cpu:avg5m",
    "node:lagstop_steal:ratio5m",
];

fn computed() {
    let spaceless = |text: &str| text.split_whitespace().collect::<String>();
    let rules =
        Regex::new(r"(?m)^ *#.*$").unwrap().replace_all(&read("deploy/prometheus/lagstop.rules.yml"), "").into_owned();
    let panels = panels();
    let shown = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let shown = shown.filter_map(|target| target["expr"].as_str());
    let shown: BTreeSet<String> = shown
        .map(|expr| spaceless(expr).replace("$__rate_interval", "5m").replace("{instance=~\"$instance\"}", ""))
        .collect();
    for name in COMPUTED {
        let rule = rules.split("- record: ").find_map(|rule| rule.trim_start().strip_prefix(name)).unwrap();
        let (_, expr) = rule.split_once("expr:").unwrap();
        let expr = spaceless(expr.trim_start().trim_start_matches('|'));
        assert!(shown.contains(&expr), "no panel computes {name} as {expr}");
    }
}

fn asked() {
    let series = Regex::new(r"\b(?:node|workload):[a-z0-9_]+:[a-z0-9_]+").unwrap();
    let recorded = Regex::new(r"(?m)^ +- record: (.+)$").unwrap();
    let rules = read("deploy/prometheus/lagstop.rules.yml");
    let recorded: BTreeSet<&str> = recorded.captures_iter(&rules).map(|found| found.get(1).unwrap().as_str()).collect();
    let (dashboard, alerts) = (read("deploy/grafana/lagstop.json"), read("deploy/prometheus/lagstop.alerts.yml"));
    let asked: BTreeSet<&str> =
        series.find_iter(&dashboard).chain(series.find_iter(&alerts)).map(|it| it.as_str()).collect();
    assert!(!asked.is_empty());
    assert_eq!(asked.difference(&recorded).collect::<Vec<_>>(), Vec::<&&str>::new());
}
