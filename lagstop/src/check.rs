//! What this kernel, these privileges and this host allow; what is missing, what that costs, and how to get it.

mod requirements;

use serde::Serialize;

use crate::{
    host::{Cpus, Surroundings},
    kernel::{AttachOptions, AttachPlan, Facts, KernelError, Wishes, attach},
    model::{GroupBy, Hook, HookState},
};

#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// How `lagstop top` would run.
    pub verdict: CheckVerdict,
    pub hostname: String,
    /// `uname -r`
    pub kernel: String,
    /// `uname -m`
    pub architecture: String,
    /// Whether the programs were attached for real. Else what follows is what can be told without.
    pub tried: bool,
    /// What lagstop needs, and whether it is there.
    pub requirements: Vec<Requirement>,
    /// What is measured and how, or why not.
    pub measures: Vec<MeasureState>,
    /// The capabilities that are held, of those that lagstop can use.
    pub capabilities: Vec<&'static str>,
    /// All that was found out.
    pub facts: Facts,
}

/// How `lagstop top` would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// Everything is measured.
    Full,
    /// Some of it is `n/a`.
    Degraded,
    /// On what the kernel's files tell, at most.
    Unusable,
}

/// Something that lagstop needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    pub name: &'static str,
    /// Whether it is there.
    pub state: RequirementState,
    pub found: String,
    /// What is not measured without it. `None` where nothing is lost.
    pub lost: Option<&'static str>,
    /// How to get it, one way a line.
    pub remedies: Vec<String>,
    /// Nothing works without it.
    pub is_essential: bool,
}

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementState {
    Satisfied,
    Missed,
    /// That could not be checked.
    Unknown,
}

/// One measure, and how it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MeasureState {
    /// As `--hooks` calls it.
    pub measure: String,
    /// The way, as `--hooks` calls it; `None` where it is not measured.
    pub way: Option<String>,
    /// How that works and what it does not see, and why no better way is used; or why it is not measured.
    pub detail: String,
    /// The figures that come from it.
    pub figures: String,
}

impl From<Hook> for MeasureState {
    fn from(hook: Hook) -> Self {
        let way = if hook.state == HookState::On { hook.way } else { None };
        Self { measure: hook.name, way, detail: hook.detail, figures: hook.measures.join(", ") }
    }
}

/// Finds out. Where privileges allow it and it `may_try`, the programs are attached for a moment: nothing else tells for
/// sure.
pub fn run(mut facts: Facts, surroundings: &Surroundings, wishes: &Wishes, may_try: bool) -> Check {
    let can_try = may_try && AttachPlan::from_facts(&facts, wishes).is_ok();
    let (outcome, tried) = if can_try {
        (try_to_attach(&mut facts, wishes), true)
    } else {
        (AttachPlan::ignoring_privileges(&facts, wishes).map(|plan| plan.hooks()), false)
    };
    judge(facts, surroundings, wishes, outcome, tried)
}

/// What came of attaching for a moment.
#[derive(Clone, Copy, Debug)]
enum Attempt<'e> {
    /// It was not tried; where the plan fails already, with the reason.
    NotMade(Option<&'e KernelError>),
    Succeeded,
    Failed(&'e KernelError),
}

impl<'e> Attempt<'e> {
    const fn error(self) -> Option<&'e KernelError> {
        match self {
            Self::NotMade(error) => error,
            Self::Failed(error) => Some(error),
            Self::Succeeded => None,
        }
    }
}

fn try_to_attach(facts: &mut Facts, wishes: &Wishes) -> Result<Vec<Hook>, KernelError> {
    let places = Cpus::read().map(|cpus| cpus.places()).unwrap_or_default();
    let max_cgroups = AttachOptions::DEFAULT_MAX_CGROUPS;
    let options = AttachOptions {
        group_by: GroupBy::Scheduler,
        max_cgroups,
        clock_only: false,
        places,
        excluded: Vec::new(),
        samples_cost: false,
        max_tasks: AttachOptions::default_max_tasks(),
    };
    attach(facts, wishes, &options).map(|reader| reader.hooks())
}

/// Pure: the answer that follows from what was found.
fn judge(
    facts: Facts,
    surroundings: &Surroundings,
    wishes: &Wishes,
    outcome: Result<Vec<Hook>, KernelError>,
    tried: bool,
) -> Check {
    let trial = match (&outcome, tried) {
        (Ok(_), true) => Attempt::Succeeded,
        (Err(error), true) => Attempt::Failed(error),
        (outcome, false) => Attempt::NotMade(outcome.as_ref().err()),
    };
    let requirements = requirements::of(&facts, surroundings, trial);
    let hooks = outcome.unwrap_or_default();
    let is_switched_off = |hook: &Hook| hook.measure().is_some_and(|measure| wishes.switches_off(measure));
    let is_one_missed = hooks.iter().any(|hook| hook.state == HookState::Off && !is_switched_off(hook));
    let measures: Vec<MeasureState> = hooks.into_iter().map(MeasureState::from).collect();
    let is_missed = |requirement: &Requirement| requirement.state == RequirementState::Missed;
    let verdict = if requirements.iter().any(|requirement| is_missed(requirement) && requirement.is_essential) {
        CheckVerdict::Unusable
    } else if is_one_missed
        || requirements.iter().any(|requirement| is_missed(requirement) && requirement.lost.is_some())
    {
        CheckVerdict::Degraded
    } else {
        CheckVerdict::Full
    };
    Check {
        verdict,
        hostname: surroundings.hostname.clone(),
        kernel: facts.release.clone(),
        architecture: facts.architecture.clone(),
        tried,
        requirements,
        measures,
        capabilities: facts.capabilities.names(),
        facts,
    }
}

#[cfg(test)]
mod tests;
