//! Chance that can be repeated.

/// Numbers that follow from a seed (Marsaglia's xorshift).
pub struct Dice(u32);

impl Dice {
    /// Those of `seed`.
    pub fn new(seed: u32) -> Self {
        // 0 would stay 0.
        Self(seed | 1)
    }

    /// One below `sides`, which is not 0.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % sides
    }
}
