//! The loads: what runs in which cgroups while a policy is tried.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    process::Command,
};

use super::error::Error;
use crate::{
    tenants::{Tenants, quiet},
    work::{Kind, Work},
};

/// The cgroup that all others of a load are in.
pub(super) const TOP: &str = "lagstop-calibrate";
/// Cgroups that `--light` names, where it names any.
pub(super) const LIGHT: &str = "/lagstop-calibrate/*light*";

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// Whether `--light` names the light cgroups; otherwise diagnose has to find them.
    pub(super) is_named: bool,
    members: Vec<Member>,
    settings: Vec<Setting>,
}

/// What loads have in common, for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    /// Some never sleep.
    Spinning,
    /// On and off.
    Bursty,
    /// They ask for no more than they get.
    ClosedLoop,
    /// They wait for each other.
    Pipeline,
    /// Pods with containers, of unequal weights.
    Nested,
    /// Some have a quota.
    Quota,
    /// More is asked for than there is.
    Overloaded,
    /// All are alike.
    Equal,
    /// There is CPU time left.
    Idle,
}

/// What runs in a cgroup.
#[derive(Clone, Debug)]
struct Member {
    path: String,
    program: Program,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Work { threads: u64, kind: Kind },
    StressNg { threads: u64, method: &'static str },
    Sysbench { threads: u64, per_second: u64, prime: u64 },
}

/// How the cgroup at a path is scheduled.
#[derive(Clone, Debug)]
enum Setting {
    Shares(&'static str, u64),
    Quota(&'static str, f64),
}

/// Bytes that go round in a ring of pipes.
const TOKENS: [u8; 2] = [0; 2];

impl Class {
    pub(super) const ALL: [Self; 9] = [
        Self::Spinning,
        Self::Bursty,
        Self::ClosedLoop,
        Self::Pipeline,
        Self::Nested,
        Self::Quota,
        Self::Overloaded,
        Self::Equal,
        Self::Idle,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Spinning => "spinning",
            Self::Bursty => "bursty",
            Self::ClosedLoop => "closed loop",
            Self::Pipeline => "pipeline",
            Self::Nested => "nested",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::Equal => "equal",
            Self::Idle => "idle",
        }
    }
}

/// All loads, for a host with so many CPUs.
pub(super) fn all(cpus: u64) -> Vec<Load> {
    use Class::{Bursty, ClosedLoop, Equal, Idle, Nested, Overloaded, Pipeline, Quota, Spinning};
    let spin = |threads| Program::Work { threads, kind: Kind::Spin };
    let work = |threads, kind| Program::Work { threads, kind };
    // Wakes up often for a moment, and takes a tenth of a CPU.
    let sleeper = || (4, "light", work(1, Kind::Loop { work_us: 1_000, think_us: 9_000 }));
    let spinners = || Load::new("spinners", Spinning, vec![(2, "heavy", spin(cpus)), sleeper()]);
    let equal = || Load::new("equal", Equal, vec![(2, "light", spin(cpus)), (4, "other", spin(cpus))]);
    let pods = || {
        Load::new(
            "pods",
            Nested,
            vec![
                (2, "burstable/pod-batch/heavy", spin(cpus)),
                (1, "burstable/pod-report/heavy", work(2 * cpus, Kind::Loop { work_us: 50_000, think_us: 5_000 })),
                (1, "burstable/pod-web/light-server", work(2, Kind::Loop { work_us: 2_000, think_us: 30_000 })),
                (1, "burstable/pod-web/light-proxy", work(1, Kind::Loop { work_us: 300, think_us: 5_000 })),
                (2, "burstable/pod-queue/light", work(1, Kind::Serve { per_second: 40.0, work_us: 2_000 })),
            ],
        )
        .with([
            Setting::Shares("burstable", 2_048),
            Setting::Shares("burstable/pod-batch", 1_024),
            Setting::Shares("burstable/pod-report", 512),
            Setting::Shares("burstable/pod-web", 256),
            Setting::Shares("burstable/pod-web/light-proxy-0", 102),
            Setting::Shares("burstable/pod-queue", 102),
        ])
    };
    let stress = |method| Program::StressNg { threads: cpus, method };
    let few = Program::Sysbench { threads: 1, per_second: 40, prime: 4_000 };
    let many = Program::Sysbench { threads: 2, per_second: 100, prime: 2_000 };
    vec![
        spinners(),
        Load::new(
            "stress-ng",
            Spinning,
            vec![
                (1, "heavy-int", stress("int64")),
                (1, "heavy-matrix", stress("matrixprod")),
                (1, "light-few", few),
                (2, "light-many", many),
            ],
        ),
        Load::new(
            "stress-ng-pods",
            Nested,
            vec![
                (1, "pod-int/heavy", stress("int64")),
                (1, "pod-matrix/heavy", stress("matrixprod")),
                (1, "pod-few/light", few),
                (1, "pod-many/light", many),
                (1, "pod-more/light", many),
            ],
        ),
        Load::new(
            "bursts",
            Bursty,
            vec![
                (3, "heavy", work(cpus, Kind::Burst { on_ms: 600, off_ms: 300 })),
                (4, "light", work(1, Kind::Burst { on_ms: 8, off_ms: 120 })),
            ],
        ),
        Load::new(
            "closed-loops",
            ClosedLoop,
            vec![
                (2, "heavy", work(2 * cpus, Kind::Loop { work_us: 80_000, think_us: 20_000 })),
                (4, "light", work(2, Kind::Loop { work_us: 4_000, think_us: 60_000 })),
            ],
        ),
        Load::new(
            "pipeline",
            Pipeline,
            vec![
                (2, "heavy", spin(cpus)),
                (1, "light-reads", work(1, Kind::Pipe { work_us: 300, think_us: 4_000 })),
                (1, "light-works", work(1, Kind::Pipe { work_us: 1_200, think_us: 0 })),
                (1, "light-writes", work(1, Kind::Pipe { work_us: 500, think_us: 0 })),
            ],
        ),
        pods(),
        Load::new("quota-heavy", Quota, vec![(2, "heavy", spin(cpus)), sleeper()])
            .with([Setting::Quota("heavy-0", 0.35 * cpus as f64)]),
        Load::new("quota-light", Quota, vec![(2, "heavy", spin(cpus)), sleeper()])
            .with([Setting::Quota("light-0", 0.06), Setting::Quota("light-1", 0.06)]),
        Load::new("overload", Overloaded, functions(cpus)),
        Load::new(
            "nearly-idle",
            Idle,
            vec![
                (1, "heavy", work(1, Kind::Loop { work_us: 30_000, think_us: 70_000 })),
                (4, "light", work(1, Kind::Loop { work_us: 500, think_us: 50_000 })),
            ],
        ),
        Load::new("crowd", Spinning, vec![(8, "heavy", spin(cpus)), (8, "light", sleeper().2)]).found("crowd"),
        Load::new("overload", Overloaded, functions(cpus)).found("overload-found"),
        equal(),
        equal().found("equal-found"),
    ]
}

/// Nine functions for each CPU in nine bands, each of which asks for 1.6 times as much as the one before, with requests of
/// 40 ms: together 1.2 times what there is. It is the shape of the CFS-LAGS paper's mix (arXiv 2508.15703, §3.1).
fn functions(cpus: u64) -> Vec<(u64, &'static str, Program)> {
    const NAMES: [&str; 9] =
        ["light-1", "light-2", "light-3", "light-4", "mid-5", "mid-6", "heavy-7", "heavy-8", "heavy-9"];
    const GROWTH: f64 = 1.6;
    const REQUEST_US: u64 = 40_000;
    const THREADS: u64 = 4;
    let all: f64 = (0..NAMES.len()).map(|band| GROWTH.powf(band as f64)).sum();
    let of = |(band, name): (usize, &&'static str)| {
        let cpus_wanted = 1.2 * GROWTH.powf(band as f64) / all;
        let per_second = cpus_wanted / (REQUEST_US as f64 / 1e6) / THREADS as f64;
        (cpus, *name, Program::Work { threads: THREADS, kind: Kind::Serve { per_second, work_us: REQUEST_US } })
    };
    NAMES.iter().enumerate().map(of).collect()
}

impl Load {
    /// A load with numbered cgroups: for each group, so many of that name, each with that program in it.
    fn new(name: &'static str, class: Class, groups: Vec<(u64, &'static str, Program)>) -> Self {
        let members = groups.into_iter().flat_map(|(count, path, program)| {
            (0..count).map(move |number| Member { path: format!("{path}-{number}"), program })
        });
        Self { name, class, is_named: true, members: members.collect(), settings: Vec::new() }
    }

    fn with(mut self, settings: impl Into<Vec<Setting>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// The same load under another name, in which diagnose has to find the light cgroups.
    fn found(self, name: &'static str) -> Self {
        Self { name, is_named: false, ..self }
    }

    /// The tools that the load needs; each is in the Debian package of its name.
    pub(super) fn tools(&self) -> Vec<&'static str> {
        let mut tools: Vec<_> = self.members.iter().filter_map(|member| member.program.tool()).collect();
        tools.sort_unstable();
        tools.dedup();
        tools
    }

    /// Starts the load. Should nobody end it, it ends after so many seconds.
    pub(super) fn start(&self, seed: u64, seconds: u64) -> Result<Tenants, Error> {
        let mut tenants = Tenants::make(TOP, "calibrate")?;
        for setting in &self.settings {
            match *setting {
                Setting::Shares(path, shares) => tenants.set_shares(path, shares)?,
                Setting::Quota(path, cpus) => tenants.set_quota(path, cpus)?,
            }
        }
        let stages = self.members.iter().filter(|member| member.program.is_pipe()).count();
        let mut ring = Ring::new(stages).map_err(Error::file("a pipe"))?;
        for (number, member) in (0..).zip(&self.members) {
            let seed = seed.wrapping_mul(1_000).wrapping_add(number);
            let mut command = quiet(member.program.command(seed, seconds).map_err(Error::file("this program"))?);
            if member.program.is_pipe() {
                ring.join(&mut command).map_err(Error::file("a pipe"))?;
            }
            tenants.spawn(&member.path, &mut command)?;
        }
        ring.begin().map_err(Error::file("a pipe"))?;
        Ok(tenants)
    }
}

impl Program {
    const fn tool(self) -> Option<&'static str> {
        match self {
            Self::Work { .. } => None,
            Self::StressNg { .. } => Some("stress-ng"),
            Self::Sysbench { .. } => Some("sysbench"),
        }
    }

    const fn is_pipe(self) -> bool {
        matches!(self, Self::Work { kind: Kind::Pipe { .. }, .. })
    }

    fn command(self, seed: u64, seconds: u64) -> io::Result<Command> {
        match self {
            Self::Work { threads, kind } => Work { seed, threads, seconds, kind }.command(),
            Self::StressNg { threads, method } => {
                let mut command = Command::new("stress-ng");
                command.args(["--quiet", "--cpu", &threads.to_string(), "--cpu-method", method]);
                command.args(["--seed", &seed.to_string(), "--timeout", &format!("{seconds}s")]);
                Ok(command)
            }
            Self::Sysbench { threads, per_second, prime } => {
                let mut command = Command::new("sysbench");
                command.args(["cpu", &format!("--threads={threads}"), &format!("--rate={per_second}")]);
                command.args([&format!("--cpu-max-prime={prime}"), &format!("--time={seconds}")]);
                // The seed has 32 bits, and 0 stands for the time of day.
                command.args([&format!("--rand-seed={}", seed % (1 << 30) + 1), "run"]);
                Ok(command)
            }
        }
    }
}

/// Pipes between processes, from the last one to the first as well.
struct Ring {
    pipes: Vec<(PipeReader, PipeWriter)>,
    joined: usize,
}

impl Ring {
    fn new(stages: usize) -> io::Result<Self> {
        Ok(Self { pipes: (0..stages).map(|_| io::pipe()).collect::<Result<_, _>>()?, joined: 0 })
    }

    /// The next one reads what the one before writes.
    fn join(&mut self, command: &mut Command) -> io::Result<()> {
        let next = (self.joined + 1) % self.pipes.len();
        command.stdin(self.pipes[self.joined].0.try_clone()?).stdout(self.pipes[next].1.try_clone()?);
        self.joined = next;
        Ok(())
    }

    /// Writes the bytes that go round to the first one.
    fn begin(self) -> io::Result<()> {
        self.pipes.into_iter().next().map_or(Ok(()), |(_, mut first)| first.write_all(&TOKENS))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn loads_have_names_of_their_own_and_somebody_light() {
        for cpus in [1, 2, 64] {
            let loads = all(cpus);
            let names: HashSet<&str> = loads.iter().map(|load| load.name).collect();
            assert_eq!(names.len(), loads.len());
            for load in &loads {
                let paths: HashSet<&str> = load.members.iter().map(|member| member.path.as_str()).collect();
                assert_eq!(paths.len(), load.members.len(), "{}", load.name);
                let light = paths.iter().filter(|path| path.contains("light")).count();
                assert!(light > 0 && light < paths.len(), "{}", load.name);
            }
        }
    }

    #[test]
    fn the_page_says_what_each_load_is() {
        let page = Workspace::here().root().join("docs/accuracy.md");
        let page = std::fs::read_to_string(page).unwrap();
        for load in all(2) {
            let name = load.name.trim_end_matches("-found");
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn every_class_has_a_load() {
        let classes: HashSet<&str> = all(2).iter().map(|load| load.class.name()).collect();
        assert_eq!(classes, Class::ALL.iter().map(|class| class.name()).collect());
    }

    #[test]
    fn functions_ask_for_more_than_there_is() {
        for cpus in [1, 8] {
            let asked = |(count, _, program): &(u64, &str, Program)| match program {
                Program::Work { threads, kind: Kind::Serve { per_second, work_us } } => {
                    (count * threads) as f64 * per_second * *work_us as f64 / 1e6
                }
                other => unreachable!("{other:?}"),
            };
            let all: f64 = functions(cpus).iter().map(asked).sum();
            assert!((all - 1.2 * cpus as f64).abs() < 1e-9, "{all}");
        }
    }
}
