//! CPU bandwidth control: who has a quota, and who used it up.
//!
//! Reading a file of every cgroup each second is what makes other tools dear on dense hosts. Only a cgroup with a quota
//! can be throttled, and only one that runs uses it up: the files of idle ones are left alone, those of the others are read
//! each time where there is a quota, and are asked every now and then whether there is one.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::hierarchy::Version;
use crate::model::{CgroupCounters, CgroupId, CgroupState, Nanos, Throttling};

/// Most readings between two questions whether a cgroup that runs has a quota. One that was just found is asked a second
/// time at once: container runtimes put a process into a new cgroup, and set its quota then.
const MOST_READINGS: u64 = 60;

/// What is known about each cgroup's quota.
#[derive(Debug)]
pub struct Bandwidth {
    version: Version,
    readings: u64,
    known: HashMap<CgroupId, Known>,
    /// Those whose figures were on the move in the last reading: a throttled one does not run, and is not at rest either.
    moving: HashSet<CgroupId>,
}

#[derive(Debug)]
struct Known {
    /// The reading in which it is asked again whether it has a quota.
    ask_at: u64,
    has_quota: bool,
    last: Option<Throttling>,
}

impl Bandwidth {
    /// Nothing known yet.
    pub fn new(version: Version) -> Self {
        Self { version, readings: 0, known: HashMap::new(), moving: HashSet::new() }
    }

    /// Begins a reading.
    pub fn begin(&mut self) {
        self.readings += 1;
    }

    /// Forgets those that are not `there` any more.
    pub fn keep(&mut self, there: impl Fn(CgroupId) -> bool) {
        self.known.retain(|&id, _| there(id));
        self.moving.retain(|&id| there(id));
    }

    /// The throttling of a cgroup whose state was `before` and whose counters are `counters` now; `directory` finds where
    /// its files are, if that is known.
    pub fn of(
        &mut self,
        id: CgroupId,
        before: Option<&CgroupState>,
        counters: &Arc<CgroupCounters>,
        directory: impl FnOnce() -> Option<PathBuf>,
    ) -> Option<Throttling> {
        if let Some(before) = before
            && before.stands_at(counters)
            && !self.moving.contains(&id)
        {
            return before.throttling;
        }
        let now = self.readings;
        let is_new = !self.known.contains_key(&id);
        let known = self.known.entry(id).or_insert(Known { ask_at: now, has_quota: false, last: None });
        let ask = known.ask_at <= now;
        let last = known.last;
        if (ask || known.has_quota)
            && let Some(directory) = directory()
        {
            let had_quota = known.has_quota;
            if ask {
                known.has_quota = has_quota(self.version, &directory);
                // Spread out, so that no reading asks everybody.
                known.ask_at = now + if is_new { 1 } else { MOST_READINGS - id.turn(MOST_READINGS / 2) };
            }
            // Without a quota nothing is counted any more.
            if known.has_quota || had_quota || known.last.is_none() {
                known.last = throttling(&directory);
            }
        }
        if known.last == last {
            self.moving.remove(&id);
        } else {
            self.moving.insert(id);
        }
        known.last
    }
}

fn has_quota(version: Version, directory: &Path) -> bool {
    match version {
        Version::V1 => fs::read_to_string(directory.join("cpu.cfs_quota_us")).is_ok_and(|text| !text.starts_with('-')),
        Version::V2 => fs::read_to_string(directory.join("cpu.max")).is_ok_and(|text| !text.starts_with("max")),
    }
}

/// `None` where the cgroup is gone, or has no bandwidth control.
fn throttling(directory: &Path) -> Option<Throttling> {
    parse(&fs::read_to_string(directory.join("cpu.stat")).ok()?)
}

/// `cpu.stat`: `throttled_usec` in v2, `throttled_time` in nanoseconds in v1.
fn parse(text: &str) -> Option<Throttling> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    let throttled = field("throttled_usec").map(|us| us * 1_000).or_else(|| field("throttled_time"));
    Some(Throttling {
        nr_periods: field("nr_periods")?,
        nr_throttled: field("nr_throttled")?,
        throttled_ns: Nanos(throttled?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat_are_read() {
        let expected = Some(Throttling { nr_periods: 5, nr_throttled: 3, throttled_ns: Nanos(2_000) });
        let v2 = "usage_usec 99\nuser_usec 1\nnr_periods 5\nnr_throttled 3\nthrottled_usec 2\nnr_bursts 0\n";
        assert_eq!(parse(v2), expected);
        assert_eq!(parse("nr_periods 5\nnr_throttled 3\nthrottled_time 2000\n"), expected);
        assert_eq!(parse("usage_usec 99\nuser_usec 1\n"), None, "the root has no bandwidth control");
    }

    /// A cgroup's files, and what is read of them.
    struct Group {
        home: tempfile::TempDir,
        bandwidth: Bandwidth,
        last: CgroupState,
    }

    impl Group {
        fn new(quota: &str) -> Self {
            let bandwidth = Bandwidth::new(Version::V2);
            let group = Self { home: tempfile::tempdir().unwrap(), bandwidth, last: CgroupState::default() };
            group.write("cpu.max", quota);
            group
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.home.path().join(name), text).unwrap();
        }

        fn count(&self, n: u64) {
            self.write("cpu.stat", &format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec 0\n"));
        }

        fn read(&mut self, ran: bool) -> u64 {
            self.bandwidth.begin();
            let directory = || Some(self.home.path().to_owned());
            let counters = if ran { Arc::default() } else { Arc::clone(&self.last.counters) };
            let throttling = self.bandwidth.of(CgroupId(10), Some(&self.last), &counters, directory);
            self.last = CgroupState { counters, throttling, ..CgroupState::default() };
            throttling.unwrap().nr_periods
        }

        /// What is read until a change of the quota must have been noticed.
        fn read_on(&mut self) -> Vec<u64> {
            (0..MOST_READINGS).map(|_| self.read(true)).collect()
        }
    }

    const NONE: &str = "max 100000\n";
    const SOME: &str = "20000 100000\n";

    #[test]
    fn a_cgroup_without_a_quota_is_not_read_every_time() {
        let mut group = Group::new(NONE);
        group.count(4);
        assert_eq!(group.read(true), 4);
        group.count(5);
        assert_eq!(
            [group.read(true), group.read(true), group.read(true)],
            [4; 3],
            "nothing is counted without a quota"
        );
        group.write("cpu.max", SOME);
        let seen = group.read_on();
        assert_eq!(
            (seen[0], seen.last()),
            (4, Some(&5)),
            "the new quota is noticed in time, and not asked for each time"
        );
        group.count(6);
        assert_eq!(group.read(true), 6, "and its figures are read each time");
        group.write("cpu.max", NONE);
        group.count(7);
        assert_eq!(group.read_on().last(), Some(&7), "what was counted before the quota went is not lost");
        group.count(8);
        assert_eq!(group.read(true), 7);
    }

    #[test]
    fn the_files_of_one_at_rest_are_left_alone() {
        let mut group = Group::new(SOME);
        group.count(1);
        assert_eq!(group.read(true), 1);
        group.count(2);
        assert_eq!(group.read(false), 2, "it is throttled: the period ends without it");
        assert_eq!(group.read(false), 2);
        group.count(3);
        assert_eq!([group.read(false), group.read(false)], [2; 2], "at rest");
        assert_eq!(group.read(true), 3);
    }

    #[test]
    fn a_quota_that_is_set_after_the_first_process_came_is_noticed_at_once() {
        let mut group = Group::new(NONE);
        group.count(1);
        group.read(true);
        group.write("cpu.max", SOME);
        group.count(2);
        assert_eq!(group.read(true), 2);
    }

    #[test]
    fn one_that_is_gone_is_forgotten() {
        let mut group = Group::new(SOME);
        group.count(1);
        group.read(true);
        group.bandwidth.keep(|_| true);
        assert_eq!((group.bandwidth.known.len(), group.bandwidth.moving.len()), (1, 1));
        group.bandwidth.keep(|_| false);
        assert_eq!((group.bandwidth.known.len(), group.bandwidth.moving.len()), (0, 0));
    }
}
