//! A change as the cells of a row.

use crate::{
    diff::Change,
    units::{self, Unit},
};

/// The displayed cells of a change, without the verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub label: String,
    pub before: String,
    pub after: String,
    /// In % of before.
    pub share: String,
    /// The change, and its interval.
    pub change: String,
}

impl From<&Change> for Cells {
    fn from(change: &Change) -> Self {
        let shown = |value: Option<f64>| units::if_measured(value, |value| show(change.unit, value));
        Self {
            label: match change.unit {
                Unit::Cores => format!("{}, cores", change.label),
                _ => change.label.to_owned(),
            },
            before: shown(change.before),
            after: shown(change.after),
            share: change.change_share.map(units::signed_percent).unwrap_or_default(),
            change: moved(change).unwrap_or_default(),
        }
    }
}

fn show(unit: Unit, value: f64) -> String {
    match unit {
        // The unit is in the label, because there is no room for it in every cell.
        Unit::Cores => Unit::Count.show(value),
        unit => unit.show(value),
    }
}

/// The change and its interval, all in one unit.
fn moved(change: &Change) -> Option<String> {
    let moved = change.change?;
    let largest = [Some(moved), change.low, change.high].into_iter().flatten().fold(0.0, |a: f64, b| a.max(b.abs()));
    let (size, unit) = scale(change.unit, largest);
    // A smaller change comes from rounding errors.
    if largest < 5e-7 * size {
        return Some("0".to_owned());
    }
    // Three significant digits of the largest value, as far as there is room.
    let digits = (largest / size).log10().floor();
    let decimals = (2.0 - digits).clamp(0.0, 6.0) as usize;
    // A change so small that its digits are all 0 has no sign either.
    let number = |value: f64| {
        let shown = format!("{:+.decimals$}", value / size);
        if shown.contains(|digit: char| ('1'..='9').contains(&digit)) { shown } else { shown[1..].to_owned() }
    };
    let interval = change
        .low
        .zip(change.high)
        .map_or_else(String::new, |(low, high)| format!(" [{}, {}]", number(low), number(high)));
    Some(format!("{}{interval}{unit}", number(moved)))
}

/// The unit that keeps numbers up to `largest` short: its size and its name.
fn scale(unit: Unit, largest: f64) -> (f64, &'static str) {
    let scales: &[(f64, &str)] = match unit {
        Unit::Share | Unit::SharePoints => &[(0.01, " points")],
        Unit::Ns => &[(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")],
        Unit::PerSecond => &[(1.0, "/s"), (1e3, " k/s"), (1e6, " M/s"), (1e9, " G/s")],
        Unit::Seconds => &[(1.0, " s")],
        Unit::Cores | Unit::Factor | Unit::Tasks | Unit::Count => &[(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")],
    };
    let fits = scales.iter().find(|(size, _)| largest < size * 999.5);
    fits.or(scales.last()).copied().unwrap_or((1.0, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_short() {
        let shown = [0.0, 0.0004, 0.0123, -0.345, 2.5, 19.1, 1e6].map(units::signed_percent);
        assert_eq!(shown, ["0 %", "0 %", "+1.2 %", "-34 %", "+250 %", "× 20", "× 1000001"]);
    }

    #[test]
    fn one_unit_keeps_the_largest_short() {
        assert_eq!(
            [(Unit::Ns, 999.4), (Unit::Ns, 999.6), (Unit::Cores, 0.001)].map(|(unit, n)| scale(unit, n).1),
            [" ns", " µs", ""]
        );
        assert_eq!(scale(Unit::PerSecond, f64::MAX), (1e9, " G/s"));
    }
}
