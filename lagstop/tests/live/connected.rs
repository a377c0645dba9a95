//! `--connect`: a host seen from another one, here the same.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use lagstop::{model::Nanos, recording::Reader};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    Test,
    command::lagstop,
    fixture::{TestCgroup, assert_within, eventually, is_slow},
    recorder::Recorder,
    screen::Tmux,
    serving::Server,
};

pub(crate) const TESTS: &[Test] = &[
    ("what_comes_over_a_connection_is_what_the_host_measures", agreement),
    ("a_bully_is_on_the_page_within_three_seconds", bully),
    ("top_shows_a_host_over_https_with_a_password", desk),
    ("whoever_follows_gets_whole_intervals_while_somebody_looks_at_the_page", beside_the_page),
];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[("a_recording_goes_on_when_the_server_was_started_again", again)];

fn run(arguments: &[&str]) -> Output {
    let output = Command::new(lagstop()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn agreement() {
    let cgroup = TestCgroup::new("connect");
    let server = Server::start(&["--interval", "200ms"]);
    let url = format!("http://{}", server.address());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("there.jsonl.zst");
    let file = path.to_str().unwrap();
    let mut recorder = Recorder::start(&["--connect", &url, "--output", file]);
    let mut load = cgroup.start("spin 1500");
    load.line();
    thread::sleep(Duration::from_millis(600));
    let before = cgroup.cpu_ns();
    load.go();
    assert_eq!(load.line(), "done");
    let used = cgroup.cpu_ns() - before;
    thread::sleep(Duration::from_millis(600));

    // A screen as text, and a report, from the same server.
    let top = run(&["top", "--connect", &url, "--once", "--format", "json"]);
    let line: Value = serde_json::from_slice(&top.stdout).unwrap();
    assert!(line["cgroups"].as_array().is_some_and(|cgroups| !cgroups.is_empty()), "{line}");
    let report = run(&["diagnose", "--connect", &url, "--back", "1s", "--duration", "1s", "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["verdict"]["headline"].is_string(), "{report}");

    recorder.signal(Signal::INT);
    let (status, said) = recorder.end();
    assert!(status.success(), "{said}");
    let mut reader = Reader::open(&path).unwrap();
    assert!(reader.footer().is_some_and(|footer| footer.reason == "interrupted") && reader.gaps().is_empty());
    let mut counted = Nanos::ZERO;
    for n in 0..reader.len() {
        let interval = reader.interval(n).unwrap();
        let own = interval.cgroups.iter().find(|it| *it.path == *cgroup.path);
        counted = counted.saturating_add(own.map_or(Nanos::ZERO, |own| own.totals.cpu_ns));
    }
    assert!(reader.start_of(0).unwrap() < Nanos::SECOND, "it begins when somebody came");
    assert_within("CPU time", counted.0, used, 2.0);
}

/// The screen comes over TLS, with a password, and whoever is refused is told why.
fn desk() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let issued = || rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let rcgen::CertifiedKey { cert, signing_key } = issued();
    let (trusted, other) = (file("server.pem", &cert.pem()), file("other.pem", &issued().cert.pem()));
    file("server.key", &signing_key.serialize_pem());
    let (password, wrong) = (file("password", "alice:secret\n"), file("wrong", "alice:guess\n"));
    let web = format!(
        "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\nbasic_auth_users:\n  alice: {}\n",
        bcrypt::hash("secret", 4).unwrap()
    );
    let mut server = Command::new(lagstop());
    server.args(["serve", "--listen", "127.0.0.1:0", "--interval", "300ms", "--web-config", &file("web.yml", &web)]);
    let server = Recorder::run(&mut server);
    eventually("a server", || server.says("/metrics (Ctrl-C ends)"));
    let said = server.said();
    let url = said.split("serving ").nth(1).and_then(|url| url.split("/metrics").next()).unwrap();
    assert!(url.starts_with("https://"), "{said}");

    let cgroup = TestCgroup::new("desk");
    let mut load = cgroup.start("spin 600000");
    load.line();
    load.go();
    let top = |ca: &str, password: &str| -> Vec<String> {
        ["top", "--connect", url, "--ca-file", ca, "--password-file", password].map(str::to_owned).to_vec()
    };
    let refused = |ca, password| {
        let output = Command::new(lagstop()).args(top(ca, password)).arg("--once").output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&trusted, &wrong);
    assert!(said.contains("401") && !said.contains("guess"), "{said}");
    let said = refused(&other, &password);
    assert!(said.contains("certificate"), "{said}");

    let command =
        format!("{} {}; echo; echo it ended with $?; cat", lagstop().display(), top(&trusted, &password).join(" "));
    let tmux = Tmux::start(&command);
    tmux.shows(&["lagstop top", "overhead", "-desk"]);
    tmux.press(&["2"]);
    tmux.shows(&["main users"]);
    tmux.press(&["q"]);
    tmux.shows(&["it ended with 0"]);
}

fn moment(server: &Server) -> Value {
    let answer = server.get("/api/v1/moment", "application/json");
    answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default()
}

/// Two loads on one CPU: one naps, the other spins. Intervals of 5 s come in pieces while somebody looks.
fn bully() {
    let (bully, victim) = (TestCgroup::new("bully"), TestCgroup::new("victim"));
    let server = Server::start(&[]);
    eventually("the first moment on the page", || moment(&server).is_object());
    let mut naps = victim.start("nap-on 0 8000");
    naps.line();
    naps.go();
    let mut spins = bully.start("crowd 0 3 6000");
    spins.line();
    let began = Instant::now();
    spins.go();
    let id = |moment: &Value, path: &str| {
        let cgroups = moment["cgroups"].as_array()?.clone();
        Some(cgroups.iter().find(|it| it["path"] == path)?["id"].as_str()?.to_owned())
    };
    eventually("the bully on the page", || {
        let moment = moment(&server);
        let Some((bully, victim)) = id(&moment, &bully.path).zip(id(&moment, &victim.path)) else { return false };
        let waits = moment["waits"].as_array().cloned().unwrap_or_default();
        waits.iter().any(|wait| {
            wait["victim"] == victim.as_str() && wait["culprit"] == bully.as_str() && wait["share"].as_f64() > Some(0.3)
        })
    });
    let took = began.elapsed();
    println!("{took:?}");
    assert!(took < Duration::from_secs(3) || is_slow(), "{took:?}");
}

fn beside_the_page() {
    let cgroup = TestCgroup::new("beside");
    let server = Server::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("there.jsonl.zst");
    let url = format!("http://{}", server.address());
    let mut recorder = Recorder::start(&["--connect", &url, "--output", path.to_str().unwrap()]);
    let mut load = cgroup.start("spin 6000");
    load.line();
    let before = cgroup.cpu_ns();
    load.go();
    let began = Instant::now();
    let mut moments = std::collections::BTreeMap::new();
    while began.elapsed() < Duration::from_secs(12) {
        let moment = moment(&server);
        if let Some(n) = moment["n"].as_u64() {
            moments.insert(n, moment["duration_ns"].as_u64().unwrap());
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(load.line(), "done");
    let used = cgroup.cpu_ns() - before;
    // Nobody looks any more: what has begun is finished. On a busy host that takes a while.
    let intervals = || Reader::open(&path).map_or(0, |reader| reader.len());
    let (seen, ended) = (intervals(), Instant::now());
    while intervals() < seen + 2 && ended.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(200));
    }
    recorder.signal(Signal::TERM);
    let (status, said) = recorder.end();
    assert!(status.success(), "{said}");
    let pieces = moments.values().filter(|duration| **duration < 2 * Nanos::SECOND.0).count();
    assert!(pieces >= 4 || is_slow(), "{moments:?}");
    let mut reader = Reader::open(&path).unwrap();
    assert!(reader.gaps().is_empty(), "{:?}", reader.gaps());
    let (mut counted, mut end) = (Nanos::ZERO, None);
    for n in 0..reader.len() {
        let interval = reader.interval(n).unwrap();
        assert!(end.is_none_or(|end| end == interval.start_ns) && interval.merged == 0, "interval {n}");
        end = Some(interval.start_ns.saturating_add(interval.duration_ns));
        let whole = 4_000_000_000..7_500_000_000;
        assert!(whole.contains(&interval.duration_ns.0) || is_slow(), "interval {n} of {}", interval.duration_ns);
        let own = interval.cgroups.iter().find(|it| *it.path == *cgroup.path);
        let cpu = own.map_or(Nanos::ZERO, |own| own.totals.cpu_ns);
        println!("{} for {}: {cpu}, lost {:?}", interval.start_ns, interval.duration_ns, interval.host.lost);
        counted = counted.saturating_add(cpu);
    }
    println!("{} counted, {} used", counted, Nanos(used));
    assert!(reader.len() >= 3, "{}", reader.len());
    assert_within("CPU time", counted.0, used, 2.0);
}

fn again() {
    let server = Server::start(&["--interval", "200ms"]);
    let address = server.address().to_owned();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("there.jsonl");
    let mut recorder =
        Recorder::start(&["--connect", &format!("http://{address}"), "--output", path.to_str().unwrap()]);
    let intervals = |path: &Path| Reader::open(path).map_or(0, |reader| reader.len());
    eventually("some intervals", || intervals(&path) > 3);
    drop(server);
    thread::sleep(Duration::from_secs(1));
    let before = intervals(&path);
    let _server = Server::start_at(&address, &["--interval", "200ms"]);
    eventually("more of them", || intervals(&path) > before + 3);
    recorder.signal(Signal::TERM);
    let (status, said) = recorder.end();
    assert!(status.success(), "{said}");
    let reader = Reader::open(&path).unwrap();
    let gaps = reader.gaps();
    assert!(gaps.len() == 1 && gaps[0].reason == "not received", "{gaps:?}");
    assert!(gaps[0].duration_ns >= Nanos(500_000_000), "{gaps:?}");
}
