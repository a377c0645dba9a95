//! What is in a recording, found out without reading all of a long one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;

use super::{Epoch, Footer, Gap, ReadError, Reader};
use crate::model::{CgroupId, Host, Interval, Lost, Nanos, Session, Totals};

/// What is in a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contents {
    /// Host and settings of all intervals.
    pub session: Session,
    pub form: Form,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes per cgroup and interval, from the intervals that were read.
    pub bytes_per_cgroup: Option<f64>,
    /// End time, RFC 3339. `None` if the header has no start time.
    pub ended_at: Option<String>,
    /// Time from the start of the first interval to the end of the last.
    pub span_ns: Nanos,
    pub intervals: u64,
    /// Missing intervals, counted by gaps in their numbers. `None` if not checked.
    pub missing_intervals: Option<u64>,
    /// Intervals that the following sums cover: all, or for long recordings an evenly spread part.
    pub summed_intervals: u64,
    /// The host, summed over these intervals. `None` if there are none.
    pub host: Option<HostSum>,
    pub cgroups: CgroupCounts,
    /// Cgroups with the most CPU time, most first.
    pub by_cpu_time: Vec<CgroupSum>,
    /// Cgroups with the highest switch cost, highest first.
    pub by_switch_cost: Vec<CgroupSum>,
    /// Times in which nothing was measured.
    pub gaps: Vec<DatedGap>,
    /// Events that could not be measured: over the whole recording if it is complete, else over the summed intervals.
    pub lost: Lost,
    /// Footer of the recording. `None` if it was cut off, or is still being written.
    pub footer: Option<Footer>,
    /// Whether it ends in the middle of a line.
    pub is_cut: bool,
}

/// How a recording is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    Plain,
    /// The same packed and compressed.
    Compressed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostSum {
    /// Time of the intervals.
    pub duration_ns: Nanos,
    /// Overhead as a share of the time of all CPUs.
    pub overhead: Option<f64>,
    /// Time in tasks other than idle as a share of that of all CPUs.
    pub cpu_utilisation: f64,
    /// Switches away from tasks other than idle.
    pub task_switches: u64,
}

/// How many cgroups there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CgroupCounts {
    /// Different ones.
    pub ever: u64,
    /// The most in one interval, of those that were counted.
    pub most_at_once: u64,
    /// In an interval on average, of those that were counted. Idle ones are in none.
    pub mean_at_once: f64,
    /// Intervals in which they were counted.
    pub counted_intervals: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CgroupSum {
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: Arc<str>,
    pub name: Arc<str>,
    /// CPU time as accounted by the kernel.
    pub cpu_ns: Nanos,
    /// Pick + swap cost.
    pub switch_cost_ns: Option<Nanos>,
    /// Switches away.
    pub switches: u64,
}

/// A gap, and when that was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatedGap {
    /// When it began, RFC 3339. `None` where the header does not say when the recording began.
    pub began_at: Option<String>,
    #[serde(flatten)]
    pub gap: Gap,
}

impl Contents {
    /// Cgroups that are named in each list.
    const BUSIEST: usize = 5;
    /// Intervals in which cgroups are counted, where intervals are not read one by one.
    const COUNTED: usize = 16;
    /// More than this of lines is not read: it takes a second or two.
    const MOST_PLAIN_BYTES: u64 = 64 << 20;
    /// More than this of chunks is read by their merged intervals.
    const MOST_COMPRESSED_BYTES: u64 = 4 << 20;

    /// Finds out what is in `reader`, whose file has `bytes`. `progress` hears how many of how many steps are done.
    ///
    /// # Errors
    /// When an interval cannot be read.
    pub fn of(reader: &mut Reader, bytes: u64, mut progress: impl FnMut(usize, usize)) -> Result<Self, ReadError> {
        let mut sums = Sums::default();
        if reader.is_compressed() && bytes > Self::MOST_COMPRESSED_BYTES {
            let parts = reader.parts();
            for part in 0..parts {
                sums.add(&reader.merged(part)?);
                progress(part + 1, parts);
            }
            sums.read = reader.len();
            for n in evenly(reader.len(), Self::COUNTED) {
                sums.count(&reader.interval(n)?);
            }
        } else {
            let share = usize::try_from(bytes.div_ceil(Self::MOST_PLAIN_BYTES)).unwrap_or(usize::MAX).max(1);
            let some = evenly(reader.len(), reader.len().div_ceil(share));
            for (done, &n) in some.iter().enumerate() {
                let interval = reader.interval(n)?;
                sums.add(&interval);
                sums.count(&interval);
                progress(done + 1, some.len());
            }
            sums.read = some.len();
        }
        Self::from_sums(reader, bytes, sums)
    }

    fn from_sums(reader: &mut Reader, bytes: u64, sums: Sums) -> Result<Self, ReadError> {
        let session = reader.session().clone();
        let epoch = Epoch::of(&session);
        let intervals = reader.len();
        let (start, end) = match intervals.checked_sub(1) {
            None => (Nanos::ZERO, Nanos::ZERO),
            Some(last) => {
                let last = reader.interval(last)?;
                (reader.start_of(0)?, last.start_ns.saturating_add(last.duration_ns))
            }
        };
        let footer = reader.footer().cloned();
        let cgroup_intervals = sums.counts.mean_at_once * intervals as f64;
        Ok(Self {
            form: if reader.is_compressed() { Form::Compressed } else { Form::Plain },
            bytes,
            bytes_per_cgroup: (cgroup_intervals > 0.0).then_some(bytes as f64 / cgroup_intervals),
            ended_at: match &footer {
                Some(footer) if !footer.ended_at.is_empty() => Some(footer.ended_at.clone()),
                _ => epoch.map(|epoch| epoch.text(end)),
            },
            span_ns: end.saturating_sub(start),
            intervals: intervals as u64,
            missing_intervals: (sums.read == intervals).then_some(sums.missing),
            summed_intervals: sums.read as u64,
            cgroups: CgroupCounts { ever: sums.cgroups.len() as u64, ..sums.counts },
            by_cpu_time: sums.busiest(|totals| Some(totals.cpu_ns)),
            by_switch_cost: sums.busiest(Totals::switch_cost),
            gaps: reader
                .gaps()
                .iter()
                .map(|gap| DatedGap { began_at: epoch.map(|epoch| epoch.text(gap.start_ns)), gap: gap.clone() })
                .collect(),
            lost: match (&footer, &sums.host) {
                (Some(footer), _) => footer.lost,
                (None, Some(host)) => host.lost,
                (None, None) => Lost::default(),
            },
            host: sums.host.as_ref().map(|host| HostSum {
                duration_ns: sums.duration,
                overhead: host.overhead(),
                cpu_utilisation: host.cpu_utilisation(),
                task_switches: host.task_switches(),
            }),
            footer,
            is_cut: reader.is_cut(),
            session,
        })
    }
}

/// `some` of 0 to `all`, the first and the last among them.
fn evenly(all: usize, some: usize) -> BTreeSet<usize> {
    let last = all.saturating_sub(1);
    let steps = some.saturating_sub(1).max(1);
    let at = |n: usize| (last as u128 * n as u128 / steps as u128) as usize;
    (0..some.min(all)).map(at).collect()
}

/// What was read, summed.
#[derive(Debug, Default)]
struct Sums {
    /// Intervals of the recording in it.
    read: usize,
    missing: u64,
    next_seq: Option<u64>,
    duration: Nanos,
    host: Option<Host>,
    cgroups: BTreeMap<CgroupId, (Arc<str>, Arc<str>, Totals)>,
    counts: CgroupCounts,
}

impl Sums {
    /// Adds an interval, which may be several merged.
    fn add(&mut self, interval: &Interval) {
        let missing = self.next_seq.map_or(0, |next| interval.seq.saturating_sub(next));
        self.missing = self.missing.saturating_add(missing);
        self.next_seq = Some(interval.seq.saturating_add(interval.merged).saturating_add(1));
        self.duration = self.duration.saturating_add(interval.duration_ns);
        match &mut self.host {
            Some(host) => host.add(&interval.host),
            None => self.host = Some(interval.host.clone()),
        }
        for cgroup in &interval.cgroups {
            let named = || (Arc::clone(&cgroup.path), Arc::clone(&cgroup.name));
            let add = |sum: &mut (Arc<str>, Arc<str>, Totals)| {
                (sum.0, sum.1) = named();
                sum.2.add_next(&cgroup.totals);
            };
            let new = || (Arc::clone(&cgroup.path), Arc::clone(&cgroup.name), cgroup.totals);
            self.cgroups.entry(cgroup.id).and_modify(add).or_insert_with(new);
        }
    }

    /// Counts the cgroups in an interval.
    fn count(&mut self, interval: &Interval) {
        let (counts, now) = (&mut self.counts, interval.cgroups.len() as u64);
        counts.most_at_once = counts.most_at_once.max(now);
        counts.counted_intervals += 1;
        counts.mean_at_once += (now as f64 - counts.mean_at_once) / counts.counted_intervals as f64;
    }

    /// The cgroups with the most of a time.
    fn busiest(&self, time: fn(&Totals) -> Option<Nanos>) -> Vec<CgroupSum> {
        let mut all: Vec<_> = self
            .cgroups
            .iter()
            .filter_map(|(&id, sum)| Some((time(&sum.2).filter(|time| *time > Nanos::ZERO)?, id, sum)))
            .collect();
        all.sort_by_key(|&(time, id, _)| (Reverse(time), id));
        all.truncate(Contents::BUSIEST);
        all.into_iter()
            .map(|(_, id, (path, name, totals))| CgroupSum {
                id,
                path: Arc::clone(path),
                name: Arc::clone(name),
                cpu_ns: totals.cpu_ns,
                switch_cost_ns: totals.switch_cost(),
                switches: totals.switches,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_go_back_and_forth_are_summed_as_far_as_numbers_go() {
        let mut sums = Sums::default();
        for seq in [0, u64::MAX, 0, u64::MAX] {
            sums.add(&Interval { seq, ..Interval::default() });
        }
        assert_eq!(sums.missing, u64::MAX);
    }
}
