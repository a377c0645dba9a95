//! What is counted for a cgroup, for idle, and for the host alike.

use schemars::JsonSchema;
use serde::{
    Deserialize, Serialize,
    de::{Error, MapAccess},
};

use super::{
    Nanos, Tasks,
    flattened::{Part, once},
};

/// Declares the totals once: their fields, their difference and their sum.
macro_rules! totals {
    (
        always { $($(#[$always_doc:meta])* $always:ident: $always_type:ty,)+ }
        if_measured { $($(#[$maybe_doc:meta])* $maybe:ident: $maybe_type:ty,)+ }
    ) => {
        /// Totals of switches, their cost, and waits. In a snapshot they count from when the cgroup was first seen; in
        /// an interval they are the interval's own. `None` is what this kernel did not let us measure.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct Totals {
            $($(#[$always_doc])* pub $always: $always_type,)+
            $($(#[$maybe_doc])* pub $maybe: Option<$maybe_type>,)+
        }

        impl Totals {
            /// What came on top of `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($always: self.$always.difference(earlier.$always),)+
                    $($maybe: self.$maybe.map(|now| now.difference(earlier.$maybe.unwrap_or_default())),)+
                }
            }

            /// Adds `other`. What only one of the two measured is not measured in the sum.
            pub fn add(&mut self, other: &Self) {
                $(self.$always = self.$always.sum(other.$always);)+
                $(self.$maybe = self.$maybe.zip(other.$maybe).map(|(a, b)| a.sum(b));)+
            }

            /// How many of them, the first ones, are always measured.
            const ALWAYS: usize = [$(stringify!($always),)+].len();

            /// How many there are.
            pub const COUNT: usize = [$(stringify!($always),)+ $(stringify!($maybe),)+].len();

            /// What they are called, in the order of [`Self::figures`].
            pub const NAMES: [&'static str; Self::COUNT] = [$(stringify!($always),)+ $(stringify!($maybe),)+];

            /// All of them as plain numbers, in an order that stays the same while the program runs.
            pub fn figures(&self) -> [Option<u64>; Self::COUNT] {
                [$(Some(self.$always.number()),)+ $(self.$maybe.map(Counted::number),)+]
            }

            /// The totals with these [`Self::figures`]. Of those that are always measured, `None` is 0.
            pub fn from_figures(figures: [Option<u64>; Self::COUNT]) -> Self {
                let [$($always,)+ $($maybe,)+] = figures;
                Self {
                    $($always: Counted::of($always.unwrap_or_default()),)+
                    $($maybe: $maybe.map(Counted::of),)+
                }
            }

            /// Nothing happened.
            pub fn is_zero(&self) -> bool {
                $(self.$always == <$always_type>::default() &&)+
                $(self.$maybe.unwrap_or_default() == <$maybe_type>::default() &&)+
                true
            }
        }
    };
}

totals! {
    always {
        /// Switches away: the voluntary and the involuntary ones.
        switches: u64,
        /// Switches away that the kernel counted as voluntary.
        voluntary_switches: u64,
        /// All other switches away.
        involuntary_switches: u64,
        /// CPU time as the kernel books it.
        cpu_ns: Nanos,
        /// Tasks seen running.
        threads: u64,
    }
    if_measured {
        /// Switches away to a task of another cgroup.
        cross_cgroup_switches: u64,
        /// `__schedule()` calls: the switches, and those that kept the running task.
        schedule_calls: u64,
        /// From entry of `__schedule()` to `sched_switch`, plus `kept_ns`.
        pick_ns: Nanos,
        /// Calls that kept the running task, entry to exit.
        kept_ns: Nanos,
        /// From `sched_switch` to exit, of switches to the cgroup.
        swap_ns: Nanos,
        /// Time in the function that picks the next task of the fair class; the session's hooks say which one it is.
        pick_function_ns: Nanos,
        /// Waits on a run queue that ended.
        runq_waits: u64,
        /// Their time.
        runq_wait_ns: Nanos,
        /// Moves to another CPU.
        migrations: u64,
        /// Moves to another last-level cache.
        migrations_cross_llc: u64,
        /// Moves to another NUMA node.
        migrations_cross_numa: u64,
        /// Connections accepted whose start was seen.
        accepts: u64,
        accept_wait_ns: Nanos,
    }
}

impl Totals {
    /// Pick + swap cost, where both were measured.
    pub fn switch_cost(&self) -> Option<Nanos> {
        self.pick_ns.zip(self.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }

    /// Mean cost of a switch: calls that kept the running task are no switches and are left out.
    pub fn mean_switch_cost(&self) -> Option<Nanos> {
        // Where those calls are not measured, they are not in the pick cost either.
        self.switch_cost()?.saturating_sub(self.kept_ns.unwrap_or_default()).mean(self.switches)
    }

    /// Average number of runnable tasks over `duration`: (CPU time + run-queue wait) / duration.
    pub fn runnable_load(&self, duration: Nanos) -> Option<Tasks> {
        Some(Tasks(self.cpu_ns.saturating_add(self.runq_wait_ns?).cores(duration).0))
    }

    /// Mean wait on a run queue.
    pub fn mean_runq_wait(&self) -> Option<Nanos> {
        self.runq_wait_ns?.mean(self.runq_waits?)
    }
}

/// Totals as far as they are read from among the fields of another struct, in the order of [`Totals::NAMES`].
#[derive(Default)]
pub(super) struct TotalsRead([Option<Option<u64>>; Totals::COUNT]);

impl<'de> Part<'de> for TotalsRead {
    type Totals = Totals;

    const NAMES: &'static [&'static str] = &Totals::NAMES;

    fn read<A: MapAccess<'de>>(&mut self, field: usize, map: &mut A) -> Result<(), A::Error> {
        once(&mut self.0[field], map.next_value()?, Totals::NAMES[field])
    }

    fn totals<E: Error>(self) -> Result<Totals, E> {
        let figures = self.0.map(Option::flatten);
        match figures[..Totals::ALWAYS].iter().position(Option::is_none) {
            Some(missing) => Err(E::missing_field(Totals::NAMES[missing])),
            None => Ok(Totals::from_figures(figures)),
        }
    }
}

/// What can be counted.
trait Counted: Copy {
    fn difference(self, earlier: Self) -> Self;
    fn sum(self, other: Self) -> Self;
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

impl Counted for u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_stays_so() {
        let measured = Totals { swap_ns: Some(Nanos(5)), cpu_ns: Nanos(7), ..Totals::default() };
        let not = Totals { swap_ns: None, cpu_ns: Nanos(1), ..Totals::default() };
        let mut sum = measured;
        sum.add(&not);
        assert_eq!((sum.swap_ns, sum.cpu_ns), (None, Nanos(8)));
        assert_eq!(not.since(&measured).swap_ns, None);
        assert_eq!(measured.since(&not).swap_ns, Some(Nanos(5)), "a hook that was attached later");
        assert_eq!(measured.switch_cost(), None, "pick is missing");
    }

    #[test]
    fn figures_are_the_totals() {
        let totals =
            Totals { switches: 4, cpu_ns: Nanos(9), swap_ns: Some(Nanos(5)), accepts: Some(0), ..Totals::default() };
        assert_eq!(Totals::from_figures(totals.figures()), totals);
    }

    #[test]
    fn the_mean_switch_cost_leaves_out_calls_that_did_not_switch() {
        let totals = Totals {
            switches: 4,
            pick_ns: Some(Nanos(5_000)),
            kept_ns: Some(Nanos(1_000)),
            swap_ns: Some(Nanos(4_000)),
            ..Totals::default()
        };
        assert_eq!(totals.mean_switch_cost(), Some(Nanos(2_000)));
    }
}
