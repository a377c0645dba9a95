//! From cgroup to result.

use std::{
    collections::HashSet,
    io::{self, BufRead, BufReader, Write},
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    Assignment, Bench, BenchHost, BenchRun, BenchSettings, FunctionDemand, Latency, MissingRun, Speed, Tally, at_once,
    cleanup::PURPOSE, demands, function, point::BenchSide, resource_limits::raise_limit_of_files,
};
use crate::{
    background::{Background, BackgroundError},
    display::plain,
    host::{Hierarchy, OwnCgroup, Version},
    model::{self, CgroupId, Interval, Nanos},
    trial::{Dynamic, Kernel, Made, Policy, PolicyChange, PolicyError, Sides, Switch, SwitchError, TriedGroup},
    units::KernelTime,
};

/// What ends a benchmark before its time.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Cgroups cannot be made.
    #[error("cannot create the cgroup {path}: {}. Run as root, with writable cgroups", plain(source))]
    Cgroup { path: String, source: io::Error },
    /// There is one of that name.
    #[error("{0} already exists and was not left by a benchmark. Choose another name with --base")]
    Taken(String),
    /// The scheduler would have no groups for functions.
    #[error(
        "the scheduler has no group for {0}, because the cpu controller is not enabled there. Write +cpu to \
         cgroup.subtree_control of the cgroups above it"
    )]
    NoGroup(String),
    /// There would be too many threads.
    #[error(
        "{0} functions need more than half of the threads that this host has left. Use lower densities with --sweep"
    )]
    NoRoom(u32),
    /// A function cannot be started, or ended before its time.
    #[error("function {function} {what}: {}", plain(source))]
    Function {
        function: u32,
        /// What it did not do.
        what: &'static str,
        source: io::Error,
    },
    /// The host cannot be measured.
    #[error("cannot measure the host: {0}")]
    Background(#[source] BackgroundError),
    /// What measures in the background did not get to run while it mattered.
    #[error("no complete interval was measured: the host is too busy for this --duration. Use a longer one")]
    NoInterval,
    /// A change to scheduling cannot be made.
    #[error("{policy} cannot be tried: {source}")]
    Policy { policy: Policy, source: PolicyRefusal },
    /// It was asked to stop.
    #[error("stopped. All functions and cgroups were removed")]
    Stopped,
}

/// Why a change to scheduling cannot be made.
#[derive(Debug, Error)]
pub enum PolicyRefusal {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{change}: changed by another program to {now}")]
    Changed { change: Box<PolicyChange>, now: String },
    #[error("{change}: {}", plain(source))]
    Refused { change: Box<PolicyChange>, source: io::Error },
}

impl BenchError {
    /// The error that the scheduler of a policy is not, or no longer, in force.
    fn switch(policy: Policy, source: SwitchError) -> Self {
        Self::Policy { policy, source: PolicyRefusal::Policy(source.into()) }
    }

    /// Would the same error occur in all other runs?
    const fn ends_all(&self) -> bool {
        !matches!(self, Self::Policy { .. } | Self::NoInterval)
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct BenchProgress {
    /// Which run this is, from 0 on, and how many there will be.
    pub run: usize,
    /// How many there will be.
    pub runs: usize,
    pub functions: u32,
    /// How long all of it will take from here.
    pub left: Duration,
}

/// Runs all of it, for as long as `stop` is not set; tells `progress` now and then how far it is. What was finished before it
/// had to end is told, and what was not. Where a policy is refused or nothing was measured, the other
/// runs are made.
///
/// # Errors
/// See [`BenchError`], where not a single run was finished. Nothing is left of it then.
pub fn run(
    settings: &BenchSettings,
    hierarchy: &Hierarchy,
    host: BenchHost,
    progress: &mut dyn FnMut(BenchProgress),
    stop: &Arc<AtomicBool>,
) -> Result<Bench, BenchError> {
    raise_limit_of_files();
    let speed = Speed::calibrate();
    let cpus = host.cpus;
    let mut bench = Bench::new(settings, host);
    let each = settings.warm_up + settings.duration + BenchSettings::IN_TIME;
    let plan = plan(settings);
    let kernel = Kernel::here(hierarchy.clone());
    let mut wrong = None;
    for (run, &(round, density, policy)) in plan.iter().enumerate() {
        let functions = density.saturating_mul(cpus);
        let mut tell = |elapsed: Duration| {
            let runs = u32::try_from(plan.len() - run).unwrap_or(u32::MAX);
            progress(BenchProgress {
                run,
                runs: plan.len(),
                functions,
                left: each.saturating_mul(runs).saturating_sub(elapsed),
            });
        };
        let deployment = Deployment::put_up(settings, hierarchy, functions, speed, stop);
        let point = deployment.and_then(|deployment| deployment.measure(settings, policy, &kernel, &mut tell));
        let error = match point {
            Ok(mut point) => {
                (point.density, point.round, point.policy) = (density, round, policy);
                bench.points.push(point);
                continue;
            }
            Err(error) => error,
        };
        let ends_all = error.ends_all();
        let not_made = if ends_all { &plan[run..] } else { &plan[run..=run] };
        let why = error.to_string();
        bench.missing.extend(not_made.iter().map(|&(round, density, policy)| MissingRun {
            density,
            policy,
            round,
            why: why.clone(),
        }));
        // The error that ended all runs matters most.
        wrong = wrong.filter(|_| !ends_all).or(Some(error));
        if ends_all {
            break;
        }
    }
    match wrong {
        Some(error) if bench.points.is_empty() => Err(error),
        _ => Ok(bench),
    }
}

/// Round, density and policy of each run: policies take turns, so that what changes on its own is shared by all of them.
fn plan(settings: &BenchSettings) -> Vec<(u32, u32, Option<Policy>)> {
    let none = [None];
    let policies = if settings.policies.is_empty() { &none[..] } else { &settings.policies[..] };
    let mut plan = Vec::new();
    for round in 0..settings.rounds {
        for &density in &settings.densities {
            plan.extend(policies.iter().map(|&policy| (round, density, policy)));
        }
    }
    plan
}

/// Functions in their cgroups. Dropping it ends the functions and removes the cgroups.
struct Deployment {
    base: OwnCgroup,
    /// Cgroups inside of the base, each after the one that contains it.
    inner: Vec<OwnCgroup>,
    functions: Vec<Function>,
    /// The most requests that each processes concurrently.
    at_once: u32,
    stop: Arc<AtomicBool>,
}

struct Function {
    demand: FunctionDemand,
    /// Its cgroup; the Load Credit is what it asks for on average.
    group: TriedGroup,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Deployment {
    fn put_up(
        settings: &BenchSettings,
        hierarchy: &Hierarchy,
        functions: u32,
        speed: Speed,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, BenchError> {
        let at_once = at_once(functions).ok_or(BenchError::NoRoom(functions))?;
        let directory = hierarchy.mount.join(&settings.base);
        let cannot = |path: &std::path::Path, source| BenchError::Cgroup { path: path.display().to_string(), source };
        let base = OwnCgroup::make(directory.clone(), PURPOSE).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BenchError::Taken(directory.display().to_string()),
            _ => cannot(&directory, error),
        })?;
        let mut this = Self { base, inner: Vec::new(), functions: Vec::new(), at_once, stop: Arc::clone(stop) };
        if hierarchy.version == Version::V2 && !directory.join("cpu.weight").exists() {
            return Err(BenchError::NoGroup(directory.display().to_string()));
        }
        for level in 0..settings.depth {
            let above = this.inner.last().unwrap_or(&this.base);
            above.hand_down_cpu(hierarchy).map_err(|error| cannot(above.directory(), error))?;
            let inner =
                above.child(&format!("level-{level}"), PURPOSE).map_err(|error| cannot(above.directory(), error))?;
            this.inner.push(inner);
        }
        let above = this.inner.last().unwrap_or(&this.base);
        above.hand_down_cpu(hierarchy).map_err(|error| cannot(above.directory(), error))?;
        let above = above.directory().to_owned();
        let chosen = (0..functions).zip(demands(settings, functions));
        for (number, demand) in chosen.filter(|(_, demand)| demand.is_light || !settings.light_alone) {
            this.refuse_when_stopped()?;
            let directory = above.join(format!("func-{number}"));
            let cgroup = OwnCgroup::make(directory.clone(), PURPOSE).map_err(|error| cannot(&directory, error))?;
            this.inner.push(cgroup);
            let wrong = |what| move |source| BenchError::Function { function: number, what, source };
            let function = this.start(hierarchy, demand, settings.work).map_err(wrong("cannot be started"))?;
            this.functions.push(function);
            let assignment = Assignment::new(settings, number, demand, speed, at_once);
            this.tell(&assignment).map_err(wrong("cannot receive its settings"))?;
        }
        for (number, function) in (0..).zip(&mut this.functions) {
            let wrong = |source| BenchError::Function { function: number, what: "is not ready", source };
            match function.hear().map_err(wrong)? {
                line if line == function::READY => {}
                _ => return Err(wrong(io::ErrorKind::InvalidData.into())),
            }
        }
        Ok(this)
    }

    /// Starts a function in the cgroup that was made last.
    fn start(&self, hierarchy: &Hierarchy, demand: FunctionDemand, work: Duration) -> io::Result<Function> {
        let cgroup = self.inner.last().unwrap_or(&self.base);
        let mut command = Command::new(std::env::current_exe()?);
        // Ctrl-C must only reach the benchmark, which then ends the functions.
        command.arg(FUNCTION).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = cgroup.spawn(&mut command)?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let directory = cgroup.directory().to_owned();
        let path = directory.strip_prefix(&hierarchy.mount).unwrap_or(&directory);
        let group = TriedGroup {
            id: CgroupId(directory.metadata()?.ino()),
            path: format!("/{}", path.display()),
            cores: demand.rate.unwrap_or_default() * work.as_secs_f64(),
            directory,
        };
        Ok(Function { demand, group, child, stdin, stdout: BufReader::new(stdout) })
    }

    /// Tells the function that was started last.
    fn tell(&mut self, assignment: &Assignment) -> io::Result<()> {
        let line = serde_json::to_string(assignment)?;
        self.functions.last_mut().map_or(Ok(()), |function| function.say(&line))
    }

    fn refuse_when_stopped(&self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Stopped) } else { Ok(()) }
    }

    /// Lets the functions run, and measures.
    fn measure(
        mut self,
        settings: &BenchSettings,
        policy: Option<Policy>,
        kernel: &Kernel,
        tell: &mut dyn FnMut(Duration),
    ) -> Result<BenchRun, BenchError> {
        let count = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        self.refuse_when_stopped()?;
        // Everything else that runs has cgroups of its own, too.
        let interval = interval(settings.duration);
        let background = Background::start(count.saturating_add(ROOM), interval).map_err(BenchError::Background)?;
        let sides = self.sides();
        let to = policy.and_then(Policy::switches_to);
        let mut switch = to.map(|to| Switch::new(to, &settings.switch));
        let mut dynamic = (policy == Some(Policy::LagsDynamic)).then(|| Dynamic::new(&sides, kernel));
        if let Some(policy) = policy {
            let changes = policy.has_effect(kernel).and_then(|()| policy.changes(&sides, kernel));
            let changes = changes.map_err(|source| BenchError::Policy { policy, source: source.into() })?;
            make(policy, changes)?;
            if let Some(switch) = &mut switch {
                let stop = &self.stop;
                let started = switch.start(&mut || {}, &|| !stop.load(Ordering::Relaxed));
                self.refuse_when_stopped()?;
                started.map_err(|source| BenchError::switch(policy, source))?;
            }
        }
        let started = Instant::now();
        // All functions start at the same time, however long it takes to tell them.
        let start = started + LEAD + LEAD_EACH * count;
        let line = KernelTime::of(start).write();
        for (number, function) in (0..).zip(&mut self.functions) {
            let wrong = |source| BenchError::Function { function: number, what: "cannot be released", source };
            function.say(&line).map_err(wrong)?;
        }
        let begins = start + settings.warm_up;
        if Instant::now() > begins {
            let wrong = io::Error::other("sending the start time to all functions took longer than --warm-up");
            return Err(BenchError::Function {
                function: count.saturating_sub(1),
                what: "started too late",
                source: wrong,
            });
        }
        let ends = begins + settings.duration;
        let mut intervals = Vec::new();
        while Instant::now() < ends + BenchSettings::IN_TIME {
            self.refuse_when_stopped()?;
            tell(started.elapsed());
            if let Some((policy, switch)) = policy.zip(switch.as_mut()) {
                switch.look().map_err(|source| BenchError::switch(policy, source))?;
            }
            let Some((times, interval)) = background.next(STEP).map_err(BenchError::Background)? else { continue };
            if let Some(policy) = policy {
                let mut changes = policy.newcomers(&sides, kernel);
                changes.extend(dynamic.iter_mut().flat_map(|dynamic| dynamic.changes(&interval, kernel)));
                make(policy, changes)?;
            }
            // Intervals that are only partly inside are left out, whenever they arrive.
            if times.start >= begins && times.end <= ends {
                intervals.push(interval);
            }
        }
        if let Some((policy, switch)) = policy.zip(switch.as_mut()) {
            switch.end(&mut || {}).map_err(|source| BenchError::switch(policy, source))?;
        }
        if intervals.is_empty() {
            return Err(BenchError::NoInterval);
        }
        let mut tallies = Vec::new();
        for (number, function) in (0..).zip(&mut self.functions) {
            let heard = function.hear().and_then(|line| Ok(serde_json::from_str::<Tally>(&line)?));
            let wrong = |source| BenchError::Function { function: number, what: "did not report its results", source };
            tallies.push(heard.map_err(wrong)?);
        }
        Ok(self.point(settings, &tallies, &intervals))
    }

    fn point(&self, settings: &BenchSettings, tallies: &[Tally], intervals: &[Interval]) -> BenchRun {
        let mut host = model::Host::default();
        if let Some((first, others)) = intervals.split_first() {
            host = first.host.clone();
            others.iter().for_each(|interval| host.add(&interval.host));
        }
        let mut all = Tally::default();
        tallies.iter().for_each(|tally| all.merge(tally));
        let seconds = settings.duration.as_secs_f64();
        let count = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let mut point = BenchRun::new(0, count, 0, seconds, &all, &host);
        point.at_once = self.at_once;
        if !settings.workload.is_closed() {
            point.light = Some(self.side(true, tallies, intervals));
            point.heavy = (!settings.light_alone).then(|| self.side(false, tallies, intervals));
        }
        point
    }

    /// Functions with less than the mean demand, and the others.
    fn sides(&self) -> Sides {
        let of = |is_light: bool| {
            let functions = self.functions.iter().filter(move |function| function.demand.is_light == is_light);
            functions.map(|function| function.group.clone()).collect()
        };
        Sides { light: of(true), heavy: of(false) }.sorted()
    }

    fn side(&self, is_light: bool, tallies: &[Tally], intervals: &[Interval]) -> BenchSide {
        let mut sum = Tally::default();
        let mut ids = HashSet::new();
        for (function, tally) in self.functions.iter().zip(tallies).filter(|(it, _)| it.demand.is_light == is_light) {
            sum.merge(tally);
            ids.insert(function.group.id);
        }
        let time: f64 = intervals.iter().map(|interval| interval.duration_ns.seconds()).sum();
        let of = intervals.iter().flat_map(|interval| &interval.cgroups).filter(|it| ids.contains(&it.id));
        let (mut cpu, mut wait) = (Nanos::ZERO, Some(Nanos::ZERO));
        for cgroup in of {
            cpu = cpu.saturating_add(cgroup.totals.cpu_ns);
            wait = wait.zip(cgroup.totals.runq_wait_ns).map(|(sum, more)| sum.saturating_add(more));
        }
        let mean = |sum: Nanos| if time > 0.0 { sum.seconds() / time } else { 0.0 };
        BenchSide {
            functions: u32::try_from(ids.len()).unwrap_or(u32::MAX),
            offered: sum.offered,
            latency: Latency::from(&sum.latencies),
            cpu: mean(cpu),
            waiting: wait.map(mean),
        }
    }
}

/// Makes changes. Nothing needs to be undone, because the cgroups are removed, and the threads in them end.
fn make(policy: Policy, changes: Vec<PolicyChange>) -> Result<(), BenchError> {
    for change in changes {
        let made = change.make();
        let change = Box::new(change);
        let source = match made {
            Ok(Made::Yes) => continue,
            Ok(Made::No(now)) => PolicyRefusal::Changed { change, now },
            Err(source) => PolicyRefusal::Refused { change, source },
        };
        return Err(BenchError::Policy { policy, source });
    }
    Ok(())
}

/// Name of the hidden subcommand that runs a function.
pub const FUNCTION: &str = "bench-function";
/// Room for other cgroups, which are measured as well.
const ROOM: u32 = 1_000;
const STEP: Duration = Duration::from_millis(100);

/// Length of intervals for runs of this length, so that several of them are completely inside.
fn interval(duration: Duration) -> Duration {
    (duration / 10).clamp(Duration::from_millis(20), Background::INTERVAL)
}
/// How long before they start functions are told, and how much longer for each of them.
const LEAD: Duration = Duration::from_millis(200);
const LEAD_EACH: Duration = Duration::from_millis(1);

impl Function {
    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}")?;
        self.stdin.flush()
    }

    fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.base.kill();
        for function in &mut self.functions {
            let _ = function.child.kill();
            let _ = function.child.wait();
        }
        // The inner cgroups first.
        for cgroup in self.inner.iter().rev().chain([&self.base]) {
            // If one remains, the next benchmark removes it.
            let _ = cgroup.remove();
        }
    }
}
