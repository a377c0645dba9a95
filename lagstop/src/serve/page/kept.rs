//! The last moments, so that the page can go back in time.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::PageMoment;
use crate::{
    diagnosis::Severity,
    model::{CgroupId, CgroupNow, Nanos},
};

/// Bytes of memory for moments.
const MOST_BYTES: usize = 4 << 20;
/// How much zstd tries: moments are text, which its fastest level makes small already.
const LEVEL: i32 = 1;
/// What the fields mean.
const SCHEMA: &str = "lagstop.history/1";

/// The last moments.
#[derive(Debug, Default)]
pub(in crate::serve) struct Moments(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    moments: VecDeque<Past>,
    /// Bytes of memory that they take.
    bytes: usize,
    /// The last one as it is sent.
    newest: Option<(u64, Bytes)>,
    /// Is nothing measured at the moment, because all is calm?
    is_calm: bool,
    /// Number of the next moment: none is given twice.
    next: u64,
}

/// A moment, as it is kept.
#[derive(Debug)]
struct Past {
    /// What the history says of it, but for a cgroup.
    point: Point,
    /// What the history may be asked for.
    cgroups: Box<[(CgroupId, CgroupPoint)]>,
    /// As it is sent, compressed.
    body: Bytes,
}

/// What was, moment by moment, of the host and of one cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(in crate::serve) struct History {
    /// What the fields mean; the number goes up when one of them changes its meaning or goes away.
    schema: &'static str,
    /// The moments that are kept, the oldest first.
    points: Vec<Point>,
}

/// A moment, in short.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Point {
    /// Number of the moment.
    n: u64,
    /// Its end, in milliseconds since 1970.
    ended_at_ms: u64,
    /// How bad it was. `None` if it was too early to tell.
    severity: Option<Severity>,
    /// Average number of tasks that waited for a CPU. `None` if not measured.
    waiting: Option<f64>,
    /// The cgroup that was asked for. `None` if none was, or if it was not among those that are shown.
    cgroup: Option<CgroupPoint>,
}

/// A cgroup at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
struct CgroupPoint {
    /// CPU time, in cores.
    cpu: f64,
    /// Average number of its tasks that waited for a CPU. `None` if not measured.
    waiting: Option<f64>,
    /// 99th percentile of its run-queue waits, in nanoseconds. `None` if it had none, or if they were not measured.
    wait_p99_ns: Option<Nanos>,
}

impl Moments {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, moment: &PageMoment) {
        // Text and figures: it can be written as JSON.
        let body: Bytes = serde_json::to_vec(moment).unwrap_or_default().into();
        let past = Past::of(moment, &body);
        let mut kept = self.kept();
        kept.newest = Some((moment.n, body));
        kept.next = moment.n + 1;
        kept.is_calm = false;
        if let Some(past) = past {
            kept.bytes += past.weight();
            kept.moments.push_back(past);
        }
        while kept.bytes > MOST_BYTES
            && let Some(oldest) = kept.moments.pop_front()
        {
            kept.bytes = kept.bytes.saturating_sub(oldest.weight());
        }
    }

    pub(super) fn clear(&self) {
        let mut kept = self.kept();
        *kept = Kept { next: kept.next, ..Kept::default() };
    }

    /// Number of the next moment.
    pub(super) fn next(&self) -> u64 {
        self.kept().next
    }

    /// There will be no moments for a while.
    pub(super) fn calm(&self) {
        self.kept().is_calm = true;
    }

    pub(in crate::serve) fn is_calm(&self) -> bool {
        self.kept().is_calm
    }

    /// The last moment: its number, and how it is sent. `None` before the first.
    pub(in crate::serve) fn newest(&self) -> Option<(u64, Bytes)> {
        self.kept().newest.clone()
    }

    /// The `n`th moment, as it is sent. `None` where it is not kept.
    pub(in crate::serve) fn at(&self, n: u64) -> Option<Bytes> {
        let kept = self.kept();
        let at = kept.moments.binary_search_by_key(&n, |past| past.point.n).ok()?;
        let body = kept.moments[at].body.clone();
        drop(kept);
        zstd::decode_all(&*body).ok().map(Into::into)
    }

    /// All that is kept, in short, with the figures of one cgroup.
    pub(in crate::serve) fn history(&self, id: Option<CgroupId>) -> History {
        let point = |past: &Past| Point { cgroup: id.and_then(|id| past.cgroup(id)), ..past.point.clone() };
        History { schema: SCHEMA, points: self.kept().moments.iter().map(point).collect() }
    }
}

impl Past {
    /// The moment that is sent as `body`. `None` if zstd fails.
    fn of(moment: &PageMoment, body: &[u8]) -> Option<Self> {
        let point = Point {
            n: moment.n,
            ended_at_ms: moment.ended_at_ms,
            severity: moment.verdict.as_ref().map(|verdict| verdict.severity),
            waiting: moment.host.waiting,
            cgroup: None,
        };
        let cgroup = |cgroup: &CgroupNow| {
            let CgroupNow { id, cpu, waiting, wait_p99_ns, .. } = *cgroup;
            (id, CgroupPoint { cpu, waiting, wait_p99_ns })
        };
        let body = zstd::bulk::compress(body, LEVEL).ok()?;
        Some(Self { point, cgroups: moment.cgroups.iter().map(cgroup).collect(), body: body.into_boxed_slice().into() })
    }

    fn cgroup(&self, id: CgroupId) -> Option<CgroupPoint> {
        self.cgroups.iter().find(|(its, _)| *its == id).map(|(_, point)| *point)
    }

    /// Bytes of memory that it takes.
    fn weight(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.cgroups) + self.body.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnosis::Thresholds, model::fixture, serve::page::maker::Maker};

    fn watched(count: usize) -> Moments {
        let mut maker = Maker::new(fixture::session(), &Thresholds::default(), 0);
        let interval = &fixture::overloaded(1)[0];
        let moments = Moments::default();
        (0..count).for_each(|_| moments.add(&maker.moment(interval.clone(), 0)));
        moments
    }

    #[test]
    fn what_was_can_be_asked_for_as_long_as_it_is_kept() {
        let moments = watched(10);
        let at = |n: u64| {
            let moment: serde_json::Value = serde_json::from_slice(&moments.at(n)?).unwrap();
            moment["n"].as_u64()
        };
        assert_eq!([at(0), at(9), at(10)], [Some(0), Some(9), None]);
        assert_eq!(moments.at(9), moments.newest().map(|(_, body)| body));
        let id = moments.kept().moments[0].cgroups[0].0;
        let history = moments.history(Some(id));
        assert!(history.points.len() == 10 && history.points[4].cgroup.is_some());
        let validator = jsonschema::validator_for(&super::super::schema()).unwrap();
        assert!(validator.is_valid(&serde_json::to_value(&history).unwrap()));
        assert!(moments.history(Some(CgroupId(u64::MAX))).points[4].cgroup.is_none());
        let nothing = Moments::default();
        assert!(nothing.newest().is_none() && nothing.at(0).is_none() && nothing.history(None).points.is_empty());
    }

    #[test]
    fn memory_has_a_limit() {
        let one = watched(1).kept().moments[0].weight();
        let count = MOST_BYTES / one * 2;
        let moments = watched(count);
        let kept = moments.kept();
        assert!(kept.moments.len() < count && kept.bytes <= MOST_BYTES, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.moments.iter().map(Past::weight).sum::<usize>());
        assert_eq!(kept.moments.back().unwrap().point.n, count as u64 - 1);
    }
}
