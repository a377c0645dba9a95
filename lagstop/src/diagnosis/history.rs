//! The host over time, in as many moments as a picture shows.

use std::{collections::BTreeMap, net::SocketAddr};

use super::HostSample;
use crate::model::Interval;

/// Inode number of the network namespace, address and port.
pub(super) type Address = (u32, SocketAddr);

/// The most moments that are kept. Beyond it, every two are merged.
const MOST: usize = 240;

/// What happened in some intervals that follow each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryPiece {
    /// When it began, in seconds since the recording did.
    pub begins: f64,
    /// How long it is, in seconds.
    pub duration: f64,
    pub sample: HostSample,
    /// Tasks on each CPU, running and waiting ones, on average: their time, and the time there was, in nanoseconds.
    pub cpus: BTreeMap<u32, (f64, f64)>,
    /// The most connections that waited at a listener. Those where none did are left out.
    pub backlogs: BTreeMap<Address, u64>,
}

impl HistoryPiece {
    fn of(interval: &Interval) -> Self {
        let cpu = |cpu: &crate::model::Cpu| {
            let runnable = cpu.totals.busy_ns.0 as f64 + cpu.totals.runq_wait_ns.unwrap_or_default().0 as f64;
            (cpu.cpu, (runnable, cpu.totals.busy_ns.0 as f64 + cpu.totals.idle_ns.0 as f64))
        };
        let backlogs = interval.listeners.iter().filter_map(|listener| {
            let backlog = listener.backlog.filter(|&backlog| backlog > 0)?;
            Some(((listener.netns, listener.address), backlog))
        });
        Self {
            begins: interval.start_ns.seconds(),
            duration: interval.duration_ns.seconds(),
            sample: HostSample::from(&interval.host),
            cpus: interval.cpus.iter().map(cpu).collect(),
            backlogs: backlogs.collect(),
        }
    }

    fn add(&mut self, next: &Self) {
        self.duration += next.duration;
        self.sample = HostSample::sum([&self.sample, &next.sample]);
        for (&cpu, &(runnable, capacity)) in &next.cpus {
            let sum = self.cpus.entry(cpu).or_default();
            *sum = (sum.0 + runnable, sum.1 + capacity);
        }
        for (&listener, &backlog) in &next.backlogs {
            let most = self.backlogs.entry(listener).or_default();
            *most = backlog.max(*most);
        }
    }
}

/// The host over time.
#[derive(Clone, Debug)]
pub(super) struct History {
    moments: Vec<HistoryPiece>,
    /// Number of intervals in each moment but the last, and in the last.
    each: u64,
    in_last: u64,
    /// Start of the recording that is being added, in seconds since the start of the first one.
    begins: f64,
}

impl Default for History {
    fn default() -> Self {
        Self { moments: Vec::new(), each: 1, in_last: 0, begins: 0.0 }
    }
}

impl History {
    pub(super) fn moments(&self) -> &[HistoryPiece] {
        &self.moments
    }

    /// Continues with another recording, whose times start at 0 again: it follows directly after the last one.
    pub(super) fn begin(&mut self) {
        self.begins = self.moments.last().map_or(0.0, |last| last.begins + last.duration);
    }

    pub(super) fn add(&mut self, interval: &Interval) {
        let mut moment = HistoryPiece::of(interval);
        moment.begins += self.begins;
        match self.moments.last_mut().filter(|_| self.in_last < self.each) {
            Some(last) => {
                last.add(&moment);
                self.in_last += 1;
            }
            None => {
                if self.moments.len() >= MOST {
                    self.halve();
                }
                self.moments.push(moment);
                self.in_last = 1;
            }
        }
    }

    fn halve(&mut self) {
        self.moments = self
            .moments
            .chunks(2)
            .map(|pair| {
                let mut moment = pair[0].clone();
                pair[1..].iter().for_each(|next| moment.add(next));
                moment
            })
            .collect();
        self.each *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    #[test]
    fn a_long_recording_is_a_picture_without_a_hole() {
        let mut history = History::default();
        let intervals = fixture::full_of_problems();
        for seq in 0..3_000u64 {
            let mut interval = intervals[seq as usize % intervals.len()].clone();
            interval.start_ns = crate::model::Nanos(seq * 1_000_000_000);
            history.add(&interval);
        }
        let moments = history.moments();
        assert!(moments.len() <= MOST && moments.len() > MOST / 2, "{}", moments.len());
        assert!((moments.iter().map(|moment| moment.duration).sum::<f64>() - 3_000.0).abs() < 1e-6);
        for pair in moments.windows(2) {
            assert!((pair[0].begins + pair[0].duration - pair[1].begins).abs() < 1e-6, "{pair:?}");
        }
        assert_eq!(moments[0].backlogs.len(), 1);
    }
}
