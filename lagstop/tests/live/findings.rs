//! What `lagstop diagnose` finds on a host with something wrong: that, and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    process::Command,
};

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup},
};

pub(crate) const TESTS: &[Test] = &[
    ("diagnose_finds_nothing_wrong_on_an_idle_host", idle),
    ("diagnose_finds_a_pool_that_is_too_large", hot_pool),
    ("diagnose_finds_a_cgroup_that_is_throttled", throttled),
    ("diagnose_finds_a_pool_that_runs_into_its_quota", limited_pool),
    ("diagnose_finds_that_there_are_too_few_cpus", overloaded),
    ("diagnose_finds_cgroups_on_one_cpu_beside_idle_ones", pinned),
    ("diagnose_finds_a_pool_that_migrates", migrating),
    ("diagnose_finds_a_listener_whose_server_is_busy", busy_server),
    ("diagnose_finds_a_listener_whose_server_waits_for_a_cpu", starved_server),
    ("diagnose_finds_light_cgroups_behind_heavy_ones", skewed),
];

/// Time that loads work: longer than lagstop takes to start beside them, and to measure. They end with their test.
const MS: u32 = 60_000;

/// Causes by rule and cgroup (or "host"), with what they say.
type Verdicts = BTreeMap<(String, String), String>;

/// What is wrong while `loads` work is this, by rule and cgroup (or "host"), and nothing else. What is said of it.
fn assert_problems<'a>(loads: &mut [Load], expected: impl IntoIterator<Item = (&'a str, &'a str)>) -> Verdicts {
    let found = verdicts(loads);
    let names: BTreeSet<(&str, &str)> = found.keys().map(|(rule, whom)| (&**rule, &**whom)).collect();
    assert_eq!(names, expected.into_iter().collect(), "{found:#?}");
    found
}

/// The causes of what is wrong while `loads` work.
fn verdicts(loads: &mut [Load]) -> Verdicts {
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    let report = diagnose(&[
        ["--duration", "6s"],
        ["--interval", "400ms"],
        // In so short a time those that run now and then wait only now and then.
        ["--threshold", "min_waits=20"],
        // What a hypervisor takes is nothing that a test can help.
        ["--threshold", "steal_warn=1"],
        ["--threshold", "steal_critical=1"],
    ]);
    let findings = report["findings"].as_array().unwrap();
    findings.iter().for_each(|finding| println!("{} {}: {}", finding["severity"], finding["rule"], finding["verdict"]));
    let verdict = &report["verdict"];
    println!("{}", verdict["headline"]);
    let causes = verdict["causes"].as_array().unwrap().iter().map(|cause| {
        println!("cause: {cause}");
        let path = cause["subject"]["path"].as_str().unwrap_or("host");
        ((cause["rule"].as_str().unwrap().to_owned(), path.to_owned()), cause["says"].as_str().unwrap().to_owned())
    });
    causes.collect()
}

fn diagnose(options: &[[&str; 2]]) -> serde_json::Value {
    let options = options.as_flattened();
    let output = Command::new(lagstop()).args(["diagnose", "--format", "json"]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn idle() {
    assert_problems(&mut [], []);
}

fn hot_pool() {
    let pool = TestCgroup::new("pool");
    let mut loads = [pool.start(&format!("threads 8 {MS}"))];
    assert_problems(&mut loads, [("overcommitted_threads", &*pool.path)]);
}

fn throttled() {
    let cgroup = TestCgroup::new("throttled");
    cgroup.limit_to_half_a_cpu();
    let mut loads = [cgroup.start(&format!("spin {MS}"))];
    assert_problems(&mut loads, [("throttled", &*cgroup.path)]);
}

fn limited_pool() {
    let pool = TestCgroup::new("limited");
    pool.limit_to_half_a_cpu();
    let mut loads = [pool.start(&format!("threads 4 {MS}"))];
    // That it has more threads than it may use follows from it.
    assert_problems(&mut loads, [("throttled", &*pool.path)]);
}

/// Many that ask for the same: nobody is to blame.
fn overloaded() {
    let all: Vec<TestCgroup> = (0..12).map(|n| TestCgroup::new(&format!("equal{n}"))).collect();
    let mut loads: Vec<Load> = all.iter().map(|cgroup| cgroup.start(&format!("threads 2 {MS}"))).collect();
    assert_problems(&mut loads, [("overload", "host")]);
}

/// All on one CPU.
fn pinned() {
    let (parser, writer) = (TestCgroup::new("parser"), TestCgroup::new("writer"));
    let mut loads = [parser.start(&format!("crowd 0 2 {MS}")), writer.start(&format!("crowd 0 1 {MS}"))];
    let found = verdicts(&mut loads);
    let is_one = |(rule, path): &(String, String)| rule == "pinned" && [&parser.path, &writer.path].contains(&path);
    assert!(found.len() == 1 && found.keys().all(is_one), "{found:?}");
    assert!(found.values().all(|says| says.contains("CPU 0, which is full")), "{found:?}");
}

fn migrating() {
    let pool = TestCgroup::new("wanderer");
    let mut loads = [pool.start(&format!("wander {MS}"))];
    assert_problems(&mut loads, [("migrations", &*pool.path)]);
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn busy_server() {
    let (server, client, port) = (TestCgroup::new("server"), TestCgroup::new("client"), free_port());
    let mut loads =
        [server.start(&format!("serve-busily {port} 20 {MS}")), client.start(&format!("connect {port} {MS}"))];
    let found = assert_problems(&mut loads, [("backlog", &*server.path)]);
    assert!(found.values().all(|verdict| verdict.ends_with("busy with other work.")), "{found:?}");
}

fn starved_server() {
    let (server, client, port) = (TestCgroup::new("starved"), TestCgroup::new("client"), free_port());
    let crowd = TestCgroup::new("crowd");
    server.make_it_light();
    let mut loads = [
        server.start(&format!("serve-hard {port} 300 {MS}")),
        client.start(&format!("connect {port} {MS}")),
        crowd.start(&format!("threads 2 {MS}")),
    ];
    // It is a light cgroup behind a heavy one, too, which may take more than its share.
    let found = verdicts(&mut loads);
    // Its client may wait behind the same one.
    let because = format!("because {} waits for a CPU.", server.path);
    let is_it = |says: &String| says.contains("Connections to ") && says.contains(&because);
    assert!(found.values().any(is_it), "{found:?}");
    let expected = ["backlog", "lags_candidates", "noisy_neighbour"];
    assert!(found.keys().all(|(rule, _)| expected.contains(&&**rule)), "{found:?}");
}

fn skewed() {
    let heavy: Vec<TestCgroup> = (0..2).map(|n| TestCgroup::new(&format!("heavy{n}"))).collect();
    // They use a third of the CPU time together. With 198 it is more than half, there is little to gain, and the verdict may be overload.
    let light: Vec<TestCgroup> = (0..100).map(|n| TestCgroup::new(&format!("light{n}"))).collect();
    let mut loads: Vec<Load> = heavy.iter().map(|cgroup| cgroup.start(&format!("threads 6 {MS}"))).collect();
    loads.extend(light.iter().map(|cgroup| cgroup.start(&format!("sparse {MS}"))));
    let mut found = verdicts(&mut loads);
    // One of so many, with some dozens of waits, may happen to wait long for a second or two: behind one of the heavy ones, the tests
    // themselves, or what else is in the root cgroup.
    let behind = heavy.iter().map(|cgroup| &*cgroup.path).chain(["/"]).map(|path| format!(" behind {path} ("));
    let behind: Vec<String> = behind.collect();
    let is_chance = |rule: &str, whom: &str, says: &str| {
        rule == "noisy_neighbour"
            && light.iter().any(|cgroup| cgroup.path == *whom)
            && behind.iter().any(|it| says.contains(it))
    };
    found.retain(|(rule, whom), says| !is_chance(rule, whom, says));
    let names: Vec<(&str, &str)> = found.keys().map(|(rule, whom)| (&**rule, &**whom)).collect();
    assert_eq!(names, [("lags_candidates", "host")], "{found:#?}");
}
