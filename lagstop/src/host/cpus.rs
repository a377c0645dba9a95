//! Which CPUs there are and what they share.

use std::{collections::HashMap, fs, path::Path, str::FromStr};

use super::{HostError, read};
use crate::{
    model::Place,
    units::{NoCpu, cpus_given, parse_cpus, show_cpus},
};

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
        let list = |name: &str| read(&format!("{CPUS}/{name}")).map(|text| parse_cpus(&text));
        Ok(Self { online: list("online")?, possible: list("possible")? })
    }

    /// The same without those that are `excluded`.
    #[must_use]
    pub fn without(mut self, excluded: &[u32]) -> Self {
        self.online.retain(|cpu| !excluded.contains(cpu));
        self
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
            Some((level, parse_cpus(&text(&path, "shared_cpu_list")?).first().copied()?))
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
        nodes.extend(parse_cpus(&list).into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

/// CPUs that are left alone: nothing interrupts them, and nothing of them is in any figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedCpus {
    /// CPUs listed by number.
    listed: Vec<u32>,
    /// Whether those are excluded, too, that the kernel was told to leave alone: `isolcpus=` and `nohz_full=`.
    isolated: bool,
}

impl FromStr for ExcludedCpus {
    type Err = NoCpu;

    fn from_str(text: &str) -> Result<Self, NoCpu> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let (isolated, listed): (Vec<&str>, Vec<&str>) = text.split(',').partition(|part| part.trim() == "isolated");
        let listed = if listed.is_empty() { Vec::new() } else { cpus_given(&listed.join(","))? };
        Ok(Self { listed, isolated: !isolated.is_empty() })
    }
}

impl ExcludedCpus {
    /// Which they are on this host, ascending.
    ///
    /// # Errors
    /// When one that is listed cannot be there, or no CPU would be left.
    pub fn find(&self) -> Result<Vec<u32>, HostError> {
        self.of(Cpus::read()?)
    }

    fn of(&self, there: Cpus) -> Result<Vec<u32>, HostError> {
        let strange: Vec<u32> = self.listed.iter().copied().filter(|cpu| !there.possible.contains(cpu)).collect();
        if !strange.is_empty() {
            let possible = show_cpus(&there.possible);
            return Err(HostError::NoSuchCpus { excluded: show_cpus(&strange), possible });
        }
        let mut cpus = self.listed.clone();
        if self.isolated {
            // A kernel that can isolate none has no such file.
            let list = |name: &str| fs::read_to_string(format!("{CPUS}/{name}")).unwrap_or_default();
            cpus.extend(["isolated", "nohz_full"].iter().flat_map(|name| parse_cpus(&list(name))));
            cpus.sort_unstable();
            cpus.dedup();
        }
        if there.without(&cpus).online.is_empty() { Err(HostError::NoCpus) } else { Ok(cpus) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_excluded_by_number_or_because_they_are_isolated() {
        let excluded = |text: &str| text.parse::<ExcludedCpus>();
        let of = |listed: &[u32], isolated| Ok(ExcludedCpus { listed: listed.to_vec(), isolated });
        assert_eq!(excluded("2-3,8"), of(&[2, 3, 8], false));
        assert_eq!([excluded("isolated"), excluded("5,isolated")], [of(&[], true), of(&[5], true)]);
        assert_eq!(excluded(" "), of(&[], false));
        assert!(excluded("isolated,").is_err() && excluded("isolated,x").is_err());
        let there = || Cpus { online: vec![0, 1, 2], possible: vec![0, 1, 2, 3] };
        assert_eq!(there().without(&[1, 3]).online, [0, 2]);
        let found = |text: &str| excluded(text).unwrap().of(there());
        assert_eq!(found("0-1,3").unwrap(), [0, 1, 3], "one may be offline");
        assert!(found("0-2").unwrap_err().to_string().contains("no CPU is left"));
        assert!(found("2-5").unwrap_err().to_string().contains("has no CPU 4-5: it can have 0-3"));
    }
}
