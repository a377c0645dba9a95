//! Figures in two bytes: exact up to 2,047, within 0.05 % above. The screen shows three figures.

const MANTISSA: u32 = 10;
/// Largest exponent that is told from [`NONE`].
const HIGHEST: u32 = 62;

/// Stands for what was not measured.
pub(super) const NONE: u16 = u16::MAX;

/// The code nearest to `value`.
pub(super) const fn encode(value: u64) -> u16 {
    if value < 2 << MANTISSA {
        return value as u16;
    }
    let shift = 63 - value.leading_zeros() - MANTISSA;
    // Rounded up to the next power of two, the mantissa overflows into the exponent, as it should.
    let rounded = (value >> shift) + ((value >> (shift - 1)) & 1);
    let code = ((shift as u64) << MANTISSA) + rounded;
    let most = ((HIGHEST as u64) << MANTISSA) | ((1 << MANTISSA) - 1);
    if code > most { most as u16 } else { code as u16 }
}

/// The value that `code` stands for.
pub(super) const fn decode(code: u16) -> u64 {
    let exponent = (code >> MANTISSA) as u32;
    let mantissa = (code & ((1 << MANTISSA) - 1)) as u64;
    if exponent < 2 {
        return code as u64;
    }
    (mantissa | 1 << MANTISSA) << (exponent - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_decoded_is_within_a_twentieth_of_a_percent(value in 0u64..1 << 62, cut in 0u32..62) {
            let value = value >> cut;
            let back = decode(encode(value));
            prop_assert!(back.abs_diff(value) as f64 <= value as f64 * 0.0005, "{value} came back as {back}");
        }

        #[test]
        fn small_figures_are_exact(value in 0u64..2_048) {
            prop_assert_eq!(decode(encode(value)), value);
        }
    }

    #[test]
    fn nothing_is_taken_for_not_measured() {
        assert!([0, 2_047, 2_048, 1 << 40, u64::MAX].into_iter().all(|value| encode(value) != NONE));
    }
}
