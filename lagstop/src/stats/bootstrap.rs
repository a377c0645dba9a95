//! How far chance alone moves a figure: found out by drawing again and again from what was observed.

use crate::random::Random;

/// Length of a block / integrated autocorrelation time. Such blocks keep three quarters of the memory of an autoregressive process.
pub(crate) const MEMORIES: f64 = 2.0;

/// How often each observation was drawn, in each of many draws of as many as there are. Whatever is computed of the same draws
/// stays together: what happened at the same time is drawn together.
#[derive(Clone, Debug)]
pub(crate) struct Resamples {
    observations: usize,
    /// One draw after the other.
    times: Vec<u16>,
}

impl Resamples {
    /// Draws `observations` in blocks of `length`, so many times.
    pub(crate) fn draw(observations: usize, length: usize, resamples: u32, mut random: Random) -> Self {
        let mut times = vec![0_u16; observations * resamples as usize];
        times.chunks_exact_mut(observations.max(1)).for_each(|times| draw(times, length, &mut random));
        Self { observations, times }
    }

    /// Each draw: how often each observation is in it.
    pub(crate) fn draws(&self) -> impl Iterator<Item = &[u16]> {
        self.times.chunks_exact(self.observations.max(1))
    }
}

/// Draws as many observations as `times` has places, in blocks of `length` neighbours, and counts in `times` how often each was
/// drawn. The first is the last one's neighbour, so each is as likely as any other (Politis, Romano: A circular block-resampling
/// procedure for stationary data, 1992). Where observations have nothing to do with each other, as nodes of a fleet, `length` is 1.
pub(crate) fn draw(times: &mut [u16], length: usize, random: &mut Random) {
    let observations = times.len();
    for block in (0..observations).step_by(length.max(1)) {
        let first = random.below(observations);
        for n in 0..length.max(1).min(observations - block) {
            let drawn = &mut times[(first + n) % observations];
            *drawn = drawn.saturating_add(1);
        }
    }
}

/// Of a sample.
pub(crate) fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)
}

/// The bounds that a share `alpha` / 2 of `values` each is below and above. `None` if there are no values.
pub(crate) fn ends(values: &mut [f64], alpha: f64) -> Option<(f64, f64)> {
    let last = values.len().checked_sub(1)?;
    let outside = ((values.len() as f64 * alpha / 2.0) as usize).min(last);
    let mut at = |n: usize| *values.select_nth_unstable_by(n, f64::total_cmp).1;
    Some((at(outside), at(last - outside)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::fixture::series;

    #[test]
    fn every_draw_has_as_many() {
        for length in [0, 1, 4, 9, 100] {
            let resamples = Resamples::draw(9, length, 50, Random::new(3, 4));
            assert_eq!(resamples.draws().count(), 50);
            assert!(resamples.draws().all(|draw| draw.iter().sum::<u16>() == 9));
        }
        assert_eq!(Resamples::draw(0, 1, 50, Random::new(3, 4)).draws().count(), 0);
    }

    #[test]
    fn each_is_drawn_as_often() {
        let resamples = Resamples::draw(10, 4, 20_000, Random::new(1, 1));
        let mut times = [0_u32; 10];
        resamples.draws().for_each(|draw| times.iter_mut().zip(draw).for_each(|(sum, more)| *sum += u32::from(*more)));
        assert!(times.iter().all(|times| (19_400..20_600).contains(times)), "{times:?}");
    }

    /// Drawn one by one, what has a memory seems to vary less than it does.
    #[test]
    fn blocks_keep_what_neighbours_have_in_common() {
        const SERIES: u64 = 20;
        let spread = |length| {
            let of = |seed| {
                let values = series(1_000, 0.8, seed);
                let mean = |draw: &[u16]| {
                    draw.iter().zip(&values).map(|(&times, value)| f64::from(times) * value).sum::<f64>() / 1_000.0
                };
                let means: Vec<f64> =
                    Resamples::draw(1_000, length, 200, Random::new(seed, 2)).draws().map(mean).collect();
                variance(means.iter().copied())
            };
            (0..SERIES).map(of).sum::<f64>() / SERIES as f64
        };
        // The mean's variance is that of 1,000 / 9 values that stand alone.
        let part = |length| spread(length) * 1_000.0 / 9.0;
        assert!(part(1) < 0.2 && (0.75..1.1).contains(&part(45)), "{} {}", part(1), part(45));
    }

    #[test]
    fn ends_leave_as_much_outside_on_either_side() {
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(ends(&mut values, 0.1), Some((5.0, 94.0)));
        assert_eq!(ends(&mut [1.0], 2.0), Some((1.0, 1.0)));
        assert_eq!(ends(&mut [], 0.1), None);
    }
}
