//! What a host has room for.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{BenchSettings, demands};
use crate::host::ThreadCounts;

/// Threads of a function beside those that work: its first, and the one that waits for its end.
const OTHERS: u64 = 2;
/// Threads for a request, at most: `parallel` has two.
const EACH: u64 = 2;

/// Raises the limit of open files to the maximum: each function needs two pipes, and measuring needs some fifty files.
pub(super) fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, opening files reports the error later.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Requests that each of so many functions may work on at once: [`BenchSettings::MOST_AT_ONCE`], and fewer where all of them would
/// take more than half of the threads that this host has left. `None` where there are not even enough for one each.
pub fn at_once(functions: u32) -> Option<u32> {
    let most = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limit = ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"].into_iter().filter_map(most).min();
    let threads = ThreadCounts::now().map_or(0, |threads| threads.all);
    shared(limit.unwrap_or(u64::MAX).saturating_sub(threads), functions)
}

/// The same for `left` threads that the host has left.
fn shared(left: u64, functions: u32) -> Option<u32> {
    let each = left / 2 / u64::from(functions.max(1));
    let at_once = each.saturating_sub(OTHERS) / EACH;
    let at_once = u32::try_from(at_once).unwrap_or(u32::MAX).min(BenchSettings::MOST_AT_ONCE);
    (at_once > 0).then_some(at_once)
}

/// Requests that so many functions get in a run of an open loop, on average. `None` in closed loops, which ask for no more
/// than is served.
pub fn requests(settings: &BenchSettings, functions: u32) -> Option<f64> {
    let rates: Option<Vec<f64>> = demands(settings, functions).into_iter().map(|demand| demand.rate).collect();
    Some(rates?.iter().sum::<f64>() * (settings.warm_up + settings.duration).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_threads_that_are_left_are_shared() {
        assert_eq!(shared(1_000_000, 38), Some(BenchSettings::MOST_AT_ONCE));
        // 16,000 threads for 1,000 functions: 16 each, of which 14 work, two for a request.
        assert_eq!(shared(32_000, 1_000), Some(7));
        assert_eq!(shared(32_000, 5_000), None);
        assert_eq!(shared(0, 1), None);
        assert!(at_once(1).is_some(), "this host has room for one");
    }
}
