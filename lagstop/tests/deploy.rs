//! What is handed out to run lagstop elsewhere, in `docs/deploy`, holds against the published schemas of Kubernetes, against
//! systemd, and against lagstop itself.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lagstop::kernel::Capability;
use lagstop_ebpf::{DEFAULT_ROWS, RowTotals};
use serde_json::{Map, Value, json};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy")
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every rendering: its name and its documents.
fn renderings() -> BTreeMap<String, Vec<Value>> {
    let files = fs::read_dir(deploy().join("rendered")).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), documents(&path))).collect()
}

/// The DaemonSet of a rendering.
fn daemonset(documents: &[Value]) -> &Value {
    documents.iter().find(|document| document["kind"] == "DaemonSet").unwrap()
}

fn container(documents: &[Value]) -> &Value {
    &daemonset(documents)["spec"]["template"]["spec"]["containers"][0]
}

/// Variables of the container as they are where it runs.
fn expand(argument: &str) -> String {
    ["NODE", "POD"].iter().fold(argument.to_owned(), |argument, whose| {
        let variable = format!("$({whose}_ADDRESS)");
        argument.replace(&format!("[{variable}]"), "[2001:db8::7]").replace(&variable, "192.0.2.7")
    })
}

/// The only NetworkPolicy of a rendering.
fn policy<'d>(name: &str, documents: &'d [Value]) -> &'d Value {
    let mut policies = documents.iter().filter(|document| document["kind"] == "NetworkPolicy");
    let policy = policies.next().unwrap_or_else(|| panic!("{name} is open to everybody"));
    assert!(policies.next().is_none(), "{name}");
    &policy["spec"]
}

/// What follows `flag` in the arguments.
fn value_of<'a>(arguments: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| *argument == flag)?;
    arguments.get(at + 1).copied()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

/// The published schemas, made to refuse fields that they do not name.
struct Schemas(Map<String, Value>);

impl Schemas {
    fn read() -> Self {
        let mut all = Map::new();
        for name in ["kubernetes", "podmonitor"] {
            let text = fs::read_to_string(deploy().join(format!("schemas/{name}.json"))).unwrap();
            let file: Value = serde_json::from_str(&text).unwrap();
            all.extend(file["schemas"].as_object().unwrap().clone());
        }
        // A CRD's own schema leaves this to the API server.
        all["PodMonitor"]["properties"]["metadata"] =
            json!({ "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" });
        all.values_mut().for_each(close);
        Self(all)
    }

    /// The name of the schema of `document`.
    fn of(&self, document: &Value) -> String {
        let api = document["apiVersion"].as_str().unwrap();
        let (group, version) = api.split_once('/').unwrap_or(("", api));
        let kind = document["kind"].as_str().unwrap();
        if (group, version, kind) == ("monitoring.coreos.com", "v1", "PodMonitor") {
            return kind.to_owned();
        }
        let wanted = json!({ "group": group, "version": version, "kind": kind });
        let is_it = |schema: &Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|all| all.contains(&wanted))
        };
        let (name, _) =
            self.0.iter().find(|(_, schema)| is_it(schema)).unwrap_or_else(|| panic!("no schema of {wanted}"));
        name.clone()
    }

    /// What is wrong with `document`.
    fn errors(&self, document: &Value) -> Vec<String> {
        let reference = format!("#/components/schemas/{}", self.of(document));
        let schema = json!({ "$ref": reference, "components": { "schemas": self.0 } });
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }
}

/// Forbids all unknown properties of objects whose properties are known, on every level.
fn close(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let is_open = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if schema.contains_key("properties") && !is_open {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(close);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below) {
            close(below);
        }
    }
    for below in ["allOf", "anyOf", "oneOf"] {
        if let Some(all) = schema.get_mut(below).and_then(Value::as_array_mut) {
            all.iter_mut().for_each(close);
        }
    }
}

#[test]
fn whatever_is_rendered_is_as_kubernetes_publishes_it() {
    let schemas = Schemas::read();
    let mut kinds = BTreeMap::new();
    for (name, documents) in renderings() {
        for document in documents {
            assert_eq!(schemas.errors(&document), Vec::<String>::new(), "{name}, {}", document["kind"]);
            *kinds.entry(document["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    let expected = [("DaemonSet", 5), ("Namespace", 3), ("NetworkPolicy", 5), ("PodMonitor", 3), ("ServiceAccount", 5)];
    assert_eq!(kinds, expected.map(|(kind, number)| (kind.to_owned(), number)).into());
}

#[test]
fn resources_are_as_kubernetes_publishes_them_before_they_are_rendered() {
    let schemas = Schemas::read();
    let base = ["base/namespace", "base/serviceaccount", "base/networkpolicy", "base/daemonset"];
    for file in base.into_iter().chain(["components/podmonitor/podmonitor"]) {
        for document in documents(&deploy().join(format!("kubernetes/{file}.yaml"))) {
            assert_eq!(schemas.errors(&document), Vec::<String>::new(), "{file}");
        }
    }
}

#[test]
fn what_kubernetes_does_not_know_is_an_error() {
    let schemas = Schemas::read();
    let all = renderings();
    let right = daemonset(&all["kubernetes-base"]);
    for (place, value) in [
        ("/spec/replicas", json!(1)),
        ("/spec/template/spec/hostPid", json!(true)),
        ("/spec/template/spec/containers/0/securityContext/capabilities/added", json!([])),
        ("/spec/template/spec/containers/0/ports/0/containerPort", json!("9185")),
        ("/spec/template/spec/volumes/0/hostPath/path", Value::Null),
        ("/metadata/label", json!({})),
    ] {
        let mut wrong = right.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        wrong.pointer_mut(parent).unwrap()[key] = value;
        assert_ne!(schemas.errors(&wrong), Vec::<String>::new(), "{place}");
    }
    let mut monitor = all["helm-everything"].iter().find(|document| document["kind"] == "PodMonitor").unwrap().clone();
    monitor["spec"]["podMetricsEndpoints"][0]["relabelling"] = json!([]);
    assert_ne!(schemas.errors(&monitor), Vec::<String>::new());
}

#[test]
fn privileges_are_no_more_than_what_is_documented() {
    const LEAST: [&str; 2] = ["BPF", "PERFMON"];
    const LISTENERS: [&str; 5] = ["BPF", "PERFMON", "DAC_READ_SEARCH", "SYS_PTRACE", "SYS_ADMIN"];
    let known = Capability::ALL.map(Capability::name);
    for (name, documents) in renderings() {
        let looks_into_pods = name.ends_with("everything");
        let pod = &daemonset(&documents)["spec"]["template"]["spec"];
        let context = &container(&documents)["securityContext"];
        let mut added = texts(&context["capabilities"]["add"]);
        assert!(added.iter().all(|one| known.contains(&format!("CAP_{one}").as_str())), "{name}: {added:?}");
        // The chart's values add one, to show that they can.
        added.retain(|one| *one != "SYS_NICE" || name != "helm-everything");
        assert_eq!(added, if looks_into_pods { LISTENERS.as_slice() } else { LEAST.as_slice() }, "{name}");
        assert_eq!(texts(&context["capabilities"]["drop"]), ["ALL"], "{name}");
        for (flag, wanted) in
            [("privileged", false), ("allowPrivilegeEscalation", false), ("readOnlyRootFilesystem", true)]
        {
            assert_eq!(context[flag], wanted, "{name} {flag}");
        }
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        assert_eq!(context.get("appArmorProfile").is_some(), looks_into_pods, "{name}");
        assert_eq!(pod["hostPID"], if looks_into_pods { json!(true) } else { Value::Null }, "{name}");
        for absent in ["hostNetwork", "hostIPC"] {
            assert_eq!(pod.get(absent), None, "{name}");
        }
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        let mounts = container(&documents)["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().all(|mount| mount["readOnly"] == true), "{name}");
    }
}

#[test]
fn nobody_reaches_it_but_whom_a_policy_names() {
    for (name, documents) in renderings() {
        let policy = policy(&name, &documents);
        assert_eq!(policy["podSelector"], daemonset(&documents)["spec"]["selector"], "{name}");
        assert_eq!(texts(&policy["policyTypes"]), ["Ingress", "Egress"], "{name}");
        let rules = policy["ingress"].as_array().unwrap();
        assert_eq!(rules.len(), 1, "{name}");
        let from = rules[0]["from"].as_array().unwrap_or_else(|| panic!("{name} lets everybody in"));
        assert!(!from.is_empty(), "{name} lets everybody in");
        for peer in from {
            let labels = peer["namespaceSelector"]["matchLabels"].as_object();
            assert!(labels.is_some_and(|labels| !labels.is_empty()), "{name} lets every namespace in: {peer}");
        }
        assert_eq!(rules[0]["ports"], json!([{ "protocol": "TCP", "port": "metrics" }]), "{name}");
        let arguments = texts(&container(&documents)["args"]);
        let listen = value_of(&arguments, "--listen").unwrap();
        assert!(listen.contains("$(POD_ADDRESS)"), "{name} listens on {listen}");
    }
}

#[test]
fn it_reaches_nobody() {
    for (name, documents) in renderings() {
        assert_eq!(policy(&name, &documents)["egress"], json!([]), "{name}");
    }
}

#[test]
fn probes_see_a_reader_that_hangs() {
    for (name, documents) in renderings() {
        let container = container(&documents);
        let is_encrypted = texts(&container["args"]).contains(&"--web-config");
        for (probe, path) in
            [("startupProbe", "/-/healthy"), ("livenessProbe", "/-/ready"), ("readinessProbe", "/-/ready")]
        {
            let probe = &container[probe];
            // In that rendering clients must have a certificate, and the kubelet does not have one.
            if name == "kubernetes-secured" {
                assert_eq!(probe["tcpSocket"], json!({ "port": "metrics" }), "{name}");
                assert_eq!(probe.get("httpGet"), None, "{name}");
                continue;
            }
            let get = &probe["httpGet"];
            assert_eq!((&get["path"], &get["port"]), (&json!(path), &json!("metrics")), "{name}");
            assert_eq!(get["scheme"], if is_encrypted { json!("HTTPS") } else { Value::Null }, "{name}");
        }
        // Late readings are no reason to restart the container.
        let liveness = &container["livenessProbe"];
        let patience = liveness["periodSeconds"].as_u64().unwrap() * liveness["failureThreshold"].as_u64().unwrap();
        assert!(patience >= 300, "{name}: {patience} s");
    }
}

#[test]
fn memory_is_enough_for_as_many_cpus_as_it_says() {
    const MIB: f64 = 1_048_576.0;
    let of_a_cpu = size_of::<RowTotals>() as f64 * f64::from(DEFAULT_ROWS) / MIB;
    // As the README and the chart have it, rounded.
    assert!((0.25..=0.31).contains(&of_a_cpu), "{of_a_cpu} MiB");
    // The process and all other maps need less than 70; the rest is for what comes in through the port, and for more cgroups.
    const BESIDE: f64 = 150.0;
    for (name, documents) in renderings() {
        let cpus: u32 = if name == "helm-everything" { 768 } else { 320 };
        let limit = container(&documents)["resources"]["limits"]["memory"].as_str().unwrap();
        let limit: u32 = limit.strip_suffix("Mi").unwrap().parse().unwrap();
        assert_eq!(limit, 160 + (3 * cpus).div_ceil(10), "{name}");
        assert!(f64::from(limit) >= BESIDE + of_a_cpu * f64::from(cpus), "{name}");
    }
}

#[test]
fn versions_are_this_one() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &documents(&deploy().join("helm/lagstop/Chart.yaml"))[0];
    assert_eq!((chart["version"].as_str(), chart["appVersion"].as_str()), (Some(version), Some(version)));
    for (name, documents) in renderings() {
        let image = container(&documents)["image"].as_str().unwrap();
        assert!(image == format!("lagstop:{version}") || name == "helm-everything", "{name}: {image}");
    }
}

#[test]
fn the_chart_takes_no_value_that_it_does_not_know() {
    let chart = deploy().join("helm/lagstop");
    let schema = fs::read_to_string(chart.join("values.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let defaults = documents(&chart.join("values.yaml")).remove(0);
    for values in [&defaults, &documents(&chart.join("ci/everything-values.yaml"))[0]] {
        let errors: Vec<String> = validator.iter_errors(values).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        for known in values.as_object().unwrap().keys() {
            assert!(defaults.get(known).is_some(), "{known} has no default");
        }
    }
    let mut wrong = defaults;
    wrong["podMonitor"]["enable"] = json!(true);
    assert!(!validator.is_valid(&wrong));
}

/// The unit as it would be where lagstop is installed, alone or with its drop-in, in a directory of its own.
fn unit(with_listeners: bool) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let source = deploy().join("systemd");
    let path = home.path().join("lagstop.service");
    fs::write(&path, with_this_lagstop("lagstop.service", "serve")).unwrap();
    if with_listeners {
        let drop_ins = home.path().join("lagstop.service.d");
        fs::create_dir(&drop_ins).unwrap();
        fs::copy(source.join("listeners.conf"), drop_ins.join("listeners.conf")).unwrap();
    }
    (home, path)
}

/// The unit that schedules the host, on its own.
fn schedule_unit() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lagstop-schedule.service");
    fs::write(&path, with_this_lagstop("lagstop-schedule.service", "schedule")).unwrap();
    (home, path)
}

/// A unit that runs `subcommand`, of the lagstop that is tested here.
fn with_this_lagstop(unit: &str, subcommand: &str) -> String {
    let text = fs::read_to_string(deploy().join("systemd").join(unit)).unwrap();
    let command = format!("ExecStart=/usr/bin/lagstop {subcommand}");
    assert!(text.contains(&command));
    text.replace(&command, &format!("ExecStart={} {subcommand}", env!("CARGO_BIN_EXE_lagstop")))
}

/// Runs systemd-analyze; `None`, loudly, where there is none. Gives whether it succeeded and what it said.
fn systemd_analyze(arguments: &[&str], unit: &Path) -> Option<(bool, String)> {
    let command = Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", unit.parent().unwrap().display()))
        .env("SYSTEMD_COLORS", "0")
        .output();
    let Ok(output) = command else {
        eprintln!("NOT CHECKED: there is no systemd-analyze, which Debian has in its package systemd");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn systemd_knows_every_setting_of_the_unit() {
    for (_home, path) in [unit(false), unit(true), schedule_unit()] {
        let verify = ["verify", "--man=no", "--recursive-errors=no"];
        let Some((succeeded, said)) = systemd_analyze(&verify, &path) else { return };
        assert!(succeeded && said.is_empty(), "{said}");
        // It reports unknown settings, but does not fail because of them.
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("ProtectClock=", "ProtectClocks=")).unwrap();
        let (_, said) = systemd_analyze(&verify, &path).unwrap();
        assert!(said.contains("ProtectClocks"), "{said}");
    }
}

#[test]
fn the_unit_is_as_confined_as_its_work_allows() {
    // Tenths of systemd's exposure level: up to 4.9 it calls a service OK.
    let units = [(unit(false), "--threshold=25"), (unit(true), "--threshold=31"), (schedule_unit(), "--threshold=25")];
    for ((_home, path), threshold) in units {
        let Some((succeeded, said)) = systemd_analyze(&["security", "--offline=yes", threshold], &path) else { return };
        assert!(succeeded, "{said}");
        let level = said.lines().find(|line| line.contains("Overall exposure level")).unwrap();
        assert!(level.contains("OK"), "{level}");
    }
}

#[test]
fn the_units_capabilities_are_those_of_the_manifests() {
    let listed = |file: &str, setting: &str| -> Vec<String> {
        let text = fs::read_to_string(deploy().join("systemd").join(file)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(setting)).unwrap().to_owned();
        line.split_whitespace().map(|one| one.trim_start_matches("CAP_").to_owned()).collect()
    };
    let all = renderings();
    let mut unit = listed("lagstop.service", "AmbientCapabilities=");
    assert_eq!(unit, listed("lagstop.service", "CapabilityBoundingSet="));
    // The unit's user is not root, whom the container is: what only root may read takes a capability.
    let mut base = texts(&container(&all["kubernetes-base"])["securityContext"]["capabilities"]["add"]);
    base.push("DAC_READ_SEARCH");
    assert_eq!(unit, base);
    unit.extend(listed("listeners.conf", "AmbientCapabilities="));
    assert_eq!(listed("listeners.conf", "AmbientCapabilities="), listed("listeners.conf", "CapabilityBoundingSet="));
    assert_eq!(unit, texts(&container(&all["kubernetes-everything"])["securityContext"]["capabilities"]["add"]));
}

/// The directories that names are from, as docs/names.md has them.
const NAMES_ARE_FROM: [&str; 12] = [
    "/var/lib/docker",
    "/etc/docker/daemon.json",
    "/var/lib/containers/storage",
    "/etc/containers/storage.conf",
    "/var/lib/nerdctl",
    "/var/lib/lxc",
    "/var/log/containers",
    "/run/containerd/io.containerd.runtime.v2.task",
    "/run/incus",
    "/run/libvirt/qemu",
    "/run/systemd/sessions",
    "/etc/passwd",
];

#[test]
fn the_unit_hides_nothing_that_names_are_from() {
    let page = fs::read_to_string(deploy().join("../names.md")).unwrap();
    let unit = fs::read_to_string(deploy().join("systemd/lagstop.service")).unwrap();
    let settings = unit.lines().filter_map(|line| line.split_once('='));
    let hidden: Vec<&str> = settings
        .filter(|(setting, _)| {
            ["InaccessiblePaths", "TemporaryFileSystem", "RootDirectory", "RootImage"].contains(setting)
        })
        .flat_map(|(_, paths)| paths.split_whitespace())
        .map(|path| path.trim_start_matches('-'))
        // ProtectHome=yes and PrivateTmp=yes.
        .chain(["/home", "/root", "/run/user", "/tmp", "/var/tmp"])
        .collect();
    assert!(hidden.contains(&"/proc/kcore") && unit.contains("ProtectHome=yes"), "{hidden:?}");
    for path in NAMES_ARE_FROM {
        assert!(page.contains(path), "docs/names.md does not name {path}");
        assert!(hidden.iter().all(|hidden| !path.starts_with(hidden)), "the unit hides {path}");
    }
}

#[test]
fn manifests_mount_no_file_that_holds_secrets_and_no_socket() {
    for (name, documents) in renderings() {
        let volumes = daemonset(&documents)["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let paths: Vec<&str> = volumes.iter().filter_map(|volume| volume["hostPath"]["path"].as_str()).collect();
        assert!(paths.contains(&"/var/log/containers"), "{name}: {paths:?}");
        // Of all that names are from, only the links in /var/log/containers are mounted.
        let others = NAMES_ARE_FROM.iter().filter(|path| **path != "/var/log/containers");
        for other in others {
            assert!(paths.iter().all(|path| !other.starts_with(path) && !path.starts_with(other)), "{name}: {paths:?}");
        }
    }
}

/// Every command that is handed out, as lagstop would be called.
fn commands() -> Vec<Vec<String>> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut all: Vec<Vec<String>> = renderings()
        .values()
        .map(|documents| texts(&container(documents)["args"]).into_iter().map(expand).collect())
        .collect();
    let unit = fs::read_to_string(deploy().join("systemd/lagstop.service")).unwrap();
    let arguments = unit.lines().find_map(|line| line.strip_prefix("Environment=\"LAGSTOP_SERVE=")).unwrap();
    all.push([words("serve"), words(arguments.trim_end_matches('"'))].concat());
    let schedule = fs::read_to_string(deploy().join("systemd/lagstop-schedule.service")).unwrap();
    assert!(schedule.contains("\nEnvironment=LAGSTOP_SCHEDULE=\n"), "it has no arguments");
    all.push(words("schedule"));
    let containerfile = fs::read_to_string(deploy().join("Containerfile")).unwrap();
    let command = containerfile.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    all.push(serde_json::from_str(command).unwrap());
    all
}

#[test]
fn lagstop_takes_the_arguments_that_it_is_given() {
    for arguments in commands() {
        assert!(["serve", "schedule"].contains(&arguments[0].as_str()), "{arguments:?}");
        let result =
            lagstop::cli::command().try_get_matches_from([vec!["lagstop".to_owned()], arguments.clone()].concat());
        assert!(result.is_ok(), "{arguments:?}: {:?}", result.err());
    }
}
