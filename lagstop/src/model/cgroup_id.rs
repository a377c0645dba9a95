//! What identifies a cgroup.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Id of a cgroup while it exists: the inode number of its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CgroupId(pub u64);

impl CgroupId {
    /// The row that cgroups share when the kernel's table was full. No directory has inode number 0.
    pub const OTHER: Self = Self(0);
    /// The root of every hierarchy.
    pub const ROOT: Self = Self(1);

    /// One of the numbers below `of`, by which work for cgroups is spread evenly. Ids are often a fixed step apart: a
    /// remainder would not do.
    pub const fn turn(self, of: u64) -> u64 {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        ((self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * of) >> 32
    }
}

/// An id as text: browsers round large numbers.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn id_as_text<S: Serializer>(id: &CgroupId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&id.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_even_whatever_the_step_of_the_ids() {
        for step in 1..=64 {
            let mut taken = [0; 60];
            (1..=2_500).for_each(|n| taken[CgroupId(n * step).turn(60) as usize] += 1);
            assert!(taken.iter().all(|taken| (21..=63).contains(taken)), "{step}: {taken:?}");
        }
    }
}
