//! What a function got done.

use serde::{Deserialize, Serialize};

use super::Latencies;

/// What a function got done of the requests that came while it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub offered: u64,
    /// Of those, the ones that were served within [`BenchSettings::IN_TIME`](super::BenchSettings::IN_TIME).
    pub in_time: u64,
    /// Of those, the ones that were not served by the end. Their latency counts as far as it had come.
    pub unfinished: u64,
    /// From when a request came until it was served.
    pub latencies: Latencies,
}

impl Tally {
    pub fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.in_time += other.in_time;
        self.unfinished += other.unfinished;
        self.latencies.merge(&other.latencies);
    }
}
