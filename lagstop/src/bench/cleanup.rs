//! What a benchmark that was killed left behind.

use std::{io, path::PathBuf};

use crate::host::{Hierarchy, OwnCgroup};

/// What the benchmark's cgroups are marked with.
pub(super) const PURPOSE: &str = "bench";

/// Removes the cgroups of benchmarks that are gone, and ends what runs in them. Gives where they were.
///
/// # Errors
/// When the hierarchy cannot be looked at.
pub fn sweep(hierarchy: &Hierarchy) -> io::Result<Vec<PathBuf>> {
    OwnCgroup::sweep(hierarchy, PURPOSE)
}
