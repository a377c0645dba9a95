//! `lagstop serve`, scraped by a real Prometheus: every query of the dashboard and every rule in docs/ has an answer.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
};

pub(crate) const TESTS: &[Test] = &[("every_query_of_the_dashboard_and_every_rule_has_an_answer", every_query)];

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deploy");
/// What the variables of the dashboard are set to.
const VARIABLES: [(&str, &str); 5] =
    [("$__rate_interval", "1m"), ("$instance", ".*"), ("$namespace", ".*"), ("$cgroup", ".*"), ("$top", "10")];
/// How long it may take until everything has happened twice, and is recorded.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program of a test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// What a server on this host answers: the body. In HTTP/1.0, which has no chunks.
fn request(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

fn get(port: u16, path: &str) -> Option<String> {
    request(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A Prometheus with docs' configuration and rules, that looks every second.
struct Prometheus {
    port: u16,
    is_native: bool,
    _home: TempDir,
    _program: Program,
}

impl Prometheus {
    fn start(target: u16, is_native: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let config = fs::read_to_string(format!("{DOCS}/prometheus/prometheus.yml")).unwrap();
        let config = config
            .replace("scrape_interval: 15s", "scrape_interval: 1s")
            .replace("evaluation_interval: 30s", "evaluation_interval: 1s")
            .replace("          - node-2.example.org:9185\n", "")
            .replace("node-1.example.org:9185", &format!("127.0.0.1:{target}"));
        let changed =
            ["scrape_interval: 1s", "evaluation_interval: 1s", "127.0.0.1:"].map(|text| config.contains(text));
        assert_eq!(changed, [true; 3], "prometheus.yml has other intervals or targets than is known here");
        fs::write(at("prometheus.yml"), config).unwrap();
        for rules in ["lagstop.rules.yml", "lagstop.alerts.yml"] {
            fs::copy(format!("{DOCS}/prometheus/{rules}"), at(rules)).unwrap();
        }
        let port = free_port();
        let log = fs::File::create(at("log")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", at("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", at("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--log.level=warn"])
            .args(is_native.then_some("--enable-feature=native-histograms"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let program = Program(child.expect("prometheus is needed: apt-get install --no-install-recommends prometheus"));
        let prometheus = Self { port, is_native, _home: home, _program: program };
        eventually("a Prometheus that answers", || prometheus.ask("vector(1)").is_ok());
        prometheus
    }

    /// All answers to a query.
    fn ask(&self, query: &str) -> Result<Vec<Value>, String> {
        let body = format!("query={}", encoded(query));
        let head = "POST /api/v1/query HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded";
        let answer = request(self.port, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let answer: Value =
            serde_json::from_str(&answer.ok_or("no answer")?).map_err(|error| format!("no JSON: {error}"))?;
        match answer["data"]["result"].as_array() {
            Some(results) => Ok(results.clone()),
            None => Err(answer.to_string()),
        }
    }

    /// Why `query` has no answer that is a figure.
    fn why_silent(&self, query: &str) -> Option<String> {
        let is_figure = |result: &Value| {
            result["histogram"].is_array() || result["value"][1].as_str().is_some_and(|value| value != "NaN")
        };
        match self.ask(query) {
            Ok(results) if results.iter().any(is_figure) => None,
            Ok(results) if results.is_empty() => Some("no series".to_owned()),
            Ok(results) => Some(format!("no figure in {} series", results.len())),
            Err(error) => Some(error),
        }
    }

    /// The one figure that a query has for an answer.
    fn figure(&self, query: &str) -> f64 {
        self.ask(query).unwrap()[0]["value"][1].as_str().unwrap().parse().unwrap()
    }

    /// Why variables of the dashboard have no values, by name.
    fn empty_variables(&self, dashboard: &Value) -> Vec<String> {
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let queries = variables.iter().filter(|variable| variable["type"] == "query");
        let is_empty = |query: &String| {
            let (series, label) =
                query.trim_start_matches("label_values(").trim_end_matches(')').rsplit_once(", ").unwrap();
            let path = format!("/api/v1/label/{label}/values?match[]={}", encoded(&filled(series)));
            let answer = get(self.port, &path).and_then(|answer| serde_json::from_str::<Value>(&answer).ok());
            answer.is_none_or(|answer| answer["data"].as_array().is_none_or(Vec::is_empty))
        };
        queries.map(|variable| variable["query"]["query"].as_str().unwrap().to_owned()).filter(is_empty).collect()
    }

    /// Rules that could not be evaluated.
    fn broken_rules(&self) -> Vec<String> {
        let answer: Value = serde_json::from_str(&get(self.port, "/api/v1/rules").unwrap()).unwrap();
        let groups = answer["data"]["groups"].as_array().unwrap();
        assert!(!groups.is_empty());
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
        rules.filter(|rule| rule["health"] != "ok").map(ToString::to_string).collect()
    }
}

/// A query with the variables of the dashboard filled in.
fn filled(query: &str) -> String {
    VARIABLES.iter().fold(query.to_owned(), |query, (variable, value)| query.replace(variable, value))
}

/// Every query of the dashboard, with the panel it is in.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let targets = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let expr = |target: Value| filled(target["expr"].as_str().unwrap());
        targets.into_iter().map(move |target| (title.clone(), expr(target))).collect::<Vec<_>>()
    };
    dashboard["panels"].as_array().unwrap().iter().flat_map(targets).collect()
}

/// All series that lagstop.rules.yml records, each as a query.
fn recorded() -> Vec<(String, String)> {
    let rules = fs::read_to_string(format!("{DOCS}/prometheus/lagstop.rules.yml")).unwrap();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    names.map(|name| ("recorded".to_owned(), name.to_owned())).collect()
}

/// Links as the kubelet makes them, for a pod that there is not: in this process' mounts, and gone when the test ends.
struct KubeletLinks;

impl KubeletLinks {
    const LOGS: &str = "/var/log";
    const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "11111111-2222-3333-4444-555555555555";

    fn make() -> Self {
        mount("lagstop-test", Self::LOGS, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
        let links = Self;
        let containers = Path::new(Self::LOGS).join("containers");
        fs::create_dir(&containers).unwrap();
        let pod = "cart-6d4cf56db6-xk2vz";
        let target = format!("/var/log/pods/shop_{pod}_{}/cart/0.log", Self::POD);
        std::os::unix::fs::symlink(target, containers.join(format!("{pod}_shop_cart-{}.log", Self::CONTAINER)))
            .unwrap();
        links
    }
}

impl Drop for KubeletLinks {
    fn drop(&mut self) {
        let _ = unmount(Self::LOGS, UnmountFlags::DETACH);
    }
}

/// Cgroups of every kind that the dashboard shows, busy until they are killed: a pod, one that waits behind it on the same CPU, a throttled
/// one, a pool, a server with its clients, and one that listens and accepts nothing.
struct Crowd {
    _loads: Vec<Load>,
    overflow: Load,
    /// From the inside out, as they have to go.
    cgroups: Vec<TestCgroup>,
}

impl Crowd {
    /// The place of the one that is throttled.
    const THROTTLED: usize = 5;

    /// The periods of the one that is throttled, and those in which it was, as the kernel counts them.
    fn throttling(&self) -> [f64; 2] {
        let (periods, throttled, _) = self.cgroups[Self::THROTTLED].throttling();
        [periods as f64, throttled as f64]
    }

    fn start() -> Self {
        let parent = TestCgroup::new("crowd");
        // The one that kind gives a kubelet: containers in it get the names that links tell.
        let kubelet = TestCgroup::top("/kubelet");
        let kubepods = kubelet.child("kubepods");
        let pod = kubepods.child(&format!("pod{}", KubeletLinks::POD));
        let container = pod.child(KubeletLinks::CONTAINER);
        let [victim, throttled, pool, server, clients] =
            ["victim", "throttled", "pool", "server", "clients"].map(|name| parent.child(name));
        throttled.limit_to_half_a_cpu();
        // Without this it would not get half a CPU, among so many.
        throttled.triple_its_weight();
        let port = free_port();
        let mut loads = vec![
            container.start("nap 3600000"),
            container.start("crowd 0 1 3600000"),
            victim.start("crowd 0 1 3600000"),
            throttled.start("spin 3600000"),
            pool.start("threads 4 3600000"),
            server.start(&format!("serve-busily {port} 5 3600000")),
            clients.start(&format!("connect {port} 3600000")),
            server.start("overflow 40"),
        ];
        loads.iter_mut().for_each(|load| drop(load.line()));
        loads.iter_mut().for_each(Load::go);
        let mut overflow = loads.pop().unwrap();
        // It listens.
        overflow.line();
        Self {
            _loads: loads,
            overflow,
            cgroups: vec![container, pod, kubepods, kubelet, victim, throttled, pool, server, clients, parent],
        }
    }
}

fn every_query() {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(format!("{DOCS}/grafana/lagstop.json")).unwrap()).unwrap();
    let (_links, mut crowd) = (KubeletLinks::make(), Crowd::start());
    let port = free_port();
    let mut serve = Command::new(lagstop());
    serve.args(["serve", "--interval", "500ms", "--listen", &format!("127.0.0.1:{port}")]).stdin(Stdio::null());
    let _serve = Program(serve.spawn().unwrap());
    eventually("metrics", || get(port, "/metrics").is_some_and(|metrics| metrics.contains("lagstop_build_info")));

    let at_start = crowd.throttling();
    crowd.overflow.go();
    let servers = [false, true].map(|is_native| Prometheus::start(port, is_native));
    let mut asked = queries(&dashboard);
    asked.extend(recorded());
    if !Path::new("/proc/pressure/cpu").exists() {
        println!("this kernel tells nothing of pressure");
        asked.retain(|(_, query)| !query.contains("pressure"));
    }
    if get(port, "/metrics").is_some_and(|metrics| metrics.contains(r#"hook="blame",state="off""#)) {
        println!("this kernel does not tell what waits are caused by");
        asked.retain(|(_, query)| !["_wait_caused", "_cgroup_wait_seconds"].iter().any(|part| query.contains(part)));
    }
    assert!(asked.len() > 100, "{} queries", asked.len());
    for prometheus in &servers {
        // A query that has had an answer once is not asked again.
        let (started, mut left) = (Instant::now(), asked.clone());
        let silent = loop {
            let why = |(panel, query): &(String, String)| {
                Some(format!("{panel}: {}: {query}", prometheus.why_silent(query)?))
            };
            let silent: Vec<String> = left.iter().filter_map(why).collect();
            left.retain(|(_, query)| silent.iter().any(|line| line.ends_with(query.as_str())));
            if silent.is_empty() || started.elapsed() > PATIENCE {
                break silent;
            }
            thread::sleep(Duration::from_secs(2));
        };
        let kind = if prometheus.is_native { "native" } else { "classic" };
        assert!(
            silent.is_empty(),
            "with {kind} histograms {} of {} are silent:\n{}",
            silent.len(),
            asked.len(),
            silent.join("\n")
        );
        assert_eq!(prometheus.empty_variables(&dashboard), Vec::<String>::new(), "variables without values");
        assert_eq!(prometheus.broken_rules(), Vec::<String>::new());
        is_of_its_kind(prometheus);
        let [at_start, now] = [at_start, crowd.throttling()];
        is_true(prometheus, [now[0] - at_start[0], now[1] - at_start[1]]);
        count(prometheus, kind);
    }
}

/// Distributions came as they were asked for, so that the queries have been tried with both.
fn is_of_its_kind(prometheus: &Prometheus) {
    let [native, classic] =
        ["histogram_count(lagstop_host_runqueue_wait_seconds)", "lagstop_host_runqueue_wait_seconds_bucket"]
            .map(|query| !prometheus.ask(query).unwrap().is_empty());
    assert_eq!((native, classic), (prometheus.is_native, !prometheus.is_native));
}

/// What is known of the load is in the figures: of the one that is throttled, its periods and those in which it was, as the kernel has
/// counted them since `serve` answers.
fn is_true(prometheus: &Prometheus, by_kernel: [f64; 2]) {
    let workloads: BTreeSet<String> = prometheus
        .ask("workload:lagstop_cpu:cores5m")
        .unwrap()
        .iter()
        .map(|result| {
            format!(
                "{}/{}",
                result["metric"]["namespace"].as_str().unwrap(),
                result["metric"]["workload"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(workloads, BTreeSet::from(["shop/cart".to_owned()]));
    // Half a CPU, and always asked for more: it is throttled where the others leave it so much. Counted from the first reading on, until
    // an interval and a scrape ago: three seconds of 50 periods leave room for both.
    let counted = ["periods", "throttled_periods"]
        .map(|name| prometheus.figure(&format!(r#"sum(lagstop_cgroup_{name}_total{{cgroup=~".*/throttled"}})"#)));
    println!("periods, throttled: counted {counted:?}, the kernel says {by_kernel:?}");
    assert!(by_kernel[1] > 100.0, "it was to be throttled: {by_kernel:?}");
    for (counted, by_kernel) in counted.into_iter().zip(by_kernel) {
        assert!((counted - by_kernel).abs() < 150.0, "{counted}, the kernel says {by_kernel}");
    }
    // One waits behind the pod, on the same CPU and for as long as the pod runs.
    if !prometheus.ask("lagstop_cgroup_wait_caused_seconds_total").unwrap().is_empty() {
        let behind = prometheus.figure(
            r#"sum(rate(lagstop_cgroup_wait_caused_seconds_total{cgroup=~".*/victim", by_pod=~"cart-.*"}[1m]))"#,
        );
        assert!((0.01..=1.0).contains(&behind), "{behind}");
    }
    let cpus = thread::available_parallelism().unwrap().get() as f64;
    assert!((prometheus.figure("sum(node:lagstop_cpus_online:avg5m)") - cpus).abs() < 0.5);
    for share in ["overhead:ratio5m", "cpu_utilisation:ratio5m", "effective_utilisation:ratio5m", "steal:ratio5m"] {
        let share_of = prometheus.figure(&format!("sum(node:lagstop_{share})"));
        assert!((0.0..=1.0).contains(&share_of), "{share}: {share_of}");
    }
}

/// Prints what docs/deploy/prometheus/README.md says of how many series there are.
fn count(prometheus: &Prometheus, kind: &str) {
    let count = |matcher: &str| prometheus.figure(&format!("count({{__name__=~\"{matcher}\"}})"));
    println!(
        "{kind}: {} series: {} of {} cgroups, {} of {} listeners; recorded: {} of the node, {} of workloads",
        count("lagstop_.+"),
        count("lagstop_cgroup_.+"),
        count("lagstop_cgroup_cpu_seconds_total"),
        count("lagstop_listener_.+"),
        count("lagstop_listener_backlog"),
        count("node:.+"),
        count("workload:.+"),
    );
}
