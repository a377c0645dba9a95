//! CPU bandwidth control: who has a quota, and who used it up.
//!
//! Reading a file of every cgroup each second is what makes other tools expensive on dense hosts. Only a cgroup with a quota
//! can be throttled, so only theirs is read each time; the others are asked every now and then whether they have one. Whether
//! it ran itself says nothing: a quota is used up by those inside of it, too.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::{hierarchy::Version, limits, turn::Turn};
use crate::model::{CgroupId, Nanos};

/// What a cgroup's own `cpu.stat` counts of its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttling {
    pub(super) nr_periods: u64,
    pub(super) nr_throttled: u64,
    pub(super) throttled_ns: Nanos,
    /// CPU time that it may use in each second. `None` without a quota.
    pub(super) quota_ns: Option<Nanos>,
}

/// What is known about each cgroup's quota.
#[derive(Debug)]
pub(super) struct Bandwidth {
    version: Version,
    readings: u64,
    known: HashMap<CgroupId, Known>,
}

#[derive(Debug)]
struct Known {
    /// When it is asked again whether it has a quota.
    turn: Turn,
    quota: Option<Nanos>,
    last: Option<Throttling>,
}

impl Bandwidth {
    pub(super) fn new(version: Version) -> Self {
        Self { version, readings: 0, known: HashMap::new() }
    }

    pub(super) fn begin(&mut self) {
        self.readings += 1;
    }

    /// Forgets those that are not `there` any more.
    pub(super) fn keep(&mut self, there: impl Fn(CgroupId) -> bool) {
        self.known.retain(|&id, _| there(id));
    }

    /// The throttling of a cgroup; `directory` finds where its files are, if that is known. `None` also where a quota is
    /// found that has been there for longer than since the last reading: what it counted is not the interval's alone.
    pub(super) fn of(&mut self, id: CgroupId, directory: impl FnOnce() -> Option<PathBuf>) -> Option<Throttling> {
        let now = self.readings;
        let Self { version, known, .. } = self;
        // Otherwise all that were there before would be asked again and again in the same readings.
        let turn = if now == 1 { Turn::of_old(now) } else { Turn::first(now) };
        let known = known.entry(id).or_insert(Known { turn, quota: None, last: None });
        let ask = known.turn.has_come(now);
        if !ask && known.quota.is_none() {
            return known.last;
        }
        let Some(directory) = directory() else { return known.last };
        let had_quota = known.quota.is_some();
        // A quota that is there in the very first reading is not new.
        let since = if now == 1 { 0 } else { known.turn.patience };
        if ask {
            known.quota = limits::quota(*version, &directory).and_then(|quota| quota.per_second());
            known.turn.was_taken(now, id.turn(Turn::SPREAD));
        }
        // Without a quota nothing is counted any more.
        if known.quota.is_some() || had_quota || known.last.is_none() {
            known.last = throttling(&directory, known.quota);
        }
        known.last.filter(|_| had_quota || known.quota.is_none() || since <= 1)
    }
}

/// `None` where the cgroup is gone, or has no bandwidth control.
fn throttling(directory: &Path, quota: Option<Nanos>) -> Option<Throttling> {
    Some(Throttling { quota_ns: quota, ..parse(&fs::read_to_string(directory.join("cpu.stat")).ok()?)? })
}

/// `cpu.stat`: `throttled_usec` in v2, `throttled_time` in nanoseconds in v1.
pub(super) fn parse(text: &str) -> Option<Throttling> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    let throttled = field("throttled_usec").map(|us| us.saturating_mul(1_000)).or_else(|| field("throttled_time"));
    Some(Throttling {
        nr_periods: field("nr_periods")?,
        nr_throttled: field("nr_throttled")?,
        throttled_ns: Nanos(throttled?),
        quota_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat_are_read() {
        let expected = Some(Throttling { nr_periods: 5, nr_throttled: 3, throttled_ns: Nanos(2_000), quota_ns: None });
        let v2 = "usage_usec 99\nuser_usec 1\nnr_periods 5\nnr_throttled 3\nthrottled_usec 2\nnr_bursts 0\n";
        assert_eq!(parse(v2), expected);
        assert_eq!(parse("nr_periods 5\nnr_throttled 3\nthrottled_time 2000\n"), expected);
        assert_eq!(parse("usage_usec 99\nuser_usec 1\n"), None, "the root has no bandwidth control");
    }

    /// A cgroup's files, and what is read of them.
    struct Group {
        home: tempfile::TempDir,
        bandwidth: Bandwidth,
    }

    impl Group {
        fn new(quota: &str) -> Self {
            let mut group = Self { home: tempfile::tempdir().unwrap(), bandwidth: Bandwidth::new(Version::V2) };
            // The first reading, when it is not there yet.
            group.bandwidth.begin();
            group.write("cpu.max", quota);
            group
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.home.path().join(name), text).unwrap();
        }

        fn count(&self, n: u64) {
            self.write("cpu.stat", &format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec 0\n"));
        }

        fn read(&mut self) -> Option<u64> {
            self.bandwidth.begin();
            self.bandwidth
                .of(CgroupId(10), || Some(self.home.path().to_owned()))
                .map(|throttling| throttling.nr_periods)
        }

        /// What is read until a change of the quota must have been noticed.
        fn read_on(&mut self) -> Vec<Option<u64>> {
            (0..Turn::MOST_READINGS * 2).map(|_| self.read()).collect()
        }
    }

    const NONE: &str = "max 100000\n";
    const SOME: &str = "20000 100000\n";

    #[test]
    fn a_cgroup_without_a_quota_is_not_read_every_time() {
        let mut group = Group::new(NONE);
        group.count(4);
        assert_eq!(group.read(), Some(4));
        group.count(5);
        assert_eq!([group.read(), group.read(), group.read()], [Some(4); 3], "nothing is counted without a quota");
        group.read_on();
        group.write("cpu.max", SOME);
        let seen = group.read_on();
        let noticed = seen.iter().position(Option::is_none).unwrap();
        assert!((1..Turn::MOST_READINGS as usize).contains(&noticed), "{noticed}: not asked for each time");
        assert_eq!(seen[noticed - 1..=noticed + 1], [Some(4), None, Some(5)], "what it counted until then is nobody's");
        group.count(6);
        assert_eq!(group.read(), Some(6), "and its figures are read each time");
        group.write("cpu.max", NONE);
        group.count(7);
        assert_eq!(group.read_on().last(), Some(&Some(7)), "what was counted before the quota went is not lost");
        group.count(8);
        assert_eq!(group.read(), Some(7));
    }

    #[test]
    fn a_quota_that_is_set_after_the_first_process_came_is_noticed_at_once() {
        let mut group = Group::new(NONE);
        group.count(1);
        group.read();
        group.write("cpu.max", SOME);
        group.count(2);
        assert_eq!(group.read(), Some(2));
    }

    #[test]
    fn a_quota_that_was_there_before_is_known_from_the_first_reading_on() {
        let mut group = Group::new(SOME);
        group.bandwidth = Bandwidth::new(Version::V2);
        for n in 1..5 {
            group.count(n);
            assert_eq!(group.read(), Some(n));
        }
    }

    #[test]
    fn one_that_is_gone_is_forgotten() {
        let mut group = Group::new(SOME);
        group.count(1);
        group.read();
        group.bandwidth.keep(|_| true);
        assert_eq!(group.bandwidth.known.len(), 1);
        group.bandwidth.keep(|_| false);
        assert_eq!(group.bandwidth.known.len(), 0);
    }
}
