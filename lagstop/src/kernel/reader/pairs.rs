//! Behind whom cgroups wait: the kernel's table of pairs, which has an end.

use std::collections::HashMap;

use lagstop_ebpf::{MAX_PAIRS, Pair};

use super::Behind;
use crate::{
    kernel::{error::KernelError, map::Map},
    model::{CgroupId, Nanos, WaitBehind},
};

/// Reads in which a pair may stand still before it is taken out.
const QUIET_READS: u32 = 10;
/// As many pairs as this are too many: those that grew least are taken out until half of them are left.
const CROWDED: usize = MAX_PAIRS as usize / 4 * 3;

/// A pair, as it was read last.
#[derive(Clone, Copy, Debug)]
struct Known {
    wait_ns: u64,
    /// What it grew by then.
    growth_ns: u64,
    /// Reads in which it stood still.
    quiet: u32,
}

/// The pairs that are in the table.
#[derive(Debug, Default)]
pub(super) struct Pairs(HashMap<Pair, Known>);

impl Pairs {
    /// Reads the table, and takes out what does not grow any more. Gives behind whom each cgroup has waited since the last reading.
    pub(super) fn read(&mut self, map: &Map) -> Result<Behind, KernelError> {
        let pairs = map.read_hash::<Pair, u64>(MAX_PAIRS)?;
        let out = self.update(&pairs);
        let mut behind = Behind::new();
        for (pair, known) in self.0.iter().filter(|(_, known)| known.growth_ns > 0) {
            let one = WaitBehind { id: CgroupId(pair.culprit), wait_ns: Nanos(known.growth_ns) };
            behind.entry(CgroupId(pair.victim)).or_default().push(one);
        }
        for pair in out {
            map.remove(&pair)?;
            self.0.remove(&pair);
        }
        Ok(behind)
    }

    /// Takes in what was read, and gives what is to be taken out.
    fn update(&mut self, pairs: &[(Pair, u64)]) -> Vec<Pair> {
        let known: HashMap<Pair, Known> = pairs
            .iter()
            .map(|&(pair, wait_ns)| {
                let before = self.0.get(&pair);
                let growth_ns = wait_ns.saturating_sub(before.map_or(0, |before| before.wait_ns));
                let quiet = if growth_ns > 0 { 0 } else { before.map_or(0, |before| before.quiet) + 1 };
                (pair, Known { wait_ns, growth_ns, quiet })
            })
            .collect();
        self.0 = known;
        let mut out: Vec<Pair> =
            self.0.iter().filter(|(_, known)| known.quiet >= QUIET_READS).map(|(pair, _)| *pair).collect();
        if self.0.len() - out.len() > CROWDED {
            let mut all: Vec<(u64, Pair)> = self.0.iter().map(|(pair, known)| (known.growth_ns, *pair)).collect();
            let (least, ..) = all.select_nth_unstable_by_key(CROWDED / 2, |(growth, _)| *growth);
            out = least.iter().map(|(_, pair)| *pair).collect();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(n: u64) -> Pair {
        Pair { victim: n / 100, culprit: n }
    }

    #[test]
    fn what_stands_still_for_long_is_taken_out() {
        let mut pairs = Pairs::default();
        let mut out = Vec::new();
        for read in 0..=u64::from(QUIET_READS) {
            assert_eq!(out, []);
            out = pairs.update(&[(pair(1), 7), (pair(2), read + 1)]);
        }
        assert_eq!(out, [pair(1)]);
    }

    #[test]
    fn the_worst_stay_where_there_are_too_many() {
        let mut pairs = Pairs::default();
        let all: Vec<(Pair, u64)> = (1..=CROWDED as u64 + 1).map(|n| (pair(n), n)).collect();
        let out = pairs.update(&all);
        assert_eq!(out.len(), CROWDED / 2);
        assert!(out.iter().all(|pair| pair.culprit <= CROWDED as u64 / 2 + 1));
    }
}
