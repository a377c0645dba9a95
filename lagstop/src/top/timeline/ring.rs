//! The last intervals, made small.

use std::{
    collections::{HashMap, VecDeque},
    io,
};

use super::{
    labels::Label,
    pack::{Packed, Packer, TrendPoint, Unpacked},
};
use crate::{
    diagnosis::Role,
    model::{CgroupId, Interval, Nanos},
};

/// Consecutive intervals, of which the oldest go when there are too many.
#[derive(Debug)]
pub(super) struct Ring {
    packer: Packer,
    kept: VecDeque<Kept>,
    bytes: usize,
    limits: HistoryLimits,
}

/// How much is kept. The oldest intervals go as soon as either limit is exceeded.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct HistoryLimits {
    pub(in crate::top) time: Nanos,
    pub(in crate::top) bytes: usize,
}

#[derive(Debug)]
struct Kept {
    n: u64,
    start: Nanos,
    duration: Nanos,
    overhead: Option<f32>,
    packed: Packed,
}

impl Ring {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        Self { packer: Packer::default(), kept: VecDeque::new(), bytes: 0, limits }
    }

    /// Adds the `n`th interval, which follows the last one.
    pub(super) fn push(&mut self, n: u64, interval: &Interval, roles: &HashMap<CgroupId, Role>) -> io::Result<()> {
        let packed = self.packer.pack(n, interval, roles)?;
        self.bytes += packed.len();
        let overhead = interval.host.overhead().map(|overhead| overhead as f32);
        self.kept.push_back(Kept { n, start: interval.start_ns, duration: interval.duration_ns, overhead, packed });
        if let Some(old) = self.kept.len().checked_sub(WHOLE + 1).and_then(|old| self.kept.get_mut(old)) {
            self.bytes -= old.packed.len();
            old.packed.forget_shapes();
            self.bytes += old.packed.len();
        }
        let mut time: Nanos = self.kept.iter().map(|kept| kept.duration).sum();
        while let Some(oldest) = self.kept.front()
            && self.kept.len() > 1
            && (self.bytes > self.limits.bytes || time.saturating_sub(oldest.duration) >= self.limits.time)
        {
            self.bytes -= oldest.packed.len();
            time = time.saturating_sub(oldest.duration);
            self.kept.pop_front();
        }
        // Now and then is enough: what it frees is small.
        if let Some(first) = self.first().filter(|first| first.is_multiple_of(FORGET_EVERY)) {
            self.packer.forget(first);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.kept.front().map(|kept| kept.n)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.kept.back().map(|kept| kept.n)
    }

    fn get(&self, n: u64) -> Option<&Kept> {
        let at = n.checked_sub(self.first()?)?;
        self.kept.get(usize::try_from(at).ok()?)
    }

    /// When the `n`th interval began, or the first that is kept if that was before.
    pub(super) fn start_of(&self, n: u64) -> Option<Nanos> {
        self.get(n.max(self.first()?)).map(|kept| kept.start)
    }

    /// The `n`th interval, if it is kept.
    pub(super) fn unpack(&self, n: u64) -> Option<io::Result<Unpacked>> {
        self.get(n).map(|kept| self.packer.unpack(&kept.packed))
    }

    /// Overhead of the intervals up to the `n`th.
    pub(super) fn overheads(&self, n: u64) -> Vec<Option<f32>> {
        self.kept.iter().take_while(|kept| kept.n <= n).map(|kept| kept.overhead).collect()
    }

    /// What was known last of a cgroup.
    pub(super) fn label(&self, id: CgroupId) -> Option<&Label> {
        self.packer.label(id)
    }

    /// The history of one cgroup in at most `count` intervals up to the `n`th.
    pub(super) fn trend(&self, id: CgroupId, n: u64, count: usize) -> io::Result<Vec<TrendPoint>> {
        let labels = self.packer.labels_of(id);
        let upto = self.kept.iter().take_while(|kept| kept.n <= n).count();
        self.kept
            .range(upto.saturating_sub(count)..upto)
            .map(|kept| self.packer.trend(&kept.packed, &labels, kept.duration))
            .collect()
    }
}

/// The last intervals, whose distributions are kept whole.
const WHOLE: usize = 60;
/// Intervals between two clean-ups of names.
const FORGET_EVERY: u64 = 32;
