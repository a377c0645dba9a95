//! Firecracker's microVMs, as its jailer puts them: the id is all the name that they have.

use super::Called;
use crate::model::Vcpus;

/// The cgroup of a microVM, below that of the program's name.
pub(super) fn place<'p>(components: &[&'p str]) -> Option<(usize, &'p str)> {
    let ["firecracker", id, ..] = components else { return None };
    // `src/utils/src/validators.rs`
    let is_id = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_id.then_some((2, *id))
}

pub(super) fn called(id: &str) -> Called {
    Called { vcpus: Some(Vcpus::Inside), ..Called::guest("firecracker", id) }
}
