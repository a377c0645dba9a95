//! `lagstop run`: what it says of a command, and that it is not in its way.

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use lagstop::{
    host::{Cpus, Hierarchy},
    model::{GroupBy, kernel_version},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
    recorder::Recording,
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] = &[
    ("a_run_beside_a_neighbour_is_disturbed_and_names_it", neighbour),
    ("a_run_that_waits_behind_itself_is_undisturbed", itself),
    ("a_run_whose_threads_share_a_cpu_beside_a_neighbour_is_crowded_out", crowded_out),
    ("a_disturbed_run_is_repeated_and_a_limit_fails", repeated),
];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("the_status_of_a_run_is_that_of_its_command", status),
    ("input_and_output_of_a_run_are_those_of_its_command", streams),
    ("a_run_passes_signals_on_and_leaves_no_cgroup", signals),
    ("ctrl_c_reaches_the_command_of_a_run_once", terminal),
    ("a_run_that_is_killed_leaves_no_cgroup", killed),
    ("a_run_without_privileges_is_not_judged", unprivileged),
    ("a_run_is_recorded", recorded),
];

/// A shell script that spins.
const SPIN: &str = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done";

fn run(arguments: &[&str], script: &str) -> Command {
    let mut command = Command::new(lagstop());
    command.arg("run").args(arguments).args(["--", "sh", "-c", script]);
    command
}

/// The cgroups of the commands whose keepers `run` has started.
fn cgroups_of(run: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(run)
    };
    let mount = Hierarchy::find(GroupBy::Scheduler).unwrap().mount;
    pids.filter(is_child).map(|keeper| mount.join(format!("lagstop-command-{keeper}"))).collect()
}

/// What it reports as JSON.
fn json(arguments: &[&str], script: &str) -> (Output, Value) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("run.json");
    let to = ["--format", "json", "--output", file.to_str().unwrap()];
    let output = run(&[&to, arguments].concat(), script).output().unwrap();
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, serde_json::from_str(&text).unwrap())
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A cgroup that keeps every CPU busy, with threads that the balancer cannot move.
fn neighbours() -> (TestCgroup, Vec<Load>) {
    let cgroup = TestCgroup::new("neighbour");
    let loads = on_each(&Cpus::read().unwrap().online, 2, &cgroup);
    (cgroup, loads)
}

/// So many threads of `cgroup` that spin on each of these CPUs.
fn on_each(cpus: &[u32], threads: usize, cgroup: &TestCgroup) -> Vec<Load> {
    let start = |cpu| cgroup.start(&format!("crowd {cpu} {threads} 120000"));
    let mut loads: Vec<_> = cpus.iter().map(start).collect();
    for load in &mut loads {
        load.line();
        load.go();
    }
    thread::sleep(Duration::from_millis(200));
    loads
}

fn neighbour() {
    let (neighbour, _loads) = neighbours();
    let (output, report) = json(&[], SPIN);
    println!("{}{report:#}", said(&output));
    assert!(output.status.success(), "no limit was given");
    assert!(said(&output).starts_with("lagstop: disturbed: waited "), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1);
    let run = &report["runs"][0];
    assert_eq!((&report["verdict"], &run["verdict"]), (&"disturbed".into(), &"disturbed".into()));
    // Whatever else runs here.
    let behind = run["behind"].as_array().unwrap();
    let it = behind.iter().find(|one| one["path"] == *neighbour.path).expect("the neighbour is named");
    let others = run["waits"]["behind_others_ns"].as_u64().unwrap();
    assert!(it["wait_ns"].as_u64().unwrap() > others / 10, "{behind:?}");
    // The neighbour's weight is split over its CPUs: on each it is entitled to a third beside one thread of another cgroup. Since
    // Linux 7.3 it counts once for each of these CPUs (`CgroupMode`), so it is entitled to half. In a short run it may get less of that: a new
    // task goes first.
    let waited = run["shares"]["waited"].as_f64().unwrap();
    let is_split = kernel_version(report["kernel"].as_str().unwrap()).unwrap() < (7, 3);
    let neighbours = if is_split { 1.0 / 3.0 } else { 0.5 };
    assert!((0.02..neighbours + 1.0 / 6.0).contains(&waited), "{waited}");
    let waits = run["waits"].as_object().unwrap();
    let causes = waits.iter().filter(|(name, _)| !["count", "total_ns", "p99_ns"].contains(&name.as_str()));
    let sum: u64 = causes.map(|(_, time)| time.as_u64().unwrap()).sum();
    assert_eq!(sum, waits["total_ns"].as_u64().unwrap(), "the causes are all there is");
    // The time that it ran and the time that it waited are at most the time that it was there.
    let [wall, cpu] = ["wall_ns", "cpu_ns"].map(|name| run[name].as_u64().unwrap());
    assert!(cpu + sum <= wall + wall / 20, "{cpu} + {sum} of {wall}");
}

fn itself() {
    let count = thread::available_parallelism().unwrap().get() * 3;
    let script = format!("i=0; while [ $i -lt {count} ]; do ({SPIN}) & i=$((i + 1)); done; wait");
    let (output, report) = json(&[], &script);
    println!("{}{report:#}", said(&output));
    let shares = &report["runs"][0]["shares"];
    let [waited, own, out] = ["waited", "behind_itself", "crowded_out"].map(|name| shares[name].as_f64().unwrap());
    assert!(own > 0.4, "three of its processes want each CPU: {own}");
    assert!(waited + out < own / 5.0, "{waited} behind others, {own} behind itself, {out} because of others");
}

/// Two processes where every CPU but the first has a neighbour.
fn crowded_out() {
    let cpus = Cpus::read().unwrap().online;
    if cpus.len() < 2 {
        return println!("*** SKIPPED: one CPU leaves nobody another ***");
    }
    let neighbour = TestCgroup::new("neighbour");
    let _loads = on_each(&cpus[1..], 1, &neighbour);
    let shares = |script: &str| {
        let (output, report) = json(&[], script);
        println!("{}{report:#}", said(&output));
        let shares = report["runs"][0]["shares"].clone();
        let shares = ["waited", "behind_itself", "crowded_out"].map(|name| shares[name].as_f64().unwrap());
        (shares, report["verdict"] == "disturbed")
    };
    let two = format!("({SPIN}) & ({SPIN}) & wait");
    // The kernel leaves both on the first CPU, or puts one beside a neighbour: both takes their time.
    let ([waited, own, out], is_disturbed) = shares(&two);
    assert!(waited + out > 0.15 && is_disturbed, "{waited} {out}");
    assert!(own < 0.2 || out > own / 2.0, "they wait for each other because of the neighbours: {own} {out}");
    // They may use the first CPU alone: nobody crowds them out.
    let ([_, own, out], _) = shares(&format!("taskset -p -c 0 $$ >/dev/null; {two}"));
    assert!(own > 0.3 && out < 0.05, "{own} {out}");
}

fn repeated() {
    let (_neighbour, _loads) = neighbours();
    let (output, report) = json(&["--repeat", "2", "--at-most", "3"], SPIN);
    println!("{}", said(&output));
    assert_eq!(output.status.code(), Some(122));
    assert_eq!(report["disturbed"], serde_json::json!([1, 2, 3]));
    assert!(said(&output).contains("lagstop: run 3 (") && said(&output).contains("0 of 3 runs undisturbed"));
    let output = run(&["--max-wait", "1%"], SPIN).output().unwrap();
    assert_eq!(output.status.code(), Some(122), "{}", said(&output));
    assert!(said(&output).contains("--max-wait is 1.0 %"));
    let output = run(&["--max-wait", "1%"], &format!("{SPIN}; exit 3")).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "what the command says comes first");
    let output = run(&["--max-wait", "95%"], SPIN).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

fn status() {
    for (script, code, signal) in
        [("exit 7", Some(7), None), ("kill -9 $$", None, Some(9)), ("kill $$", None, Some(15))]
    {
        let ended = run(&[], script).stderr(Stdio::null()).status().unwrap();
        assert_eq!((ended.code(), ended.signal()), (code, signal), "{script}");
    }
    for (program, code, why) in [
        ("/not/there", 127, "lagstop: /not/there: command not found"),
        ("/etc/passwd", 126, "lagstop: cannot run /etc/passwd in"),
    ] {
        let output = Command::new(lagstop()).args(["run", "--", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    let output = run(&["--output", "/not/there/run.txt"], "echo ran").output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(125), &b""[..]), "nothing was run");
}

fn streams() {
    let mut child = run(&[], "cat; echo to-stderr >&2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = b"\x00\xff binary\n".repeat(10_000);
    let mut input = child.stdin.take().unwrap();
    let sent = text.clone();
    let writer = thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.stdout == text, "{} bytes", output.stdout.len());
    let said = said(&output);
    assert!(said.starts_with("to-stderr\nlagstop: ") && said.lines().count() == 2, "{said}");
}

/// A script that runs until it has seen a signal. Waits until it runs.
fn patient(command: &mut Command) -> (Child, Vec<PathBuf>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"ready\n");
    let cgroups = cgroups_of(child.id());
    assert!(cgroups.iter().any(|cgroup| cgroup.exists()), "{cgroups:?}");
    (child, cgroups)
}

fn are_gone(cgroups: &[PathBuf]) -> bool {
    !cgroups.iter().any(|cgroup| cgroup.exists())
}

/// Has `command` start with this `disposition` for `signals`, whatever this process was started with: nohup(1) and shells have
/// some ignored.
fn starting_with<'c>(
    disposition: libc::sighandler_t,
    signals: &'static [libc::c_int],
    command: &'c mut Command,
) -> &'c mut Command {
    let set = move || {
        for signal in signals {
            // SAFETY: only a system call.
            unsafe { libc::signal(*signal, disposition) };
        }
        Ok(())
    };
    // SAFETY: it does no more than that.
    unsafe { command.pre_exec(set) }
}

const TRAPS: &str = "for s in INT TERM HUP USR1; do trap \"echo got $s; exit 9\" $s; done; echo ready; \
                     while :; do sleep 0.05; done";

fn signals() {
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        let all = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1];
        let (child, cgroups) = patient(starting_with(libc::SIG_DFL, all, &mut run(&[], TRAPS)));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(9), "{name}: {}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("got {name}\n"));
        assert!(are_gone(&cgroups), "{cgroups:?}");
    }
    // One that does not listen dies of it, and so does lagstop.
    let (child, cgroups) = patient(&mut run(&[], "echo ready; exec sleep 60"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15), "{}", said(&output));
    assert!(are_gone(&cgroups), "{cgroups:?}");
    // What is ignored stays so, as nohup(1) wants it.
    let mut command = run(&[], "trap 'exit 9' TERM; kill -HUP $$; echo ready; while :; do sleep 0.05; done");
    let (child, _) = patient(starting_with(libc::SIG_IGN, &[libc::SIGHUP], &mut command));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(9));
}

/// On a terminal, in whose foreground they all are.
fn terminal() {
    let mut terminal = Terminal::open();
    let script = "trap 'echo got INT' INT; trap 'exit 9' TERM; echo ready; test -t 0 && echo on a terminal; \
                  n=0; while [ $n -lt 40 ]; do sleep 0.05; n=$((n + 1)); done; exit 5";
    let mut command = run(&[], script);
    let mut child = terminal.run_in_foreground(&mut command);
    eventually("the command", || terminal.shows("on a terminal"));
    terminal.press(b"\x03");
    eventually("the signal", || terminal.shows("got INT"));
    let mut status = None;
    eventually("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(5), "it goes on as it likes: {}", terminal.last());
    assert_eq!(terminal.count("got INT"), 1);
}

fn killed() {
    let (mut child, cgroups) = patient(&mut run(&[], "echo ready; sleep 8"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!are_gone(&cgroups), "the command goes on");
    eventually("the end of its cgroup", || are_gone(&cgroups));
}

/// As a user who may nothing.
fn unprivileged() {
    let home = tempfile::tempdir().unwrap();
    let binary = home.path().join("lagstop");
    fs::copy(lagstop(), &binary).unwrap();
    let open = |path: &Path| fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    [home.path(), &binary].into_iter().for_each(open);
    let as_nobody = |arguments: &[&str], script: &str| {
        let mut command = Command::new(&binary);
        command.arg("run").args(arguments).args(["--", "sh", "-c", script]).uid(65_534).gid(65_534);
        command.output().unwrap()
    };
    let output = as_nobody(&["--format", "json"], &format!("echo out; {SPIN}"));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(output.stdout, b"out\n");
    let report: Value = serde_json::from_str(&said(&output)).unwrap();
    let run = &report["runs"][0];
    println!("{run:#}");
    assert_eq!((&report["method"], &run["verdict"]), (&"files".into(), &"not_judged".into()));
    assert_eq!((&run["waits"], &run["shares"]["waited"]), (&Value::Null, &Value::Null), "they are not known");
    let [seen, all] = [&run["seen"]["cpu_ns"], &run["cpu_ns"]].map(|time| time.as_u64().unwrap() as f64);
    assert!((0.9..1.1).contains(&(seen / all)), "the end of the first process is seen: {seen} of {all}");
    let output = as_nobody(&["--max-wait", "1%"], "echo ran");
    assert_eq!((output.status.code(), &*output.stdout), (Some(125), &b""[..]), "{}", said(&output));
    assert!(said(&output).contains("could not be judged"));
    let output = as_nobody(&["--max-steal", "99%"], "exit 0");
    assert!(output.status.success(), "steal is known: {}", said(&output));
}

fn recorded() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("run.jsonl.zst");
    let output = run(&["--record", file.to_str().unwrap(), "--interval", "100ms"], SPIN).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let recording = Recording::read(&file);
    assert_eq!(recording.reason(), "the command ended");
    recording.is_without_holes();
    let all = recording.intervals.iter().flat_map(|interval| &interval.cgroups);
    let cpu_ns: u64 =
        all.filter(|seen| seen.path.starts_with("/lagstop-command-")).map(|seen| seen.totals.cpu_ns.0).sum();
    assert!(cpu_ns > 10_000_000, "{cpu_ns}");
}
