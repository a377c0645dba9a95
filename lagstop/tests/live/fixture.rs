//! Cgroups and processes of a test, gone when it ends, also when it fails.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    num::NonZeroU32,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use lagstop::{
    host::{Cpus, ExcludedCpus},
    kernel::{AttachOptions, AttachPlan, Btf, Facts, KernelCgroup, KernelReader, KernelSnapshot, Wish, Wishes, attach},
    model::{CgroupCounters, CgroupId, GroupBy, Level, Measure, kernel_version},
    source::{LiveOptions, Stream, live},
};

use crate::load;

/// Why live tests cannot run here; `None` where they can. Gives this process its own debugfs on the way.
pub(crate) fn why_not() -> Option<String> {
    if let Err(error) = AttachPlan::from_facts(facts(), &Wishes::default()) {
        return Some(error.to_string());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("making cgroups needs root".to_owned());
    }
    mount_debugfs().err().map(|error| format!("debugfs cannot be mounted: {error}"))
}

/// What the kernel has. To find it out takes a second where everything is slow, and it stays the same.
pub(crate) fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| Facts::probe(None))
}

/// For this process and its children alone.
fn mount_debugfs() -> std::io::Result<()> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    // SAFETY: called before there are other threads.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(mount("debugfs", "/sys/kernel/debug", "debugfs", MountFlags::empty(), None)?)
}

/// Where the hierarchies are that the tests need.
struct Mounts {
    /// The one that the scheduler groups by.
    cpu: PathBuf,
    /// Where the CPU time is, when `cpu` is of version 1: often the same.
    cpuacct: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl Mounts {
    fn find() -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mount = |wanted: &dyn Fn(&str, &str) -> bool| {
            mounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                wanted(fields[2], fields[3]).then(|| PathBuf::from(fields[1]))
            })
        };
        let v1 = |controller: &'static str| {
            mount(&move |fs, options| fs == "cgroup" && options.split(',').any(|option| option == controller))
        };
        let unified = mount(&|fs, _| fs == "cgroup2");
        let cpu = v1("cpu").or_else(|| unified.clone()).expect("no cgroup hierarchy with the cpu controller");
        let cpuacct = v1("cpuacct");
        Self { cpu, cpuacct, unified }
    }

    fn all(&self) -> Vec<&PathBuf> {
        let mut all: Vec<&PathBuf> =
            [Some(&self.cpu), self.cpuacct.as_ref(), self.unified.as_ref()].into_iter().flatten().collect();
        all.dedup();
        all
    }
}

/// The process whose test made a cgroup that has no name of its own.
const OWNER: &str = "trusted.lagstop.test";

/// Removes a cgroup, and all inside of it, that a test made whose process is gone.
fn remove_abandoned(directory: &Path) {
    let mut owner = [0; 16];
    let Ok(length) = getxattr(directory, OWNER, &mut owner) else { return };
    let owner = String::from_utf8_lossy(&owner[..length]);
    if !Path::new("/proc").join(&*owner).exists() {
        remove_tree(directory);
    }
}

fn remove_tree(directory: &Path) {
    let inside = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    inside.filter(|path| path.is_dir()).for_each(|path| remove_tree(&path));
    fs::remove_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
}

/// A cgroup, in every hierarchy that counts.
pub(crate) struct TestCgroup {
    pub(crate) path: String,
    directories: Vec<PathBuf>,
    mounts: Mounts,
}

impl TestCgroup {
    /// Makes one below the root. The name contains the process id, so that runs do not collide.
    pub(crate) fn new(name: &str) -> Self {
        Self::at(format!("/lagstop-test-{}-{name}", std::process::id()))
    }

    /// Makes one at the top that a runtime would make. Where there is one already, its runtime runs here, unless a run
    /// that was killed left it.
    pub(crate) fn top(path: &str) -> Self {
        let mounts = Mounts::find();
        mounts.all().iter().for_each(|mount| remove_abandoned(&mount.join(path.trim_start_matches('/'))));
        let cgroup = Self::at(path.to_owned());
        for directory in &cgroup.directories {
            setxattr(directory, OWNER, std::process::id().to_string().as_bytes(), XattrFlags::empty()).unwrap();
        }
        cgroup
    }

    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Makes a child of this cgroup.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self::at(format!("{}/{name}", self.path))
    }

    /// Makes a child without a group of the scheduler's, where that is possible: in the unified hierarchy.
    pub(crate) fn child_without_group(&self, name: &str) -> Self {
        Self::make(format!("{}/{name}", self.path))
    }

    fn at(path: String) -> Self {
        let cgroup = Self::make(path);
        if cgroup.is_unified() {
            // The controller must be handed down for the scheduler to group.
            let parent = cgroup.directories[0].parent().unwrap();
            fs::write(parent.join("cgroup.subtree_control"), "+cpu").unwrap();
        }
        cgroup
    }

    fn make(path: String) -> Self {
        let mounts = Mounts::find();
        let mut cgroup = Self { path, directories: Vec::new(), mounts };
        let directories: Vec<PathBuf> = cgroup.mounts.all().into_iter().map(|mount| cgroup.below(mount)).collect();
        for directory in &directories {
            fs::create_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        cgroup.directories = directories;
        cgroup
    }

    fn below(&self, mount: &Path) -> PathBuf {
        mount.join(self.path.trim_start_matches('/'))
    }

    pub(crate) fn id(&self) -> CgroupId {
        CgroupId(fs::metadata(self.below(&self.mounts.cpu)).unwrap().ino())
    }

    /// Moves a process into it.
    pub(crate) fn take_in(&self, pid: u32) {
        for directory in &self.directories {
            fs::write(directory.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }

    /// Is the hierarchy that the scheduler groups by the unified one?
    pub(crate) fn is_unified(&self) -> bool {
        self.mounts.unified.as_ref() == Some(&self.mounts.cpu)
    }

    /// Its id in the unified hierarchy.
    pub(crate) fn leaf_id(&self) -> Option<CgroupId> {
        let unified = self.mounts.unified.as_ref()?;
        Some(CgroupId(fs::metadata(self.below(unified)).unwrap().ino()))
    }

    /// CPU time as the kernel books it.
    pub(crate) fn cpu_ns(&self) -> u64 {
        if let Some(cpuacct) = &self.mounts.cpuacct {
            return fs::read_to_string(self.below(cpuacct).join("cpuacct.usage")).unwrap().trim().parse().unwrap();
        }
        let stat = fs::read_to_string(self.below(&self.mounts.cpu).join("cpu.stat")).unwrap();
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap();
        usage.parse::<u64>().unwrap() * 1_000
    }

    /// Gives it half a CPU.
    pub(crate) fn limit_to_half_a_cpu(&self) {
        self.set_quota("10000 20000", "10000");
    }

    /// Takes its quota away.
    pub(crate) fn lift_the_limit(&self) {
        self.set_quota("max", "-1");
    }

    /// Of a period of 20 ms, as either version of cgroups has it.
    fn set_quota(&self, max: &str, quota_us: &str) {
        let directory = self.below(&self.mounts.cpu);
        if directory.join("cpu.max").exists() {
            fs::write(directory.join("cpu.max"), max).unwrap();
        } else {
            fs::write(directory.join("cpu.cfs_period_us"), "20000").unwrap();
            fs::write(directory.join("cpu.cfs_quota_us"), quota_us).unwrap();
        }
    }

    /// Sets its weight, and its quota where it has one.
    pub(crate) fn entitle(&self, level: &Level) {
        let directory = self.below(&self.mounts.cpu);
        let write = |file: &str, value: u64| fs::write(directory.join(file), value.to_string()).unwrap();
        let weight = level.weight.unwrap();
        let quota = level.quota_ns.zip(level.period_ns).map(|(quota, period)| (quota.0 / 1_000, period.0 / 1_000));
        if directory.join("cpu.weight").exists() {
            write("cpu.weight", weight as u64);
            if let Some((quota, period)) = quota {
                fs::write(directory.join("cpu.max"), format!("{quota} {period}")).unwrap();
            }
        } else {
            write("cpu.shares", (weight * 1_024.0 / 100.0) as u64);
            if let Some((quota, period)) = quota {
                write("cpu.cfs_period_us", period);
                write("cpu.cfs_quota_us", quota);
            }
        }
    }

    /// Lets it run only when nobody else wants to. `false` where the kernel cannot, which is so before 5.15.
    pub(crate) fn make_idle(&self) -> bool {
        let file = self.below(&self.mounts.cpu).join("cpu.idle");
        file.exists() && fs::write(file, "1").is_ok()
    }

    /// Gives it a hundredth of the usual weight, the least that cgroup v2 has.
    pub(crate) fn make_it_light(&self) {
        let directory = self.below(&self.mounts.cpu);
        let (file, least) =
            if directory.join("cpu.weight").exists() { ("cpu.weight", "1") } else { ("cpu.shares", "10") };
        fs::write(directory.join(file), least).unwrap();
    }

    /// Gives it three times the weight of others. Its weight then, and what it is by default, in the units of this version.
    pub(crate) fn triple_its_weight(&self) -> (u64, u64) {
        let directory = self.below(&self.mounts.cpu);
        let (file, default) =
            if directory.join("cpu.weight").exists() { ("cpu.weight", 100) } else { ("cpu.shares", 1_024) };
        fs::write(directory.join(file), (3 * default).to_string()).unwrap();
        (3 * default, default)
    }

    /// `nr_periods`, `nr_throttled` and the time throttled in nanoseconds of its `cpu.stat`.
    pub(crate) fn throttling(&self) -> (u64, u64, u64) {
        let stat = fs::read_to_string(self.below(&self.mounts.cpu).join("cpu.stat")).unwrap();
        let field = |name: &str| {
            let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            Some(value.trim().parse::<u64>().unwrap())
        };
        let time = field("throttled_usec").map(|us| us * 1_000).or_else(|| field("throttled_time"));
        (field("nr_periods").unwrap(), field("nr_throttled").unwrap(), time.unwrap())
    }

    /// Time in nanoseconds in which some of its tasks waited for a CPU, and in which some did and none ran, of its
    /// `cpu.pressure`. `None` where there is no such file, and each where it is not in it.
    pub(crate) fn pressure(&self) -> Option<(Option<u64>, Option<u64>)> {
        let text = fs::read_to_string(self.below(self.mounts.unified.as_ref()?).join("cpu.pressure")).ok()?;
        let total = |kind: &str| {
            let line = text.lines().find(|line| line.starts_with(kind))?;
            Some(line.rsplit_once("total=")?.1.parse::<u64>().ok()? * 1_000)
        };
        Some((total("some"), total("full")))
    }

    /// Starts a load in it: see [`load`].
    pub(crate) fn start(&self, what: &str) -> Load {
        Load::start(&self.directories, what)
    }

    /// Starts a load in the root cgroup, of every hierarchy that counts.
    pub(crate) fn start_in_root(&self, what: &str) -> Load {
        let roots: Vec<PathBuf> = self.mounts.all().into_iter().cloned().collect();
        Load::start(&roots, what)
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            // Its processes have been killed; the last of them may still be on its way out.
            for _ in 0..200 {
                if fs::remove_dir(directory).is_ok() || !directory.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// A process of a test.
pub(crate) struct Load {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Load {
    fn start(directories: &[PathBuf], what: &str) -> Self {
        let joined: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
        let program = std::env::current_exe().unwrap();
        Self::run(Command::new(program).args([load::FLAG, what]).env(load::CGROUPS, joined.join(":")))
    }

    /// A command that behaves like a load.
    pub(crate) fn run(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the load ended early");
        line.trim().to_owned()
    }

    /// Lets it go on from where it waits.
    pub(crate) fn go(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Set where everything is many times slower than on a real machine: loads get less done, and times mean nothing.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("LAGSTOP_TEST_SLOW").is_some()
}

/// The running kernel's version.
pub(crate) fn kernel() -> (u32, u32) {
    kernel_version(&facts().release).unwrap()
}

/// What a load is to reach at least to be worth measuring: `count` on a real machine.
pub(crate) fn at_least(count: u64) -> u64 {
    if is_slow() { count / 25 } else { count }
}

/// How far two clocks may be apart that are read one after the other: `percent` on a real machine.
pub(crate) fn tolerance(percent: f64) -> f64 {
    if is_slow() { percent * 5.0 } else { percent }
}

/// Cgroups, beside the root, that this process itself needs a row for.
pub(crate) fn own_cgroups() -> u32 {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let of = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            wanted(fields.next()?).then(|| fields.next().unwrap_or("/").to_owned())
        })
    };
    let scheduling = of(&|controllers| controllers.split(',').any(|one| one == "cpu")).or_else(|| of(&str::is_empty));
    u32::from(scheduling.is_some_and(|path| path != "/"))
}

/// The programs, attached.
pub(crate) struct Probes {
    pub(crate) reader: KernelReader,
    pub(crate) online: Vec<u32>,
}

/// How they are to be attached.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) group_by: GroupBy,
    pub(crate) max_cgroups: Option<u32>,
    pub(crate) wishes: Wishes,
    /// The kernel's types are read from a file, as on kernels that show none.
    pub(crate) by_file: bool,
    /// CPUs that are left alone.
    pub(crate) excluded: Vec<u32>,
    /// Switches are timed only between some readings.
    pub(crate) samples_cost: bool,
    /// See [`AttachOptions::max_tasks`].
    pub(crate) max_tasks: Option<u32>,
}

impl Setup {
    /// `measure` in one way alone.
    pub(crate) fn by(measure: Measure, way: &'static str) -> Self {
        let mut wishes = Wishes::default();
        wishes.set(measure, Wish::Way(way));
        Self { wishes, ..Self::default() }
    }
}

impl Probes {
    pub(crate) fn attach() -> Self {
        Self::with(&Setup::default())
    }

    pub(crate) fn with(setup: &Setup) -> Self {
        let mut facts = if setup.by_file { Facts::probe(Some(Path::new(Btf::VMLINUX))) } else { facts().clone() };
        let cpus = Cpus::read().unwrap();
        let options = AttachOptions {
            group_by: setup.group_by,
            max_cgroups: setup.max_cgroups.unwrap_or(AttachOptions::DEFAULT_MAX_CGROUPS),
            clock_only: false,
            places: cpus.places(),
            excluded: setup.excluded.clone(),
            samples_cost: setup.samples_cost,
            max_tasks: setup.max_tasks.unwrap_or_else(AttachOptions::default_max_tasks),
        };
        let reader = attach(&mut facts, &setup.wishes, &options).unwrap_or_else(|error| panic!("{error}"));
        let mut probes = Self { reader, online: cpus.without(&setup.excluded).online };
        // The first settles the CPUs: what ran before is not ours.
        probes.snapshot();
        probes
    }

    /// The way in which `measure` is taken, or why it is not.
    pub(crate) fn way(&self, measure: Measure) -> Result<String, String> {
        let hook = self.reader.hooks().into_iter().find(|hook| hook.name == measure.name()).unwrap();
        hook.way.ok_or(hook.detail)
    }

    pub(crate) fn snapshot(&mut self) -> KernelSnapshot {
        self.reader.snapshot(&self.online).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What was counted for `cgroup` since it was first seen.
    pub(crate) fn counters(&mut self, id: CgroupId) -> Arc<CgroupCounters> {
        self.cgroup(id).counters
    }

    /// What is known of `cgroup` now.
    pub(crate) fn cgroup(&mut self, id: CgroupId) -> KernelCgroup {
        let cgroups = self.snapshot().cgroups;
        cgroups.get(&id).cloned().unwrap_or_else(|| {
            let known: BTreeMap<_, _> = cgroups.iter().map(|(id, known)| (id, &known.path)).collect();
            panic!("{id:?} is not among {known:?}")
        })
    }
}

/// Measures as the commands do, ten times a second, on a thread of its own: it gives up capabilities that the next test needs.
pub(crate) fn with_stream<T: Send>(group_by: GroupBy, look: impl AsyncFnOnce(&mut Stream) -> T + Send) -> T {
    with_stream_every(Duration::from_millis(100), group_by, look)
}

/// The same every `interval`.
pub(crate) fn with_stream_every<T: Send>(
    interval: Duration,
    group_by: GroupBy,
    look: impl AsyncFnOnce(&mut Stream) -> T + Send,
) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut stream = live(LiveOptions {
            interval,
            duration: None,
            group_by,
            max_cgroups: LiveOptions::DEFAULT_MAX_CGROUPS,
            load_credit_time: Duration::from_secs(2),
            wishes: Wishes::default(),
            btf: None,
            clock_only: false,
            exclude_cpus: ExcludedCpus::default(),
            cost_sampling: NonZeroU32::MIN,
        })
        .unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(look(&mut stream))
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Asserts that `measured` is within `percent` of `expected`, and prints both.
pub(crate) fn assert_within(what: &str, measured: u64, expected: u64, percent: f64) {
    let off = 100.0 * (measured as f64 - expected as f64) / (expected as f64).max(1.0);
    println!("{what}: measured {measured}, the kernel says {expected}: {off:+.3} %");
    assert!(off.abs() <= percent, "{what} is off by {off:+.3} %, more than {percent} %");
}

/// Asserts that `measured` and `expected` differ by at most `edges`, and prints both.
pub(crate) fn assert_equal_but_for_edges(what: &str, measured: u64, expected: u64, edges: u64) {
    println!("{what}: measured {measured}, the kernel says {expected}");
    assert!(measured.abs_diff(expected) <= edges, "{what}: {measured} against {expected} is more than {edges} edges");
}

/// Waits until `ready`, or fails.
pub(crate) fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let (start, patience) = (Instant::now(), Duration::from_secs(if is_slow() { 60 } else { 15 }));
    while !ready() {
        assert!(start.elapsed() < patience, "{what} did not happen");
        thread::sleep(Duration::from_millis(20));
    }
}
