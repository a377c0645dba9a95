//! What cgroups are called, from reading to reading.

use std::sync::Arc;

use super::pods::Pods;
use crate::{
    host::Names,
    model::{CgroupLabel, CgroupState, Snapshot},
};

/// Gives labels, and keeps those that were given.
#[derive(Debug)]
pub(super) struct Labels {
    names: Names,
    /// What the kubelet tells too.
    pods: Option<Pods>,
    /// What it had told when the names were read.
    told: Option<Arc<Names>>,
}

impl Labels {
    /// With the names that are known now.
    pub(super) fn read(pods: Option<Pods>) -> Self {
        let mut labels = Self { names: Names::default(), pods, told: None };
        labels.names = labels.names();
        labels
    }

    fn names(&mut self) -> Names {
        let names = Names::read().unwrap_or_default();
        self.told = self.pods.as_ref().map(Pods::told);
        match &self.told {
            Some(told) => names.and(told),
            None => names,
        }
    }

    /// Whether the kubelet has told something new since the names were read.
    pub(super) fn are_old(&self) -> bool {
        match (&self.pods, &self.told) {
            (Some(pods), Some(told)) => !Arc::ptr_eq(&pods.told(), told),
            _ => false,
        }
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
        let names = self.names();
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
        let labels = Labels { names: Names::default(), pods: None, told: None };
        let first = labels.of(None, "/a");
        let before = CgroupState { label: Arc::clone(&first), ..CgroupState::default() };
        assert!(Arc::ptr_eq(&labels.of(Some(&before), "/a"), &first));
        assert_eq!(&*labels.of(Some(&before), "/b").name, "/b");
    }
}
