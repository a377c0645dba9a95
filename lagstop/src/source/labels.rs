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
    /// With the names that the host has for them.
    pub(super) fn read() -> Self {
        Self { names: Names::host() }
    }

    /// The label of the cgroup at `path`, whose state was `before`.
    pub(super) fn of<P>(&mut self, before: Option<&Arc<CgroupState>>, path: P) -> Arc<CgroupLabel>
    where
        P: AsRef<str> + Into<Arc<str>>,
    {
        match before {
            Some(before) if *before.label.path == *path.as_ref() => Arc::clone(&before.label),
            _ => self.label(path.into()),
        }
    }

    /// Looks at the names again: containers start before their names can be read, and are renamed. The labels in `last` get
    /// those that have changed.
    pub(super) fn refresh(&mut self, last: &mut Snapshot) {
        if self.names.look() {
            for state in last.cgroups.values_mut() {
                let label = self.label(Arc::clone(&state.label.path));
                if label != state.label {
                    Arc::make_mut(state).label = label;
                }
            }
        }
    }

    fn label(&mut self, path: Arc<str>) -> Arc<CgroupLabel> {
        Arc::new(self.names.label(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_kept_until_the_cgroup_is_renamed() {
        let home = tempfile::tempdir().unwrap();
        let mut labels = Labels { names: Names::at(home.path()) };
        let first = labels.of(None, "/a");
        let before = Arc::new(CgroupState { label: Arc::clone(&first), ..CgroupState::default() });
        assert!(Arc::ptr_eq(&labels.of(Some(&before), "/a"), &first));
        assert_eq!(&*labels.of(Some(&before), "/b").name, "/b");
    }
}
