//! Distributions of many cgroups, made small: whole, or their quantiles alone.

use std::io;

use super::{
    columns::{Columns, Reading},
    minifloat::{NONE, decode, encode},
};
use crate::model::{Bucket, Cgroup, Distribution};

/// Number of distributions of a cgroup.
pub(super) const KINDS: usize = 3;
/// What is kept of distributions that are not kept whole: what the screen shows of them.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

fn kinds(cgroup: &Cgroup) -> [Option<&Distribution>; KINDS] {
    [cgroup.switch_cost.as_ref(), cgroup.runq_wait.as_ref(), cgroup.accept_wait.as_ref()]
}

/// Adds of each distribution how many durations it has, and in which buckets its quantiles are: each column by how it
/// differs from another that is much like it.
pub(super) fn push_quantiles(figures: &mut Columns, cgroups: &[Cgroup]) {
    for kind in 0..KINDS {
        let counts = cgroups.iter().map(|it| kinds(it)[kind].map_or(NONE, |it| encode(it.count()))).collect();
        figures.push(&minus(counts, &expected_counts(cgroups, kind)));
        let mut before = vec![0; cgroups.len()];
        for quantile in QUANTILES {
            let bucket = |it: &Cgroup| kinds(it)[kind]?.quantile_bucket(quantile).map(u16::from);
            let places: Vec<u16> = cgroups.iter().map(|it| bucket(it).unwrap_or(NONE)).collect();
            figures.push(&minus(places.clone(), &before));
            before = places;
        }
    }
}

/// How many durations each distribution has in it if none was lost.
fn expected_counts(cgroups: &[Cgroup], kind: usize) -> Vec<u16> {
    let expected = |Cgroup { totals, .. }: &Cgroup| [Some(totals.switches), totals.runq_waits, totals.accepts][kind];
    cgroups.iter().map(|cgroup| expected(cgroup).map_or(NONE, encode)).collect()
}

/// How `values` differ from `others`.
fn minus(mut values: Vec<u16>, others: &[u16]) -> Vec<u16> {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = value.wrapping_sub(*other));
    values
}

/// Undoes [`minus`].
fn plus(mut values: Vec<u16>, others: &[u16]) -> Vec<u16> {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = value.wrapping_add(*other));
    values
}

/// For each of the kinds: where each distribution's buckets begin and how many there are. Then the counts from the first
/// to the last, those in between that are 0 included.
pub(super) fn shapes(cgroups: &[Cgroup]) -> Columns {
    let mut columns = Columns::default();
    let mut counts = Vec::new();
    for kind in 0..KINDS {
        let (mut firsts, mut lengths) = (Vec::with_capacity(cgroups.len()), Vec::with_capacity(cgroups.len()));
        for cgroup in cgroups {
            let Some(distribution) = kinds(cgroup)[kind] else {
                firsts.push(NONE);
                lengths.push(0);
                continue;
            };
            let mut first = None;
            let mut next = 0;
            for (bucket, count) in distribution.buckets() {
                let at = u16::from(bucket);
                let gap = if first.is_some() { at - next } else { 0 };
                first.get_or_insert(at);
                counts.resize(counts.len() + usize::from(gap), 0);
                push_varint(&mut counts, count);
                next = at + 1;
            }
            let first = first.unwrap_or(0);
            firsts.push(first);
            lengths.push(next.max(first) - first);
        }
        columns.push(&firsts);
        columns.push(&lengths);
    }
    columns.push_bytes(&counts);
    columns
}

/// Reads distributions that have the same quantiles as the original ones, and nothing else of them.
pub(super) fn pull_quantiles(
    figures: &mut Reading,
    cgroups: &[Cgroup],
) -> io::Result<Vec<[Option<Distribution>; KINDS]>> {
    let mut all = vec![[const { None }; KINDS]; cgroups.len()];
    for kind in 0..KINDS {
        let expected = expected_counts(cgroups, kind);
        let counts = plus(figures.pull(cgroups.len())?, &expected);
        let mut quantiles: Vec<Vec<u16>> = vec![vec![0; cgroups.len()]];
        for at in 0..QUANTILES.len() {
            let places = plus(figures.pull(cgroups.len())?, &quantiles[at]);
            quantiles.push(places);
        }
        let quantiles = &quantiles[1..];
        for (n, distributions) in all.iter_mut().enumerate().filter(|&(n, _)| counts[n] != NONE) {
            let count = decode(counts[n]);
            let mut below = 0;
            let mut points: Vec<(Bucket, u32)> = Vec::with_capacity(QUANTILES.len());
            for (at, quantile) in QUANTILES.iter().enumerate() {
                let is_last = at + 1 == QUANTILES.len();
                let rank = if is_last { count } else { ((count as f64 * quantile).ceil() as u64).max(1).min(count) };
                let more = u32::try_from(rank.saturating_sub(below)).unwrap_or(u32::MAX);
                below = below.max(rank);
                match (Bucket::try_from(quantiles[at][n]), points.last_mut()) {
                    (Ok(bucket), Some((last, sum))) if *last == bucket => *sum = sum.saturating_add(more),
                    (Ok(bucket), _) => points.push((bucket, more)),
                    // There was none.
                    (Err(_), _) => {}
                }
            }
            distributions[kind] = Distribution::from_buckets(points);
        }
    }
    Ok(all)
}

pub(super) fn pull_shapes(columns: &mut Reading, count: usize) -> io::Result<Vec<[Option<Distribution>; KINDS]>> {
    let mut places = Vec::with_capacity(KINDS);
    for _ in 0..KINDS {
        places.push((columns.pull(count)?, columns.pull(count)?));
    }
    let mut all = vec![[const { None }; KINDS]; count];
    let mut counts = columns.rest();
    for (kind, (firsts, lengths)) in places.into_iter().enumerate() {
        for (n, (first, length)) in firsts.into_iter().zip(lengths).enumerate() {
            if first == NONE {
                continue;
            }
            let mut found = Vec::with_capacity(length.into());
            for bucket in first..first + length {
                let count = pull_varint(&mut counts).ok_or(io::ErrorKind::UnexpectedEof)?;
                if let (1.., Ok(bucket)) = (count, Bucket::try_from(bucket)) {
                    found.push((bucket, count));
                }
            }
            all[n][kind] = Distribution::from_buckets(found);
        }
    }
    Ok(all)
}

/// Seven bits a byte, the lowest first; the highest bit says that there are more.
fn push_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn pull_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
