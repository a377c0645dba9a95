//! Looking things up in the order in which they lie.

use std::{
    collections::{BTreeMap, btree_map::Iter},
    iter::Peekable,
};

use super::CgroupId;

/// Looks up cgroups in a map, one after the other by ascending id. For thousands of cgroups this takes a fraction of
/// the time of separate lookups, each from the root of the tree.
#[derive(Debug)]
pub(crate) struct Beside<'m, T>(Peekable<Iter<'m, CgroupId, T>>);

impl<'m, T> Beside<'m, T> {
    pub(crate) fn of(map: &'m BTreeMap<CgroupId, T>) -> Self {
        Self(map.iter().peekable())
    }

    /// The entry of `id`, which must not be below the last one that was asked for.
    pub(crate) fn get(&mut self, id: CgroupId) -> Option<&'m T> {
        while self.0.next_if(|(at, _)| **at < id).is_some() {}
        self.0.peek().filter(|(at, _)| **at == id).map(|(_, found)| *found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_gone_by() {
        let map: BTreeMap<CgroupId, u64> = [2, 3, 7].map(|id| (CgroupId(id), id)).into();
        let mut beside = Beside::of(&map);
        let found: Vec<_> = [0, 2, 2, 5, 7, 9].iter().map(|id| beside.get(CgroupId(*id)).copied()).collect();
        assert_eq!(found, [None, Some(2), Some(2), None, Some(7), None]);
    }
}
