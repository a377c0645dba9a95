//! Which cases are run, and in what order: where time is short, every load and every policy has had its turn.

use lagstop::trial::Policy;

use super::{
    load::Load,
    result::{Case, Outcome},
};

/// A case to run.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) load: Load,
    pub(super) policy: Policy,
    pub(super) repeat: u32,
    pub(super) seed: u64,
}

/// Every load with every policy, so many times: each load with one, each with the next, and so on. A load's random times are the
/// same for every policy.
pub(super) fn cases(loads: Vec<Load>, policies: &[Policy], repeats: u32, seed: u64) -> Vec<Planned> {
    let mut planned = Vec::new();
    for repeat in 0..repeats {
        for round in 0..policies.len() {
            for (number, load) in loads.iter().enumerate() {
                let policy = policies[(number + round) % policies.len()];
                let seed = seed.wrapping_mul(1_000).wrapping_add(u64::from(repeat));
                planned.push(Planned { load: load.clone(), policy, repeat, seed });
            }
        }
    }
    planned
}

/// Which policies are refused. What a kernel lacks is refused for every load with the same words, and each refusal
/// takes as long as is measured before a trial, so two are enough.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Policies that were tried on some load.
    possible: Vec<Policy>,
    /// Others: load and reason.
    refused: Vec<(Policy, String, String)>,
}

impl Refusals {
    pub(super) fn hear(&mut self, case: &Case) {
        match &case.outcome {
            Outcome::Measured(_) => self.possible.push(case.policy),
            Outcome::Refused { why } => self.refused.push((case.policy, case.load.clone(), why.clone())),
            Outcome::Failed { .. } | Outcome::NotRun { .. } => {}
        }
    }

    /// Why it would be refused again. `None` where it has yet to be tried.
    pub(super) fn of(&self, policy: Policy) -> Option<&str> {
        if self.possible.contains(&policy) {
            return None;
        }
        let mut refused = self.refused.iter().filter(|(refused, ..)| *refused == policy);
        let (_, load, why) = refused.next()?;
        refused.any(|(_, other, again)| other != load && again == why).then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::calibrate::load;

    const POLICIES: [Policy; 3] = [Policy::Weight, Policy::Idle, Policy::Slice];

    #[test]
    fn whatever_is_cut_off_every_load_and_every_policy_was_there() {
        let loads = load::all(2);
        let count = loads.len();
        let planned = cases(loads, &POLICIES, 2, 7);
        let first = &planned[..count];
        assert_eq!(first.iter().map(|case| case.load.name).collect::<HashSet<_>>().len(), count);
        assert_eq!(first.iter().map(|case| case.policy).collect::<HashSet<_>>().len(), POLICIES.len());
        let all: HashSet<_> = planned.iter().map(|case| (case.load.name, case.policy, case.repeat)).collect();
        assert_eq!(all.len(), count * POLICIES.len() * 2);
        assert_ne!(planned[0].seed, planned[planned.len() - 1].seed, "another repetition, other times");
    }

    #[test]
    fn two_refusals_with_the_same_words_are_enough() {
        let case = |load: &str, why: &str| Case {
            load: load.to_owned(),
            class: load::Class::Idle,
            is_named: false,
            policy: Policy::Slice,
            repeat: 0,
            seed: 1,
            outcome: Outcome::Refused { why: why.to_owned() },
        };
        let mut refusals = Refusals::default();
        refusals.hear(&case("a", "no slices"));
        refusals.hear(&case("a", "no slices"));
        assert_eq!(refusals.of(Policy::Slice), None, "the same load again");
        refusals.hear(&case("b", "nobody is light"));
        assert_eq!(refusals.of(Policy::Slice), None, "of these cgroups");
        refusals.hear(&case("c", "no slices"));
        assert_eq!((refusals.of(Policy::Slice), refusals.of(Policy::Idle)), (Some("no slices"), None));
    }
}
