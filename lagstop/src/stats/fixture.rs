//! Series to test with.

use crate::random::Random;

/// One value after the other of the normal distribution with variance 1, of which each has `memory` of the one before: an
/// autoregressive process, whose integrated autocorrelation time is (1 + memory) / (1 − memory).
pub(crate) fn series(count: usize, memory: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed, 77);
    let mut value = normal(&mut random);
    let next = |_| {
        value = memory * value + (1.0 - memory * memory).sqrt() * normal(&mut random);
        value
    };
    (0..count).map(next).collect()
}

/// Box and Muller's.
fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.unit().ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}
