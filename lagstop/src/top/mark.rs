//! The mark before a cgroup's name: what it is among the others, in a letter.

use super::frame::Frame;
use crate::{
    diagnosis::{AlertKind, AlertSubject, Role, RoleKind, Rule},
    model::CgroupId,
};

/// What a cgroup is among the others, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mark<'a> {
    /// The verdict names it: others wait behind it.
    Bully,
    /// It waits for its own quota.
    Throttled,
    /// Light, and waits long.
    Light(&'a Role),
    /// Heavy, while light ones wait long.
    Heavy(&'a Role),
}

impl<'a> Mark<'a> {
    /// Each letter, and what it means.
    pub(super) const ALL: [(&'static str, &'static str); 4] = [
        ("B", "bully: the verdict says that others wait behind it"),
        ("T", "throttled: waits because of its own quota"),
        ("L", "light, with long waits: may benefit from priority; see the line below the table"),
        ("H", "heavy, while light cgroups wait: would yield to them"),
    ];

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
        let place = match self {
            Self::Bully => 0,
            Self::Throttled => 1,
            Self::Light(_) => 2,
            Self::Heavy(_) => 3,
        };
        Self::ALL[place].0
    }

    /// Why the cgroup has this mark, in one line.
    pub(super) fn why(self) -> String {
        match self {
            Self::Bully => "bully: others wait behind it, as the verdict says".to_owned(),
            Self::Throttled => "throttled: it waits because of its own quota".to_owned(),
            Self::Light(role) | Self::Heavy(role) => role.to_string(),
        }
    }
}
