//! Blocks of a trial, and the change between those without and those with.

use serde::Deserialize;

/// Some time, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// The time of a block that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Block {
    /// Whether the policy was in force.
    pub(super) is_with: bool,
    from_ns: u64,
    to_ns: u64,
}

impl Block {
    pub(super) const fn time(self) -> Range {
        Range { from_ns: self.from_ns, to_ns: self.to_ns }
    }
}

/// The change of a figure that has these values in these blocks, as a share: each block with the policy is divided by
/// the geometric mean of its two neighbours, and the geometric mean of these ratios counts.
///
/// # Errors
/// Why there is none.
pub(super) fn change(blocks: &[Block], values: &[Option<f64>]) -> Result<f64, &'static str> {
    let kinds: Vec<bool> = blocks.iter().map(|block| block.is_with).collect();
    let mut logarithms = Vec::new();
    for (kinds, values) in kinds.windows(3).zip(values.windows(3)) {
        if *kinds != [false, true, false] {
            continue;
        }
        let [Some(before), Some(with), Some(after)] = *values else { return Err("not all of a block was seen") };
        let ratio = with / (before * after).sqrt();
        if !(ratio > 0.0 && ratio.is_finite()) {
            return Err("it was 0 in a block: there is no ratio");
        }
        logarithms.push(ratio.ln());
    }
    if logarithms.is_empty() {
        return Err("no block with the policy is between two without");
    }
    Ok((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: usize) -> Vec<Block> {
        (0..count).map(|number| Block { is_with: number % 2 == 1, from_ns: 0, to_ns: 1 }).collect()
    }

    fn of(values: &[f64]) -> Result<f64, &'static str> {
        change(&blocks(values.len()), &values.iter().copied().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn a_block_is_held_against_those_beside_it() {
        assert!((of(&[4.0, 2.0, 4.0, 2.0, 4.0]).unwrap() + 0.5).abs() < 1e-12);
        assert!(of(&[1.0, 2.0, 4.0, 8.0, 16.0]).unwrap().abs() < 1e-12, "it doubles on its own");
        // A half and a double cancel each other out.
        assert!(of(&[1.0, 2.0, 1.0, 0.5, 1.0]).unwrap().abs() < 1e-12);
    }

    #[test]
    fn what_has_no_ratio_has_none() {
        assert!(of(&[1.0, 0.0, 1.0]).unwrap_err().contains("was 0"));
        assert!(of(&[0.0, 1.0, 1.0]).unwrap_err().contains("was 0"));
        assert!(of(&[1.0, 1.0]).unwrap_err().contains("no block"));
        assert!(change(&blocks(3), &[Some(1.0), None, Some(1.0)]).unwrap_err().contains("not all"));
    }
}
