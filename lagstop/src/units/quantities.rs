//! Quantities that carry their unit.

use std::{borrow::Cow, fmt, iter::Sum, time::Duration};

use rustix::time::Timespec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time, or a point on a clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Self = Self(0);
    pub const SECOND: Self = Self(1_000_000_000);

    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// What is left after `other`; nothing where `other` is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Together with `other`; the most that can be told where that is too much.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The mean of `count` things that took this long together. `None` of none.
    pub const fn mean(self, count: u64) -> Option<Self> {
        match self.0.checked_div(count) {
            Some(mean) => Some(Self(mean)),
            None => None,
        }
    }

    /// How many CPUs this much work keeps busy over `duration`.
    pub fn cores(self, duration: Self) -> Cores {
        Cores(ratio(self.0 as f64, duration.0 as f64))
    }
}

/// Saturating: 584 years at most.
impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A time of the kernel's; what is before its clock began counts as nothing.
impl From<Timespec> for Nanos {
    fn from(time: Timespec) -> Self {
        let part = |part: i64| u64::try_from(part).unwrap_or_default();
        Self(part(time.tv_sec).saturating_mul(Self::SECOND.0).saturating_add(part(time.tv_nsec)))
    }
}

/// Saturating.
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::ZERO, Self::saturating_add)
    }
}

/// For people: three figures and the unit that keeps them short.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, f64); 3] = [("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        if self.0 < 1_000 {
            return f.pad(&format!("{} ns", self.0));
        }
        let ns = self.0 as f64;
        // A value that would be rounded up to 1000 belongs to the next unit.
        let (unit, size) = UNITS.into_iter().find(|(_, size)| ns < size * 999.5).unwrap_or(("s", 1e9));
        let value = ns / size;
        let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

/// CPUs kept busy on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Cores(pub f64);

/// Tasks on average; 1.00 is one that is always runnable.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Tasks(pub f64);

/// What the kernel writes for [`Tasks`] 1.00 of default weight (`NICE_0_LOAD` as `load_avg` shows it).
pub const KERNEL_LOAD: f64 = 1024.0;

/// In recordings in the kernel's unit: 1024 is one task that is always runnable.
impl JsonSchema for Tasks {
    fn schema_name() -> Cow<'static, str> {
        "Tasks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number",
            "minimum": 0,
            "description": "Tasks on average, times 1024: the kernel's unit.",
        })
    }
}

impl Serialize for Tasks {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Three decimals: finer than any source of it.
        serializer.serialize_f64((self.0 * KERNEL_LOAD * 1e3).round() / 1e3)
    }
}

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(f64::deserialize(deserializer)? / KERNEL_LOAD))
    }
}

/// `part / whole`; 0 of nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Rounds to six significant figures: more than any source has, and the same on every machine.
pub(crate) fn six_figures(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        let shown: Vec<String> =
            [0, 999, 1_000, 48_210, 312_000, 999_999, 9_999_999, 2_500_000_000].map(|ns| Nanos(ns).to_string()).into();
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 µs", "48.2 µs", "312 µs", "1.00 ms", "10.0 ms", "2.50 s"]);
        assert_eq!(format!("{:>9}", Nanos(1_000)), "  1.00 µs");
    }

    #[test]
    fn a_mean_of_nothing_is_not_zero() {
        assert_eq!(Nanos(10).mean(0), None);
        assert_eq!(Nanos(10).mean(4), Some(Nanos(2)));
    }

    #[test]
    fn load_is_recorded_in_the_kernels_unit() {
        assert_eq!(serde_json::to_string(&Tasks(2.5)).unwrap(), "2560.0");
        assert_eq!(serde_json::from_str::<Tasks>("512").unwrap(), Tasks(0.5));
    }
}
