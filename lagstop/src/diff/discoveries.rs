//! Which of many changes are more than chance.

use super::change::{Change, ChangeVerdict};

/// The largest significant `p` of many (Benjamini, Hochberg: Controlling the false discovery rate, 1995): of those up
/// to it, at most the share that `confidence` leaves is by chance, on average. If nothing changed at all, that is the
/// probability that any is called significant. `None` if none is. Only `ps` of the `of` changes could be estimated. The
/// others count as well, because leaving them out would select those that happened to look steady.
pub(crate) fn largest(mut ps: Vec<f64>, of: usize, confidence: f64) -> Option<f64> {
    ps.sort_unstable_by(f64::total_cmp);
    let is_small = |(place, p): &(usize, f64)| *p <= (1.0 - confidence) * (place + 1) as f64 / of as f64;
    ps.into_iter().enumerate().rfind(is_small).map(|(_, p)| p)
}

/// Judges the changes that were estimated.
pub(super) fn judge<'a>(changes: impl Iterator<Item = &'a mut Change>, confidence: f64) {
    let changes = changes.filter(|change| change.p.is_some() || change.verdict == ChangeVerdict::NotEnoughIntervals);
    let all: Vec<&mut Change> = changes.collect();
    let largest = largest(all.iter().filter_map(|change| change.p).collect(), all.len(), confidence);
    for change in all {
        let Some(p) = change.p else { continue };
        let is_significant = largest.is_some_and(|largest| p <= largest) && change.excludes_zero();
        change.verdict = if is_significant { change.direction() } else { ChangeVerdict::NoSignificantChange };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Unit;

    fn change(p: Option<f64>, low: f64) -> Change {
        Change {
            name: "mean_wait",
            label: "mean run-queue wait",
            unit: Unit::Ns,
            before: Some(5.0),
            after: Some(6.0),
            change: Some(1.0),
            change_share: Some(0.2),
            low: Some(low),
            high: Some(2.0),
            p,
            effective_before: Some(30.0),
            effective_after: Some(30.0),
            verdict: ChangeVerdict::NotEnoughIntervals,
            missing: None,
            less_is_better: true,
        }
    }

    #[test]
    fn how_small_is_small_depends_on_how_many_are() {
        let verdicts = |of: &[(Option<f64>, f64)]| {
            let mut changes: Vec<Change> = of.iter().map(|&(p, low)| change(p, low)).collect();
            judge(changes.iter_mut(), 0.95);
            changes.iter().map(|change| change.verdict).collect::<Vec<_>>()
        };
        let (worse, not) = (ChangeVerdict::Worse, ChangeVerdict::NoSignificantChange);
        assert_eq!(verdicts(&[(Some(0.04), 0.1)]), [worse]);
        assert_eq!(verdicts(&[(Some(0.04), 0.1), (Some(0.5), -1.0)]), [not, not]);
        assert_eq!(verdicts(&[(Some(0.04), 0.1), (Some(0.03), 0.1)]), [worse, worse]);
        assert_eq!(verdicts(&[(Some(0.001), -0.1)]), [not], "0 is in the interval");
        let unknown = ChangeVerdict::NotEnoughIntervals;
        assert_eq!(verdicts(&[(None, 0.1), (Some(0.02), 0.1)]), [unknown, worse]);
        assert_eq!(verdicts(&[(None, 0.1), (Some(0.04), 0.1)]), [unknown, not], "one of two");
        assert_eq!(verdicts(&[]), []);
    }
}
