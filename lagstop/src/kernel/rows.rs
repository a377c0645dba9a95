//! Who has which row, and when a row may be given to somebody else.
//!
//! A row changes hands only after it has been out of the kernel's table, and unchanged, for two whole reads: `settle`
//! runs on every CPU in each, after which none remembers the row as its running task's.

use std::{collections::HashSet, sync::Arc};

use crate::model::CgroupId;

/// Reads for which a row must be quiet before it is free.
const QUIET_READS: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) id: CgroupId,
    pub(super) path: Arc<str>,
    /// `Some` once the cgroup is gone: the reads for which the row has been quiet since.
    retired: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By row: low ones are given out first.
    by_row: Vec<Option<Owner>>,
}

impl Owners {
    /// Is it known that `row` belongs to `id`?
    pub(super) fn has(&self, row: u32, id: CgroupId) -> bool {
        self.by_row.get(row as usize).is_some_and(|owner| owner.as_ref().is_some_and(|owner| owner.id == id))
    }

    /// The owner of `row`.
    pub(super) fn of(&self, row: u32) -> Option<CgroupId> {
        Some(self.by_row.get(row as usize)?.as_ref()?.id)
    }

    /// Notes that `row` belongs to `id`, from now on.
    pub(super) fn note(&mut self, row: u32, id: CgroupId, path: Arc<str>) {
        let row = row as usize;
        self.by_row.resize(self.by_row.len().max(row + 1), None);
        self.by_row[row] = Some(Owner { id, path, retired: None });
    }

    /// Rows that are not free.
    pub(super) fn count(&self) -> u32 {
        self.iter().count() as u32
    }

    /// The owners, by ascending row.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Owner)> {
        (0..).zip(&self.by_row).filter_map(|(row, owner)| Some((row, owner.as_ref()?)))
    }

    /// Begins to take the rows of `id` back. Gives whether it had any that was not being taken back already.
    pub(super) fn retire(&mut self, id: CgroupId) -> bool {
        let mut any = false;
        for owner in self.by_row.iter_mut().flatten().filter(|owner| owner.id == id && owner.retired.is_none()) {
            owner.retired = Some(0);
            any = true;
        }
        any
    }

    /// After a read: takes out and gives the rows that are free now. `changed` says whether a row was added to.
    pub(super) fn release(&mut self, changed: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut free = Vec::new();
        if self.iter().all(|(_, owner)| owner.retired.is_none()) {
            return free;
        }
        // One that came back in another row keeps both, or what was counted in the first would be gone from its sum.
        let live: HashSet<CgroupId> =
            self.iter().filter(|(_, owner)| owner.retired.is_none()).map(|(_, owner)| owner.id).collect();
        for (row, slot) in (0..).zip(&mut self.by_row) {
            let retired = slot.as_mut().filter(|owner| !live.contains(&owner.id));
            let Some(quiet) = retired.and_then(|owner| owner.retired.as_mut()) else { continue };
            *quiet = if changed(row) { 0 } else { *quiet + 1 };
            if *quiet >= QUIET_READS {
                *slot = None;
                free.push(row);
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CgroupId = CgroupId(70);
    const B: CgroupId = CgroupId(71);

    fn owners() -> Owners {
        let mut owners = Owners::default();
        owners.note(2, A, "/a".into());
        owners.note(3, B, "/b".into());
        owners
    }

    #[test]
    fn a_row_is_free_after_two_quiet_reads_and_not_before() {
        let mut owners = owners();
        assert!(owners.retire(A));
        assert!(!owners.retire(A), "once is enough");
        assert_eq!(owners.release(|_| false), [] as [u32; 0]);
        assert_eq!(owners.release(|row| row == 2), [] as [u32; 0], "a straggler starts the count anew");
        assert_eq!(owners.release(|_| false), [] as [u32; 0]);
        assert_eq!(owners.release(|_| false), [2]);
        assert_eq!(owners.iter().map(|(row, _)| row).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_cgroup_that_comes_back_keeps_both_rows() {
        let mut owners = owners();
        owners.retire(A);
        owners.note(5, A, "/a".into());
        for _ in 0..4 {
            assert_eq!(owners.release(|_| false), [] as [u32; 0]);
        }
        owners.retire(A);
        assert_eq!(owners.release(|_| false), [] as [u32; 0]);
        assert_eq!(owners.release(|_| false), [2, 5]);
    }

    #[test]
    fn a_new_owner_gets_its_own_path() {
        let mut owners = owners();
        assert!(owners.has(2, A));
        owners.note(2, CgroupId(99), "/new".into());
        assert!(!owners.has(2, A));
        let owner = owners.iter().find(|(row, _)| *row == 2).map(|(_, owner)| owner.clone());
        assert_eq!(owner.map(|owner| (owner.id, owner.path)), Some((CgroupId(99), "/new".into())));
    }
}
