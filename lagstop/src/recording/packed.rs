//! Intervals in columns: what compressed recordings hold. It says the same as an `interval` line in a fifth of the bytes.

mod behind;
mod column;
mod columns;
mod shape;

use std::{collections::HashMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::columns::Columns;
use crate::model::{
    Cgroup, CgroupId, Cgroups, Interval, Level, Workload,
    bounded::{self, CGROUPS},
};

/// Name and rarely changing settings of a cgroup, valid until the end of the chunk. Packed intervals identify cgroups
/// only by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// Its id.
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: Arc<str>,
    /// Readable name.
    pub name: Arc<str>,
    /// The container that it is in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Arc<Workload>>,
    /// CPU settings of the cgroup and its ancestors.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounded::levels")]
    pub levels: Option<Arc<[Level]>>,
    /// The CPUs that it may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Arc<str>>,
}

impl Named {
    fn of(cgroup: &Cgroup) -> Self {
        Self {
            id: cgroup.id,
            path: Arc::clone(&cgroup.path),
            name: Arc::clone(&cgroup.name),
            workload: cgroup.workload.clone(),
            levels: cgroup.levels.clone(),
            cpus: cgroup.cpus.clone(),
        }
    }

    /// Does it say the same of `cgroup`? That rarely changes: mostly it is the same piece of memory.
    fn is_of(&self, cgroup: &Cgroup) -> bool {
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        same(&self.path, &cgroup.path)
            && same(&self.name, &cgroup.name)
            && self.workload == cgroup.workload
            && self.levels == cgroup.levels
            && self.cpus == cgroup.cpus
    }

    /// Bytes of memory that it takes, about: itself and its place in a table, and what it points to.
    fn weight(&self) -> u64 {
        /// Two counters and what the allocator adds, of each of the two texts that every name has.
        const POINTED_TO: usize = 2 * 32;
        let texts = [Some(&self.path), Some(&self.name), self.cpus.as_ref()];
        let workload = self.workload.iter().flat_map(|it| [&it.namespace, &it.pod, &it.container]).map(Option::as_ref);
        let text: usize = texts.into_iter().chain(workload).flatten().map(|text| text.len()).sum();
        let levels = self.levels.as_ref().map_or(0, |levels| size_of::<Level>().saturating_mul(levels.len()));
        (2 * size_of::<Self>() + POINTED_TO).saturating_add(text).saturating_add(levels) as u64
    }
}

/// The names that were read or written so far.
#[derive(Clone, Debug)]
pub(super) struct Names {
    all: HashMap<CgroupId, Named>,
    /// Bytes of memory that they take, about, and that they may take.
    weight: u64,
    most: u64,
}

impl Names {
    /// No names yet, with a limit of about `most` bytes of memory.
    pub(super) fn within(most: u64) -> Self {
        Self { all: HashMap::new(), weight: 0, most }
    }

    /// No names yet, from a trusted source.
    pub(super) fn trusted() -> Self {
        Self::within(u64::MAX)
    }

    pub(super) fn learn(&mut self, names: impl IntoIterator<Item = Named>) -> Result<(), TooManyNames> {
        for named in names {
            self.weight = self.weight.saturating_add(named.weight());
            if let Some(before) = self.all.insert(named.id, named) {
                self.weight = self.weight.saturating_sub(before.weight());
            }
            if self.weight > self.most {
                return Err(TooManyNames);
            }
        }
        Ok(())
    }

    /// Those of `interval` that have to be said first; they are known from then on.
    pub(super) fn new_in(&mut self, interval: &Interval) -> Vec<Named> {
        let is_new = |cgroup: &&Cgroup| !self.all.get(&cgroup.id).is_some_and(|known| known.is_of(cgroup));
        let new: Vec<Named> = interval.cgroups.iter().filter(is_new).map(Named::of).collect();
        self.all.extend(new.iter().map(|named| (named.id, named.clone())));
        new
    }

    /// Are all names, with those of `next`, still few enough to be read again?
    pub(super) fn have_room_for(&self, next: &Interval) -> bool {
        let next = next.cgroups.iter().map(|cgroup| cgroup.id);
        bounded::have_room(self.all.len(), next, |id| self.all.contains_key(&id))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.weight = 0;
    }
}

/// More names than the size of the file explains.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyNames;

/// An interval whose cgroups are in columns.
pub type PackedInterval = Interval<Columns>;

impl Cgroups for Columns {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Why a packed interval cannot be unpacked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnpackError {
    #[error("the column {column} has {found} entries for {expected} cgroups")]
    Length { column: &'static str, found: usize, expected: usize },
    #[error("{0:?} is not a distribution")]
    Shape(String),
    #[error("{0:?} is not a list of cgroups that a cgroup waited behind")]
    Behind(String),
    #[error("cgroup {} has no name", .0.0)]
    NoName(CgroupId),
}

/// Do the ids of the cgroups of `interval` ascend, as those that were measured do, and do columns hold all of each? Others could
/// not be read again: where ids may stand still, two bytes of a file are another cgroup.
pub(super) fn can_pack(interval: &Interval) -> bool {
    let cgroups = &interval.cgroups;
    cgroups.len() <= CGROUPS && cgroups.is_sorted_by(|one, next| one.id < next.id) && cgroups.iter().all(Columns::hold)
}

/// `interval` in columns. The names of its cgroups are said elsewhere.
pub(super) fn pack(interval: &Interval) -> PackedInterval {
    interval.with_cgroups(Columns::of(&interval.cgroups, interval.duration_ns))
}

/// The interval, its cgroups called by `names`.
pub(super) fn unpack(packed: &PackedInterval, names: &Names) -> Result<Interval, UnpackError> {
    let name = |id: CgroupId| names.all.get(&id).ok_or(UnpackError::NoName(id));
    Ok(packed.with_cgroups(packed.cgroups.cgroups(packed.duration_ns, name)?))
}

#[cfg(test)]
pub(super) mod tests;
