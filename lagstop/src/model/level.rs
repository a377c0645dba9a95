//! What the kernel shares CPU time by, level by level of the cgroup tree.

use std::hash::{Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nanos;

/// CPU settings of one cgroup on the path from the root to another. The kernel compares weights and `cpu.idle` among
/// siblings only, so CPU shares depend on every level.
///
/// In JSON, default values are omitted. `"weight": null` is a level without a weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Weight in the unit of `cpu.weight`: 1 to 10,000, 100 by default. In cgroup v1, `cpu.shares` × 100 / 1024. With
    /// `cpu.idle`, 100 × 3 / 1024, regardless of the file. `None` if this level has no `cpu` controller: the scheduler
    /// has no group for it, and its tasks compete in the group of the nearest ancestor that has one.
    #[serde(default = "default_weight", skip_serializing_if = "is_default_weight")]
    pub weight: Option<f64>,
    /// Whether it runs only when no sibling is runnable (`cpu.idle`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_idle: bool,
    /// CPU time in each period (`cpu.max`, `cpu.cfs_quota_us`). `None` without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_ns: Option<Nanos>,
    /// Length of the quota period. `None` without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
}

impl Level {
    /// A cgroup for which nothing was set.
    pub const DEFAULT: Self =
        Self { weight: Some(Self::DEFAULT_WEIGHT), is_idle: false, quota_ns: None, period_ns: None };
    /// `CGROUP_WEIGHT_DFL`, include/linux/cgroup.h.
    pub const DEFAULT_WEIGHT: f64 = 100.0;
    /// What one with `cpu.idle` weighs: `WEIGHT_IDLEPRIO` of 1024, kernel/sched/sched.h.
    pub const IDLE_WEIGHT: f64 = 3.0 * Self::DEFAULT_WEIGHT / 1_024.0;
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// JSON has no NaN, and no file of the kernel gives one.
impl Eq for Level {}

impl Hash for Level {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // -0 is equal to 0.
        (self.weight.map(|weight| (weight + 0.0).to_bits()), self.is_idle, self.quota_ns, self.period_ns).hash(state);
    }
}

#[expect(clippy::unnecessary_wraps, reason = "serde takes the field's type")]
const fn default_weight() -> Option<f64> {
    Some(Level::DEFAULT_WEIGHT)
}

fn is_default_weight(weight: &Option<f64>) -> bool {
    *weight == default_weight()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn only_what_was_set_is_written() {
        let quota = Level { quota_ns: Some(Nanos(5)), period_ns: Some(Nanos(9)), ..Level::DEFAULT };
        for (level, written) in [
            (Level::DEFAULT, json!({})),
            (Level { weight: Some(39.0), ..Level::DEFAULT }, json!({ "weight": 39.0 })),
            (Level { weight: None, ..Level::DEFAULT }, json!({ "weight": null })),
            (
                Level { weight: Some(Level::IDLE_WEIGHT), is_idle: true, ..Level::DEFAULT },
                json!({ "weight": 0.292_968_75, "is_idle": true }),
            ),
            (quota, json!({ "quota_ns": 5, "period_ns": 9 })),
        ] {
            assert_eq!(to_value(level).unwrap(), written);
            assert_eq!(from_value::<Level>(written).unwrap(), level);
        }
    }
}
