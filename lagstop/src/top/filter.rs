//! Which cgroups are shown.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::text;
use crate::model::{Cgroup, Workload};

/// A regular expression may take this much memory when compiled.
const LARGEST: usize = 1 << 20;

/// What a cgroup must match to be shown.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    field: Field,
    pattern: Pattern,
}

/// The part of a cgroup that is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Name, path, namespace, pod and container.
    Any,
    Path,
    Namespace,
    Pod,
    Container,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// In lower case.
    Text(String),
    Regex(Regex),
}

/// What is wrong with a regular expression, in a line.
#[derive(Debug, Error)]
#[error("{}", reason(.0))]
pub struct NoRegex(#[from] regex::Error);

/// Prefixes that name a field.
const FIELDS: [(&str, Field); 5] = [
    ("path:", Field::Path),
    ("namespace:", Field::Namespace),
    ("ns:", Field::Namespace),
    ("pod:", Field::Pod),
    ("container:", Field::Container),
];

impl Filter {
    /// Parses what people type: a text, or `/` and a regular expression, both without regard to case. The name of a field may
    /// stand before it, as in `ns:shop` or `pod:/^web-`. `None` if nothing was typed.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, NoRegex> {
        let named = FIELDS.iter().find_map(|(prefix, field)| Some((text.strip_prefix(prefix)?, *field)));
        let (text, field) = named.unwrap_or((text, Field::Any));
        let pattern = match text.strip_prefix('/') {
            Some(regex) => Pattern::Regex(RegexBuilder::new(regex).case_insensitive(true).size_limit(LARGEST).build()?),
            None => Pattern::Text(text.to_lowercase()),
        };
        let is_empty = matches!(&pattern, Pattern::Text(text) if text.is_empty())
            || matches!(&pattern, Pattern::Regex(regex) if regex.as_str().is_empty());
        Ok((!is_empty).then_some(Self { field, pattern }))
    }

    pub(super) fn matches(&self, cgroup: &Cgroup) -> bool {
        let workload = cgroup.workload.as_deref();
        let of = |part: fn(&Workload) -> Option<&str>| workload.and_then(part).is_some_and(|text| self.is_in(text));
        let namespace = || of(|workload| workload.namespace.as_deref());
        let pod = || of(|workload| workload.pod.as_deref());
        let container = || of(|workload| workload.container.as_deref());
        match self.field {
            Field::Any => {
                self.is_in(text::name(cgroup)) || self.is_in(&cgroup.path) || namespace() || pod() || container()
            }
            Field::Path => self.is_in(&cgroup.path),
            Field::Namespace => namespace(),
            Field::Pod => pod(),
            Field::Container => container(),
        }
    }

    fn is_in(&self, text: &str) -> bool {
        match &self.pattern {
            Pattern::Text(wanted) => text.to_lowercase().contains(wanted),
            Pattern::Regex(regex) => regex.is_match(text),
        }
    }
}

/// The last line of what the library says: the others show where.
fn reason(error: &regex::Error) -> String {
    let error = error.to_string();
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::CgroupId;

    fn shown(filter: &str) -> Vec<u64> {
        let part = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
        let cgroup = |id, path: &str, name: &str, namespace: &str, pod: &str, container: &str| Cgroup {
            id: CgroupId(id),
            path: path.into(),
            name: name.into(),
            workload: part(pod).map(|pod| {
                Arc::new(Workload { namespace: part(namespace), pod: Some(pod), container: part(container) })
            }),
            ..Cgroup::default()
        };
        let all = [
            cgroup(1, "/kubepods/pod1/c1", "shop/web-7d9/nginx", "shop", "web-7d9", "nginx"),
            cgroup(2, "/kubepods/pod2/c2", "pay/shop-cache/redis", "pay", "shop-cache", "redis"),
            cgroup(3, "/system.slice/nginx.service", "nginx.service", "", "", ""),
        ];
        let filter = Filter::parse(filter).unwrap();
        all.iter().filter(|c| filter.as_ref().is_none_or(|f| f.matches(c))).map(|c| c.id.0).collect()
    }

    #[test]
    fn a_text_is_found_in_any_part_whatever_its_case() {
        assert_eq!(shown(""), [1, 2, 3]);
        assert_eq!(shown("NGINX"), [1, 3]);
        assert_eq!(shown("system.slice"), [3]);
        assert_eq!(shown("nothing like it"), [] as [u64; 0]);
    }

    #[test]
    fn a_field_can_be_named() {
        assert_eq!(shown("shop"), [1, 2]);
        assert_eq!(shown("ns:shop"), [1]);
        assert_eq!(shown("namespace:shop"), [1]);
        assert_eq!(shown("pod:shop"), [2]);
        assert_eq!(shown("container:nginx"), [1]);
        assert_eq!(shown("path:nginx"), [3]);
    }

    #[test]
    fn a_slash_begins_a_regular_expression() {
        assert_eq!(shown("/^(shop|pay)/.*x$"), [1]);
        assert_eq!(shown("pod:/-[0-9]"), [1]);
        assert_eq!(shown("/"), [1, 2, 3]);
        let error = Filter::parse("/(").unwrap_err();
        assert_eq!(error.to_string(), "unclosed group");
        assert!(Filter::parse("/(x{9999}){9999}").is_err(), "too large");
    }
}
