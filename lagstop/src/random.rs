//! Random numbers that are the same everywhere and for ever.

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Streams of one seed have nothing to do with each other.
    pub const fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.next() ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93);
        random.0 = random.next();
        random
    }

    /// The next one, of all 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of 0 to `count` − 1; 0 where there is none. That some are likelier by `count` / 2⁶⁴ does not show.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// Between 0 and 1, and neither of them.
    pub const fn unit(&mut self) -> f64 {
        // The upper 52 bits, and half a step: exact in a double.
        ((self.next() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Exponentially distributed, with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_were_published() {
        let mut random = Random(1_234_567);
        assert_eq!([0; 3].map(|_| random.next()), [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn each_of_a_few_comes_about_as_often() {
        let mut random = Random::new(1, 2);
        let mut counts = [0; 7];
        (0..70_000).for_each(|_| counts[random.below(7)] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn times_between_rare_events_have_the_mean_and_the_spread_of_theirs() {
        let mut random = Random::new(3, 4);
        let times: Vec<f64> = (0..100_000).map(|_| random.exponential()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| times.iter().map(|&time| of(time)).sum::<f64>() / times.len() as f64;
        assert!((mean(&|time| time) - 1.0).abs() < 0.02 && (mean(&|time| time * time) - 2.0).abs() < 0.1);
        let units: Vec<f64> = (0..100_000).map(|_| random.unit()).collect();
        assert!(units.iter().all(|&unit| unit > 0.0 && unit < 1.0));
    }
}
