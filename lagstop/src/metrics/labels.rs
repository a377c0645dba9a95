//! Labels of series.

use std::{borrow::Cow, sync::Arc};

use super::message;
use crate::{host::last_unit, model::Workload};

/// The labels of a series, ready for each format: they are written for every sample and hardly ever change.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    all: Vec<Label>,
    /// In text, from the first key to the last one.
    text: String,
    messages: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Label {
    /// What is told by it.
    pub key: &'static str,
    pub value: Arc<str>,
}

/// Names of a cgroup in series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) path: Arc<str>,
    pub(super) workload: Option<Arc<Workload>>,
}

impl Labels {
    pub const NONE: &'static Self = &Self { all: Vec::new(), text: String::new(), messages: Vec::new() };

    /// These, in this order. Of their values nothing is taken for granted.
    pub fn new(labels: impl IntoIterator<Item = (&'static str, Arc<str>)>) -> Self {
        let all: Vec<Label> = labels.into_iter().map(|(key, value)| Label { key, value }).collect();
        let mut text = String::new();
        if let Some((last, others)) = all.split_last() {
            for Label { key, value } in others {
                text.extend([*key, "=\"", &escaped(value), "\","]);
            }
            text.push_str(last.key);
        }
        let messages = all.iter().flat_map(|label| message::label(label.key, &label.value)).collect();
        Self { all, text, messages }
    }

    /// Those of the cgroup at `path`.
    pub fn of_cgroup(path: &Arc<str>, workload: Option<&Workload>) -> Self {
        let unit = last_unit(path).unwrap_or_default().into();
        let all = [("cgroup", Arc::clone(path)), ("unit", unit)];
        Self::new(all.into_iter().chain(of_workload(workload)))
    }

    /// Those of a victim, and of the culprit that it waits behind.
    pub(super) fn of_pair(victim: &Name, culprit: &Name) -> Self {
        let Self { all, .. } = Self::of_cgroup(&victim.path, victim.workload.as_deref());
        let [namespace, pod, _] = of_workload(culprit.workload.as_deref()).map(|(_, value)| value);
        let by = [("by", Arc::clone(&culprit.path)), ("by_namespace", namespace), ("by_pod", pod)];
        Self::new(all.into_iter().map(|Label { key, value }| (key, value)).chain(by))
    }

    pub fn of_listener(netns: u32, address: &str, path: Option<&Arc<str>>, workload: Option<&Workload>) -> Self {
        let path = path.map(Arc::clone).unwrap_or_default();
        let all = [("netns", netns.to_string().into()), ("address", address.into()), ("cgroup", path)];
        Self::new(all.into_iter().chain(of_workload(workload)))
    }

    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Label> {
        self.all.iter()
    }

    /// As they stand in text, escaped, from the first key to the last one; and the value that belongs to that, as it is.
    pub(super) fn text(&self) -> Option<(&str, &str)> {
        self.all.last().map(|last| (self.text.as_str(), &*last.value))
    }

    /// As they stand in a message.
    pub(super) fn messages(&self) -> &[u8] {
        &self.messages
    }
}

/// A value as it stands between quotes.
fn escaped(value: &str) -> Cow<'_, str> {
    if value.contains(['\\', '"', '\n']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
    } else {
        value.into()
    }
}

fn of_workload(workload: Option<&Workload>) -> [(&'static str, Arc<str>); 3] {
    let part = |of: fn(&Workload) -> &Option<Arc<str>>| {
        workload.and_then(|workload| of(workload).as_ref()).map(Arc::clone).unwrap_or_default()
    };
    [
        ("namespace", part(|workload| &workload.namespace)),
        ("pod", part(|workload| &workload.pod)),
        ("container", part(|workload| &workload.container)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_end_their_quotes() {
        let strange: Arc<str> = "/a\"} 1\n# x \\".into();
        let labels = Labels::new([("cgroup", Arc::clone(&strange)), ("unit", "/plain".into()), ("pod", strange)]);
        let text = "cgroup=\"/a\\\"} 1\\n# x \\\\\",unit=\"/plain\",pod";
        // The library has the last one.
        assert_eq!(labels.text(), Some((text, "/a\"} 1\n# x \\")));
        assert_eq!(Labels::NONE.text(), None);
    }

    #[test]
    fn a_cgroup_is_told_by_path_unit_and_container() {
        let workload = Workload { namespace: Some("shop".into()), pod: Some("web".into()), container: None };
        let labels = Labels::of_cgroup(&"/system.slice/nginx.service/x".into(), Some(&workload));
        let all: Vec<(&str, &str)> = labels.iter().map(|label| (label.key, &*label.value)).collect();
        assert_eq!(
            all,
            [
                ("cgroup", "/system.slice/nginx.service/x"),
                ("unit", "nginx.service"),
                ("namespace", "shop"),
                ("pod", "web"),
                ("container", "")
            ]
        );
    }
}
