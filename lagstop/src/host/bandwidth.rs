//! CPU bandwidth control: who has a quota, and who used it up.
//!
//! Reading a file of every cgroup each second is what makes other tools dear on dense hosts. Only a cgroup with a quota
//! can be throttled, so only theirs is read each time; the others are asked every now and then whether they have one.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::hierarchy::Version;
use crate::model::{CgroupId, Nanos, Throttling};

/// Most readings between two questions whether a cgroup has a quota. New ones are asked sooner: a quota is mostly set when a
/// cgroup is made.
const MOST_READINGS: u64 = 32;

/// What is known about each cgroup's quota.
#[derive(Debug)]
pub struct Bandwidth {
    version: Version,
    readings: u64,
    known: HashMap<CgroupId, Known>,
}

#[derive(Debug)]
struct Known {
    /// The reading in which it is asked again whether it has a quota.
    ask_at: u64,
    /// Readings from that one to the next.
    patience: u64,
    has_quota: bool,
    /// The reading in which it was last there.
    seen_at: u64,
    last: Option<Throttling>,
}

impl Bandwidth {
    /// Nothing known yet.
    pub fn new(version: Version) -> Self {
        Self { version, readings: 0, known: HashMap::new() }
    }

    /// Begins a reading. Cgroups that nobody asked for in the last one are forgotten.
    pub fn begin(&mut self) {
        let last = self.readings;
        self.known.retain(|_, known| known.seen_at == last);
        self.readings += 1;
    }

    /// The throttling of a cgroup; `directory` finds where its files are, if that is known.
    pub fn of(&mut self, id: CgroupId, directory: impl FnOnce() -> Option<PathBuf>) -> Option<Throttling> {
        let now = self.readings;
        let known = self.known.entry(id).or_insert_with(|| Known {
            ask_at: now,
            patience: 1,
            has_quota: false,
            seen_at: now,
            last: None,
        });
        known.seen_at = now;
        let ask = known.ask_at <= now;
        if (ask || known.has_quota)
            && let Some(directory) = directory()
        {
            let had_quota = known.has_quota;
            if ask {
                known.has_quota = has_quota(self.version, &directory);
                known.ask_at = now + known.patience;
                // Spread out, so that no reading asks everybody.
                known.patience = (known.patience * 2).min(MOST_READINGS - id.0 % (MOST_READINGS / 4));
            }
            // Without a quota nothing is counted any more.
            if known.has_quota || had_quota || known.last.is_none() {
                known.last = throttling(&directory);
            }
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

    #[test]
    fn a_cgroup_without_a_quota_is_not_read_every_time() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
        let stat = |n: u64| write("cpu.stat", &format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec 0\n"));
        let mut bandwidth = Bandwidth::new(Version::V2);
        let mut read = || {
            bandwidth.begin();
            bandwidth.of(CgroupId(10), || Some(home.path().to_owned())).unwrap().nr_periods
        };
        write("cpu.max", "max 100000\n");
        stat(4);
        assert_eq!(read(), 4);
        stat(5);
        assert_eq!([read(), read(), read()], [4; 3], "nothing is counted without a quota");
        write("cpu.max", "20000 100000\n");
        let seen: Vec<u64> = (0..MOST_READINGS).map(|_| read()).collect();
        assert_eq!(
            (seen[0], seen.last()),
            (4, Some(&5)),
            "the new quota is noticed in time, and not asked for each time"
        );
        stat(6);
        assert_eq!(read(), 6, "and its figures are read each time");
        write("cpu.max", "max 100000\n");
        stat(7);
        let seen: Vec<u64> = (0..MOST_READINGS).map(|_| read()).collect();
        assert_eq!(seen.last(), Some(&7), "what was counted before the quota went is not lost");
        stat(8);
        assert_eq!(read(), 7);
    }

    #[test]
    fn one_that_was_not_asked_for_is_forgotten() {
        let mut bandwidth = Bandwidth::new(Version::V2);
        bandwidth.begin();
        assert_eq!(bandwidth.of(CgroupId(10), || None), None);
        bandwidth.begin();
        assert_eq!(bandwidth.known.len(), 1);
        bandwidth.begin();
        assert_eq!(bandwidth.known.len(), 0);
    }
}
