//! What rows are called.

use std::sync::Arc;

/// What a row is called; not yet harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// What people call it.
    Name(Arc<str>),
    /// The end of its path, from this byte on: nothing is copied for it.
    EndOfPath(usize),
}

impl Label {
    /// What the last part of `path` is called, while nobody knows a better name.
    pub(super) fn end_of(path: &str) -> Self {
        let start = path.rfind('/').map_or(0, |slash| slash + 1);
        Self::EndOfPath(if start < path.len() { start } else { 0 })
    }

    /// The label as text. `path` is where the row is in the tree.
    pub(super) fn text<'a>(&'a self, path: &'a str) -> &'a str {
        match self {
            Self::Name(name) => name,
            Self::EndOfPath(start) => path.get(*start..).unwrap_or(path),
        }
    }
}
