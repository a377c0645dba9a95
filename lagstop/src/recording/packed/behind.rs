//! The cgroups that each cgroup waited behind, as short words.
//!
//! A word names those that a cgroup waited behind, the worst first: its place among the cgroups of the interval, counted from 0, then
//! the thousandths of all that was waited behind others: `3:412,0:77`. It is empty where there are none. The words of several
//! cgroups are separated by spaces.

use std::fmt::Write as _;

use super::UnpackError;
use crate::model::{Cgroup, CgroupId, WaitBehind};

/// What the words of an interval are called.
pub(super) const COLUMN: &str = "waits_behind";

/// The words of all cgroups, whose ids ascend; `None` where none waited behind another.
pub(super) fn words(cgroups: &[Cgroup]) -> Option<String> {
    if cgroups.iter().all(|cgroup| cgroup.waits_behind.is_empty()) {
        return None;
    }
    let ids: Vec<CgroupId> = cgroups.iter().map(|cgroup| cgroup.id).collect();
    let mut words = String::new();
    for (n, cgroup) in cgroups.iter().enumerate() {
        words.push_str(if n > 0 { " " } else { "" });
        let mut separator = "";
        for one in &cgroup.waits_behind {
            let place = ids.binary_search(&one.id).ok();
            if let Some((place, all)) = place.zip(cgroup.totals.wait_behind_ns) {
                let _ = write!(words, "{separator}{place}:{}", one.thousandths(all));
                separator = ",";
            }
        }
    }
    Some(words)
}

/// Whom a word names, and the thousandths of each.
pub(super) type Word = Vec<(CgroupId, u64)>;

/// Reads the words of the cgroups with these ids.
pub(super) fn read(words: &str, ids: &[CgroupId]) -> Result<Vec<Word>, UnpackError> {
    let found = if ids.is_empty() { 0 } else { words.split(' ').count() };
    if found != ids.len() {
        return Err(UnpackError::Length { column: COLUMN, found, expected: ids.len() });
    }
    let wrong = |word: &str| UnpackError::Behind(word.chars().take(40).collect());
    let one = |text: &str| {
        let (place, thousandths) = text.split_once(':')?;
        let thousandths = thousandths.parse().ok().filter(|&thousandths| thousandths <= 1_000)?;
        Some((*ids.get(place.parse::<usize>().ok()?)?, thousandths))
    };
    let word = |word: &str| {
        if word.is_empty() {
            return Ok(Vec::new());
        }
        // As many as there are in a recording without columns, at most.
        word.split(',').take(WaitBehind::NAMED).map(one).collect::<Option<Vec<_>>>().ok_or_else(|| wrong(word))
    };
    words.split(' ').take(ids.len()).map(word).collect()
}
