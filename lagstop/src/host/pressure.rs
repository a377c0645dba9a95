//! Pressure stall information of cgroups: `cpu.pressure`, which version 2 has.
//!
//! To write that file the kernel adds up all CPUs, so of a dense host only those are read that waited longest. What a cgroup
//! that was not read before has counted is not the interval's, and is left out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Version;
use crate::model::Nanos;

/// Whose pressure is read.
#[derive(Debug)]
pub(super) struct Pressures {
    version: Version,
    /// How long a cgroup must have waited since the last reading to have its pressure read.
    least_wait: Nanos,
}

/// Time in which some task waited, and in which all did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PressureTimes {
    pub(super) some_ns: Option<Nanos>,
    pub(super) full_ns: Option<Nanos>,
}

impl Pressures {
    /// Cgroups that are read each time.
    const MOST: usize = 200;

    pub(super) const fn new(version: Version) -> Self {
        Self { version, least_wait: Nanos::ZERO }
    }

    /// Begins a reading, in which cgroups have waited so long since the last one.
    pub(super) fn begin(&mut self, waited: impl Iterator<Item = Nanos>) {
        let mut waited: Vec<Nanos> = waited.collect();
        self.least_wait = match waited.len().checked_sub(Self::MOST) {
            None | Some(0) => Nanos::ZERO,
            // Who did not wait is no reason to read: on a calm host that is most of them.
            Some(fewer) => (*waited.select_nth_unstable(fewer).1).max(Nanos(1)),
        };
    }

    /// The pressure of a cgroup that has waited so long; `directory` finds where its files are, if that is known.
    pub(super) fn of(&self, waited: Nanos, directory: impl FnOnce() -> Option<PathBuf>) -> PressureTimes {
        if matches!(self.version, Version::V1) || waited < self.least_wait {
            return PressureTimes::default();
        }
        directory().and_then(|directory| read(&directory)).unwrap_or_default()
    }
}

fn read(directory: &Path) -> Option<PressureTimes> {
    Some(parse(&fs::read_to_string(directory.join("cpu.pressure")).ok()?))
}

/// `some … total=<µs>` and `full … total=<µs>`, Documentation/accounting/psi.rst. Before Linux 5.13 there is no `full` of CPUs.
pub(super) fn parse(text: &str) -> PressureTimes {
    let total = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let total: u64 = line.split("total=").nth(1)?.trim().parse().ok()?;
        Some(Nanos(total.saturating_mul(1_000)))
    };
    PressureTimes { some_ns: total("some"), full_ns: total("full") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_in_microseconds() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let expected = PressureTimes { some_ns: Some(Nanos(1_234_000)), full_ns: Some(Nanos(5_000)) };
        assert_eq!(parse(text), expected);
        let before_5_13 = text.lines().next().unwrap();
        assert_eq!(parse(before_5_13), PressureTimes { full_ns: None, ..expected });
        assert_eq!(parse(""), PressureTimes::default());
    }

    #[test]
    fn on_a_dense_host_those_are_read_that_waited_longest() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("cpu.pressure"), "some avg10=0.00 total=7\n").unwrap();
        let is_read = |pressures: &Pressures, waited: u64| {
            pressures.of(Nanos(waited), || Some(home.path().to_owned())).some_ns.is_some()
        };
        let mut pressures = Pressures::new(Version::V2);
        pressures.begin((0..Pressures::MOST as u64).map(Nanos));
        assert!(is_read(&pressures, 0), "there is room for all");
        pressures.begin((0..1_000).map(Nanos));
        assert!(!is_read(&pressures, 799) && is_read(&pressures, 800));
        pressures.begin((0..1_000).map(|n: u64| Nanos(n.saturating_sub(990))));
        assert!(!is_read(&pressures, 0) && is_read(&pressures, 1), "few waited: the others are not read");
        assert!(!is_read(&Pressures::new(Version::V1), 800));
    }
}
