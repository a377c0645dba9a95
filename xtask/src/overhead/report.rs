//! Puts the rounds together and holds them against the budgets.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    contestant::Contestant,
    judge::{Median, Verdict},
    memory::Memory,
    pairs::Crowd,
};
use crate::machine::Machine;

/// What one may add at most, as a share of what another adds.
const BUDGETS: [(Contestant, Contestant, f64); 4] = [
    (Contestant::Lagstop, Contestant::Clock, 1.6),
    (Contestant::Lagstop, Contestant::Bpftrace, 0.5),
    (Contestant::Light, Contestant::LightClock, 1.5),
    (Contestant::Light, Contestant::Bpftrace, 0.25),
];

/// Nanoseconds of a switch that the causes of waits may take at most.
const fn budget_of_blame(crowd: Crowd) -> f64 {
    match crowd {
        Crowd::Pair => 40.0,
        Crowd::Crowd => 80.0,
    }
}

/// What one crowd showed: CPU time of a switch in nanoseconds, round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Without anybody.
    pub(super) alone: Vec<f64>,
    /// What each adds.
    pub(super) added: BTreeMap<Contestant, Vec<f64>>,
    /// How long the kernel says that its programs run.
    pub(super) programs: BTreeMap<Contestant, f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    crowds: Vec<OfCrowd>,
    memory: Memory,
}

#[derive(Clone, Debug, Serialize)]
struct OfCrowd {
    crowd: Crowd,
    rounds: usize,
    /// CPU time of a switch without anybody, in nanoseconds.
    alone: Option<Median>,
    added: Vec<Added>,
    ratios: Vec<Ratio>,
    /// What the causes of waits take. `None` if they were not left out.
    blame: Option<Blame>,
}

#[derive(Clone, Debug, Serialize)]
struct Added {
    contestant: Contestant,
    /// Nanoseconds of CPU time that it adds to a switch. `None` of too few rounds.
    added_ns: Option<Median>,
    /// What the kernel times its programs at.
    programs_ns: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Blame {
    /// Nanoseconds of a switch, as lagstop adds them with and without it in the same rounds. `None` of too few rounds.
    added_ns: Option<Median>,
    budget_ns: f64,
    verdict: Verdict,
}

#[derive(Clone, Debug, Serialize)]
struct Ratio {
    of: Contestant,
    to: Contestant,
    ratio: Option<Median>,
    budget: f64,
    verdict: Verdict,
}

impl Report {
    pub(super) fn new(machine: Machine, measured: &BTreeMap<Crowd, Measured>, memory: Memory) -> Self {
        let crowds = measured.iter().map(|(crowd, measured)| OfCrowd::new(*crowd, measured)).collect();
        Self { machine, crowds, memory }
    }

    /// Is everything as cheap as it must be, for sure?
    pub(super) fn keeps_the_budgets(&self) -> bool {
        let mut verdicts = self.crowds.iter().flat_map(OfCrowd::verdicts);
        verdicts.all(|verdict| verdict == Verdict::Met) && self.memory.is_within_the_budget()
    }
}

impl OfCrowd {
    fn new(crowd: Crowd, measured: &Measured) -> Self {
        let added = measured.added.iter().map(|(contestant, added)| Added {
            contestant: *contestant,
            added_ns: Median::of(added),
            programs_ns: measured.programs.get(contestant).copied(),
        });
        let ratio = |&(of, to, budget): &(Contestant, Contestant, f64)| {
            let ratio = Median::of_ratio(measured.added.get(&of)?, measured.added.get(&to)?);
            let verdict = ratio.map_or(Verdict::CannotTell, |ratio| ratio.held_to(budget));
            Some(Ratio { of, to, ratio, budget, verdict })
        };
        let blame = measured.added.get(&Contestant::Lagstop).zip(measured.added.get(&Contestant::WithoutBlame));
        let blame = blame.map(|(with, without)| {
            let differences: Vec<f64> = with.iter().zip(without).map(|(with, without)| with - without).collect();
            let (added_ns, budget_ns) = (Median::of(&differences), budget_of_blame(crowd));
            let verdict = added_ns.map_or(Verdict::CannotTell, |added| added.held_to(budget_ns));
            Blame { added_ns, budget_ns, verdict }
        });
        Self {
            crowd,
            rounds: measured.added.values().map(Vec::len).min().unwrap_or(0),
            alone: Median::of(&measured.alone),
            added: added.collect(),
            ratios: BUDGETS.iter().filter_map(ratio).collect(),
            blame,
        }
    }

    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.ratios.iter().map(|ratio| ratio.verdict).chain(self.blame.iter().map(|blame| blame.verdict))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { kernel, cpu, cpus } = &self.machine;
        writeln!(f, "Linux {kernel}, {cpu}, {cpus} CPUs. CPU time of a switch in ns: medians, and 95 % intervals")?;
        self.crowds.iter().try_for_each(|crowd| write!(f, "{crowd}"))?;
        write!(f, "\n{}", self.memory)
    }
}

impl fmt::Display for OfCrowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |median: Option<Median>, decimals: usize| {
            median.map_or("n/a: too few rounds".to_owned(), |Median { middle, low, high }| {
                format!("{middle:>8.decimals$}  {low:.decimals$} to {high:.decimals$}")
            })
        };
        writeln!(f, "\n{}, {} rounds", self.crowd.describe(), self.rounds)?;
        writeln!(f, "  {:<36}{}", "nobody attached", shown(self.alone, 0))?;
        for Added { contestant, added_ns, programs_ns } in &self.added {
            let timed =
                programs_ns.map_or_else(String::new, |ns| format!("; its programs, timed by the kernel: {ns:.0}"));
            writeln!(f, "  {:<36}{}{timed}", format!("added by {}", contestant.describe()), shown(*added_ns, 0))?;
        }
        for Ratio { of, to, ratio, budget, verdict } in &self.ratios {
            let name = format!("{} / {}", of.describe(), to.describe());
            writeln!(f, "  {name:<52}{}  at most {budget}: {verdict}", shown(*ratio, 2))?;
        }
        if let Some(Blame { added_ns, budget_ns, verdict }) = &self.blame {
            let name = "added by the causes of waits";
            writeln!(f, "  {name:<52}{}  at most {budget_ns}: {verdict}", shown(*added_ns, 0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ebpf::MEASURING, overhead::memory, workspace::Workspace};

    fn report(lagstop: [f64; 4]) -> Report {
        let machine = Machine { kernel: "6.18.0".to_owned(), cpu: "A CPU".to_owned(), cpus: 2 };
        let added = [
            (Contestant::Clock, vec![200.0; 4]),
            (Contestant::Lagstop, lagstop.to_vec()),
            (Contestant::WithoutBlame, vec![265.0; 4]),
            (Contestant::LightClock, vec![60.0; 4]),
            (Contestant::Light, vec![80.0; 4]),
            (Contestant::Bpftrace, vec![700.0; 4]),
        ];
        let measured = Measured {
            alone: vec![2_000.0; 4],
            added: added.into_iter().collect(),
            programs: [(Contestant::Lagstop, 290.0)].into_iter().collect(),
        };
        let all = [(Crowd::Pair, measured)].into_iter().collect();
        Report::new(machine, &all, memory::of_object(&MEASURING.path(&Workspace::here())).unwrap())
    }

    #[test]
    fn each_ratio_is_held_to_its_budget() {
        let good = report([300.0, 301.0, 299.0, 300.0]);
        assert!(good.keeps_the_budgets());
        let text = good.to_string();
        assert!(text.contains("its programs, timed by the kernel: 290"), "{text}");
        assert!(text.contains("1.50  1.50 to 1.50  at most 1.6: met"), "{text}");
        assert!(text.contains("35  34 to 36  at most 40: met"), "{text}");
        let bad = report([400.0, 401.0, 399.0, 400.0]);
        assert!(!bad.keeps_the_budgets() && bad.to_string().contains("at most 1.6: MISSED"), "{bad}");
        assert!(bad.to_string().contains("134 to 136  at most 40: MISSED"), "{bad}");
    }

    #[test]
    fn what_noise_decides_is_not_told() {
        let report = report([250.0, 300.0, 340.0, 420.0]);
        assert!(!report.keeps_the_budgets());
        assert!(report.to_string().contains("at most 1.6: CANNOT TELL"), "{report}");
    }
}
