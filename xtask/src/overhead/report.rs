//! Puts the rounds together and holds them against the budgets.

use std::fmt;

use serde::Serialize;

use super::{memory::Memory, stats::Summary};
use crate::machine::Machine;

/// What lagstop may add to a switch, in nanoseconds. It must also add less than the bpftrace script.
const BUDGET_NS: f64 = 400.0;
/// What `lagstop --light` may add to a switch.
const LIGHT_BUDGET_NS: f64 = 150.0;

/// Nanoseconds per switch under each load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) baseline: f64,
    pub(super) clock: f64,
    pub(super) lagstop: f64,
    pub(super) light_clock: f64,
    pub(super) light: f64,
    pub(super) bpftrace: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    rounds: usize,
    /// Nanoseconds per switch without load.
    baseline: Summary,
    /// Added nanoseconds per switch: each figure against its own round's baseline.
    added: Added,
    /// Median added by lagstop over median added by bpftrace. None when the latter drowned in noise.
    lagstop_to_bpftrace: Option<f64>,
    budget_ns: f64,
    within_budget: bool,
    light_budget_ns: f64,
    light_within_budget: bool,
    less_than_bpftrace: bool,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Added {
    /// Programs on the same tracepoints that only read the clock: what no program could do without.
    clock: Summary,
    lagstop: Summary,
    /// Lagstop on top of the clock reads, in the same round.
    own_work: Summary,
    /// A program on the switch alone that only reads the clock.
    light_clock: Summary,
    /// `lagstop --light`
    light: Summary,
    bpftrace: Summary,
}

impl Report {
    pub(super) fn new(machine: Machine, rounds: &[Round], memory: Memory) -> Self {
        let added = |of: fn(&Round) -> f64| Summary::of(rounds.iter().map(|round| of(round) - round.baseline));
        let added = Added {
            clock: added(|round| round.clock),
            lagstop: added(|round| round.lagstop),
            own_work: Summary::of(rounds.iter().map(|round| round.lagstop - round.clock)),
            light_clock: added(|round| round.light_clock),
            light: added(|round| round.light),
            bpftrace: added(|round| round.bpftrace),
        };
        let (lagstop, bpftrace) = (added.lagstop.median, added.bpftrace.median);
        Self {
            machine,
            rounds: rounds.len(),
            baseline: Summary::of(rounds.iter().map(|round| round.baseline)),
            added,
            lagstop_to_bpftrace: (bpftrace > 0.0).then(|| lagstop / bpftrace),
            budget_ns: BUDGET_NS,
            within_budget: lagstop <= BUDGET_NS,
            light_budget_ns: LIGHT_BUDGET_NS,
            light_within_budget: added.light.median <= LIGHT_BUDGET_NS,
            less_than_bpftrace: lagstop < bpftrace,
            memory,
        }
    }
}

impl Report {
    /// Is everything as cheap as it must be?
    pub(super) fn keeps_the_budgets(&self) -> bool {
        self.within_budget && self.light_within_budget && self.less_than_bpftrace && self.memory.is_within_the_budget()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { kernel, cpu, cpus } = &self.machine;
        writeln!(f, "Linux {kernel}, {cpu}, {cpus} CPUs; {} rounds of `perf bench sched pipe` on CPU 0", self.rounds)?;
        writeln!(f, "\nns per switch                median      min      max")?;
        let mut line = |name: &str, Summary { median, min, max }: Summary| {
            writeln!(f, "  {name:<25}{median:>8.0} {min:>8.0} {max:>8.0}")
        };
        line("nothing attached", self.baseline)?;
        line("added: clock reads alone", self.added.clock)?;
        line("added: lagstop", self.added.lagstop)?;
        line("  its own work in that", self.added.own_work)?;
        line("added: clock read, light", self.added.light_clock)?;
        line("added: lagstop --light", self.added.light)?;
        line("added: bpftrace runqlat", self.added.bpftrace)?;
        let verdict = |good: bool| if good { "yes" } else { "NO" };
        writeln!(f, "\nlagstop adds at most {} ns: {}", self.budget_ns, verdict(self.within_budget))?;
        writeln!(f, "lagstop --light at most {} ns: {}", self.light_budget_ns, verdict(self.light_within_budget))?;
        write!(f, "lagstop adds less than bpftrace: {}", verdict(self.less_than_bpftrace))?;
        match self.lagstop_to_bpftrace {
            Some(ratio) => writeln!(f, " ({ratio:.2} of it)\n")?,
            None => writeln!(f, " (bpftrace's share drowned in noise)\n")?,
        }
        write!(f, "{}", self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overhead::memory, workspace::Workspace};

    fn report(rounds: &[Round]) -> Report {
        let machine = Machine { kernel: "6.18.0".to_owned(), cpu: "A CPU".to_owned(), cpus: 2 };
        Report::new(machine, rounds, memory::of_object(&Workspace::here().object()).unwrap())
    }

    #[test]
    fn every_figure_is_held_against_its_own_round() {
        // The machine slows down by half between the rounds; what is added stays.
        let rounds = [1_000.0, 1_500.0].map(|baseline| Round {
            baseline,
            clock: baseline + 100.0,
            lagstop: baseline + 300.0,
            light_clock: baseline + 50.0,
            light: baseline + 120.0,
            bpftrace: baseline + 600.0,
        });
        let report = report(&rounds);
        assert_eq!(report.added.lagstop, Summary { median: 300.0, min: 300.0, max: 300.0 });
        assert_eq!(report.added.own_work, Summary { median: 200.0, min: 200.0, max: 200.0 });
        assert_eq!(report.lagstop_to_bpftrace, Some(0.5));
        assert!(report.within_budget && report.light_within_budget && report.less_than_bpftrace);
        let text = report.to_string();
        assert!(text.contains("lagstop adds less than bpftrace: yes (0.50 of it)"), "{text}");
    }

    #[test]
    fn a_budget_that_is_overrun_shows() {
        let report = report(&[Round {
            baseline: 1_000.0,
            clock: 1_100.0,
            lagstop: 1_900.0,
            light_clock: 1_050.0,
            light: 1_200.0,
            bpftrace: 900.0,
        }]);
        assert!(!report.within_budget && !report.light_within_budget && !report.less_than_bpftrace);
        assert_eq!(report.lagstop_to_bpftrace, None);
        assert!(report.to_string().contains("lagstop adds at most 400 ns: NO"), "{report}");
    }
}
