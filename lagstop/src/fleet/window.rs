//! The time that is looked at, in steps.

use std::{ops::Range, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// The shortest step: the recorded series are rates over five minutes.
const SHORTEST: u64 = 300;

/// The analysed time range: `steps` steps. Each step ends at a time for which the server is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Window {
    /// End of the window, in seconds since 1970.
    pub end: u64,
    /// Length of a step, in seconds.
    pub step: u64,
    /// Number of steps.
    pub steps: usize,
}

/// Why a time has no steps, with what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    #[error("a step of {0} s is too short: rates cover {SHORTEST} s. Omit --step, or use a longer one")]
    ShortStep(u64),
    #[error("{length} s are shorter than one step of {step} s. Use a longer --window")]
    NoStep { length: u64, step: u64 },
    #[error("the window starts before 1970. Use a shorter --window")]
    TooLong,
}

impl Window {
    /// The longest step, in seconds, unless there is more than can be kept.
    pub(crate) const LONGEST_STEP: u64 = 3_600;
    /// Steps that a short window has.
    pub(crate) const SHORT_STEPS: u64 = 24;

    /// The `length` before `end`, in steps of `step`; by default an hour, or a 24th of less than a day.
    ///
    /// # Errors
    /// When that leaves no step; says how to get one.
    pub fn new(end: u64, length: Duration, step: Option<Duration>) -> Result<Self, WindowError> {
        let length = length.as_secs();
        let step = step.map_or_else(
            || (length / Self::SHORT_STEPS).clamp(SHORTEST, Self::LONGEST_STEP) / 60 * 60,
            |step| step.as_secs().max(1),
        );
        if step < SHORTEST {
            return Err(WindowError::ShortStep(step));
        }
        let steps = usize::try_from(length / step).unwrap_or(usize::MAX);
        if steps == 0 {
            return Err(WindowError::NoStep { length, step });
        }
        if length > end {
            return Err(WindowError::TooLong);
        }
        Ok(Self { end, step, steps })
    }

    /// With steps so long that there are `most` at most.
    #[must_use]
    pub fn coarser(self, most: usize) -> Self {
        let times = self.steps.div_ceil(most.max(1)).max(1);
        Self { step: self.step * times as u64, steps: self.steps / times, ..self }
    }

    /// When it begins, in seconds since 1970.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(self.step.saturating_mul(self.steps as u64))
    }

    /// When the step ends, in seconds since 1970.
    pub fn time(&self, step: usize) -> u64 {
        self.start().saturating_add(self.step.saturating_mul(step as u64 + 1))
    }

    /// The step that ends at `time`.
    pub(super) fn step_at(&self, time: f64) -> Option<usize> {
        let n = ((time - self.start() as f64) / self.step as f64).round() - 1.0;
        (n >= 0.0 && n < self.steps as f64).then_some(n as usize)
    }

    /// The steps, in pieces of `most` at most.
    pub(super) fn pieces(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (steps, most) = (self.steps, most.max(1));
        (0..steps).step_by(most).map(move |from| from..(from + most).min(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_day_has_24_steps_and_a_week_168() {
        let of = |length| Window::new(1_000_000_000, length, None).unwrap();
        assert_eq!((of(DAY).step, of(DAY).steps), (3_600, 24));
        assert_eq!((of(7 * DAY).step, of(7 * DAY).steps), (3_600, 168));
        assert_eq!((of(DAY / 4).step, of(DAY / 4).steps), (900, 24));
        assert_eq!((of(DAY / 48).step, of(DAY / 48).steps), (300, 6));
        assert_eq!((of(7 * DAY).coarser(60).step, of(7 * DAY).coarser(60).steps), (3 * 3_600, 56));
        assert_eq!(of(DAY).coarser(24), of(DAY));
    }

    #[test]
    fn steps_are_found_by_their_time() {
        let window = Window::new(1_000_000, DAY, None).unwrap();
        assert_eq!((window.time(23), window.time(0)), (1_000_000, 1_000_000 - 23 * 3_600));
        for step in 0..24 {
            assert_eq!(window.step_at(window.time(step) as f64), Some(step));
        }
        assert_eq!([window.start() as f64, 2e6, f64::NAN, -1.0].map(|time| window.step_at(time)), [None; 4]);
        assert_eq!(window.pieces(10).collect::<Vec<_>>(), [0..10, 10..20, 20..24]);
    }

    #[test]
    fn what_is_no_window_is_said() {
        let error = |length, step| Window::new(1_000_000, length, step).unwrap_err().to_string();
        assert!(error(DAY, Some(Duration::from_secs(60))).contains("--step"));
        assert!(error(Duration::from_secs(60), None).contains("longer --window"));
        assert!(error(365 * DAY, None).contains("shorter --window"));
    }
}
