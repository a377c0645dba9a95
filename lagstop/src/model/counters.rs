//! Counters, each declared once, with meaning, source, and places where they are shown.

use super::Nanos;

/// Metadata of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name in recordings, tables and formulas.
    pub name: &'static str,
    /// Meaning, in one or more sentences.
    pub meaning: &'static str,
    pub unit: CounterUnit,
    /// Source: the kernel's function, field or file.
    pub source: &'static str,
    /// Name of the Prometheus metric. `None` if it is a part of another metric, or not served.
    pub metric: Option<&'static str>,
    /// Its column in `lagstop top`.
    pub column: Option<CounterColumn>,
    /// Whether counters of several cgroups can be summed. Not if several cgroups may count the same time.
    pub adds_up: bool,
    /// Whether that of a longer time is the most of its parts, and not their sum.
    pub is_most_of_parts: bool,
    /// Whether `lagstop diff` compares it, as a share of time. Less is better.
    pub is_compared: bool,
    /// Whether it only concerns a quota. It is not served for cgroups without a quota.
    pub is_of_quota: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    Count,
    Nanos,
}

/// Column of a counter: counts are shown per second, times as a share of elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterColumn {
    /// Name in flags and in the configuration.
    pub key: &'static str,
    /// Title of the column, at most as wide as the column.
    pub title: &'static str,
    /// Width of its values, in cells.
    pub width: u16,
    /// Full name.
    pub name: &'static str,
    /// Meaning, for the help.
    pub meaning: &'static str,
}

/// Counters that come from the same place, of cgroups, CPUs and the host alike.
pub(super) const SWITCHES: Counter = Counter::from("tracepoint `sched_switch`");
pub(super) const COSTS: Counter = Counter::from("entry and exit of `__schedule()`; method in `switch_cost_way`");
pub(super) const WAITS: Counter = Counter::from("growth of `sched_info.run_delay`, or the clock");

impl Counter {
    /// A counter that is only in recordings and tables.
    pub(super) const fn from(source: &'static str) -> Self {
        Self {
            name: "",
            meaning: "",
            unit: CounterUnit::Count,
            source,
            metric: None,
            column: None,
            adds_up: true,
            is_most_of_parts: false,
            is_compared: false,
            is_of_quota: false,
        }
    }

    pub(super) const fn metric(self, name: &'static str) -> Self {
        Self { metric: Some(name), ..self }
    }

    pub(super) const fn column(
        self,
        key: &'static str,
        title: &'static str,
        width: u16,
        name: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { column: Some(CounterColumn { key, title, width, name, meaning }), ..self }
    }

    pub(super) const fn not_adding_up(self) -> Self {
        Self { adds_up: false, ..self }
    }

    pub(super) const fn most_of_parts(self) -> Self {
        Self { is_most_of_parts: true, ..self }
    }

    pub(super) const fn of_quota(self) -> Self {
        Self { is_of_quota: true, ..self }
    }

    pub(super) const fn compared(self) -> Self {
        Self { is_compared: true, ..self }
    }

    /// Adds what the field itself declares.
    pub(super) const fn of_field(self, name: &'static str, meaning: &'static str, unit: CounterUnit) -> Self {
        Self { name, meaning: meaning.trim_ascii(), unit, ..self }
    }
}

/// The place of the counter of this name. In a constant, a name that there is not does not compile.
pub(crate) const fn place_of(names: &[&str], name: &str) -> usize {
    let mut n = 0;
    while !same(names[n], name) {
        n += 1;
    }
    n
}

/// `==` in constants.
const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut n = 0;
    while n < one.len() && n < other.len() && one[n] == other[n] {
        n += 1;
    }
    n == one.len() && n == other.len()
}

/// A type that counters can have: a count or a duration.
pub(super) trait Counted: Copy {
    const UNIT: CounterUnit;

    fn difference(self, earlier: Self) -> Self;
    fn sum(self, other: Self) -> Self;
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

impl Counted for u64 {
    const UNIT: CounterUnit = CounterUnit::Count;

    fn difference(self, earlier: Self) -> Self {
        self.saturating_sub(earlier)
    }
    fn sum(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn number(self) -> u64 {
        self
    }
    fn of(number: u64) -> Self {
        number
    }
}

impl Counted for Nanos {
    const UNIT: CounterUnit = CounterUnit::Nanos;

    fn difference(self, earlier: Self) -> Self {
        self.saturating_sub(earlier)
    }
    fn sum(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn number(self) -> u64 {
        self.0
    }
    fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Declares counters once: their fields, what they say, their difference and their sum, and how they are read where they are
/// among the fields of another struct.
///
/// `always` counters are 0 if nothing was counted. `if_measured` counters are `None` if this kernel does not let
/// lagstop measure them.
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        pub struct $counters:ident $(, read by $read:ident)?;
        always { $($(#[doc = $always_doc:literal])+ $always:ident: $always_type:ty => $always_counter:expr;)* }
        if_measured { $($(#[doc = $maybe_doc:literal])+ $maybe:ident: $maybe_type:ty => $maybe_counter:expr;)* }
    ) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$attribute])*
        pub struct $counters {
            $($(#[doc = $always_doc])+ pub $always: $always_type,)*
            $($(#[doc = $maybe_doc])+ pub $maybe: Option<$maybe_type>,)*
        }

        impl $counters {
            /// How many of them, the first ones, are always measured.
            const ALWAYS: usize = [$(stringify!($always),)* ""].len() - 1;

            pub const COUNT: usize = Self::ALWAYS + [$(stringify!($maybe),)* ""].len() - 1;

            /// What there is to know of each, in the order of [`Self::figures`].
            pub const COUNTERS: [Counter; Self::COUNT] = [
                $($always_counter.of_field(
                    stringify!($always),
                    concat!($($always_doc),+),
                    <$always_type as $crate::model::counters::Counted>::UNIT,
                ),)*
                $($maybe_counter.of_field(
                    stringify!($maybe),
                    concat!($($maybe_doc),+),
                    <$maybe_type as $crate::model::counters::Counted>::UNIT,
                ),)*
            ];

            /// What they are called, in the order of [`Self::figures`].
            pub const NAMES: [&'static str; Self::COUNT] = [$(stringify!($always),)* $(stringify!($maybe),)*];

            /// All of them as plain numbers, in an order that stays the same while the program runs.
            pub fn figures(&self) -> [Option<u64>; Self::COUNT] {
                use $crate::model::counters::Counted;
                [$(Some(self.$always.number()),)* $(self.$maybe.map(Counted::number),)*]
            }

            /// Those with these [`Self::figures`]. Of those that are always measured, `None` is 0.
            pub fn from_figures(figures: [Option<u64>; Self::COUNT]) -> Self {
                use $crate::model::counters::Counted;
                let [$($always,)* $($maybe,)*] = figures;
                Self {
                    $($always: Counted::of($always.unwrap_or_default()),)*
                    $($maybe: $maybe.map(Counted::of),)*
                }
            }

            /// What came on top of `earlier`. What was not measured earlier began at 0.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                use $crate::model::counters::Counted;
                Self {
                    $($always: self.$always.difference(earlier.$always),)*
                    $($maybe: self.$maybe.map(|now| now.difference(earlier.$maybe.unwrap_or_default())),)*
                }
            }

            /// Adds `other`, of something else at the same time. What only one of the two measured is not measured in the sum.
            pub fn add(&mut self, other: &Self) {
                use $crate::model::counters::Counted;
                $(self.$always = self.$always.sum(other.$always);)*
                $(self.$maybe = self.$maybe.zip(other.$maybe).map(|(a, b)| a.sum(b));)*
            }

            /// Adds what happened next. What only one of the two measured is not measured in the sum.
            pub fn add_next(&mut self, next: &Self) {
                use $crate::model::counters::Counted;
                $(self.$always = if const { $always_counter.is_most_of_parts } {
                    Counted::of(self.$always.number().max(next.$always.number()))
                } else {
                    self.$always.sum(next.$always)
                };)*
                $(self.$maybe = self.$maybe.zip(next.$maybe).map(|(sum, next)| {
                    if const { $maybe_counter.is_most_of_parts } {
                        Counted::of(sum.number().max(next.number()))
                    } else {
                        sum.sum(next)
                    }
                });)*
            }

            /// Nothing happened.
            pub fn is_zero(&self) -> bool {
                $(self.$always == <$always_type>::default() &&)*
                $(self.$maybe.unwrap_or_default() == <$maybe_type>::default() &&)*
                true
            }
        }

        $(
            /// The counters as far as they are read.
            #[derive(Default)]
            pub(super) struct $read([Option<Option<u64>>; $counters::COUNT]);

            impl<'de> $crate::model::flattened::Part<'de> for $read {
                type Counters = $counters;

                const COUNT: usize = $counters::COUNT;

                fn place(name: &str) -> Option<usize> {
                    $counters::NAMES.iter().position(|known| *known == name)
                }

                fn read<A: serde::de::MapAccess<'de>>(&mut self, field: usize, map: &mut A) -> Result<(), A::Error> {
                    $crate::model::flattened::once(&mut self.0[field], map.next_value()?, $counters::NAMES[field])
                }

                fn counters<E: serde::de::Error>(self) -> Result<$counters, E> {
                    match self.0[..$counters::ALWAYS].iter().position(|read| read.flatten().is_none()) {
                        Some(missing) => Err(E::missing_field($counters::NAMES[missing])),
                        None => Ok($counters::from_figures(self.0.map(Option::flatten))),
                    }
                }
            }
        )?
    };
}
pub(super) use counters;

#[cfg(test)]
mod tests {
    use super::Counter;
    use crate::model::{CpuTotals, FileCounters, HostTimes, Idle, ListenerTotals, Lost, OwnCost, Pressure, Totals};

    /// Counters must not declare a metric or column that is never shown. `docs/architecture.md` has the same table.
    #[test]
    fn only_what_is_used_is_declared() {
        let all: [(&str, &[Counter], [bool; 3]); 9] = [
            ("Totals", &Totals::COUNTERS, [true, true, false]),
            ("FileCounters", &FileCounters::COUNTERS, [true, true, true]),
            ("ListenerTotals", &ListenerTotals::COUNTERS, [true, false, false]),
            ("HostTimes", &HostTimes::COUNTERS, [true, false, false]),
            ("Pressure", &Pressure::COUNTERS, [true, false, false]),
            ("OwnCost", &OwnCost::COUNTERS, [true, false, false]),
            ("CpuTotals", &CpuTotals::COUNTERS, [false; 3]),
            ("Idle", &Idle::COUNTERS, [false; 3]),
            ("Lost", &Lost::COUNTERS, [false; 3]),
        ];
        for (of, counters, [metrics, columns, compared]) in all {
            for counter in counters {
                assert!(metrics || counter.metric.is_none(), "{of} are not served one by one: {}", counter.name);
                assert!(columns || counter.column.is_none(), "{of} have no columns: {}", counter.name);
                assert!(compared || !counter.is_compared, "{of} are compared otherwise: {}", counter.name);
            }
        }
    }
}
