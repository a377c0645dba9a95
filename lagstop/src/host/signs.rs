//! Signs that somebody waits for a CPU, from files alone: what is watched while no programs are attached.
//!
//! Of each cgroup that is `cpu.pressure` (version 2) and, of one with a quota, `cpu.stat`. They stay open: to open a file in cgroupfs
//! takes three times as long as to read it. Of the host it is `/proc/schedstat` and `/proc/pressure/cpu`.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{HostError, bandwidth, groups::GroupDirectory, hierarchy::Hierarchy, limits, pressure};
use crate::{
    model::{CgroupId, Nanos},
    units::ratio,
};

/// The worst of each kind since the look before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signs {
    /// The largest share of the time in which some task of a cgroup waited (PSI some), and whose it was; of the whole host, where
    /// cgroups have no such file. `None` where the kernel has none.
    pub pressure: Option<(f64, Arc<str>)>,
    /// The largest share of periods in which a cgroup used up its quota. `None` where there are no quotas.
    pub throttled: Option<(f64, Arc<str>)>,
    /// The most tasks that waited for one CPU, on average, and its number. `None` without `/proc/schedstat`.
    pub waiting: Option<(f64, u32)>,
    /// Cgroups whose pressure was not read, because too few files may be open.
    pub left_out: u64,
}

/// Looks for signs.
#[derive(Debug)]
pub struct SignWatch {
    hierarchy: Hierarchy,
    cgroups: HashMap<CgroupId, Watched>,
    host: Option<Nanos>,
    cpus: HashMap<u32, Nanos>,
    last: Instant,
    looks: u64,
    left_out: u64,
}

#[derive(Debug)]
struct Watched {
    path: Arc<str>,
    pressure: Option<(File, Option<Nanos>)>,
    /// Where it has a quota: periods, and those in which it was throttled.
    throttling: Option<(File, Option<[u64; 2]>)>,
}

/// New cgroups are looked for each time that so many looks were taken.
const SEARCH_EVERY: u64 = 6;
/// Files are at most so long: what is read of one.
const MOST: usize = 1_024;

impl SignWatch {
    /// Begins to watch. The first look says nothing yet.
    ///
    /// # Errors
    /// When the cgroups cannot be listed.
    pub fn new(hierarchy: Hierarchy) -> Result<Self, HostError> {
        allow_open_files();
        let mut watch = Self {
            hierarchy,
            cgroups: HashMap::new(),
            host: None,
            cpus: HashMap::new(),
            last: Instant::now(),
            looks: 0,
            left_out: 0,
        };
        watch.look()?;
        Ok(watch)
    }

    /// What happened since the last look.
    ///
    /// # Errors
    /// When the cgroups cannot be listed.
    pub fn look(&mut self) -> Result<Signs, HostError> {
        if self.looks.is_multiple_of(SEARCH_EVERY) {
            self.search()?;
        }
        self.looks += 1;
        let passed = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        let mut signs = Signs { left_out: self.left_out, ..Signs::default() };
        let mut buffer = [0; MOST];
        self.cgroups.retain(|_, watched| watched.look(passed, &mut buffer, &mut signs));
        self.look_at_host(passed, &mut signs);
        self.look_at_cpus(passed, &mut signs);
        Ok(signs)
    }

    fn search(&mut self) -> Result<(), HostError> {
        let groups = self.hierarchy.groups()?;
        self.left_out = 0;
        let mut known = std::mem::take(&mut self.cgroups);
        for group in groups {
            let mut watched = known.remove(&group.id).unwrap_or_else(|| Watched::new(&group));
            watched.pressure = watched.pressure.or_else(|| open(&group.directory, PRESSURE));
            if watched.pressure.is_none() && group.directory.join(PRESSURE).exists() {
                self.left_out += 1;
            }
            let has_quota = limits::quota(self.hierarchy.version, &group.directory)
                .is_some_and(|quota| quota.per_second().is_some());
            match &watched.throttling {
                None if has_quota => watched.throttling = open(&group.directory, STAT),
                Some(_) if !has_quota => watched.throttling = None,
                _ => {}
            }
            self.cgroups.insert(group.id, watched);
        }
        Ok(())
    }

    fn look_at_host(&mut self, passed: Duration, signs: &mut Signs) {
        let Some(some) = fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| pressure::parse(&text).some_ns)
        else {
            return;
        };
        let before = self.host.replace(some);
        if signs.pressure.is_none()
            && let Some(before) = before
        {
            signs.pressure = Some((share(some.saturating_sub(before), passed), "the host".into()));
        }
    }

    fn look_at_cpus(&mut self, passed: Duration, signs: &mut Signs) {
        let Ok(text) = fs::read_to_string("/proc/schedstat") else { return };
        for (cpu, waited) in run_delays(&text) {
            if let Some(before) = self.cpus.insert(cpu, waited) {
                let tasks = share(waited.saturating_sub(before), passed);
                if signs.waiting.is_none_or(|(most, _)| tasks > most) {
                    signs.waiting = Some((tasks, cpu));
                }
            }
        }
    }
}

const PRESSURE: &str = "cpu.pressure";
const STAT: &str = "cpu.stat";

impl Watched {
    fn new(group: &GroupDirectory) -> Self {
        Self { path: group.path.as_str().into(), pressure: open(&group.directory, PRESSURE), throttling: None }
    }

    /// Looks at its files. Gives whether the cgroup is still there.
    fn look(&mut self, passed: Duration, buffer: &mut [u8], signs: &mut Signs) -> bool {
        if let Some((file, last)) = &mut self.pressure {
            let Some(text) = read(file, buffer) else { return false };
            let now = pressure::parse(text).some_ns;
            let before = std::mem::replace(last, now);
            if let Some((now, before)) = now.zip(before) {
                keep_worst(&mut signs.pressure, share(now.saturating_sub(before), passed), &self.path);
            }
        }
        if let Some((file, last)) = &mut self.throttling {
            let Some(text) = read(file, buffer) else { return false };
            let now = bandwidth::parse(text).map(|counted| [counted.nr_periods, counted.nr_throttled]);
            let before = std::mem::replace(last, now);
            if let Some(([periods, throttled], [periods_before, throttled_before])) = now.zip(before) {
                let [periods, throttled] =
                    [periods.saturating_sub(periods_before), throttled.saturating_sub(throttled_before)];
                keep_worst(&mut signs.throttled, ratio(throttled as f64, periods as f64), &self.path);
            }
        }
        true
    }
}

fn open<L>(directory: &Path, name: &str) -> Option<(File, Option<L>)> {
    Some((File::open(directory.join(name)).ok()?, None))
}

/// `None` where its cgroup is gone.
fn read<'b>(file: &File, buffer: &'b mut [u8]) -> Option<&'b str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

fn keep_worst(worst: &mut Option<(f64, Arc<str>)>, share: f64, path: &Arc<str>) {
    if worst.as_ref().is_none_or(|(most, _)| share > *most) {
        *worst = Some((share, Arc::clone(path)));
    }
}

fn share(time: Nanos, passed: Duration) -> f64 {
    ratio(time.seconds(), passed.as_secs_f64())
}

/// `cpu<n>` and nine figures, of which the eighth is the time that tasks waited on it, Documentation/scheduler/sched-stats.rst.
fn run_delays(text: &str) -> impl Iterator<Item = (u32, Nanos)> {
    text.lines().filter_map(|line| {
        let (cpu, figures) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((cpu.parse().ok()?, Nanos(figures.split_whitespace().nth(7)?.parse().ok()?)))
    })
}

/// Raises the limit of open files as far as this process may.
fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is refused, some cgroups are left out, which is told.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Version, model::GroupBy};

    /// A hierarchy in a directory.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new(groups: &[&str]) -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            home.file("cgroup.procs", "");
            groups.iter().for_each(|group| home.group(group));
            home
        }

        fn group(&self, name: &str) {
            fs::create_dir(self.0.path().join(name)).unwrap();
            self.file(&format!("{name}/cpu.weight"), "100\n");
            self.pressure(name, 0);
        }

        fn file(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn pressure(&self, name: &str, us: u64) {
            self.file(&format!("{name}/cpu.pressure"), &format!("some avg10=0.00 total={us}\n"));
        }

        fn throttled(&self, name: &str, periods: u64, throttled: u64) {
            let text = format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 0\n");
            self.file(&format!("{name}/cpu.stat"), &text);
        }

        fn watch(&self) -> SignWatch {
            SignWatch::new(Hierarchy::at(Version::V2, self.0.path(), GroupBy::Leaf)).unwrap()
        }
    }

    #[test]
    fn the_worst_of_each_kind_is_told() {
        let home = Home::new(&["a", "b"]);
        home.file("b/cpu.max", "10000 100000\n");
        home.throttled("b", 10, 0);
        let mut watch = home.watch();
        // A look takes its own time: long enough for the shares to be about right.
        std::thread::sleep(Duration::from_millis(50));
        home.pressure("a", 25_000);
        home.pressure("b", 1_000);
        home.throttled("b", 20, 4);
        let signs = watch.look().unwrap();
        let (share, path) = signs.pressure.unwrap();
        assert!(&*path == "/a" && (0.1..=0.5).contains(&share), "{share} of {path}");
        assert_eq!(signs.throttled, Some((0.4, "/b".into())));
        assert_eq!(signs.left_out, 0);
        assert_eq!(watch.look().unwrap().pressure.unwrap().0, 0.0, "it is over");
    }

    #[test]
    fn cgroups_come_and_go() {
        let home = Home::new(&["a"]);
        let mut watch = home.watch();
        home.group("b");
        fs::remove_dir_all(home.0.path().join("a")).unwrap();
        for _ in 0..SEARCH_EVERY {
            watch.look().unwrap();
        }
        home.pressure("b", 1_000_000);
        let (_, path) = watch.look().unwrap().pressure.unwrap();
        assert_eq!((&*path, watch.cgroups.len()), ("/b", 2), "the root is watched, too");
    }

    #[test]
    fn waits_of_cpus_are_the_eighth_figure() {
        let text =
            "version 17\ntimestamp 5\ncpu0 0 0 0 0 0 0 100 200 300\ndomain0 3 1 2\ncpu12 0 0 0 0 0 0 1 7 2\ncpu3 1\n";
        assert_eq!(run_delays(text).collect::<Vec<_>>(), [(0, Nanos(200)), (12, Nanos(7))]);
    }
}
