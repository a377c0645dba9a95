//! When requests come, in open loops.

use std::vec::IntoIter;

use super::{BenchSettings, BenchWorkload, RequestTrace};
use crate::random::Random;

/// Bands of equally many functions that ask for ever more (paper, Fig. 2), and how many times as much as the one before.
const BANDS: usize = 10;
const STEP: f64 = 2.0;
/// Most requests a second of a function whose requests come at random (§5.2.1).
const MOST_AT_RANDOM: f64 = 5.0;
/// Seconds in which much more comes than on average: the tail of Pareto's distribution, and where it is cut off.
const SHAPE: f64 = 1.5;
const MOST_OF_MEAN: f64 = 20.0;

/// What a function asks for on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionDemand {
    /// Requests a second; in closed loops `None`, as many as it can.
    pub rate: Option<f64>,
    /// Asks for less than the functions do on average.
    pub is_light: bool,
}

/// What each of so many functions asks for.
pub fn demands(settings: &BenchSettings, functions: u32) -> Vec<FunctionDemand> {
    let count = functions as usize;
    let mean = settings.demand / settings.work.as_secs_f64();
    let rates: Vec<f64> = match settings.workload {
        workload if workload.is_closed() => return vec![FunctionDemand { rate: None, is_light: false }; count],
        _ if !settings.traces.is_empty() => {
            let of =
                |trace: &RequestTrace| trace.0.iter().map(|&n| f64::from(n)).sum::<f64>() / trace.0.len().max(1) as f64;
            (0..count).map(|function| of(&settings.traces[function % settings.traces.len()])).collect()
        }
        BenchWorkload::Azure => {
            // Fewer functions than bands are spread over them.
            let band = |function: usize| {
                if count < BANDS { (2 * function + 1) * BANDS / (2 * count) } else { function % BANDS }
            };
            let weights: Vec<f64> = (0..count).map(|function| STEP.powi(band(function) as i32)).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(|weight| mean * count as f64 * weight / sum).collect()
        }
        _ => {
            let mut random = Random::new(settings.seed, u64::from(functions));
            (0..count).map(|_| MOST_AT_RANDOM * random.unit()).collect()
        }
    };
    let fair = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    rates.into_iter().map(|rate| FunctionDemand { rate: Some(rate), is_light: rate < fair * (1.0 - 1e-9) }).collect()
}

/// When requests come, in seconds from the start and in ascending order. No more than those of a second are in memory.
pub(super) struct Arrivals<'a> {
    rate: f64,
    /// How many come in a second; `None` where they come at any time.
    by_second: Option<BySecond<'a>>,
    seconds: f64,
    random: Random,
    /// When the last one came that comes at any time.
    at: f64,
}

struct BySecond<'a> {
    trace: Option<&'a RequestTrace>,
    /// Each function is at another place of it.
    place: u64,
    second: u64,
    /// Remaining times of the second before `second`.
    times: IntoIter<f64>,
}

impl<'a> Arrivals<'a> {
    /// Those within `seconds`.
    pub(super) fn new(
        workload: BenchWorkload,
        rate: f64,
        trace: Option<&'a RequestTrace>,
        seconds: f64,
        mut random: Random,
    ) -> Self {
        let place = trace.map_or(0, |trace| random.below(trace.0.len()) as u64);
        let is_any_time = workload == BenchWorkload::Random && trace.is_none();
        let by_second = BySecond { trace, place, second: 0, times: Vec::new().into_iter() };
        Self { rate, by_second: (!is_any_time).then_some(by_second), seconds, random, at: 0.0 }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let Some(by_second) = &mut self.by_second else {
            self.at += self.random.exponential() / self.rate;
            return (self.at < self.seconds).then_some(self.at);
        };
        loop {
            if let Some(at) = by_second.times.next() {
                return (at < self.seconds).then_some(at);
            }
            let second = by_second.second;
            if second as f64 >= self.seconds {
                return None;
            }
            by_second.second += 1;
            let count = match by_second.trace {
                Some(trace) => trace.at(by_second.place + second),
                None => heavy_tailed(self.rate, &mut self.random),
            };
            let mut times: Vec<f64> = (0..count).map(|_| second as f64 + self.random.unit()).collect();
            times.sort_by(f64::total_cmp);
            by_second.times = times.into_iter();
        }
    }
}

/// Requests of a second, so many on average, with a heavy tail.
fn heavy_tailed(mean: f64, random: &mut Random) -> u32 {
    let least = mean * (SHAPE - 1.0) / SHAPE;
    // Makes up for the part of the distribution that is cut off.
    let most = MOST_OF_MEAN * mean;
    let kept = 1.0 - (least / most).powf(SHAPE - 1.0) / SHAPE;
    let count = (least * random.unit().powf(-1.0 / SHAPE)).min(most) / kept;
    let count = count.clamp(0.0, f64::from(RequestTrace::MOST_REQUESTS));
    let whole = count.floor();
    // NaN and negative values become 0.
    whole as u32 + u32::from(random.unit() < count - whole)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings(workload: BenchWorkload) -> BenchSettings {
        BenchSettings {
            workload,
            densities: vec![1],
            policies: Vec::new(),
            switch: crate::trial::SwitchSettings::default(),
            rounds: 1,
            duration: Duration::from_secs(10),
            warm_up: Duration::ZERO,
            work: Duration::from_millis(40),
            latency_target: Duration::from_millis(100),
            demand: 0.1,
            light_alone: false,
            depth: 0,
            base: "bench".to_owned(),
            seed: 7,
            traces: Vec::new(),
        }
    }

    fn rates(settings: &BenchSettings, functions: u32) -> Vec<f64> {
        demands(settings, functions).into_iter().map(|demand| demand.rate.unwrap()).collect()
    }

    fn arrivals(workload: BenchWorkload, rate: f64, trace: Option<&RequestTrace>, seconds: f64, seed: u64) -> Vec<f64> {
        Arrivals::new(workload, rate, trace, seconds, Random::new(seed, 1)).collect()
    }

    #[test]
    fn no_more_than_a_second_is_drawn_ahead() {
        // All of it would take terabytes.
        let mut times = Arrivals::new(BenchWorkload::Azure, 1_000.0, None, 1e9, Random::new(1, 1));
        let first: Vec<f64> = times.by_ref().take(10_000).collect();
        assert!(first.is_sorted() && first.last() < Some(&60.0), "{:?}", first.last());
        assert!(times.by_second.unwrap().times.len() < 100_000);
    }

    #[test]
    fn bands_are_skewed_and_ask_for_as_much_in_all() {
        for functions in [2, 4, 10, 38, 228] {
            let rates = rates(&settings(BenchWorkload::Azure), functions);
            let mean = rates.iter().sum::<f64>() / f64::from(functions);
            assert!((mean - 2.5).abs() < 1e-9, "{functions}: 0.1 CPUs are 2.5 requests of 40 ms, not {mean}");
            assert!(rates.iter().copied().fold(0.0, f64::max) > 1.5 * mean, "{rates:?}");
        }
        let demands = demands(&settings(BenchWorkload::Azure), 100);
        let light = demands.iter().filter(|demand| demand.is_light).count();
        assert_eq!(light, 70, "those of the upper three bands are above the mean");
    }

    #[test]
    fn random_rates_are_even_from_none_to_five() {
        let rates = rates(&settings(BenchWorkload::Random), 2_000);
        let mean = rates.iter().sum::<f64>() / 2_000.0;
        assert!((mean - 2.5).abs() < 0.1 && rates.iter().all(|&rate| rate > 0.0 && rate < 5.0), "{mean}");
    }

    #[test]
    fn closed_loops_have_no_rate() {
        for workload in [BenchWorkload::Resctl, BenchWorkload::Parallel, BenchWorkload::Mix] {
            assert!(demands(&settings(workload), 3).iter().all(|demand| demand.rate.is_none() && !demand.is_light));
        }
    }

    #[test]
    fn requests_are_as_many_as_asked_for_and_the_same_for_one_seed() {
        for (workload, rate) in
            [(BenchWorkload::Azure, 3.0), (BenchWorkload::Azure, 0.05), (BenchWorkload::Random, 3.0)]
        {
            let of = |seed| arrivals(workload, rate, None, 20_000.0, seed);
            let times = of(1);
            let mean = times.len() as f64 / 20_000.0;
            assert!((mean / rate - 1.0).abs() < 0.08, "{workload:?}: {mean} instead of {rate}");
            assert!(times.is_sorted() && times.iter().all(|&at| (0.0..20_000.0).contains(&at)));
            assert_eq!(times, of(1));
            assert_ne!(times, of(2));
        }
    }

    #[test]
    fn seconds_of_azure_differ_far_more_than_random_ones() {
        let spread = |workload| {
            let times = arrivals(workload, 5.0, None, 10_000.0, 3);
            let mut counts = vec![0.0; 10_000];
            times.iter().for_each(|&at| counts[at as usize] += 1.0);
            let mean = counts.iter().sum::<f64>() / 10_000.0;
            counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 10_000.0 / mean
        };
        assert!((spread(BenchWorkload::Random) - 1.0).abs() < 0.1, "Poisson");
        assert!(spread(BenchWorkload::Azure) > 3.0);
    }

    #[test]
    fn a_trace_is_followed() {
        let trace = RequestTrace(vec![2, 0, 5]);
        let times = arrivals(BenchWorkload::Azure, 9.0, Some(&trace), 6.0, 1);
        assert_eq!(times.len(), 14, "both times through it");
        let mut settings = settings(BenchWorkload::Azure);
        settings.traces = vec![trace, RequestTrace(vec![10])];
        assert_eq!(rates(&settings, 3), [7.0 / 3.0, 10.0, 7.0 / 3.0]);
    }

    #[test]
    fn nothing_asked_for_is_nothing() {
        assert!(arrivals(BenchWorkload::Azure, 0.0, None, 100.0, 1).is_empty());
        assert!(arrivals(BenchWorkload::Random, 0.0, None, 100.0, 1).is_empty());
    }
}
