//! Load Credit: who has been light, who heavy, over the last seconds.
//!
//! CFS-LAGS (arXiv 2508.15703, §4.2, appendix A.2) averages `tg->load_avg`, the average number of runnable tasks, over a
//! nominal 1,000 ticks of 4 ms. An exponential moving average with that span has a time constant of half of it.

use std::collections::HashMap;

use super::{CgroupId, Nanos, Tasks};

/// Below this a credit is forgotten: a thousandth of what the kernel can express.
const FORGOTTEN: Tasks = Tasks(1e-6);

/// Load Credits of all cgroups that were runnable lately.
#[derive(Clone, Debug)]
pub struct LoadCredits {
    time_constant: Nanos,
    credits: HashMap<CgroupId, Tasks>,
}

impl Default for LoadCredits {
    fn default() -> Self {
        Self::new(Self::TIME_CONSTANT)
    }
}

impl LoadCredits {
    /// The paper's window of 1,000 ticks at 250 Hz is an average with this time constant.
    pub const TIME_CONSTANT: Nanos = Nanos(2_000_000_000);

    pub fn new(time_constant: Nanos) -> Self {
        Self { time_constant, credits: HashMap::new() }
    }

    /// Lets `duration` pass with these loads. Cgroups that are not named were idle.
    pub fn advance(&mut self, duration: Nanos, loads: impl IntoIterator<Item = (CgroupId, Tasks)>) {
        let keep = (-duration.seconds() / self.time_constant.seconds()).exp();
        for credit in self.credits.values_mut() {
            credit.0 *= keep;
        }
        for (id, load) in loads {
            self.credits.entry(id).or_default().0 += (1.0 - keep) * load.0;
        }
        self.credits.retain(|_, credit| *credit >= FORGOTTEN);
    }

    /// The credit of a cgroup.
    pub fn of(&self, id: CgroupId) -> Tasks {
        self.credits.get(&id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CgroupId = CgroupId(7);

    fn after(steps: &[(u64, f64)]) -> f64 {
        let mut credits = LoadCredits::default();
        for &(ms, load) in steps {
            credits.advance(Nanos(ms * 1_000_000), [(A, Tasks(load))]);
        }
        credits.of(A).0
    }

    #[test]
    fn a_steady_load_is_reached_and_an_idle_cgroup_forgets() {
        assert!((after(&[(1_000, 3.0); 30]) - 3.0).abs() < 1e-5);
        assert!((after(&[(2_000, 1.0)]) - (1.0 - (-1.0f64).exp())).abs() < 1e-12);

        let mut credits = LoadCredits::default();
        credits.advance(Nanos::SECOND, [(A, Tasks(5.0))]);
        let then = credits.of(A).0;
        credits.advance(Nanos(4_000_000_000), []);
        assert!((credits.of(A).0 - then * (-2.0f64).exp()).abs() < 1e-12);
        credits.advance(Nanos(60_000_000_000), []);
        assert_eq!(credits.credits.len(), 0);
    }

    #[test]
    fn how_finely_time_is_cut_does_not_matter() {
        let coarse = after(&[(4_000, 2.0)]);
        let fine = after(&[(10, 2.0); 400]);
        assert!((coarse - fine).abs() < 1e-9, "{coarse} against {fine}");
    }
}
