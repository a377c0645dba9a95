//! What scheduled the host in place of the kernel's own scheduler.

use schemars::JsonSchema;
use serde::Serialize;

use crate::units::{plural, quoted};

/// The `sched_ext` scheduler that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoadedSchedExt {
    /// Its name: of the last one, if there were several.
    pub name: String,
    /// Whether there were several.
    pub has_changed: bool,
    /// Number of intervals at whose ends one was loaded.
    pub intervals: u64,
}

impl LoadedSchedExt {
    /// For people, `of` being the number of all intervals.
    pub fn in_words(&self, of: u64) -> String {
        let name = quoted(&self.name);
        let what = if self.has_changed {
            format!("several sched_ext schedulers (last: {name})")
        } else {
            format!("sched_ext scheduler {name}")
        };
        match self.intervals {
            all if all == of => what,
            some => format!("{what} in {some} of {}, else the kernel's own", plural(of, "interval")),
        }
    }
}
