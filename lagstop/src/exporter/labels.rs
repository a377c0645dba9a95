//! What series are told apart by.

use std::{borrow::Cow, sync::Arc};

use prost::{Message, bytes::Bytes};

use super::protobuf::LabelPair;
use crate::{host::last_unit, model::Workload};

/// The labels of a series, ready for each format: they are written for every sample and hardly ever change.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    all: Vec<Label>,
    /// In text, from the first value on, without the quotes around all of it.
    text: String,
}

/// A label.
#[derive(Clone, Debug)]
pub struct Label {
    /// What is told by it.
    pub key: &'static str,
    /// What it says.
    pub value: Arc<str>,
    /// The label as a message.
    message: Bytes,
}

impl Label {
    /// A label. Of its value nothing is taken for granted.
    pub fn new(key: &'static str, value: Arc<str>) -> Self {
        let message = LabelPair { name: Some(key.to_owned()), value: Some(value.to_string()) }.encode_to_vec().into();
        Self { key, value, message }
    }

    /// The label as an encoded `LabelPair`.
    pub(super) const fn message(&self) -> &Bytes {
        &self.message
    }
}

impl Labels {
    /// None.
    pub const NONE: &'static Self = &Self { all: Vec::new(), text: String::new() };

    /// These, in this order.
    pub fn new(labels: impl IntoIterator<Item = (&'static str, Arc<str>)>) -> Self {
        let all: Vec<Label> = labels.into_iter().map(|(key, value)| Label::new(key, value)).collect();
        let mut text = String::new();
        for (n, Label { key, value, .. }) in all.iter().enumerate() {
            if n > 0 {
                text.extend(["\",", *key, "=\""]);
            }
            text.push_str(&escaped(value));
        }
        text.shrink_to_fit();
        Self { all, text }
    }

    /// Those of the cgroup at `path`.
    pub fn of_cgroup(path: &Arc<str>, workload: Option<&Workload>) -> Self {
        let unit = last_unit(path).unwrap_or_default().into();
        let all = [("cgroup", Arc::clone(path)), ("unit", unit)];
        Self::new(all.into_iter().chain(of_workload(workload)))
    }

    /// Those of a listener.
    pub fn of_listener(netns: u32, address: &str, path: Option<&Arc<str>>, workload: Option<&Workload>) -> Self {
        let path = path.map(Arc::clone).unwrap_or_default();
        let all = [("netns", netns.to_string().into()), ("address", address.into()), ("cgroup", path)];
        Self::new(all.into_iter().chain(of_workload(workload)))
    }

    /// Are there none?
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Label> {
        self.all.iter()
    }

    /// The key of the first, and what stands between the first and the last quote.
    pub(super) fn text(&self) -> Option<(&'static str, &str)> {
        self.all.first().map(|first| (first.key, self.text.as_str()))
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

/// A label's value as OpenMetrics and Prometheus text have it.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_end_their_quotes() {
        let text = |value: &str| Labels::new([("cgroup", value.into())]).text().unwrap().1.to_owned();
        assert_eq!(text("/plain"), "/plain");
        assert_eq!(text("/a\"} 1\n# x \\"), "/a\\\"} 1\\n# x \\\\");
    }

    #[test]
    fn a_cgroup_is_told_by_path_unit_and_container() {
        let workload = Workload { namespace: Some("shop".into()), pod: Some("web".into()), container: None };
        let labels = Labels::of_cgroup(&"/system.slice/nginx.service/x".into(), Some(&workload));
        let rest = "\",unit=\"nginx.service\",namespace=\"shop\",pod=\"web\",container=\"";
        assert_eq!(labels.text(), Some(("cgroup", format!("/system.slice/nginx.service/x{rest}").as_str())));
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
