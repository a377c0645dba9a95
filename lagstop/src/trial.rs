//! Trying a recommendation: a change to scheduling, made for a while, measured against the time without it, and undone.
//!
//! Every change is written to a [journal](Journal) before it is made, and a second process, the [watchdog], undoes what is in
//! the journal when the first one is gone or stands still. `docs/trial.md` says how it is measured.

mod attr;
mod block;
mod cgroup_file;
mod change;
mod classes;
mod effect;
mod ended;
mod guard;
mod in_progress;
mod journal;
mod journal_checks;
mod outcome;
mod own;
mod place;
#[cfg(test)]
mod placebo;
mod policy;
mod prediction;
mod run;
mod scheduler_program;
mod shelter;
mod switch;
mod tried;
mod undo;
pub mod watchdog;

pub use attr::Attr;
pub use change::{Made, PolicyChange};
pub use classes::{Sides, TriedGroup};
pub use guard::{Guard, Starves, Want};
pub use journal::{Distrust, Journal, JournalError};
pub use journal_checks::Disbelief;
pub use outcome::{TimeOfBlock, TrialOutcome, TriedFigure};
pub use place::TrialPlace;
pub(crate) use policy::reference as policy_table;
pub use policy::{Dynamic, Kernel, Policy, PolicyError};
pub use prediction::{Predicted, Prediction, Unpredicted};
pub use run::{Event, PreparedTrial, TrialError, TrialSettings, Untried, prepare, run};
pub use scheduler_program::{NoProgram, SchedulerProgram};
pub use switch::{ProgramError, Switch, SwitchError, SwitchSettings, SwitchTo};
pub use tried::Tried;
pub use undo::{NotUndone, Restored};

/// What is tried, as on the command line and in results; `None` is nothing.
pub fn name(policy: Option<Policy>) -> &'static str {
    policy.map_or("none", Policy::name)
}
