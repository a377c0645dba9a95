//! A real Prometheus over a small fleet, of which everything is known.

use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{done, fleet, refused};

pub(super) const TESTS: [(&str, fn()); 3] = [
    ("prometheus_recorded_series_give_the_figures_that_went_in", recorded_series_give_the_figures_that_went_in),
    ("prometheus_raw_series_give_about_the_same", raw_series_give_about_the_same),
    ("prometheus_refuses_what_is_no_promql", prometheus_refuses_what_is_no_promql),
];

/// The program that is missing, if any.
pub(super) fn missing() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["promtool", "prometheus"].into_iter().find(|name| !is_there(name))
}

/// The last moment, on an hour: 2023-11-14T22:00:00Z.
const END: u64 = 1_699_999_200;
const HOURS: u64 = 8;
const EVERY: u64 = 60;
const NODES: u32 = 24;
const CPUS: f64 = 4.0;
/// This node restarts half an hour after the middle.
const RESTARTS: u32 = 5;
/// This node is there only for the first six hours.
const LEAVES: u32 = 7;

/// What is true of a node.
#[derive(Clone, Copy, Debug)]
struct Truth {
    density: f64,
    overhead: f64,
    utilisation: f64,
    /// Of a hundred waits 98.5 end in the bucket up to a millisecond, the others between this and three times this.
    long: f64,
}

impl Truth {
    fn of(node: u32) -> Self {
        let density = 2.0 + 0.5 * f64::from(node);
        let overhead = 0.01 + 0.003 * density + 0.015 * (density - 9.0_f64).max(0.0);
        Self {
            density,
            overhead,
            utilisation: 0.03 * density + overhead,
            long: if density < 9.0 { 0.001 } else { 0.01 },
        }
    }

    /// Within the bucket that it is in.
    fn wait_p99(self) -> f64 {
        self.long + 2.0 * self.long * 0.005 / 0.015
    }
}

/// Its samples as OpenMetrics: those that the rules write where they are wanted, and the exporter's own.
fn metrics(with_rules: bool) -> String {
    let mut text = String::new();
    let begin = END - HOURS * 3_600;
    for time in (begin..=END).step_by(EVERY as usize) {
        let mut add = |series: &str, value: f64| {
            let _ = writeln!(text, "{series} {value} {time}");
        };
        for node in 0..NODES {
            if node == LEAVES && time >= END - 2 * 3_600 {
                continue;
            }
            let truth = Truth::of(node);
            let restart = begin + HOURS * 1_800 + 1_800;
            let since = if node == RESTARTS && time >= restart { time - restart } else { time - begin + 1_000 };
            let since = since as f64;
            let at = format!("instance=\"node-{node}\"");
            if with_rules {
                for (name, value) in [
                    ("cpus_online:avg5m", CPUS),
                    ("cgroups_active:avg5m", CPUS * truth.density),
                    ("overhead:ratio5m", truth.overhead),
                    ("cores_lost:rate5m", CPUS * truth.overhead),
                    ("cpu_utilisation:ratio5m", truth.utilisation),
                    ("runqueue_wait:p99_5m", truth.wait_p99()),
                    ("steal:ratio5m", 0.0),
                    ("light_wait:ratio5m", 0.5),
                ] {
                    add(&format!("node:lagstop_{name}{{{at}}}"), value);
                }
            }
            add(&format!("lagstop_host_cpus_online{{{at}}}"), CPUS);
            add(&format!("lagstop_host_cgroups_active{{{at}}}"), CPUS * truth.density);
            let busy = CPUS * truth.utilisation;
            add(&format!("lagstop_host_busy_seconds_total{{{at}}}"), busy * since);
            add(&format!("lagstop_host_idle_seconds_total{{{at}}}"), (CPUS - busy) * since);
            for (phase, part) in [("pick", 0.7), ("swap", 0.3)] {
                let cost = part * CPUS * truth.overhead * since;
                add(&format!("lagstop_host_switch_cost_seconds_total{{{at},phase=\"{phase}\"}}"), cost);
            }
            let seen = [("0.001", 0.985), ("0.003", 0.985), ("0.01", 0.985), ("0.03", 0.985), ("+Inf", 0.985)];
            for (bound, share) in seen {
                let is_long = bound.parse().is_ok_and(|bound: f64| bound > truth.long) || bound == "+Inf";
                let share: f64 = if is_long { 1.0 } else { share };
                add(
                    &format!("lagstop_host_runqueue_wait_seconds_bucket{{{at},le=\"{bound}\"}}"),
                    1_000.0 * share * since,
                );
            }
            add(&format!("lagstop_intervals_total{{{at}}}"), since);
            for pod in ["web-7d9c5b7f4d-x2x9p", "db-0"] {
                let pod = format!("{at},cgroup=\"/{pod}\",namespace=\"shop\",pod=\"{pod}\",container=\"app\"");
                let cost = if pod.contains("web") { 0.02 } else { 0.01 };
                for (phase, part) in [("pick", 0.7), ("swap", 0.3)] {
                    let name = format!("lagstop_cgroup_switch_cost_seconds_total{{{pod},phase=\"{phase}\"}}");
                    add(&name, part * cost * since);
                }
                add(&format!("lagstop_cgroup_cpu_seconds_total{{{pod}}}"), 0.1 * since);
                add(&format!("lagstop_cgroup_runqueue_wait_seconds_sum{{{pod}}}"), 0.3 * since);
                if pod.contains("db") {
                    let by = "by=\"/web\",by_namespace=\"shop\",by_pod=\"web-7d9c5b7f4d-x2x9p\"";
                    add(&format!("lagstop_cgroup_wait_caused_seconds_total{{{pod},{by}}}"), 0.2 * since);
                    let rest = "by=\"(other)\",by_namespace=\"\",by_pod=\"\"";
                    add(&format!("lagstop_cgroup_wait_caused_seconds_total{{{pod},{rest}}}"), 0.1 * since);
                }
            }
        }
        if with_rules {
            let nodes = f64::from(NODES);
            for (workload, cost) in [("web", 0.02), ("db", 0.01)] {
                let workload = format!("namespace=\"shop\",workload=\"{workload}\"");
                add(&format!("workload:lagstop_switch_cost:cores5m{{{workload}}}"), cost * nodes);
                add(&format!("workload:lagstop_cpu:cores5m{{{workload}}}"), 0.1 * nodes);
                add(&format!("workload:lagstop_runqueue_wait:ratio5m{{{workload}}}"), 3.0);
            }
            add("workload:lagstop_wait_caused:cores5m{namespace=\"shop\",workload=\"web\"}", 0.2 * nodes);
        }
    }
    text + "# EOF\n"
}

/// A server over what was backfilled.
struct Prometheus {
    child: Child,
    url: String,
    _home: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(metrics: &str) -> Self {
        let home = tempfile::Builder::new().prefix("lagstop-fleet-").tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("metrics"), metrics).unwrap();
        fs::write(at("prometheus.yml"), "").unwrap();
        let backfill = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "--quiet", "openmetrics"])
            .args([at("metrics"), at("data")])
            .output()
            .unwrap();
        assert!(backfill.status.success(), "{}", String::from_utf8_lossy(&backfill.stderr));
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", at("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", at("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--storage.tsdb.retention.time=100y", "--log.level=error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, url: format!("http://{address}"), _home: home };
        let begun = Instant::now();
        while !is_ready(&address) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not get ready");
            thread::sleep(Duration::from_millis(100));
        }
        server
    }

    fn report(&self, more: &[&str]) -> Value {
        let arguments = ["--at", "2023-11-14T22:00:00Z", "--window", "8h", "--step", "1h", "--format", "json"];
        serde_json::from_str(&done(&fleet(&self.url, &[&arguments[..], more].concat()))).unwrap()
    }
}

fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.split(' ').nth(1) == Some("200")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[track_caller]
fn is_about(value: &Value, truth: f64, part: f64) {
    let value = number(value);
    assert!((value - truth).abs() <= part * truth.abs(), "{value} is not {truth}");
}

/// Holds every node's figures against what is true of it.
fn is_true(report: &Value, part: f64) {
    assert_eq!(report["refused"], Value::Array(Vec::new()));
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), NODES as usize);
    let mut lost = 0.0;
    for node in nodes {
        let name = node["node"].as_str().unwrap();
        let number: u32 = name.strip_prefix("node-").unwrap().parse().unwrap();
        let truth = Truth::of(number);
        // In the hour in which counters restart, what came before the first sample is missing.
        let part = if number == RESTARTS { part.max(0.03) } else { part };
        is_about(&node["cpus"], CPUS, 1e-6);
        is_about(&node["density"], truth.density, 1e-6);
        is_about(&node["overhead"], truth.overhead, part);
        is_about(&node["cores_lost"], CPUS * truth.overhead, part);
        is_about(&node["utilisation"], truth.utilisation, part);
        is_about(&node["effective"], truth.utilisation - truth.overhead, part);
        is_about(&node["wait_p99"], truth.wait_p99(), part);
        let there = if number == LEAVES { 0.75 } else { 1.0 };
        lost += there * CPUS * truth.overhead;
        is_about(&node["coverage"], there, 0.01);
    }
    is_about(&report["totals"]["cores_lost"], lost, part);
    assert_eq!(report["gaps"]["thin"].as_array().unwrap().len(), 1);
    assert_eq!(report["gaps"]["thin"][0]["node"], format!("node-{LEAVES}"));
    assert_eq!(
        (&report["gaps"]["restarts"], &report["gaps"]["restarted"][0]),
        (&1.into(), &format!("node-{RESTARTS}").into())
    );
    let knee = &report["density"]["overhead_knee"];
    assert!((number(&knee["density"]) - 9.0).abs() < 0.8, "{knee}");
    assert!(number(&knee["low"]) <= 9.3 && 8.7 <= number(&knee["high"]), "{knee}");
}

fn workloads(report: &Value, part: f64) {
    let nodes = f64::from(NODES);
    let all = report["workloads"].as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|it| it["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["web", "db"]);
    for (workload, cost) in all.iter().zip([0.02, 0.01]) {
        is_about(&workload["switch_cost"], cost * nodes, part);
        is_about(&workload["cpu"], 0.1 * nodes, part);
        is_about(&workload["cost_of_cpu"], cost / 0.1, part);
        is_about(&workload["wait_per_cpu"], 3.0, part);
        assert_eq!(workload["namespace"], "shop");
    }
    is_about(&all[0]["wait_caused"], 0.2 * nodes, part);
    assert_eq!((&all[0]["wait_caused_share"], &all[1]["wait_caused"]), (&1.0.into(), &Value::Null));
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.contains(" shop/web makes its neighbours wait "), "{verdict}");
}

fn recorded_series_give_the_figures_that_went_in() {
    let server = Prometheus::start(&metrics(true));
    let report = server.report(&[]);
    assert!(
        report["sources"].as_array().unwrap().iter().any(|it| it["figure"] == "overhead" && it["source"] == "recorded")
    );
    assert_eq!(report["workload_source"], "recorded");
    is_true(&report, 1e-6);
    workloads(&report, 1e-6);
    is_about(&report["nodes"][0]["light_wait"], 0.5, 1e-6);
    let raw = server.report(&["--raw"]);
    assert!(raw["sources"].as_array().unwrap().iter().all(|it| it["source"] == "raw"), "{}", raw["sources"]);
    let html = done(&fleet(&server.url, &["--at", "2023-11-14T22:00:00Z", "--window", "8h", "--format", "html"]));
    assert_eq!(html.matches("<svg").count(), 5);
}

fn raw_series_give_about_the_same() {
    let server = Prometheus::start(&metrics(false));
    let report = server.report(&[]);
    assert!(report["sources"].as_array().unwrap().iter().all(|it| it["source"] == "raw"));
    assert_eq!((&report["workload_source"], &report["nodes"][0]["light_wait"]), (&"raw".into(), &Value::Null));
    is_true(&report, 0.005);
    // One of the nodes is missing for a quarter of the time.
    workloads(&report, 0.02);
    let some =
        done(&fleet(&server.url, &["--at", "2023-11-14T22:00:00Z", "--window", "8h", "--match", "instance=~node-1.*"]));
    assert!(some.starts_with("11 nodes lose "), "{some}");
}

fn prometheus_refuses_what_is_no_promql() {
    let server = Prometheus::start(&metrics(true));
    let said =
        refused(&fleet(&server.url, &["--at", "2023-11-14T22:00:00Z", "--window", "8h", "--match", "instance=~("]));
    assert!(said.contains("HTTP 400, bad_data") && said.contains("instance=~"), "{said}");
    let said = refused(&fleet(&server.url, &["--at", "2020-01-01T00:00:00Z", "--window", "8h"]));
    assert!(said.contains("no series of lagstop"), "{said}");
}
