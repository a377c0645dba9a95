//! Behind whom cgroups wait: the kernel's table of pairs, which has an end.

use std::collections::HashMap;

use lagstop_ebpf::{MAX_PAIRS, Pair};

use crate::{
    kernel::{error::KernelError, map::Map},
    model::{CgroupId, Nanos, WaitBehind},
};

/// Reads in which a pair may stand still before it is taken out.
const QUIET_READS: u32 = 10;
/// With this many pairs the table is crowded: those that grew least are taken out until half of them are left.
const CROWDED: usize = MAX_PAIRS as usize / 4 * 3;

/// A pair, as it was read last.
#[derive(Clone, Copy, Debug)]
struct Known {
    wait_ns: u64,
    /// By how much it grew in that read.
    growth_ns: u64,
    /// Reads in which it stood still.
    quiet: u32,
    /// The last read that it was in.
    read: u64,
}

/// Behind whom each cgroup has waited since the last reading.
#[derive(Debug, Default)]
pub(super) struct PairWaits {
    /// Ascending, and beside each what it waited for.
    victims: Vec<CgroupId>,
    waits: Vec<WaitBehind>,
}

impl PairWaits {
    fn collect(pairs: impl Iterator<Item = (CgroupId, WaitBehind)>) -> Self {
        let mut all: Vec<(CgroupId, WaitBehind)> = pairs.collect();
        all.sort_unstable_by_key(|(victim, one)| (*victim, one.id));
        let (victims, waits) = all.into_iter().unzip();
        Self { victims, waits }
    }

    /// Behind whom `victim` has waited.
    pub(super) fn of(&self, victim: CgroupId) -> &[WaitBehind] {
        let first = self.victims.partition_point(|other| *other < victim);
        let count = self.victims[first..].iter().take_while(|other| **other == victim).count();
        &self.waits[first..first + count]
    }
}

/// The pairs that are in the table.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    known: HashMap<Pair, Known>,
    reads: u64,
}

impl Pairs {
    /// Reads the table, and takes out what does not grow any more. Gives behind whom each cgroup has waited since the last reading.
    pub(super) fn read(&mut self, map: &Map) -> Result<PairWaits, KernelError> {
        let pairs = map.read_hash::<Pair, u64>(MAX_PAIRS)?;
        let out = self.update(&pairs);
        let grown = self.known.iter().filter(|(_, known)| known.growth_ns > 0);
        let behind = PairWaits::collect(grown.map(|(pair, known)| {
            (CgroupId(pair.victim), WaitBehind { id: CgroupId(pair.culprit), wait_ns: Nanos(known.growth_ns) })
        }));
        for pair in out {
            map.remove(&pair)?;
            self.known.remove(&pair);
        }
        Ok(behind)
    }

    /// Takes in what was read, and gives what is to be taken out.
    fn update(&mut self, pairs: &[(Pair, u64)]) -> Vec<Pair> {
        let Self { known: all, reads } = self;
        *reads += 1;
        for &(pair, wait_ns) in pairs {
            let known = all.entry(pair).or_insert(Known { wait_ns: 0, growth_ns: 0, quiet: 0, read: 0 });
            let growth_ns = wait_ns.saturating_sub(known.wait_ns);
            let quiet = if growth_ns > 0 { 0 } else { known.quiet + 1 };
            *known = Known { wait_ns, growth_ns, quiet, read: *reads };
        }
        // The programs may have made room.
        all.retain(|_, known| known.read == *reads);
        let mut out: Vec<Pair> =
            all.iter().filter(|(_, known)| known.quiet >= QUIET_READS).map(|(pair, _)| *pair).collect();
        if all.len() - out.len() > CROWDED {
            let mut all: Vec<(u64, Pair)> = all.iter().map(|(pair, known)| (known.growth_ns, *pair)).collect();
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
    fn each_has_what_it_waited_for_and_no_more() {
        let wait = |id| WaitBehind { id: CgroupId(id), wait_ns: Nanos(id) };
        let behind =
            PairWaits::collect([(7, 3), (2, 9), (7, 1)].map(|(victim, id)| (CgroupId(victim), wait(id))).into_iter());
        let of = |victim| behind.of(CgroupId(victim)).to_vec();
        assert_eq!(
            [of(1), of(2), of(5), of(7), of(8)],
            [vec![], vec![wait(9)], vec![], vec![wait(1), wait(3)], vec![]]
        );
    }

    #[test]
    fn a_pair_that_is_gone_from_the_table_begins_at_nothing() {
        let mut pairs = Pairs::default();
        let growth = |pairs: &Pairs| pairs.known.values().map(|known| known.growth_ns).collect::<Vec<_>>();
        pairs.update(&[(pair(1), 7)]);
        pairs.update(&[(pair(1), 9)]);
        assert_eq!(growth(&pairs), [2]);
        pairs.update(&[]);
        assert!(pairs.known.is_empty());
        pairs.update(&[(pair(1), 5)]);
        assert_eq!(growth(&pairs), [5]);
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
