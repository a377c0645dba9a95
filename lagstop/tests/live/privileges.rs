//! What lagstop may do, and gives up.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use lagstop::recording::Line;
use rustix::fs::{XattrFlags, setxattr};

use crate::{
    Test,
    command::lagstop,
    fixture::{eventually, kernel},
    recorder::Recorder,
};

pub(crate) const TESTS: &[Test] = &[
    ("a_user_with_file_capabilities_measures_and_gives_up_what_attaching_took", file_capabilities),
    ("root_gives_up_what_only_attaching_took", root),
    ("serve_is_nobody_and_may_next_to_nothing", serving),
    ("commands_that_only_read_files_may_nothing", reading),
    ("check_says_how_top_would_run", check),
    ("check_says_what_a_container_lacks", container),
];

pub(crate) const NOBODY: u32 = 65_534;
/// Numbers of capabilities, include/uapi/linux/capability.h.
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Gives the file capabilities, as setcap(8) does: `struct vfs_ns_cap_data` of revision 2.
fn setcap(file: &Path, capabilities: &[u32]) {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    let set = capabilities.iter().fold(0u64, |set, capability| set | 1 << capability);
    let words = [REVISION_2_EFFECTIVE, set as u32, 0, (set >> 32) as u32, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    setxattr(file, "security.capability", &bytes, XattrFlags::empty()).unwrap();
}

fn in_bounding_set(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
    u64::from_str_radix(set.trim(), 16).unwrap() >> capability & 1 == 1
}

/// Records for a moment with `options`, and gives the effective capabilities of its threads meanwhile, and the intervals.
fn record(command: &mut Command, options: &[&str]) -> (Vec<u64>, usize) {
    let mut child = command
        .args(["record", "--duration", "2s", "--interval", "200ms"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = stdout.lines().map_while(Result::ok);
    let header = lines.next().unwrap_or_else(|| {
        panic!("{}", std::io::read_to_string(child.stderr.take().unwrap()).unwrap());
    });
    assert!(header.contains("\"kind\":\"header\""), "{header}");
    thread::sleep(Duration::from_millis(300));
    let mut held = Vec::new();
    for thread in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!(field("NoNewPrivs:"), "1");
        for set in ["CapEff:", "CapPrm:"] {
            held.push(u64::from_str_radix(&field(set), 16).unwrap());
        }
    }
    let intervals = lines.filter(|line| matches!(serde_json::from_str(line), Ok(Line::Interval(_)))).count();
    assert!(child.wait().unwrap().success());
    (held, intervals)
}

/// A copy of `program` in a place where everybody may go.
pub(crate) fn copy(program: &Path, home: &tempfile::TempDir) -> PathBuf {
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = home.path().join("program");
    // By another process: what this one has open for writing, children of other tests may hold for a moment, and nobody can
    // start it meanwhile.
    assert!(Command::new("cp").args([program, &copy]).status().unwrap().success());
    copy
}

fn file_capabilities() {
    let home = tempfile::tempdir().unwrap();
    let program = copy(&lagstop(), &home);
    let mut given = vec![CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH];
    // For kernels before 5.11, where maps count as locked memory. A capability that nobody may have here must not be
    // asked for.
    if in_bounding_set(CAP_SYS_RESOURCE) {
        given.push(CAP_SYS_RESOURCE);
    }
    setcap(&program, &given);
    let (held, intervals) = record(Command::new(&program).uid(NOBODY).gid(NOBODY), &[]);
    println!("{held:x?}, {intervals} intervals");
    assert!(intervals >= 5 && held.len() >= 4, "{intervals} intervals, {held:?}");
    for set in held {
        assert_eq!(set & (1 << CAP_PERFMON | 1 << CAP_SYS_RESOURCE), 0, "{set:x}");
        assert_ne!(set & 1 << CAP_DAC_READ_SEARCH, 0, "{set:x}");
    }
}

/// Since 5.19 maps are read through their mappings and descriptors without CAP_BPF, whatever `unprivileged_bpf_disabled`.
fn is_bpf_needed_to_read() -> bool {
    kernel() < (5, 19)
}

fn root() {
    let holds = |sets: &[u64], capability: u32| sets.iter().all(|set| set >> capability & 1 == 1);
    let lacks = |sets: &[u64], capability: u32| sets.iter().all(|set| set >> capability & 1 == 0);

    let (held, intervals) = record(&mut Command::new(lagstop()), &[]);
    println!("{held:x?}");
    assert!(intervals >= 5, "{intervals}");
    assert!(lacks(&held, CAP_PERFMON) && lacks(&held, CAP_NET_ADMIN), "{held:x?}");
    assert!(is_bpf_needed_to_read() || lacks(&held, CAP_BPF), "{held:x?}");
    // Containers listen in network namespaces of their own. Only the thread that reads enters them, again and again.
    for capability in [CAP_SYS_ADMIN, CAP_SYS_PTRACE] {
        assert!(!lacks(&held, capability) && !holds(&held, capability), "{capability}: {held:x?}");
    }
    assert!(holds(&held, CAP_DAC_READ_SEARCH), "{held:x?}");

    let (held, _) = record(&mut Command::new(lagstop()), &["--hooks", "accept=off"]);
    println!("{held:x?} without accept waits");
    assert!(lacks(&held, CAP_SYS_ADMIN) && lacks(&held, CAP_SYS_PTRACE), "{held:x?}");
}

/// A thread of a process, as the kernel sees it.
#[derive(Debug)]
struct Thread {
    name: String,
    /// Real, effective, saved, and of files.
    users: String,
    held: u64,
    permitted: u64,
}

fn threads(pid: u32) -> Vec<Thread> {
    let thread = |status: String| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let set = |name: &str| u64::from_str_radix(&field(name), 16).unwrap();
        let users = field("Uid:").replace('\t', " ");
        Thread { name: field("Name:"), users, held: set("CapEff:"), permitted: set("CapPrm:") }
    };
    let all = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // Some are there for a moment only.
    all.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok()).map(thread).collect()
}

fn serving() {
    let mut serve = Command::new(lagstop());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--interval", "200ms"]);
    let serve = Recorder::run(&mut serve);
    eventually("a server", || serve.says("/metrics (Ctrl-C ends)"));
    // It listens before it gives up privileges, but only answers afterwards.
    let said = serve.said();
    let address = said.split("serving http://").nth(1).unwrap().split('/').next().unwrap();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET /-/healthy HTTP/1.0\r\n\r\n").unwrap();
    stranger.read_exact(&mut [0]).unwrap();
    let threads = threads(serve.pid());
    println!("{threads:x?}");
    if in_bounding_set(CAP_SETUID) && in_bounding_set(CAP_SETGID) {
        let nobody = [NOBODY; 4].map(|id| id.to_string()).join(" ");
        assert!(threads.iter().all(|thread| thread.users == nobody), "{threads:x?}");
    }
    let server = threads.iter().find(|thread| thread.name == "serve").unwrap();
    assert_eq!((server.held, server.permitted), (0, 0), "{server:x?}");
    let enters = threads.iter().filter(|thread| thread.permitted & (1 << CAP_SYS_ADMIN) != 0).count();
    // The thread that reads, and one that it starts while it is in another namespace.
    assert!((1..=2).contains(&enters), "{threads:x?}");
}

fn reading() {
    let home = tempfile::tempdir().unwrap();
    let program = copy(&lagstop(), &home);
    setcap(&program, &[CAP_DAC_READ_SEARCH]);
    let secret = home.path().join("secret");
    fs::write(&secret, "hush\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for arguments in [&["show"][..], &["diagnose"], &["cut", "--output", "-"]] {
        let output = Command::new(&program).uid(NOBODY).gid(NOBODY).args(arguments).arg(&secret).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("Permission denied") && !said.contains("hush"), "{said}");
    }

    // A server that takes its time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut fleet = Command::new(lagstop());
    // The environment's proxies are not for these requests.
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        fleet.env_remove(proxy);
    }
    let fleet = Recorder::run(fleet.args(["fleet", "--prometheus", url.as_str()]));
    let asked = listener.accept().unwrap();
    let threads = threads(fleet.pid());
    assert!(!threads.is_empty(), "it is there");
    for thread in threads {
        assert_eq!((thread.held, thread.permitted), (0, 0), "{thread:x?}");
    }
    drop(asked);
}

/// Runs `lagstop check`: its exit status, and what it found.
fn run_check(command: &mut Command) -> (i32, serde_json::Value) {
    let Output { status, stdout, stderr } = command.args(["check", "--format", "json"]).output().unwrap();
    let found =
        serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&stderr)));
    (status.code().unwrap(), found)
}

fn check() {
    let (code, found) = run_check(&mut Command::new(lagstop()));
    let not_measured = found["measures"].as_array().unwrap().iter().filter(|measure| measure["way"].is_null()).count();
    let expected = match found["verdict"].as_str().unwrap() {
        "full" => 0,
        "degraded" => 3,
        other => panic!("{other}: {found}"),
    };
    assert_eq!((code, found["tried"].as_bool()), (expected, Some(true)));
    assert!(not_measured == 0 || code == 3, "{found}");

    let home = tempfile::tempdir().unwrap();
    let (code, found) = run_check(Command::new(copy(&lagstop(), &home)).uid(NOBODY).gid(NOBODY));
    assert_eq!((code, found["tried"].as_bool(), found["verdict"].as_str()), (4, Some(false), Some("unusable")));
    // What the kernel has can be told all the same.
    assert_eq!(found["measures"][0]["way"], "sched_switch");
}

/// With namespaces of its own, as a container has them, what is out of sight is said; with the host's user namespace gone
/// nothing is measured, and that is said.
fn container() {
    let check = |namespaces: &[&str]| {
        let mut command = Command::new("unshare");
        let (code, found) = run_check(command.args(namespaces).args(["--fork", "--mount-proc"]).arg(lagstop()));
        let state = |name: &str| {
            let all = found["requirements"].as_array().unwrap();
            all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {found}"))["state"].clone()
        };
        let states =
            ["the host's processes", "the host's privileges"].map(|name| state(name).as_str().unwrap().to_owned());
        (code, found["verdict"].as_str().unwrap().to_owned(), found["tried"].as_bool().unwrap(), states)
    };
    let missed = |processes: &str, privileges: &str| [processes.to_owned(), privileges.to_owned()];

    let (code, verdict, tried, states) = check(&["--pid"]);
    assert_eq!((code, verdict.as_str(), tried), (3, "degraded", true));
    assert_eq!(states, missed("missed", "satisfied"));

    let (code, verdict, tried, states) = check(&["--pid", "--user", "--map-root-user"]);
    assert_eq!((code, verdict.as_str(), tried), (4, "unusable", false));
    assert_eq!(states, missed("missed", "missed"));
}
