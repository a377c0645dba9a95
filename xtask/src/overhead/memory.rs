//! Kernel memory that the maps take on a large host, computed from the committed object.

use std::{fmt, fs, path::Path};

use aya_obj::{Map, Object};
use serde::Serialize;

use super::error::Error;

/// The host that the budget is for. Its cgroups are the rows that the object has unless user space asks for more.
const CPUS: u64 = 112;
/// What the maps may take there.
const BUDGET: u64 = 64 << 20;

/// `enum bpf_map_type`
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const STACK: u32 = 23;

/// `struct htab_elem` without key and value, and `struct bucket` (kernel/bpf/hashtab.c).
const HASH_ELEMENT: u64 = 48;
const HASH_BUCKET: u64 = 16;
/// `bpf_array.pptrs`: one pointer an entry (kernel/bpf/arraymap.c).
const POINTER: u64 = 8;

/// All maps, largest first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    maps: Vec<(String, u64)>,
    total: u64,
    budget: u64,
}

/// Reads the object's maps.
pub(super) fn of_object(path: &Path) -> Result<Memory, Error> {
    let bytes = fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let object = Object::parse(&bytes).map_err(|source| Error::Parse { path: path.to_owned(), source })?;
    let mut maps: Vec<(String, u64)> =
        object.maps.iter().map(|(name, map)| (name.clone(), bytes_of(name, map))).collect();
    maps.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then_with(|| a.cmp(b)));
    let total = maps.iter().map(|(_, bytes)| bytes).sum();
    Ok(Memory { maps, total, budget: BUDGET })
}

fn bytes_of(name: &str, map: &Map) -> u64 {
    // User space gives PLACES one entry a CPU, and ROW_TOTALS and MARKS as many entries a CPU as the object has.
    let entries = match name {
        "PLACES" => CPUS,
        "ROW_TOTALS" | "MARKS" => u64::from(map.max_entries()) * CPUS,
        _ => map.max_entries().into(),
    };
    bytes(map.map_type(), map.key_size().into(), map.value_size().into(), entries)
}

fn bytes(kind: u32, key: u64, value: u64, entries: u64) -> u64 {
    let value_slot = value.next_multiple_of(8);
    match kind {
        // All elements are allocated from the start, and one more for each CPU.
        HASH => {
            let element = HASH_ELEMENT + key.next_multiple_of(8) + value_slot;
            entries.next_power_of_two() * HASH_BUCKET + (entries + CPUS) * element
        }
        // Its spare elements are part of its entries.
        LRU_HASH => {
            let element = HASH_ELEMENT + key.next_multiple_of(8) + value_slot;
            entries.next_power_of_two() * HASH_BUCKET + entries * element
        }
        PERCPU_ARRAY => entries * (POINTER + CPUS * value_slot),
        // One slot tells a full stack from an empty one.
        STACK => (entries + 1) * value,
        ARRAY => entries * value_slot,
        // The object has maps of no other kind, which a test checks.
        _ => u64::MAX / 1_024,
    }
}

impl Memory {
    pub(super) fn is_within_the_budget(&self) -> bool {
        self.total <= self.budget
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(f, "Kernel memory of the maps, computed for {CPUS} CPUs × 2,500 cgroups:")?;
        for (name, bytes) in self.maps.iter().filter(|(_, bytes)| *bytes > 0) {
            writeln!(f, "  {name:<16}{:>8.2} MiB", mib(*bytes))?;
        }
        let verdict = if self.is_within_the_budget() { "within" } else { "OVER" };
        writeln!(f, "  {:<16}{:>8.2} MiB  {verdict} the budget of {} MiB", "total", mib(self.total), mib(self.budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ebpf::MEASURING, workspace::Workspace};

    #[test]
    fn a_large_host_stays_within_the_budget() {
        let memory = of_object(&MEASURING.path(&Workspace::here())).unwrap();
        assert!(memory.total <= BUDGET, "{memory}");
        for map in ["ROW_TOTALS", "DISTRIBUTIONS", "LINEAGES", "ROW_OF", "TASKS"] {
            assert!(memory.maps.iter().any(|(name, _)| name == map), "{map} is not in the object: {memory}");
        }
        // Totals of a row take 128 bytes a CPU: an estimate below that would have missed the copies.
        assert!(memory.total > 2_502 * 128 * CPUS, "{memory}");
    }

    #[test]
    fn every_kind_of_map_has_its_own_sum() {
        assert_eq!(bytes(ARRAY, 4, 12, 10), 160);
        assert_eq!(bytes(PERCPU_ARRAY, 4, 12, 10), 10 * (8 + 112 * 16));
        assert_eq!(bytes(STACK, 0, 4, 10), 44);
        assert_eq!(bytes(LRU_HASH, 8, 4, 10), 16 * 16 + 10 * (48 + 8 + 8));
        assert_eq!(bytes(HASH, 8, 4, 10), 16 * 16 + (10 + 112) * (48 + 8 + 8));
    }
}
