//! Runtimes that are installed here, each with a container of its own: what lagstop calls it, and how long virtual CPUs were ready.

use std::{
    fs,
    io::Write,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    thread::CpuSet,
};
use serde_json::Value;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
    load,
};

pub(crate) const TESTS: &[Test] = &[
    ("a_container_of_lxc_has_its_name", lxc),
    ("a_container_of_podman_has_its_name_and_is_renamed", podman),
    ("a_container_of_docker_has_its_name_and_is_renamed", docker),
    ("a_container_of_nspawn_has_its_name", nspawn),
    ("vcpus_were_ready_for_as_long_as_proc_says", ready),
];

/// What a test needs that is not here.
pub(crate) fn lacks(test: &str) -> Option<&'static str> {
    let needed: &[&str] = match test {
        "a_container_of_lxc_has_its_name" => &["lxc-execute", "busybox"],
        "a_container_of_podman_has_its_name_and_is_renamed" => &["podman", "runc", "busybox", "tar"],
        "a_container_of_docker_has_its_name_and_is_renamed" => &["dockerd", "docker", "busybox", "tar"],
        "a_container_of_nspawn_has_its_name" => &["systemd-nspawn", "busybox"],
        _ => &[],
    };
    needed.iter().copied().find(|program| find(program).is_none())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|directory| directory.join(program)).find(|place| place.is_file())
}

fn command(program: &str) -> Command {
    Command::new(find(program).unwrap())
}

/// Where runtimes keep their containers, in this process' mounts alone: nothing of it is left, and nothing of the host's is touched.
struct Storage;

impl Storage {
    const PLACE: &str = "/var/lib";

    fn make() -> Self {
        mount("lagstop-test", Self::PLACE, "tmpfs", MountFlags::empty(), c"size=256m,mode=755").unwrap();
        let rootfs = Self::path("rootfs");
        for directory in ["bin", "proc", "sys", "dev", "etc", "tmp"] {
            fs::create_dir_all(rootfs.join(directory)).unwrap();
        }
        fs::copy(find("busybox").unwrap(), rootfs.join("bin/busybox")).unwrap();
        symlink("busybox", rootfs.join("bin/sh")).unwrap();
        Self
    }

    fn path(name: &str) -> PathBuf {
        Path::new(Self::PLACE).join(name)
    }

    /// The root as an image, by `import`.
    fn import(import: &mut Command) {
        let mut tar = command("tar").args(["-C", "/var/lib/rootfs", "-c", "."]).stdout(Stdio::piped()).spawn().unwrap();
        let output = import.stdin(tar.stdout.take().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        tar.wait().unwrap();
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let _ = unmount(Self::PLACE, UnmountFlags::DETACH);
    }
}

/// Directories of cgroups that runtimes leave behind.
struct Leftovers(Vec<String>);

impl Leftovers {
    fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        fn remove(directory: &Path) {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            let _ = fs::remove_dir(directory);
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        for mount in mounts.filter(|fields| fields[2].starts_with("cgroup")) {
            self.0.iter().for_each(|name| remove(&Path::new(mount[1]).join(name)));
        }
    }
}

/// Stopped where the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BUSY: [&str; 4] = ["/bin/busybox", "sh", "-c", "while :; do :; done"];

/// What ran in the last moment: paths, names and containers.
fn seen() -> Vec<(String, String, Option<String>)> {
    let mut top = Command::new(lagstop());
    let output = top.args(["top", "--once", "--format", "json", "--interval", "300ms"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let interval: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = interval["cgroups"].as_array().unwrap().iter();
    all.map(|one| (text(&one["path"]).unwrap(), text(&one["name"]).unwrap(), text(&one["workload"]["container"])))
        .collect()
}

/// Waits until a cgroup is called so; gives its container.
fn eventually_seen(name: &str) -> Option<String> {
    let mut container = None;
    eventually(name, || {
        let seen = seen();
        println!("{seen:?}");
        seen.into_iter().find(|(_, called, _)| called == name).map(|(.., found)| container = found).is_some()
    });
    container
}

fn called() -> String {
    format!("lagstop-test-{}", std::process::id())
}

fn lxc() {
    let _leftovers = Leftovers::of(&["lxc.pivot"]);
    let _storage = Storage::make();
    let config = Storage::path("config");
    let rootfs = Storage::path("rootfs");
    fs::write(&config, format!("lxc.rootfs.path = dir:{}\nlxc.net.0.type = empty\n", rootfs.display())).unwrap();
    let called = called();
    let _running = Running(
        command("lxc-execute")
            .args(["-P", "/var/lib", "-n", &called, "-f"])
            .arg(&config)
            .arg("--")
            .args(BUSY)
            .spawn()
            .unwrap(),
    );
    assert_eq!(eventually_seen(&format!("lxc:{called}")).as_deref(), Some(called.as_str()));
    let stopped = command("lxc-stop").args(["-P", "/var/lib", "-k", "-n", &called]).status().unwrap();
    assert!(stopped.success());
}

fn podman() {
    let _leftovers = Leftovers::of(&["libpod_parent"]);
    let _storage = Storage::make();
    let run = Storage::path("run");
    let podman = || {
        let mut podman = command("podman");
        podman.args(["--runtime"]).arg(find("runc").unwrap()).args([
            "--cgroup-manager",
            "cgroupfs",
            "--storage-driver",
            "vfs",
        ]);
        podman.args(["--root", "/var/lib/containers/storage", "--runroot"]).arg(&run).arg("--tmpdir").arg(&run);
        podman
    };
    Storage::import(podman().args(["import", "-", "lagstop-test"]));
    let called = called();
    let mut run = podman();
    run.args([
        "run",
        "--name",
        &called,
        "--network",
        "none",
        "--ulimit",
        "nofile=1024:1024",
        "--ulimit",
        "nproc=1000:1000",
    ]);
    let _running = Running(run.arg("lagstop-test").args(BUSY).spawn().unwrap());
    assert_eq!(eventually_seen(&format!("podman:{called}")).as_deref(), Some(called.as_str()));
    let renamed = format!("{called}-renamed");
    assert!(podman().args(["rename", &called, &renamed]).status().unwrap().success());
    assert_eq!(eventually_seen(&format!("podman:{renamed}")), Some(renamed.clone()));
    assert!(podman().args(["kill", &renamed]).status().unwrap().success());
    assert!(podman().args(["wait", &renamed]).status().unwrap().success());
}

/// A daemon, which is asked to end.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn docker() {
    let _leftovers = Leftovers::of(&["docker"]);
    let _storage = Storage::make();
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("socket");
    let host = format!("unix://{}", socket.display());
    let mut dockerd = command("dockerd");
    dockerd.args(["--iptables=false", "--ip6tables=false", "--bridge=none", "-s", "vfs", "--exec-opt"]);
    dockerd.args(["native.cgroupdriver=cgroupfs", "-H", &host, "--exec-root"]).arg(home.path().join("run"));
    dockerd.arg("--pidfile").arg(home.path().join("pid"));
    let _daemon = Daemon(dockerd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let docker = || {
        let mut docker = command("docker");
        docker.args(["-H", &host]);
        docker
    };
    eventually("an answer of dockerd", || {
        docker().arg("info").stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    });
    Storage::import(docker().args(["import", "-", "lagstop-test"]));
    let called = called();
    let run = docker()
        .args(["run", "-d", "--name", &called, "--network", "none", "lagstop-test"])
        .args(BUSY)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let id = String::from_utf8(run.stdout).unwrap();
    assert_eq!(eventually_seen(&format!("docker:{called}")).as_deref(), Some(called.as_str()));
    let renamed = format!("{called}-renamed");
    assert!(docker().args(["rename", &called, &renamed]).status().unwrap().success());
    assert_eq!(eventually_seen(&format!("docker:{renamed}")), Some(renamed.clone()));
    // A cgroup elsewhere with that id is another one.
    assert!(
        seen()
            .iter()
            .filter(|(_, name, _)| *name == format!("docker:{renamed}"))
            .all(|(path, ..)| path.contains(id.trim()))
    );
    assert!(docker().args(["rm", "-f", &renamed]).stdout(Stdio::null()).status().unwrap().success());
}

/// As its unit starts it, where no systemd runs that would start the unit.
fn nspawn() {
    let called = called();
    let slice = TestCgroup::top(&format!("/{called}.slice"));
    let unit = slice.child(&format!("systemd-nspawn@{called}.service"));
    // It makes cgroups below, and the same in version 1's hierarchy of systemd's own.
    let _leftovers = Leftovers::of(&[slice.path.trim_start_matches('/')]);
    let _storage = Storage::make();
    let rootfs = Storage::path("rootfs");
    fs::write(rootfs.join("etc/os-release"), "ID=test\n").unwrap();
    fs::create_dir(rootfs.join("usr")).unwrap();
    let mut starter = Command::new("sh");
    starter.args(["-c", "read go; exec \"$0\" \"$@\""]).arg(find("systemd-nspawn").unwrap());
    starter.args(["--keep-unit", "--register=no", "--quiet", "--pipe", "--machine", &called, "--directory"]);
    let starter = starter.arg(&rootfs).args(BUSY).stdin(Stdio::piped());
    // Killed, it would leave behind what runs inside.
    let mut running = Daemon(starter.spawn().unwrap());
    unit.take_in(running.0.id());
    running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    // Where the scheduler groups by the unified hierarchy, what is inside has a cgroup of its own.
    let names = [format!("nspawn:{called}"), format!("nspawn:{called}/payload")];
    eventually("its name", || {
        let seen = seen();
        println!("{seen:?}");
        seen.iter().any(|(_, name, container)| names.contains(name) && container.as_ref() == Some(&called))
    });
}

/// Two guests of one virtual CPU each, on the same CPU: one has a cgroup for it, the other has only its thread's name.
fn ready() {
    let [machine, firecracker] = ["/machine", "/firecracker"].map(TestCgroup::top);
    let guest = machine.child(&format!("qemu-7-{}.libvirt-qemu", called()));
    let vcpu = guest.child("vcpu0");
    let vm = firecracker.child(&called());
    let home = tempfile::tempdir().unwrap();
    // A process is called as the file that it was started from.
    let thread = home.path().join("fc_vcpu 0");
    symlink(std::env::current_exe().unwrap(), &thread).unwrap();
    let directories = vm.directories().iter().map(|one| one.display().to_string()).collect::<Vec<_>>().join(":");
    let mut of_vm = Command::new(&thread);
    of_vm.arg0("fc_vcpu 0").args([load::FLAG, "spin 60000"]).env(load::CGROUPS, directories);
    let mut loads = [vcpu.start("spin 60000"), Load::run(&mut of_vm)];
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter().for_each(|load| pin(load.pid()));
    loads.iter_mut().for_each(Load::go);
    std::thread::sleep(Duration::from_millis(300));
    let waited = || loads.each_ref().map(|load| tasks_waited(load.pid()));
    let (start, before) = (Instant::now(), waited());
    let mut top = Command::new(lagstop());
    let output =
        top.args(["top", "--batch", "--count", "6", "--format", "json", "--interval", "500ms"]).output().unwrap();
    let (over, after) = (start.elapsed().as_nanos() as f64, waited());
    let lines = String::from_utf8(output.stdout).unwrap();
    let intervals: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |path: &str, field: &str| -> f64 {
        let cgroups = intervals.iter().flat_map(|interval| interval["cgroups"].as_array().unwrap());
        cgroups.filter(|one| one["path"] == path).map(|one| one[field].as_f64().unwrap_or(0.0)).sum()
    };
    for (n, path) in [&vcpu.path, &vm.path].into_iter().enumerate() {
        let ready = sum(path, "vcpu_wait_ns") / sum(path, "vcpu_ns");
        let truth = (after[n] - before[n]) as f64 / over;
        println!("{path}: ready {ready:.3}, by /proc {truth:.3}");
        assert!(truth > 0.2, "they compete: {truth}");
        assert!((ready - truth).abs() < 0.1, "{path}: {ready} and {truth}");
    }
    // Read from /proc, it is what the programs count for the cgroup.
    let (read, counted) = (sum(&vm.path, "vcpu_wait_ns"), sum(&vm.path, "runq_wait_ns"));
    assert!((read / counted - 1.0).abs() < 0.1, "{read} and {counted}");
    // Of others nothing is said.
    let others = intervals.iter().flat_map(|interval| interval["cgroups"].as_array().unwrap());
    let others = others.filter(|one| one["path"] != *vcpu.path && one["path"] != *vm.path);
    assert!(others.into_iter().all(|one| one.get("vcpu_ns").is_none_or(Value::is_null)));
    // Whoever looks at the table sees the column.
    let output = Command::new(lagstop()).args(["top", "--once", "--interval", "300ms"]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    println!("{table}");
    assert!(table.contains("ready%") && table.contains(&format!("firecracker:{}", called())), "{table}");
}

/// Keeps a process to the first CPU.
fn pin(pid: u32) {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    let pid = rustix::process::Pid::from_raw(pid.cast_signed());
    rustix::thread::sched_setaffinity(pid, &cpus).unwrap();
}

/// How long the threads of a process have waited, in nanoseconds.
fn tasks_waited(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let waited = |task: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    tasks.filter_map(waited).sum()
}
