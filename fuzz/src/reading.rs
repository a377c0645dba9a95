//! All the ways in which a recording is read.

use lagstop::{
    model::Interval,
    recording::{Contents, Reader},
};

/// Who gets an error asks no more. Some more are asked for, to see that the reader can go on after one; but not all, for each
/// may take a chunk from its beginning.
const MOST_ERRORS: usize = 8;

/// Reads everything in `reader`, whose file has `bytes`, in every way there is. Errors are good answers; what must not happen
/// is that it panics, hangs, or contradicts itself.
pub fn read_all(reader: &mut Reader, bytes: u64) {
    let count = reader.len();
    let in_order = good(0..count, |n| reader.interval(n).ok().map(|interval| (interval.start_ns, small(interval))));
    for (n, (start, _)) in &in_order {
        assert_eq!(reader.start_of(*n).ok(), Some(*start), "the start of interval {n}");
    }
    let in_order: Vec<(usize, Interval)> =
        in_order.into_iter().filter_map(|(n, (_, interval))| Some((n, interval?))).collect();
    jump_about(reader, &in_order);
    good(0..reader.parts(), |part| reader.merged(part).ok());
    assert!(reader.interval(count).is_err() && reader.merged(reader.parts()).is_err());
    let _ = Contents::of(reader, bytes, |_, _| {});
    // As a long recording is: by its parts.
    let _ = Contents::of(reader, u64::MAX, |_, _| {});
}

/// An interval that all of its kind have room for: lagstop has one at a time.
fn small(interval: Interval) -> Option<Interval> {
    Some(interval).filter(|interval| interval.cgroups.len() + interval.cpus.len() + interval.listeners.len() <= 1_000)
}

/// What `read` gives of `all`, with its number.
fn good<T>(all: impl Iterator<Item = usize>, mut read: impl FnMut(usize) -> Option<T>) -> Vec<(usize, T)> {
    let mut errors = 0;
    let mut good = Vec::new();
    for n in all {
        match read(n) {
            Some(read) => good.push((n, read)),
            None => errors += 1,
        }
        if errors > MOST_ERRORS {
            break;
        }
    }
    good
}

/// Reads some of `in_order` again, not in order: it must be the same.
fn jump_about(reader: &mut Reader, in_order: &[(usize, Interval)]) {
    let last = in_order.len().saturating_sub(1);
    for place in [last, 0, last / 2, last / 3] {
        let Some((n, interval)) = in_order.get(place) else { continue };
        let again = reader.interval(*n).expect("an interval that was good before");
        assert_eq!(again.start_ns, interval.start_ns);
        assert_eq!(same(&again), same(interval), "interval {n}");
    }
}

/// `interval` so that one that is equal can be told: with a load that is no number it would not equal itself.
fn same(interval: &Interval) -> String {
    format!("{interval:?}")
}
