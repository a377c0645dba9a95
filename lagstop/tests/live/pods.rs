//! Pods with containers in them, as Kubernetes and systemd lay them out: neighbours compete as pods, so pods are what is named
//! and changed.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use lagstop::{
    host::Hierarchy,
    model::{GroupBy, Level},
};
use serde_json::Value;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
};

pub(crate) const TESTS: &[Test] = &[
    ("diagnose_names_pods_and_not_their_containers", named),
    ("a_trial_changes_pods_and_not_their_containers", changed),
];

/// Two pods that take all there is, and four that hardly run.
struct Pods {
    // They go first, and what is inside of others before those.
    loads: Vec<Load>,
    containers: Vec<TestCgroup>,
    pods: Vec<TestCgroup>,
    _above: Vec<TestCgroup>,
}

const HEAVY: usize = 2;

impl Pods {
    fn start() -> Self {
        let host = TestCgroup::new("pods");
        let kubepods = host.child("kubepods.slice");
        let burstable = kubepods.child("kubepods-burstable.slice");
        let mut pods = Self { loads: Vec::new(), containers: Vec::new(), pods: Vec::new(), _above: Vec::new() };
        for n in 0..HEAVY + 4 {
            let pod = burstable.child(&format!("kubepods-burstable-pod{n:08x}_2222_3333_4444_555555555555.slice"));
            // As requests have it: what asks for little weighs little.
            pod.entitle(&Level { weight: Some(if n < HEAVY { 100.0 } else { 50.0 }), ..Level::DEFAULT });
            for container in 0..2 {
                let container = pod.child(&format!("cri-containerd-{:064x}.scope", 2 * n + container));
                pods.loads.push(container.start(if n < HEAVY { "threads 3 60000" } else { "sparse 60000" }));
                pods.containers.push(container);
            }
            pods.pods.push(pod);
        }
        pods._above = vec![burstable, kubepods, host];
        pods.loads.iter_mut().for_each(|load| drop(load.line()));
        pods.loads.iter_mut().for_each(Load::go);
        std::thread::sleep(Duration::from_millis(300));
        pods
    }

    /// Of light and of heavy ones.
    fn paths(&self) -> [Vec<&str>; 2] {
        let (heavy, light) = self.pods.split_at(HEAVY);
        [light, heavy].map(|pods| pods.iter().map(|pod| &*pod.path).collect())
    }
}

/// The weights of these.
fn weights(cgroups: &[TestCgroup]) -> Vec<String> {
    let hierarchy = Hierarchy::find(GroupBy::Scheduler).unwrap();
    let weight = |cgroup: &TestCgroup| -> Option<String> {
        let directory: PathBuf = hierarchy.directory(&cgroup.path).unwrap();
        ["cpu.weight", "cpu.shares"].iter().find_map(|file| fs::read_to_string(directory.join(file)).ok())
    };
    cgroups.iter().map(|cgroup| weight(cgroup).unwrap()).collect()
}

fn named() {
    let pods = Pods::start();
    let sides = pods.paths();
    let mut command = Command::new(lagstop());
    command.args(["diagnose", "--format", "json", "--duration", "8s", "--interval", "400ms"]);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["rule"] == "lags_candidates").unwrap();
    println!("{}", finding["verdict"]);
    let of_class = |class: &str| -> Vec<&str> {
        let all = finding["cgroups"].as_array().unwrap().iter();
        let mut paths: Vec<&str> =
            all.filter(|one| one["class"] == class).map(|one| one["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(["light", "heavy"].map(of_class), sides);
}

fn changed() {
    let pods = Pods::start();
    let sides = pods.paths();
    let before = (weights(&pods.pods), weights(&pods.containers));
    let home = tempfile::tempdir().unwrap();
    // The containers are named: what competes is their pods.
    let containers: Vec<String> = sides[0].iter().map(|pod| format!("{pod}/*")).collect();
    let mut command = Command::new(lagstop());
    command.args([
        "trial",
        "--policy",
        "weight",
        "--before",
        "4s",
        "--block",
        "2s",
        "--duration",
        "10s",
        "--format",
        "json",
    ]);
    command.args(containers.iter().flat_map(|container| ["--light", container]));
    command.args(["--apply", "--journal"]).arg(home.path().join("trial.journal"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("other weights of all pods", || {
        let now = weights(&pods.pods);
        now.iter().zip(&before.0).all(|(now, before)| now != before)
    });
    assert_eq!(weights(&pods.containers), before.1, "no sibling of a container is another pod's");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let side = |name: &str| -> Vec<&str> {
        let mut paths: Vec<&str> =
            outcome[name].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(["light", "heavy"].map(side), sides);
    let figures = outcome["figures"].as_array().unwrap();
    let waiting = figures.iter().find(|figure| figure["name"] == "light_waiting").unwrap();
    println!("{waiting}");
    assert!(waiting["change"].as_f64().unwrap() < -0.2, "{waiting}");
    // On a host where others run as well, four seconds may be simulated too badly for a prediction. Then that is said.
    match waiting["predicted"].as_f64() {
        Some(predicted) => assert!(predicted < -0.2, "{waiting}"),
        None => assert!(waiting["predicted_why_not"].as_str().unwrap().contains("off the measured"), "{waiting}"),
    }
    assert_eq!((weights(&pods.pods), weights(&pods.containers)), before);
}
