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

/// Readings between two questions whether a cgroup has a quota.
const ASK_EVERY: u64 = 10;

/// What is known about each cgroup's quota.
#[derive(Debug)]
pub struct Bandwidth {
    version: Version,
    readings: u64,
    known: HashMap<CgroupId, Known>,
}

#[derive(Debug)]
struct Known {
    has_quota: bool,
    last: Option<Throttling>,
}

impl Bandwidth {
    /// Nothing known yet.
    pub fn new(version: Version) -> Self {
        Self { version, readings: 0, known: HashMap::new() }
    }

    /// The throttling of each of `cgroups`, named with their directories. Those that are not named are forgotten.
    pub fn read(&mut self, cgroups: &HashMap<CgroupId, PathBuf>) -> HashMap<CgroupId, Throttling> {
        self.readings += 1;
        self.known.retain(|id, _| cgroups.contains_key(id));
        let mut all = HashMap::new();
        for (&id, directory) in cgroups {
            // Spread out, so that no reading asks everybody.
            let ask = (self.readings + id.0).is_multiple_of(ASK_EVERY) || !self.known.contains_key(&id);
            let known = self.known.entry(id).or_insert(Known { has_quota: false, last: None });
            if ask {
                known.has_quota = has_quota(self.version, directory);
            }
            if ask || known.has_quota {
                known.last = throttling(directory);
            }
            all.extend(known.last.map(|last| (id, last)));
        }
        all
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
        let id = CgroupId(10);
        let cgroups = HashMap::from([(id, home.path().to_owned())]);
        let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
        let stat = |n: u64| write("cpu.stat", &format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec 0\n"));
        let mut bandwidth = Bandwidth::new(Version::V2);
        write("cpu.max", "max 100000\n");
        stat(4);
        assert_eq!(bandwidth.read(&cgroups)[&id].nr_periods, 4);
        stat(5);
        assert_eq!(bandwidth.read(&cgroups)[&id].nr_periods, 4, "not asked again yet");
        write("cpu.max", "20000 100000\n");
        let seen: Vec<u64> = (0..ASK_EVERY).map(|_| bandwidth.read(&cgroups)[&id].nr_periods).collect();
        assert_eq!(seen.last(), Some(&5), "the new quota is noticed in time");
        stat(6);
        assert_eq!(bandwidth.read(&cgroups)[&id].nr_periods, 6, "and its figures are read each time");
    }
}
