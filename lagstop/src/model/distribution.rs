//! Distributions of durations.

use lagstop_ebpf::{BUCKETS, bucket_middle, bucket_of};
use smallvec::SmallVec;

use super::Nanos;

/// How many durations fell into each of the log-linear buckets that the programs in the kernel count in; a bucket's middle
/// stands for all in it, within 12.5 %.
///
/// Between two snapshots the counts are those since the start and wrap at 2³²; in an interval they are the interval's
/// own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Buckets and what they count, ascending by bucket; none twice.
    bins: Bins,
}

/// Most cgroups do little in an interval: a few bins need no memory of their own.
type Bins = SmallVec<[(Bucket, u32); 4]>;

/// A bucket by its number, below [`BUCKETS`].
pub type Bucket = u8;

/// Adds many distributions up. It takes no room as long as nothing was counted.
#[derive(Clone, Debug, Default)]
pub struct DistributionSum(Option<Box<[u32; BUCKETS]>>);

impl DistributionSum {
    pub fn add(&mut self, distribution: &Distribution) {
        for (bucket, count) in distribution.buckets() {
            let sum = &mut self.0.get_or_insert_with(|| Box::new([0; BUCKETS]))[usize::from(bucket)];
            *sum = sum.saturating_add(count);
        }
    }

    /// What all of them counted.
    pub fn total(&self) -> Distribution {
        self.0.as_deref().map(Distribution::from_counts).unwrap_or_default()
    }
}

impl Distribution {
    /// The distribution of `durations`, each counted that many times.
    pub fn of(durations: impl IntoIterator<Item = (Nanos, u32)>) -> Self {
        let mut counts = [0u32; BUCKETS];
        for (duration, count) in durations {
            let sum = &mut counts[bucket_of(duration.0)];
            *sum = sum.saturating_add(count);
        }
        Self::from_counts(&counts)
    }

    /// From the counts of all buckets.
    pub fn from_counts(counts: &[u32; BUCKETS]) -> Self {
        Self {
            bins: collected((0..).zip(counts).filter(|&(_, &count)| count > 0).map(|(bucket, &count)| (bucket, count))),
        }
    }

    /// The bucket that counts `duration`.
    pub fn bucket(duration: Nanos) -> Bucket {
        Bucket::try_from(bucket_of(duration.0)).unwrap_or(Bucket::MAX)
    }

    /// From buckets and their counts. `None` if they do not ascend, or if one is not in [`BUCKETS`].
    pub fn from_buckets(buckets: impl IntoIterator<Item = (Bucket, u32)>) -> Option<Self> {
        let bins: Bins = buckets.into_iter().collect();
        let ascends = bins.is_sorted_by(|(a, _), (b, _)| a < b);
        let ends = bins.last().is_none_or(|&(last, _)| usize::from(last) < BUCKETS);
        (ascends && ends).then_some(Self { bins })
    }

    /// The buckets that hold something, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Bucket, u32)> {
        self.bins.iter().copied().filter(|&(_, count)| count > 0)
    }

    /// The buckets that hold something, each as the duration that stands for it.
    pub fn bins(&self) -> impl Iterator<Item = (Nanos, u32)> {
        self.buckets().map(|(bucket, count)| (middle(bucket), count))
    }

    pub fn count(&self) -> u64 {
        self.bins.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// What was counted since `earlier`, of the same growing distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.bins.iter().peekable();
        let bins = self.bins.iter().filter_map(|&(value, count)| {
            while before.next_if(|&&(earlier, _)| earlier < value).is_some() {}
            let then = before.next_if(|&&(earlier, _)| earlier == value).map_or(0, |&(_, count)| count);
            let more = count.wrapping_sub(then);
            (more > 0).then_some((value, more))
        });
        Self { bins: collected(bins) }
    }

    pub fn merge(&mut self, other: &Self) {
        let mut merged = Bins::with_capacity(self.bins.len() + other.bins.len());
        let (mut mine, mut theirs) = (self.bins.iter().peekable(), other.bins.iter().peekable());
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(&&(a, _)), Some(&&(b, _))) => a.min(b),
                (Some(&&(value, _)), None) | (None, Some(&&(value, _))) => value,
                (None, None) => break,
            };
            let take = |bins: &mut std::iter::Peekable<std::slice::Iter<'_, (Bucket, u32)>>| {
                bins.next_if(|&&(bucket, _)| bucket == next).map_or(0, |&(_, count)| count)
            };
            let count = take(&mut mine).saturating_add(take(&mut theirs));
            merged.push((next, count));
        }
        self.bins = merged;
    }

    /// What all of them counted together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = DistributionSum::default();
        all.into_iter().for_each(|distribution| sum.add(distribution));
        sum.total()
    }

    /// The duration that a share `quantile` (0 to 1) of the durations does not exceed. `None` where none was counted.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        self.quantile_bucket(quantile).map(middle)
    }

    /// The bucket that [`Self::quantile`] is in.
    pub fn quantile_bucket(&self, quantile: f64) -> Option<Bucket> {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        self.bins.iter().find_map(|&(bucket, count)| {
            seen += u64::from(count);
            (seen >= rank).then_some(bucket)
        })
    }
}

/// Collects `bins`, which ascend, in exactly as much memory as they take. Thousands are made each second, so none grows
/// step by step.
fn collected(bins: impl Iterator<Item = (Bucket, u32)>) -> Bins {
    let mut all = [(0, 0); BUCKETS];
    let count = all.iter_mut().zip(bins).map(|(place, bin)| *place = bin).count();
    Bins::from_slice(&all[..count])
}

/// The duration that stands for a bucket.
fn middle(bucket: Bucket) -> Nanos {
    Nanos(bucket_middle(bucket.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bins: &[(u64, u32)]) -> Distribution {
        Distribution::of(bins.iter().map(|&(value, count)| (Nanos(value), count)))
    }

    /// The middle of the bucket that counts `duration`.
    fn near(duration: u64) -> Nanos {
        Nanos(bucket_middle(bucket_of(duration)))
    }

    #[test]
    fn quantiles_are_the_bins_that_reach_the_rank() {
        let d = of(&[(10, 50), (100, 49), (1000, 1)]);
        assert_eq!(d.quantile(0.5), Some(near(10)));
        assert_eq!(d.quantile(0.51), Some(near(100)));
        assert_eq!(d.quantile(0.99), Some(near(100)));
        assert_eq!(d.quantile(1.0), Some(near(1000)));
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn differences_survive_the_wrap_of_the_counters() {
        let before = of(&[(10, u32::MAX - 1), (20, 7)]);
        let after = of(&[(10, 3), (20, 7), (30, 2)]);
        assert_eq!(after.since(&before), of(&[(10, 5), (30, 2)]));
    }

    #[test]
    fn buckets_that_are_none_make_no_distribution() {
        let of = |buckets: &[(Bucket, u32)]| Distribution::from_buckets(buckets.iter().copied());
        assert_eq!(of(&[(3, 1), (143, 2)]).unwrap().count(), 3);
        assert_eq!(of(&[(3, 1), (144, 2)]), None);
        assert_eq!(of(&[(3, 1), (3, 2)]), None);
    }

    prop_compose! {
        fn any()(counts in prop::collection::btree_map(0..BUCKETS as Bucket, 1u32..1 << 20, 0..40)) -> Distribution {
            Distribution::from_buckets(counts).unwrap()
        }
    }

    proptest! {
        #[test]
        fn merging_undoes_a_difference(a in any(), b in any()) {
            let mut both = a.clone();
            both.merge(&b);
            prop_assert_eq!(both.count(), a.count() + b.count());
            prop_assert_eq!(&Distribution::sum([&a, &b]), &both);
            prop_assert_eq!(both.since(&a), b);
        }
    }
}
