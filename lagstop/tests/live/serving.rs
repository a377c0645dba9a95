//! `lagstop serve`, scraped as Prometheus does.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use lagstop::recording::Reader;
use rustix::process::Signal;

use crate::{
    Test,
    command::lagstop,
    fixture::{TestCgroup, assert_equal_but_for_edges, assert_within, eventually, is_slow},
    kernel_files::ProcessFigures,
    recorder::Recorder,
};

pub(crate) const TESTS: &[Test] = &[
    ("what_is_served_agrees_with_the_kernel", agreement),
    ("a_sentinel_attaches_when_something_is_wrong_and_detaches_when_it_is_over", sentinel),
];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("serve_ends_on_sigterm_and_gives_its_port_back", ending),
    ("serve_misses_no_switch_when_it_times_some_intervals", sampled),
    ("serve_lets_nobody_in_whose_file_was_emptied", failing_closed),
];

/// A server, gone when the test ends.
pub(crate) struct Server {
    process: Recorder,
    address: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Self {
        let process = Recorder::run(Command::new(lagstop()).args(["serve", "--listen", address]).args(arguments));
        eventually("a server", || process.says("/metrics (Ctrl-C ends)"));
        let said = process.said();
        let address = said.split("serving http://").nth(1).unwrap().split("/metrics").next().unwrap().to_owned();
        let server = Self { process, address };
        eventually("the first interval", || server.get("/-/ready", "").starts_with("HTTP/1.1 200"));
        server
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn get(&self, path: &str, accept: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The status that is answered to a scrape with this user and password, or without any.
    fn status(&self, user: Option<&str>) -> String {
        let authorization = user.map(|user| format!("Authorization: Basic {}\r\n", BASE64.encode(user)));
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: lagstop\r\n{}\r\n", authorization.unwrap_or_default()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
    }

    fn scrape(&self) -> Scrape {
        let text = self.get("/metrics", "application/openmetrics-text;version=1.0.0");
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("# EOF\n"), "{text}");
        Scrape(text)
    }
}

struct Scrape(String);

impl Scrape {
    /// The value of a series whose labels hold all of these; 0 before there is one.
    fn value(&self, name: &str, labels: &[String]) -> f64 {
        let is_it = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|it| line.contains(it))
        };
        let mut found = self.0.lines().filter(is_it);
        let Some(line) = found.next() else { return 0.0 };
        assert_eq!(found.next(), None, "{line}");
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Programs that the process holds, attached or not.
fn programs(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let is_program = |text: &String| text.contains("\nprog_id:") && text.contains("\nprog_tag:");
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).filter(is_program).count()
}

fn sentinel() {
    let cgroup = TestCgroup::new("sentinel");
    let server = Server::start(&["--sentinel", "--linger", "6s", "--interval", "1s"]);
    let attached = || server.scrape().value("lagstop_sentinel_attached", &[]) == 1.0;
    // It looks for the first time after five seconds.
    assert!(!attached() && programs(server.process.pid()) == 0, "nothing is wrong yet");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("there.jsonl");
    let url = format!("http://{}", server.address());
    let mut follower = Recorder::start(&["--connect", &url, "--output", path.to_str().unwrap()]);
    eventually("that all is calm", || follower.says("all is calm"));
    assert!(server.get("/api/v1/moment", "").contains("lagstop-state: calm"));
    let mut loads: Vec<_> = (0..6).map(|_| cgroup.start("spin 40000")).collect();
    for load in &mut loads {
        load.line();
        load.go();
    }
    let began = Instant::now();
    while !attached() {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", server.scrape().0);
        thread::sleep(Duration::from_millis(200));
    }
    println!("attached after {:.1?}", began.elapsed());
    assert!(programs(server.process.pid()) > 0);
    let own = [format!("cgroup=\"{}\"", cgroup.path)];
    eventually("its load", || server.scrape().value("lagstop_cgroup_cpu_seconds_total", &own) > 0.5);
    drop(loads);
    let ended = Instant::now();
    while attached() {
        assert!(ended.elapsed() < Duration::from_secs(90), "this host does not rest: {}", server.scrape().0);
        thread::sleep(Duration::from_millis(500));
    }
    println!("detached after {:.1?}", ended.elapsed());
    assert_eq!(programs(server.process.pid()), 0);
    eventually("that it heard of both", || follower.count("all is calm") == 2);
    follower.signal(Signal::TERM);
    let (status, said) = follower.end();
    assert!(status.success() && !said.contains("lost") && said.contains("measures: something is wrong"), "{said}");
    let mut recording = Reader::open(&path).unwrap();
    let (gaps, start) = (recording.gaps().to_vec(), recording.start_of(0).unwrap());
    assert!(recording.len() > 5 && gaps.len() == 1, "{gaps:?}");
    assert!(gaps[0].reason.starts_with("calm") && gaps[0].end() == start, "{gaps:?}");
    let seconds = |state: &str| server.scrape().value("lagstop_sentinel_seconds_total", &[format!("\"{state}\"")]);
    assert!(seconds("measuring") > 5.0 && seconds("watching") > 4.0, "{}", server.scrape().0);
}

fn agreement() {
    let cgroup = TestCgroup::new("serve");
    let server = Server::start(&["--interval", "200ms"]);
    let mut load = cgroup.start("nap");
    load.line();
    // What it did to get there is in the next interval.
    thread::sleep(Duration::from_millis(700));
    let (before, began) = (server.scrape(), Instant::now());
    let (cpu, process) = (cgroup.cpu_ns(), ProcessFigures::read(load.pid()));
    load.go();
    assert_eq!(load.line(), "done");
    let (cpu, process) = (cgroup.cpu_ns() - cpu, ProcessFigures::read(load.pid()).since(process));
    thread::sleep(Duration::from_millis(700));
    let (after, took) = (server.scrape(), began.elapsed());
    let own = format!("cgroup=\"{}\"", cgroup.path);
    let grew = |name: &str, more: &[&str]| {
        let labels: Vec<String> = more.iter().map(|label| (*label).to_owned()).chain([own.clone()]).collect();
        after.value(name, &labels) - before.value(name, &labels)
    };
    let ns = |seconds: f64| (seconds * 1e9).round() as u64;
    assert_within("CPU time", ns(grew("lagstop_cgroup_cpu_seconds_total", &[])), cpu, 0.1);
    let switches = |kind: &str| grew("lagstop_cgroup_switches_total", &[&format!("kind=\"{kind}\"")]) as u64;
    assert_equal_but_for_edges("voluntary switches", switches("voluntary"), process.voluntary, 4);
    assert_equal_but_for_edges("involuntary switches", switches("involuntary"), process.involuntary, 4);
    let waits = grew("lagstop_cgroup_runqueue_wait_seconds_count", &[]) as u64;
    assert_equal_but_for_edges("waits", waits, process.waits, 4);
    let wait = ns(grew("lagstop_cgroup_runqueue_wait_seconds_sum", &[]));
    // A wait at either edge may be as long as all others of a load that is alone on its CPU.
    if process.run_delay_ns > 50_000_000 {
        assert_within("run-queue wait", wait, process.run_delay_ns, 2.0);
    }
    assert!(process.voluntary > 500 || is_slow(), "the load was to sleep: {process:?}");

    let host = |name: &str| after.value(name, &[]) - before.value(name, &[]);
    let capacity = ns(host("lagstop_host_busy_seconds_total") + host("lagstop_host_idle_seconds_total"));
    let cpus = after.value("lagstop_host_cpus_online", &[]);
    // An interval more or less.
    assert_within("time of the CPUs", capacity, ns(took.as_secs_f64() * cpus), 12.0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - after.value("lagstop_last_interval_timestamp_seconds", &[]);
    assert!((0.0..5.0).contains(&age), "{age}");
    assert!(after.value("lagstop_build_info", &[]) == 1.0 && after.0.contains("lagstop_hook_info{hook=\"switches\""));
    let kind = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    assert!(server.get("/metrics", kind).contains("content-type: application/vnd.google.protobuf"));
}

/// What times switches comes off its hooks and goes back, also when it is tried whether that is allowed.
fn sampled() {
    let server = Server::start(&["--interval", "100ms", "--cost-sampling", "3"]);
    let mut costs = Vec::new();
    eventually("three intervals that are timed", || {
        let scrape = server.scrape();
        for kind in ["entries", "exits"] {
            assert_eq!(scrape.value("lagstop_lost_total", &[format!("kind=\"{kind}\"")]), 0.0, "{}", scrape.0);
        }
        costs.push(scrape.value("lagstop_host_switch_cost_seconds_total", &["phase=\"pick\"".to_owned()]));
        costs.dedup();
        costs.len() > 9
    });
    drop(server);
    // The first interval is timed, so that there is something to go by at once.
    let server = Server::start(&["--interval", "200ms", "--cost-sampling", "1000"]);
    let costs = || server.scrape().value("lagstop_host_switch_cost_seconds_total", &["phase=\"pick\"".to_owned()]);
    eventually("costs of the first interval", || costs() > 0.0);
}

fn ending() {
    let mut server = Server::start(&["--interval", "200ms", "--top", "0"]);
    let scrape = server.scrape();
    assert!(scrape.value("lagstop_cgroup_cpu_seconds_total", &["cgroup=\"other\"".to_owned()]) > 0.0);
    assert!(scrape.value("lagstop_cgroups_exported", &[]) == 0.0);
    // A client in the middle of a request does not hold it up.
    let mut stuck = TcpStream::connect(&server.address).unwrap();
    stuck.write_all(b"GET /metr").unwrap();
    server.process.signal(Signal::TERM);
    let (status, said) = server.process.end();
    assert!(status.success(), "{status}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(std::net::TcpListener::bind(&server.address).is_ok());
}

/// Whoever rewrites a file empties it first, and may not get any further.
fn failing_closed() {
    // Only root may enter the directory, and serve is nobody by the time that it reads the file again.
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("web.yml");
    let whole = format!("basic_auth_users:\n  prometheus: {}\n", bcrypt::hash("secret", 4).unwrap());
    fs::write(&file, &whole).unwrap();
    let server = Server::start(&["--interval", "200ms", "--web-config", file.to_str().unwrap()]);
    let is_closed = || {
        assert_eq!(server.status(None), "401", "{}", server.process.said());
        assert_eq!(server.status(Some("prometheus:secret")), "200", "{}", server.process.said());
    };
    is_closed();
    for broken in ["", "# nothing\n", "basic_auth_users:\n"] {
        let said = server.process.count("The previous configuration stays in force");
        fs::write(&file, broken).unwrap();
        // A connection has it looked at, once a second.
        eventually("a complaint", || {
            is_closed();
            server.process.count("The previous configuration stays in force") > said
        });
        is_closed();
    }
    // Whole again, and with one user more.
    fs::write(&file, format!("{whole}  second: {}\n", bcrypt::hash("other", 4).unwrap())).unwrap();
    eventually("the new file", || {
        is_closed();
        server.process.says("was reloaded")
    });
    assert_eq!(server.status(Some("second:other")), "200");
}
