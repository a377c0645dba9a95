//! The parts of a run-queue wait.

use super::{Counter, Nanos, Totals, counters::place_of};

/// Declares causes of waits: the counter of their time, their name in metrics, how they are said behind "the wait is", and
/// how in a list of culprits.
macro_rules! causes {
    ($($(#[$attribute:meta])* $cause:ident: $counter:ident $name:literal $phrase:literal $label:literal;)+) => {
        /// What a CPU did while a task waited for it. The times of all add up to [`Totals::runq_wait_ns`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum WaitCause {
            $($(#[$attribute])* $cause,)+
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
            pub(crate) fn meaning(self) -> &'static str {
                self.counter().meaning.trim_start_matches("Part of `runq_wait_ns`: ").trim_end_matches('.')
            }

            /// Its name in metrics; stable.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)+
                }
            }

            /// The part of the wait that is for it.
            pub(crate) const fn wait(self) -> &'static str {
                match self {
                    $(Self::$cause => concat!("wait ", $phrase),)+
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
    };
}

causes! {
    /// Tasks of other cgroups ran.
    OtherCgroups: wait_behind_ns "behind" "behind other cgroups" "(lesser culprits)";
    OwnThreads: wait_self_ns "self" "behind own threads" "(its own threads)";
    KernelThreads: wait_kernel_ns "kernel" "behind kernel threads" "(kernel threads)";
    IdleCpu: wait_idle_ns "idle" "while the CPU was idle" "(CPU idle or waking)";
    Throttled: wait_throttled_ns "throttled" "while throttled" "(throttled by quota)";
    /// The task was on another CPU, and was migrated.
    OtherCpu: wait_elsewhere_ns "elsewhere" "before a migration" "(on another CPU)";
    Unknown: wait_unknown_ns "unknown" "unattributed" "(unknown)";
}
