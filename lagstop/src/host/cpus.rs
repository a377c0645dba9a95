//! Which CPUs there are and what they share.

use std::{collections::HashMap, fs, path::Path};

use super::{HostError, read};
use crate::model::Place;

const CPUS: &str = "/sys/devices/system/cpu";

/// The CPUs of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Online now, ascending.
    pub online: Vec<u32>,
    /// That may ever be online, ascending.
    pub possible: Vec<u32>,
}

impl Cpus {
    /// Reads which CPUs there are.
    ///
    /// # Errors
    /// When sysfs does not say.
    pub fn read() -> Result<Self, HostError> {
        let list = |name: &str| read(&format!("{CPUS}/{name}")).map(|text| parse_list(&text));
        Ok(Self { online: list("online")?, possible: list("possible")? })
    }

    /// The last-level cache and NUMA node of each possible CPU. A CPU of which sysfs says nothing is in cache and node 0,
    /// as on a machine with one of each.
    pub fn places(&self) -> Vec<Place> {
        let nodes = numa_nodes();
        let place = |&cpu: &u32| Place {
            cpu,
            llc: last_level_cache(cpu).unwrap_or(0),
            numa: nodes.get(&cpu).copied().unwrap_or(0),
        };
        self.possible.iter().map(place).collect()
    }
}

/// The lowest CPU that shares the highest level of cache with `cpu`.
fn last_level_cache(cpu: u32) -> Option<u32> {
    let caches = fs::read_dir(format!("{CPUS}/cpu{cpu}/cache")).ok()?;
    let text = |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok();
    caches
        .flatten()
        .filter_map(|cache| {
            let path = cache.path();
            let level: u32 = text(&path, "level")?.trim().parse().ok()?;
            Some((level, parse_list(&text(&path, "shared_cpu_list")?).first().copied()?))
        })
        .max()
        .map(|(_, first)| first)
}

/// NUMA node by CPU.
fn numa_nodes() -> HashMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else { return HashMap::new() };
    let node = |name: &str| name.strip_prefix("node")?.parse::<u32>().ok();
    let mut nodes = HashMap::new();
    for entry in entries.flatten() {
        let Some(node) = entry.file_name().to_str().and_then(node) else { continue };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        nodes.extend(parse_list(&list).into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

/// More CPUs than any kernel takes (`NR_CPUS`): what a list has beyond is left out.
const MOST: usize = 1 << 16;

/// Parses the kernel's lists: `0-3,8,10-11`.
pub(super) fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("\n"), [] as [u32; 0]);
    }
}
