//! Which of many changes are more than chance.

use super::change::{Change, Verdict};

/// Judges the changes that were estimated: of those that are called significant, chance made no larger a share, on average, than
/// `confidence` leaves (Benjamini, Hochberg: Controlling the false discovery rate, 1995). Where nothing changed at all, that
/// is how likely it is that any is called so.
pub(super) fn judge<'a>(changes: impl Iterator<Item = &'a mut Change>, confidence: f64) {
    let mut changes: Vec<(f64, &mut Change)> = changes.filter_map(|change| Some((change.p?, change))).collect();
    changes.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
    let of = changes.len() as f64;
    let is_small = |place: usize, p: f64| p <= (1.0 - confidence) * (place + 1) as f64 / of;
    let significant =
        changes.iter().enumerate().rposition(|(place, (p, _))| is_small(place, *p)).map_or(0, |last| last + 1);
    for (place, (_, change)) in changes.iter_mut().enumerate() {
        let is_significant = place < significant && change.excludes_nothing();
        change.verdict = if is_significant { change.direction() } else { Verdict::NoSignificantChange };
    }
}
