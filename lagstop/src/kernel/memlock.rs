//! Before Linux 5.11 maps count as locked memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::model::kernel_version;

/// The first version that counts maps as the memory of their cgroup instead.
const NOT_LOCKED_SINCE: (u32, u32) = (5, 11);

/// How much memory this process may lock at most, where that matters and is limited.
pub(super) fn limit(release: &str) -> Option<u64> {
    let matters = kernel_version(release).is_some_and(|version| version < NOT_LOCKED_SINCE);
    if matters { getrlimit(Resource::Memlock).maximum } else { None }
}

/// Raises this limit as far as this process may. Gives the limit that then holds.
pub(super) fn raise(release: &str) -> Option<u64> {
    limit(release)?;
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        // If this fails too, the limit stays as it is.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Memlock).current
}
