//! What cgroups are called, from reading to reading.

use std::sync::Arc;

use crate::{
    host::Names,
    model::{CgroupLabel, CgroupState, Snapshot},
};

/// Gives labels, and keeps those that were given.
#[derive(Debug)]
pub(super) struct Labels {
    names: Names,
}

impl Labels {
    /// With the names that are known now.
    pub(super) fn read() -> Self {
        Self { names: Names::read().unwrap_or_default() }
    }

    /// The label of the cgroup at `path`, whose state was `before`.
    pub(super) fn of<P>(&self, before: Option<&CgroupState>, path: P) -> Arc<CgroupLabel>
    where
        P: AsRef<str> + Into<Arc<str>>,
    {
        match before {
            Some(before) if *before.label.path == *path.as_ref() => Arc::clone(&before.label),
            _ => self.label(path.into()),
        }
    }

    /// Reads the names anew. Where there are others, the labels in `last` get them.
    pub(super) fn refresh(&mut self, last: &mut Snapshot) {
        let names = Names::read().unwrap_or_default();
        if names != self.names {
            self.names = names;
            for state in last.cgroups.values_mut() {
                state.label = self.label(Arc::clone(&state.label.path));
            }
        }
    }

    fn label(&self, path: Arc<str>) -> Arc<CgroupLabel> {
        let Self { names, .. } = self;
        Arc::new(CgroupLabel { name: names.of(&path).into(), workload: names.workload(&path).map(Arc::new), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_kept_until_the_cgroup_is_renamed() {
        let labels = Labels { names: Names::default() };
        let first = labels.of(None, "/a");
        let before = CgroupState { label: Arc::clone(&first), ..CgroupState::default() };
        assert!(Arc::ptr_eq(&labels.of(Some(&before), "/a"), &first));
        assert_eq!(&*labels.of(Some(&before), "/b").name, "/b");
    }
}
