//! The mark before a cgroup's name: what it is among the others, in a letter.

use super::frame::Frame;
use crate::{
    diagnosis::{AlertKind, AlertSubject, Role, RoleKind, Rule},
    model::CgroupId,
};

/// What a cgroup is among the others, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark<'a> {
    /// The verdict names it: others wait behind it.
    Bully,
    /// It waits for its own quota.
    Throttled,
    /// Light, and waits long.
    Light(&'a Role),
    /// Heavy, while light ones wait long.
    Heavy(&'a Role),
}

/// Marks of alerts, behind that of the cgroup.
const ALERT_MARKS: [(&str, &str); 2] = [("!", "crosses a threshold"), ("!!", "crosses a critical threshold")];

impl<'a> Mark<'a> {
    /// Each letter, and what it means.
    const ALL: [(&'static str, &'static str); 4] = [
        ("B", "bully: the verdict says that others wait behind it"),
        ("T", "throttled: waits because of its own quota"),
        ("L", "light, with long waits: may benefit from priority; see the line below the table"),
        ("H", "heavy, while light cgroups wait: would yield to them"),
    ];

    /// Each mark before a name, and what it means, those of alerts too.
    pub(crate) fn explained() -> impl Iterator<Item = (&'static str, &'static str)> {
        Self::ALL.into_iter().chain(ALERT_MARKS)
    }

    /// The mark of a cgroup, if it has one.
    pub(super) fn of(id: CgroupId, frame: &'a Frame) -> Option<Self> {
        let causes = frame.told.iter().flat_map(|told| &told.verdict.causes);
        let mut bullies = causes.filter(|cause| cause.rule == Rule::NoisyNeighbour).flat_map(|cause| &cause.culprits);
        if bullies.any(|culprit| culprit.id() == Some(id)) {
            return Some(Self::Bully);
        }
        if frame.severity(AlertSubject::Cgroup(id), AlertKind::Throttled).is_some() {
            return Some(Self::Throttled);
        }
        frame.roles.get(&id).map(|role| match role.kind {
            RoleKind::Gains => Self::Light(role),
            RoleKind::Pays => Self::Heavy(role),
        })
    }

    pub(super) const fn letter(self) -> &'static str {
        Self::ALL[self.place()].0
    }

    const fn place(self) -> usize {
        match self {
            Self::Bully => 0,
            Self::Throttled => 1,
            Self::Light(_) => 2,
            Self::Heavy(_) => 3,
        }
    }

    /// Why the cgroup has this mark, in one line.
    pub(super) fn why(self) -> String {
        match self {
            Self::Bully | Self::Throttled => Self::ALL[self.place()].1.to_owned(),
            Self::Light(role) | Self::Heavy(role) => role.to_string(),
        }
    }
}
