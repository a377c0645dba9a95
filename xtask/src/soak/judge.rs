//! What grows that should not, told from what a process took again and again while it lived.

use std::{fmt, time::Duration};

/// Until this age, a process is still getting to know the host.
const SETTLED: Duration = Duration::from_secs(60);
/// So many looks are needed to tell growth.
const ENOUGH: usize = 30;
/// How much memory may grow from the middle third of the looks to the last third: this part of it, and so many KiB.
const MEMORY_PART: f64 = 0.05;
const MEMORY_KIB: u64 = 1 << 10;
/// How much descriptors may grow: some files are open only for a moment.
const DESCRIPTORS: u64 = 4;
/// How much sockets may grow: of the clients that harass a server some 40 are connected at a time, more where it is
/// asked faster.
const SOCKETS: u64 = 20;

/// What a process took at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Time since the process was started.
    pub(super) age: Duration,
    /// Anonymous memory, in KiB.
    pub(super) memory_kib: u64,
    /// File descriptors without sockets.
    pub(super) descriptors: u64,
    pub(super) sockets: u64,
    pub(super) threads: u64,
    /// What its BPF maps take in the kernel, in KiB.
    pub(super) maps_kib: u64,
}

/// Something that grew.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    what: &'static str,
    middle: u64,
    last: u64,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, middle, last } = self;
        write!(f, "{what} grew from {middle} to {last} (medians of the middle and the last third of its time)")
    }
}

/// What grew while a process lived. `None` where it did not live long enough to tell.
pub(super) fn growth(looks: &[Look]) -> Option<Vec<Growth>> {
    let settled: Vec<&Look> = looks.iter().filter(|look| look.age >= SETTLED).collect();
    if settled.len() < ENOUGH {
        return None;
    }
    let third = settled.len() / 3;
    let (middle, last) = (&settled[third..2 * third], &settled[2 * third..]);
    let figures = [
        Growing { what: "memory in KiB", of: |look| look.memory_kib, may: |was| part(was) + MEMORY_KIB },
        Growing { what: "descriptors", of: |look| look.descriptors, may: |_| DESCRIPTORS },
        Growing { what: "sockets", of: |look| look.sockets, may: |_| SOCKETS },
        Growing { what: "threads", of: |look| look.threads, may: |_| 0 },
        Growing { what: "BPF maps in KiB", of: |look| look.maps_kib, may: part },
    ];
    let grown = |figure: Growing| {
        let (middle, last) = (median(middle, figure.of), median(last, figure.of));
        (last > middle + (figure.may)(middle)).then_some(Growth { what: figure.what, middle, last })
    };
    Some(figures.into_iter().filter_map(grown).collect())
}

/// A figure that is watched, and what it may grow by, from what it was.
struct Growing {
    what: &'static str,
    of: fn(&Look) -> u64,
    may: fn(u64) -> u64,
}

fn part(was: u64) -> u64 {
    (was as f64 * MEMORY_PART) as u64
}

fn median(looks: &[&Look], figure: fn(&Look) -> u64) -> u64 {
    let mut all: Vec<u64> = looks.iter().map(|look| figure(look)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look a second, of a process that takes `memory` at a second of its life.
    fn life(seconds: u64, memory_kib: impl Fn(u64) -> u64) -> Vec<Look> {
        (0..seconds)
            .map(|n| Look {
                age: Duration::from_secs(n),
                memory_kib: memory_kib(n),
                descriptors: 40,
                sockets: 10 + n % 30,
                threads: 5,
                maps_kib: 9_000,
            })
            .collect()
    }

    #[test]
    fn what_leaks_is_told_from_what_goes_up_and_down() {
        assert_eq!(growth(&life(300, |n| 20_000 + 3_000 * (n % 11))), Some(Vec::new()));
        // 40 KiB a second.
        let leak = growth(&life(300, |n| 20_000 + 40 * n)).unwrap();
        assert_eq!(leak.len(), 1);
        assert!(leak[0].to_string().starts_with("memory in KiB grew from 27"), "{}", leak[0]);
        let mut looks = life(300, |_| 20_000);
        looks.iter_mut().for_each(|look| {
            look.descriptors += look.age.as_secs() / 10;
            look.sockets += look.age.as_secs() / 2;
        });
        let grown: Vec<&str> = growth(&looks).unwrap().iter().map(|growth| growth.what).collect();
        assert_eq!(grown, ["descriptors", "sockets"]);
    }

    #[test]
    fn what_a_process_needs_at_first_is_no_leak_and_a_short_life_tells_nothing() {
        assert_eq!(growth(&life(300, |n| n.min(60) * 1_000)), Some(Vec::new()));
        assert_eq!(growth(&life(80, |n| 40 * n)), None);
    }
}
