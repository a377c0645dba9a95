//! The parts of a run-queue wait.

use super::{Counter, Nanos, Totals, counters::place_of};

/// Declares causes of waits: the counter of their time, what happened during the wait, their name in metrics, how they are
/// said behind "the wait is", and how in a list of culprits.
macro_rules! causes {
    ($($cause:ident: $counter:ident $meaning:literal $name:literal $phrase:literal $label:literal;)+) => {
        /// What a CPU did while a task waited for it. The times of all add up to [`Totals::runq_wait_ns`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum WaitCause {
            $(#[doc = concat!($meaning, ".")] $cause,)+
        }

        impl WaitCause {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$cause),+];

            /// The time of it. `None` where causes were not measured.
            pub const fn of(self, totals: &Totals) -> Option<Nanos> {
                match self {
                    $(Self::$cause => totals.$counter,)+
                }
            }

            pub(crate) const fn counter(self) -> Counter {
                match self {
                    $(Self::$cause => Totals::COUNTERS[place_of(&Totals::NAMES, stringify!($counter))],)+
                }
            }

            /// What happened during the wait.
            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$cause => $meaning,)+
                }
            }

            /// Its name in metrics; stable.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)+
                }
            }

            /// Behind "the wait is".
            pub const fn phrase(self) -> &'static str {
                match self {
                    $(Self::$cause => $phrase,)+
                }
            }

            /// In a list of culprits, behind the cgroups that are named. In brackets: a cgroup may have any name.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$cause => $label,)+
                }
            }
        }

        /// The meaning of the counter of a cause.
        macro_rules! part_of_wait {
            $(($counter) => { concat!("Part of `runq_wait_ns`: ", $meaning, ".") };)+
        }
        pub(super) use part_of_wait;
    };
}

causes! {
    OtherCgroups: wait_behind_ns
        "tasks of other cgroups ran"
        "behind" "behind other cgroups" "(lesser culprits)";
    OwnThreads: wait_self_ns
        "other tasks of the same cgroup ran"
        "self" "behind threads of the same cgroup" "(its own threads)";
    KernelThreads: wait_kernel_ns
        "kernel threads ran, whatever their cgroup"
        "kernel" "behind kernel threads" "(kernel threads)";
    IdleCpu: wait_idle_ns
        "the CPU was still idle, and about to run the task"
        "idle" "while the CPU was idle" "(CPU idle or waking)";
    Throttled: wait_throttled_ns
        "the quota of the cgroup, or of an ancestor, was used up"
        "throttled" "while throttled by a quota" "(throttled by quota)";
    OtherCpu: wait_elsewhere_ns
        "the task waited on another CPU, before it was migrated"
        "elsewhere" "on another CPU before a migration" "(on another CPU)";
    Unknown: wait_unknown_ns
        "what the CPU did is unknown"
        "unknown" "unattributed" "(unknown)";
}
