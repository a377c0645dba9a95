//! The host as a whole in an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Nanos, Totals, flattened::flattened, totals::TotalsRead};
use crate::units::ratio;

/// The sums over all cgroups and idle, and what only the host has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Host {
    /// Σ cgroups + idle.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Totals,
    /// The idle tasks' part of it.
    pub idle: Idle,
    /// CPUs online at the end of the interval.
    pub cpus_online: u64,
    /// Time CPUs spent in tasks other than idle, by the clock, from switch to switch.
    pub busy_ns: Nanos,
    /// Time CPUs spent in idle, by the clock, from switch to switch.
    pub idle_ns: Nanos,
    /// Time a hypervisor gave to somebody else while a CPU here wanted to run (`/proc/stat`, in steps of a clock tick).
    pub steal_ns: Option<Nanos>,
    /// CPU time of the lagstop process itself.
    pub self_cpu_ns: Nanos,
    /// Time in lagstop's programs in the kernel: how often they ran times what a run was measured to take.
    pub self_probe_ns: Option<Nanos>,
    /// Pressure on the CPUs.
    pub pressure: Option<Pressure>,
    /// What could not be measured.
    pub lost: Lost,
}

flattened!(Host, TotalsRead, |self, totals| Self { totals, ..self });

/// What the idle tasks cost: waking a CPU up is scheduling too, but nobody's switch away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// Switches from idle.
    pub switches: u64,
    /// Calls of `__schedule()` by idle tasks.
    pub schedule_calls: Option<u64>,
    /// Their pick cost.
    pub pick_ns: Option<Nanos>,
    /// Of that, in calls that stayed idle.
    pub kept_ns: Option<Nanos>,
    /// Swap cost of switches to idle.
    pub swap_ns: Option<Nanos>,
}

impl From<&Totals> for Idle {
    fn from(totals: &Totals) -> Self {
        Self {
            switches: totals.switches,
            schedule_calls: totals.schedule_calls,
            pick_ns: totals.pick_ns,
            kept_ns: totals.kept_ns,
            swap_ns: totals.swap_ns,
        }
    }
}

/// Pressure stall information: time in which some task waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some_ns: Nanos,
}

/// Declares what may be lost once: the fields, and their counts in the same order.
macro_rules! lost {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// Things that could not be measured, each counted. All zero is what it should be.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct Lost {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl Lost {
            const KINDS: usize = [$(stringify!($field)),+].len();

            const fn counts(&self) -> [u64; Self::KINDS] {
                [$(self.$field),+]
            }

            /// Each kind by its name, with its count.
            pub fn kinds(&self) -> [(&'static str, u64); Self::KINDS] {
                [$((stringify!($field), self.$field)),+]
            }

            const fn from_counts([$($field),+]: [u64; Self::KINDS]) -> Self {
                Self { $($field),+ }
            }
        }
    };
}

lost! {
    /// Switches whose entry was not seen: without pick cost.
    entries,
    /// Switches whose exit was not seen: without swap cost.
    exits,
    /// Switches that the kernel did not show, found out afterwards: without cost.
    switches,
    /// Times a task had no room for its state: its run-queue wait may be short.
    task_states,
    /// Switches booked under `(other)`, and tasks that ran for it at a reading, because the table of cgroups was
    /// full.
    cgroup_overflows,
    /// Connections not followed, because too many were waiting.
    connections,
    /// Connections accepted in a way that is not seen: without accept wait.
    accepts,
    /// Events of listeners that the table of listeners had no room for.
    listener_overflows,
    /// Connections accepted by threads that the table of threads had no room for: without service time.
    acceptors,
    /// Tasks that ran without having been seen to be woken, where waits are taken by the clock: without wait.
    wakeups,
    /// Moves, wake-ups, connections and accepts that the kernel did not tell of, because it was just telling of another.
    missed_runs,
}

impl Lost {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let (mine, theirs) = (self.counts(), other.counts());
        Self::from_counts(std::array::from_fn(|kind| with(mine[kind], theirs[kind])))
    }

    /// What came on top of `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        *self = self.combine(other, u64::saturating_add);
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.counts().into_iter().fold(0, u64::saturating_add)
    }
}

impl Host {
    /// Adds what happened next. What only one of the two measured is not measured in the sum.
    pub fn add(&mut self, next: &Self) {
        let count = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        let time = |a: Option<Nanos>, b: Option<Nanos>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        self.totals.add(&next.totals);
        self.idle.switches = self.idle.switches.saturating_add(next.idle.switches);
        self.idle.schedule_calls = count(self.idle.schedule_calls, next.idle.schedule_calls);
        self.idle.pick_ns = time(self.idle.pick_ns, next.idle.pick_ns);
        self.idle.kept_ns = time(self.idle.kept_ns, next.idle.kept_ns);
        self.idle.swap_ns = time(self.idle.swap_ns, next.idle.swap_ns);
        self.cpus_online = next.cpus_online;
        self.busy_ns = self.busy_ns.saturating_add(next.busy_ns);
        self.idle_ns = self.idle_ns.saturating_add(next.idle_ns);
        self.steal_ns = time(self.steal_ns, next.steal_ns);
        self.self_cpu_ns = self.self_cpu_ns.saturating_add(next.self_cpu_ns);
        // Where the first intervals have none, the first that has one holds theirs too.
        let probe = time(self.self_probe_ns, next.self_probe_ns);
        self.self_probe_ns = probe.or(self.self_probe_ns).or(next.self_probe_ns);
        self.pressure =
            self.pressure.zip(next.pressure).map(|(a, b)| Pressure { some_ns: a.some_ns.saturating_add(b.some_ns) });
        self.lost.add(&next.lost);
    }

    /// Switch cost of the cgroups, without idle's.
    pub fn overhead_ns(&self) -> Option<Nanos> {
        let all = self.totals.switch_cost()?;
        let idle = self.idle.pick_ns?.saturating_add(self.idle.swap_ns?);
        Some(all.saturating_sub(idle))
    }

    /// Switches away from tasks other than idle.
    pub const fn task_switches(&self) -> u64 {
        self.totals.switches.saturating_sub(self.idle.switches)
    }

    /// Mean cost of a switch away from a task other than idle.
    pub fn mean_switch_cost(&self) -> Option<Nanos> {
        let kept = self.totals.kept_ns.unwrap_or_default().saturating_sub(self.idle.kept_ns.unwrap_or_default());
        self.overhead_ns()?.saturating_sub(kept).mean(self.task_switches())
    }

    /// Time all CPUs had.
    pub const fn capacity(&self) -> Nanos {
        Nanos(self.busy_ns.0.saturating_add(self.idle_ns.0))
    }

    /// Overhead: the cgroups' switch cost as a share of the time of all online CPUs.
    pub fn overhead(&self) -> Option<f64> {
        Some(ratio(self.overhead_ns()?.0 as f64, self.capacity().0 as f64))
    }

    /// Share of the time of all CPUs that was not idle.
    pub fn perceived_utilisation(&self) -> f64 {
        ratio(self.busy_ns.0 as f64, self.capacity().0 as f64)
    }

    /// Share of the time of all CPUs that went into the tasks' own work. From switch to switch, the time that is not idle
    /// holds exactly the swap cost that is charged to the task before its work, and the pick cost after it.
    pub fn effective_utilisation(&self) -> Option<f64> {
        let work = self.busy_ns.saturating_sub(self.overhead_ns()?);
        Some(ratio(work.0 as f64, self.capacity().0 as f64))
    }
}
