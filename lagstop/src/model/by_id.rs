//! Values of cgroups, sorted by id.

use std::{
    iter::{self, Peekable},
    ops::Index,
    slice, vec,
};

use super::CgroupId;

/// A value for each cgroup, sorted by id, in one allocation: a tree takes many times as long to make and to drop, and each reading
/// makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ById<T>(Vec<(CgroupId, T)>);

impl<T> ById<T> {
    pub fn get(&self, id: &CgroupId) -> Option<&T> {
        self.0.binary_search_by_key(id, |(at, _)| *at).ok().map(|place| &self.0[place].1)
    }

    #[cfg(test)]
    pub fn get_mut(&mut self, id: &CgroupId) -> Option<&mut T> {
        self.0.binary_search_by_key(id, |(at, _)| *at).ok().map(|place| &mut self.0[place].1)
    }

    pub fn contains_key(&self, id: &CgroupId) -> bool {
        self.get(id).is_some()
    }

    pub const fn len(&self) -> usize {
        self.0.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter().map(|(id, of)| (id, of))
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|(_, of)| of)
    }

    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, of)| of)
    }

    /// Looks up cgroups one after the other, by ascending id.
    pub(crate) fn beside(&self) -> Beside<'_, T> {
        Beside(self.0.iter().peekable())
    }
}

type Iter<'m, T> = iter::Map<slice::Iter<'m, (CgroupId, T)>, fn(&'m (CgroupId, T)) -> (&'m CgroupId, &'m T)>;

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Panics where it is not there.
impl<T> Index<&CgroupId> for ById<T> {
    type Output = T;

    #[expect(clippy::panic, reason = "as of every collection")]
    fn index(&self, id: &CgroupId) -> &T {
        self.get(id).unwrap_or_else(|| panic!("cgroup {} is not there", id.0))
    }
}

/// If an id occurs twice, the last value stays.
impl<T> FromIterator<(CgroupId, T)> for ById<T> {
    fn from_iter<I: IntoIterator<Item = (CgroupId, T)>>(all: I) -> Self {
        let mut all: Vec<(CgroupId, T)> = all.into_iter().collect();
        all.sort_by_key(|(id, _)| *id);
        all.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                std::mem::swap(later, first);
            }
            is_same
        });
        Self(all)
    }
}

impl<T> IntoIterator for ById<T> {
    type Item = (CgroupId, T);
    type IntoIter = vec::IntoIter<(CgroupId, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'m, T> IntoIterator for &'m ById<T> {
    type Item = (&'m CgroupId, &'m T);
    type IntoIter = Iter<'m, T>;

    fn into_iter(self) -> Iter<'m, T> {
        self.iter()
    }
}

/// Looks up one after the other, which takes a fraction of the time of lookups each for itself.
#[derive(Debug)]
pub(crate) struct Beside<'m, T>(Peekable<slice::Iter<'m, (CgroupId, T)>>);

impl<'m, T> Beside<'m, T> {
    /// What there is of `id`, which must not be below the last one that was asked for.
    pub(crate) fn get(&mut self, id: CgroupId) -> Option<&'m T> {
        while self.0.next_if(|(at, _)| *at < id).is_some() {}
        self.0.peek().filter(|(at, _)| *at == id).map(|(_, found)| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ids: &[u64]) -> ById<u64> {
        ids.iter().map(|&id| (CgroupId(id), id * 10)).collect()
    }

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_gone_by() {
        let all = of(&[7, 2, 3]);
        let mut beside = all.beside();
        let found: Vec<_> = [0, 2, 2, 5, 7, 9].iter().map(|id| beside.get(CgroupId(*id)).copied()).collect();
        assert_eq!(found, [None, Some(20), Some(20), None, Some(70), None]);
        assert_eq!((all.get(&CgroupId(3)), all.get(&CgroupId(4)), all.len()), (Some(&30), None, 3));
    }

    #[test]
    fn the_last_of_the_same_id_stays() {
        let all: ById<&str> =
            [(2, "a"), (1, "b"), (2, "c"), (2, "d")].map(|(id, of)| (CgroupId(id), of)).into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&CgroupId(1), &"b"), (&CgroupId(2), &"d")]);
    }
}
