//! How LAGS schedules: every constant, with its reason.

use std::time::Duration;

use lagstop_scheduler_ebpf::{MAX_QUEUES, ONE, Settings};

use crate::units::Nanos;

/// What a cgroup's credit is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Credit {
    /// CPU time used, relative to the cgroup's share
    #[default]
    Used,
    /// Runnable tasks, as in the paper: a light cgroup that has to wait becomes heavy
    Paper,
}

/// All that can be set. `docs/schedule.md` says what each is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    pub credit: Credit,
    /// How far a cgroup that used less than its share may be behind; of the paper's credits their time constant.
    pub memory: Duration,
    /// Credits above count as this: a cgroup that uses its share has 1.
    pub max_credit: f64,
    /// For how long lighter cgroups go first where there is a CPU for each active one; with ten a CPU it is ten times as long.
    pub guard: Duration,
    /// The longest of all guards, and how far a cgroup that always wants to run may be ahead.
    pub longest_guard: Duration,
    /// How long a task runs while others wait, where light cgroups take many turns (an eighth of all): those take the CPU
    /// when they need it, and long turns of the others save switches.
    pub slice: Duration,
    /// The same where light ones take none: whoever waits for the end of a turn is like the one that has it.
    pub short_slice: Duration,
    /// How much lighter a waking task's cgroup must be to preempt.
    pub margin: f64,
    /// How long a task runs before it is preempted.
    pub protect: Duration,
    /// Whether waking tasks preempt.
    pub preempts: bool,
    /// How long the kernel lets a runnable task wait before it ends the scheduler.
    pub watchdog: Duration,
}

impl Tuning {
    /// The shortest turn: below, a switch costs more than a percent of it.
    pub(super) const SHORTEST_SLICE: Duration = Duration::from_millis(1);
    /// How much longer than usual a turn gets where a cgroup's weight is large.
    pub(super) const MOST_SLICES: f64 = 4.0;
    /// How far a cgroup that does not always want to run may be ahead where two turns are longer than half of the head start.
    pub(super) const MOST_TURNS_AHEAD: Duration = Duration::from_secs(1);
    /// The part of all turns that light cgroups take from which turns have their full length.
    pub(super) const MANY_LIGHT: f64 = 0.125;
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            credit: Credit::Used,
            memory: Duration::from_secs(2),
            max_credit: 2.0,
            guard: Duration::from_millis(200),
            longest_guard: Duration::from_secs(4),
            slice: Duration::from_millis(20),
            short_slice: Duration::from_millis(5),
            margin: 0.25,
            protect: Duration::from_micros(500),
            preempts: true,
            watchdog: Duration::from_secs(10),
        }
    }
}

/// What the kernel offers to the programs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offers {
    pub(super) clock: bool,
    pub(super) vtime_arguments: bool,
    pub(super) set_slice: bool,
}

impl Tuning {
    /// The settings that the programs are told.
    pub(super) fn settings(&self, queues: u32, own_tgid: u32, offers: Offers) -> Settings {
        Settings {
            half_life: (nanos(self.memory.mul_f64(std::f64::consts::LN_2)) >> 16).max(1),
            max_credit: fixed_point(self.max_credit),
            margin: fixed_point(self.margin),
            protect: nanos(self.protect),
            preempts: self.preempts.into(),
            by_load: (self.credit == Credit::Paper).into(),
            queues: queues.clamp(1, MAX_QUEUES).into(),
            own_tgid: own_tgid.into(),
            slice: nanos(self.slice),
            has_now: offers.clock.into(),
            has_vtime_args: offers.vtime_arguments.into(),
            has_set_slice: offers.set_slice.into(),
        }
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    Nanos::from(time).0
}

/// With [`ONE`].
pub(super) fn fixed_point(value: f64) -> u64 {
    (value * ONE as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_ends_well_before_the_kernels_patience() {
        let tuning = Tuning::default();
        assert!(tuning.longest_guard * 2 < tuning.watchdog);
        assert!(tuning.guard < tuning.longest_guard && tuning.protect < tuning.slice);
    }

    #[test]
    fn settings_are_in_the_programs_units() {
        let settings = Tuning::default().settings(0, 7, Offers { clock: true, ..Offers::default() });
        let half_life = settings.half_life << 16;
        assert!(half_life.abs_diff(1_386_294_361) < 1 << 16, "{half_life}");
        assert_eq!((settings.max_credit, settings.margin, settings.queues), (2 * ONE, ONE / 4, 1));
        assert_eq!((settings.own_tgid, settings.has_now, settings.has_vtime_args), (7, 1, 0));
    }
}
