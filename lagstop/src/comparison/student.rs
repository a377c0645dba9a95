//! Student's t distribution: how far chance goes where the spread itself is only estimated.

/// Degrees of freedom that make it the normal distribution, to six digits.
pub(super) const NORMAL: f64 = 1e6;

/// How likely chance alone goes at least `t` spreads to either side.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    // t² / (ν + t²) and its complement, of which the smaller one has all its digits.
    incomplete_beta(freedom / 2.0, 0.5, freedom / t.mul_add(t, freedom))
}

/// How many spreads chance alone exceeds, to either side, with probability `p`.
pub(crate) fn quantile(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > p && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > p { low = middle } else { high = middle }
    }
    high
}

/// Iₓ(a, b), by Lentz's continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (a.mul_add(x.ln(), b * (-x).ln_1p()) + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    // The fraction converges fast on this side alone.
    let value = if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    };
    value.clamp(0.0, 1.0)
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const STEPS: u32 = 1_000;
    let nonzero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..STEPS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / nonzero(coefficient.mul_add(d, 1.0));
            c = nonzero(1.0 + coefficient / c);
            step = c * d;
            value *= step;
        }
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// ln Γ(x) for x > 0, by Stirling's series from 10 on.
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut shift = 0.0;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5).mul_add(x.ln(), -x) + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (NORMAL, 1.960)] {
            assert!((quantile(0.05, freedom) - expected).abs() < 6e-4, "{freedom}: {}", quantile(0.05, freedom));
        }
        assert!((quantile(0.001, 5.0) - 6.869).abs() < 1e-3);
    }

    #[test]
    fn tails_are_exact_far_out() {
        // Closed forms: of one degree of freedom, and of two.
        let one = |t: f64| 2.0 / std::f64::consts::PI * (1.0 / t).atan();
        let two = |t: f64| 2.0 / ((t * t + 2.0) + t * (t * t + 2.0).sqrt());
        for t in [0.01, 1.0, 5.0, 1e3, 1e6] {
            assert!((two_sided(t, 1.0) / one(t) - 1.0).abs() < 1e-9, "{t}");
            assert!((two_sided(t, 2.0) / two(t) - 1.0).abs() < 1e-9, "{t}");
        }
        assert_eq!((two_sided(0.0, 3.0), two_sided(f64::INFINITY, 3.0)), (1.0, 0.0));
    }
}
