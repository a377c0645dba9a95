//! Durations as histograms of Prometheus: buckets at fixed bounds, and native ones.
//!
//! lagstop counts durations in log-linear buckets, four to each power of two nanoseconds. Neither the fixed bounds nor the
//! bounds of native buckets, which are powers of two seconds and parts of them, are among theirs. Counts are never divided:
//! a bucket goes whole to where its middle is. `docs/metrics.md` says how far that is off, and tests hold it there.

use std::sync::LazyLock;

use lagstop_ebpf::{BUCKETS, bucket_middle};

use crate::model::{Distribution, Nanos};

/// Upper bounds of the classic buckets, in nanoseconds.
pub(super) const BOUNDS: [u64; 11] = [
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

/// The same bounds in seconds, as they are written.
const BOUNDS_SECONDS: [f64; 11] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Resolution of native buckets: 2³ to each power of two. Finer ones tell no more: lagstop's own are wider.
pub(super) const SCHEMA: i32 = 3;
/// Durations up to this are in the zero bucket: the smallest threshold that the format's users expect.
pub(super) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// Gaps of up to this many buckets are written as empty buckets, which is shorter than another span.
const CLOSED_GAP: i32 = 2;

/// The classic bucket, by its number, that each of lagstop's is in.
const CLASSIC: [u8; BUCKETS] = {
    let mut all = [0; BUCKETS];
    let mut bucket = 0;
    while bucket < BUCKETS {
        let mut slot = 0;
        while slot < BOUNDS.len() && bucket_middle(bucket) > BOUNDS[slot] {
            slot += 1;
        }
        all[bucket] = slot as u8;
        bucket += 1;
    }
    all
};

/// The native bucket that each of lagstop's is in; the first is zero itself and in none.
static NATIVE: LazyLock<[i32; BUCKETS]> = LazyLock::new(|| std::array::from_fn(|bucket| key(bucket_middle(bucket))));

/// The native bucket of a duration: the one whose upper bound, 2^(key / 2^schema) seconds, is the first not below it.
fn key(ns: u64) -> i32 {
    let per_octave = f64::from(1 << SCHEMA);
    ((ns as f64 / 1e9).log2() * per_octave).ceil() as i32
}

/// How many durations there were, in lagstop's buckets, and their sum. It only grows.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    sum: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), sum: Nanos::ZERO }
    }
}

/// Native buckets: where runs of them begin, how long these are, and by how much each count differs from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) zero: u64,
    /// Distance from the end of the run before (the first: from bucket 0), and length.
    pub(super) spans: Vec<(i32, u32)>,
    pub(super) deltas: Vec<i64>,
}

impl Histogram {
    /// Adds durations, and their exact sum.
    pub fn add(&mut self, durations: &Distribution, sum: Nanos) {
        for (bucket, count) in durations.buckets() {
            let all = &mut self.counts[usize::from(bucket)];
            *all = all.saturating_add(count.into());
        }
        self.sum = self.sum.saturating_add(sum);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum in seconds.
    pub fn sum(&self) -> f64 {
        self.sum.seconds()
    }

    /// Upper bounds in seconds and what is in each classic bucket alone; the last has no bound.
    pub fn classic(&self) -> [(f64, u64); BOUNDS.len() + 1] {
        let mut all: [(f64, u64); BOUNDS.len() + 1] =
            std::array::from_fn(|slot| (BOUNDS_SECONDS.get(slot).copied().unwrap_or(f64::INFINITY), 0));
        for (count, slot) in self.counts.iter().zip(CLASSIC) {
            all[usize::from(slot)].1 += count;
        }
        all
    }

    pub(super) fn native(&self) -> Native {
        let mut native = Native { zero: self.counts[0], ..Native::default() };
        let (mut before, mut next) = (0, 0);
        for (&count, &key) in self.counts.iter().zip(NATIVE.iter()).skip(1).filter(|(count, _)| **count > 0) {
            let gap = key - next;
            match native.spans.last_mut() {
                Some((_, length)) if gap <= CLOSED_GAP => {
                    for _ in 0..gap {
                        native.deltas.push(-before);
                        before = 0;
                        *length += 1;
                    }
                    *length += 1;
                }
                _ => native.spans.push((gap, 1)),
            }
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            native.deltas.push(count - before);
            (before, next) = (count, key + 1);
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use lagstop_ebpf::{bucket_low, bucket_of};
    use proptest::prelude::*;

    use super::*;

    const DOCS: &str = include_str!("../../../docs/metrics.md");

    fn of(durations: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        let distribution = Distribution::of(durations.iter().map(|ns| (Nanos(*ns), 1)));
        histogram.add(&distribution, Nanos(durations.iter().sum()));
        histogram
    }

    /// Upper bound of a native bucket in seconds.
    fn upper(key: i32) -> f64 {
        2f64.powf(f64::from(key) / f64::from(1 << SCHEMA))
    }

    /// The effective bounds of the classic buckets, in nanoseconds.
    fn real_bounds() -> Vec<u64> {
        (0..BOUNDS.len())
            .map(|slot| bucket_low(CLASSIC.iter().position(|of| usize::from(*of) > slot).unwrap()))
            .collect()
    }

    #[test]
    fn classic_buckets_end_where_the_documentation_says() {
        for (bound, real) in BOUNDS.into_iter().zip(real_bounds()) {
            let off = 100.0 * (real as f64 - bound as f64) / bound as f64;
            assert!(off.abs() <= 11.0, "{bound} ends at {real}");
            let bound = bound as f64 / 1e9;
            let row = format!("| {bound} | {:.9} | {off:+.1} % |", real as f64 / 1e9);
            assert!(DOCS.contains(&row), "docs/metrics.md lacks {row}");
        }
    }

    #[test]
    fn a_duration_is_read_back_from_native_buckets_as_documented() {
        let mut worst: f64 = 0.0;
        // From 4 ns on: below, a nanosecond is a quarter and more.
        for bucket in bucket_of(4)..BUCKETS - 1 {
            // In the middle of a native bucket, by the logarithm, as Prometheus interpolates.
            let told = (upper(NATIVE[bucket]) * upper(NATIVE[bucket] - 1)).sqrt();
            for ns in [bucket_low(bucket), bucket_low(bucket + 1) - 1] {
                worst = worst.max((told / (ns as f64 / 1e9) - 1.0).abs());
            }
        }
        assert!((0.15..0.18).contains(&worst), "{worst}");
        assert!(DOCS.contains(&format!("{:.1} %", worst * 100.0)), "docs/metrics.md lacks {:.1} %", worst * 100.0);
    }

    #[test]
    fn no_two_buckets_become_one() {
        assert!(NATIVE[1..].is_sorted_by(|a, b| a < b), "{NATIVE:?}");
        for (bucket, key) in NATIVE.iter().enumerate().skip(1) {
            let middle = bucket_middle(bucket) as f64 / 1e9;
            assert!(upper(key - 1) < middle && middle <= upper(*key), "{bucket}");
        }
    }

    #[test]
    fn what_took_no_time_is_zero() {
        let native = of(&[0, 0, 1_000_000_000]).native();
        assert_eq!((native.zero, native.deltas), (2, vec![1]));
        assert_eq!(of(&[]).native(), Native::default());
    }

    #[test]
    fn every_duration_is_in_one_classic_bucket() {
        let all = of(&[0, 50_000, 150_000, 2_000_000_000, 60_000_000_000]).classic();
        assert_eq!(all.map(|(_, count)| count), [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(all.last().unwrap().0, f64::INFINITY);
    }

    proptest! {
        #[test]
        fn native_buckets_hold_all_that_was_counted(durations in prop::collection::vec(0u64..1 << 37, 0..60)) {
            let histogram = of(&durations);
            let Native { zero, spans, deltas } = histogram.native();
            prop_assert_eq!(spans.iter().map(|(_, length)| *length as usize).sum::<usize>(), deltas.len());
            // Decoded as readers of the format do.
            let (mut key, mut count, mut all) = (0, 0, std::collections::BTreeMap::new());
            let mut deltas = deltas.into_iter();
            for (gap, length) in spans {
                key += gap;
                for _ in 0..length {
                    count += deltas.next().unwrap();
                    if count > 0 {
                        all.insert(key, count as u64);
                    }
                    key += 1;
                }
            }
            let mut expected = std::collections::BTreeMap::new();
            for ns in durations.iter().filter(|ns| **ns > 0) {
                *expected.entry(NATIVE[bucket_of(*ns)]).or_insert(0) += 1;
            }
            prop_assert_eq!(zero + all.values().sum::<u64>(), histogram.count());
            prop_assert_eq!(all, expected);
        }
    }
}
