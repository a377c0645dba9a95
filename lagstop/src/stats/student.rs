//! Student's t distribution: how far chance goes where the spread itself is only estimated.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// How likely chance alone goes at least `t` spreads to either side.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| (2.0 * student.sf(t.abs())).clamp(0.0, 1.0))
}

/// How many spreads chance alone exceeds, to either side, with probability `p`.
pub(crate) fn quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| -student.inverse_cdf(tail(p)))
}

/// The same where the spread is known.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    -Normal::standard().inverse_cdf(tail(p))
}

/// Half of `p`: the part of what is outside that is on one side.
fn tail(p: f64) -> f64 {
    p.clamp(f64::MIN_POSITIVE, 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (1e6, 1.960)] {
            assert!((quantile(0.05, freedom) - expected).abs() < 6e-4, "{freedom}: {}", quantile(0.05, freedom));
        }
        assert!((quantile(0.001, 5.0) - 6.869).abs() < 1e-3);
        assert!((normal_quantile(0.05) - 1.959_964).abs() < 1e-6);
        assert_eq!((quantile(0.05, 0.0), two_sided(9.0, 0.0)), (f64::INFINITY, 1.0), "nothing is known");
    }

    #[test]
    fn tails_are_exact_far_out() {
        // Closed forms: of one degree of freedom, and of two.
        let one = |t: f64| 2.0 / std::f64::consts::PI * (1.0 / t).atan();
        let two = |t: f64| 2.0 / ((t * t + 2.0) + t * (t * t + 2.0).sqrt());
        for t in [0.01, 1.0, 5.0, 1e3, 1e6] {
            assert!((two_sided(t, 1.0) / one(t) - 1.0).abs() < 1e-9, "{t}");
            assert!((two_sided(-t, 2.0) / two(t) - 1.0).abs() < 1e-9, "{t}");
        }
        assert_eq!((two_sided(0.0, 3.0), two_sided(f64::INFINITY, 3.0)), (1.0, 0.0));
    }
}
