//! What the plan lets be measured.

use crate::{kernel::plan::AttachPlan, model::Measure};

/// Which figures mean something; the others are `None`.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) pick: bool,
    pub(super) swap: bool,
    pub(super) kept: bool,
    pub(super) pick_function: bool,
    pub(super) waits: bool,
    pub(super) blame: bool,
    pub(super) migrations: bool,
    pub(super) accepts: bool,
}

impl Measured {
    pub(super) fn by(plan: &AttachPlan) -> Self {
        Self {
            pick: plan.uses(Measure::SwitchCost),
            swap: plan.sees_exits(),
            kept: plan.way(Measure::SwitchCost).is_some_and(|way| way.sees_kept),
            pick_function: plan.uses(Measure::Pick),
            waits: plan.uses(Measure::RunqWait),
            blame: plan.uses(Measure::Blame),
            migrations: plan.uses(Measure::Migrations),
            accepts: plan.uses(Measure::Accept),
        }
    }

    /// For programs that only read the clock.
    pub(super) const NOTHING: Self = Self {
        pick: false,
        swap: false,
        kept: false,
        pick_function: false,
        waits: false,
        blame: false,
        migrations: false,
        accepts: false,
    };
}
