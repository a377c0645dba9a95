//! What the rules evaluate: a recording, summed up interval by interval.

mod behind;
mod cgroup;
mod crowded;
mod listener;
mod schedulers;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

pub(super) use behind::Long;
pub(super) use cgroup::Observed;
pub(super) use crowded::Crowded;
pub(super) use listener::ObservedListener;
pub(super) use schedulers::Schedulers;

use super::{
    Density, HostSample, Span, Subject, Thresholds,
    asked::Asked,
    confidence::Basis,
    during::During,
    history::{Address, History},
    rated::{credits, is_rated},
};
use crate::{
    model::{CgroupId, Cores, Host, Interval, Nanos, Session, Totals},
    units::{self, Unit},
};

/// The least CPU time, or wait, that a cgroup's ratios mean anything from, in cores. Chosen: 10 ms in each second.
pub(super) const NOTABLE: f64 = 0.01;
/// Time that CPUs account for / elapsed time, outside of which a caveat says so. Chosen: a tenth off.
const ACCOUNTED: Range<f64> = 0.9..1.1;

/// A recording, summed up interval by interval. Takes a few words of memory per interval, however many cgroups there
/// are.
#[derive(Clone, Debug)]
pub struct Observations {
    pub(super) session: Session,
    pub(super) span: Span,
    /// All intervals added up; `None` of none.
    pub(super) host: Option<Host>,
    /// Each interval of the host.
    pub(super) samples: Vec<HostSample>,
    /// The same, with how many cgroups ran, of those in which costs were measured.
    pub(super) densities: Vec<Density>,
    pub(super) cgroups: BTreeMap<CgroupId, Observed>,
    /// What the cgroups asked of the CPUs.
    pub(super) asked: Asked,
    pub(super) history: History,
    pub(super) schedulers: Schedulers,
    /// CPUs that were online in the last interval with a list of CPUs.
    cpu_numbers: Vec<u32>,
    pub(super) listeners: BTreeMap<Address, ObservedListener>,
    /// Connections that found the accept queue of some listener full, by network namespace. `None` where that was never
    /// known.
    pub(super) overflows: BTreeMap<u32, Option<u64>>,
    next_seq: Option<u64>,
    /// Total time of the merged intervals, and the length of the longest.
    merged_ns: Nanos,
    longest_merged_ns: Nanos,
}

impl Observations {
    /// Of a stream that was measured like this.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            span: Span::NONE,
            host: None,
            samples: Vec::new(),
            densities: Vec::new(),
            cgroups: BTreeMap::new(),
            asked: Asked::default(),
            history: History::default(),
            schedulers: Schedulers::default(),
            cpu_numbers: Vec::new(),
            listeners: BTreeMap::new(),
            overflows: BTreeMap::new(),
            next_seq: None,
            merged_ns: Nanos::ZERO,
            longest_merged_ns: Nanos::ZERO,
        }
    }

    /// How it was measured.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Begins with another recording of the same host, whose intervals count anew.
    pub fn begin(&mut self) {
        self.next_seq = None;
        self.history.begin();
    }

    /// How much there is of it.
    pub const fn span(&self) -> Span {
        self.span
    }

    pub fn add(&mut self, interval: &Interval) {
        let start = self.span.duration_ns;
        self.span.intervals += 1;
        self.span.duration_ns = Nanos(self.span.duration_ns.0.saturating_add(interval.duration_ns.0));
        self.span.merged_intervals = self.span.merged_intervals.saturating_add(interval.merged);
        if interval.merged > 0 {
            self.merged_ns = self.merged_ns.saturating_add(interval.duration_ns);
            self.longest_merged_ns = self.longest_merged_ns.max(interval.duration_ns);
        }
        self.span.skipped_intervals = self
            .span
            .skipped_intervals
            .saturating_add(self.next_seq.map_or(0, |next| interval.seq.saturating_sub(next)));
        self.next_seq = Some(interval.seq.saturating_add(interval.merged).saturating_add(1));
        self.samples.push(HostSample::from(&interval.host));
        self.densities.extend(Density::of(interval));
        match &mut self.host {
            Some(host) => host.add(&interval.host),
            None => self.host = Some(interval.host.clone()),
        }
        for cgroup in &interval.cgroups {
            self.cgroups
                .entry(cgroup.id)
                .and_modify(|observed| observed.add(cgroup))
                .or_insert_with(|| Observed::new(cgroup));
        }
        self.asked.add(interval);
        self.history.add(interval);
        self.schedulers.add(&self.session, interval);
        if !interval.cpus.is_empty() {
            self.cpu_numbers = interval.cpus.iter().map(|cpu| cpu.cpu).collect();
        }
        for (id, needless) in crowded::needless(interval) {
            if let Some(observed) = self.cgroups.get_mut(&id) {
                observed.crowded.add(&needless);
            }
        }
        self.rate(interval);
        let entitled = interval.entitled_cpu(self.session.cgroup_mode());
        self.entitle(interval, &entitled);
        for listener in &interval.listeners {
            self.listeners.entry((listener.netns, listener.address)).or_default().add(listener, interval.duration_ns);
        }
        for namespace in &interval.network_namespaces {
            let known = self.overflows.entry(namespace.netns).or_default();
            if let Some(more) = namespace.listen_overflows {
                *known = Some(known.unwrap_or_default().saturating_add(more));
            }
        }
        for cgroup in &interval.cgroups {
            if let Some(observed) = self.cgroups.get_mut(&cgroup.id) {
                observed.limit(cgroup, interval.duration_ns);
            }
        }
        self.blame(interval, start, &entitled);
    }

    /// Adds whom the cgroups that waited long in this interval waited behind. It began at `start`.
    fn blame(&mut self, interval: &Interval, start: Nanos, entitled: &[Option<Cores>]) {
        let mut rows: Option<HashMap<CgroupId, usize>> = None;
        for victim in &interval.cgroups {
            for culprit in behind::causes_of_long(victim, interval.duration_ns) {
                let all = || interval.cgroups.iter().enumerate().map(|(row, cgroup)| (cgroup.id, row)).collect();
                let row = rows.get_or_insert_with(all).get(&culprit);
                let row = row.map(|&row| (&interval.cgroups[row], entitled.get(row).copied().flatten()));
                if let Some(observed) = self.cgroups.get_mut(&victim.id) {
                    observed.behind.add_long(victim, (culprit, row), (start, interval.duration_ns));
                }
            }
        }
    }

    /// Rates cgroups as light or heavy in this interval: below or above the mean Load Credit of all that were runnable.
    fn rate(&mut self, interval: &Interval) {
        let (credits, fair) = credits(interval);
        let duration = interval.duration_ns.0 as f64;
        for (id, credit) in credits {
            if let Some(observed) = self.cgroups.get_mut(&id) {
                observed.rated_ns += duration;
                observed.credit_ns += credit * duration;
                observed.light_ns += if credit < fair { duration } else { 0.0 };
            }
        }
    }

    /// Adds what each cgroup was entitled to in this interval.
    fn entitle(&mut self, interval: &Interval, entitled: &[Option<Cores>]) {
        for (cgroup, entitled) in interval.cgroups.iter().zip(entitled) {
            if let Some((observed, entitled)) = self.cgroups.get_mut(&cgroup.id).zip(*entitled) {
                observed.entitled_ns += entitled.0 * interval.duration_ns.0 as f64;
                observed.entitled_cpu_ns += cgroup.totals.cpu_ns.0 as f64;
                observed.entitled_during_ns += interval.duration_ns.0 as f64;
            }
        }
    }

    /// The cgroups of a subject: itself, and all that are inside of it.
    pub(super) fn inside<'s>(&'s self, subject: &'s Subject) -> impl Iterator<Item = &'s Observed> {
        let is_one = move |of: CgroupId, observed: &Observed| match subject {
            Subject::Cgroup { path, .. } => is_rated(of) && is_inside(&observed.path, path),
            Subject::Host | Subject::Listener { .. } => false,
        };
        self.cgroups.iter().filter(move |(id, observed)| is_one(**id, observed)).map(|(_, observed)| observed)
    }

    /// The basis of a finding on all waits.
    pub(super) fn basis_of_waits(&self) -> Basis {
        Basis {
            intervals: self.span.intervals,
            samples: self.host.as_ref().and_then(|host| host.totals.runq_waits).unwrap_or_default(),
            samples_are: "waits",
            agreeing: None,
            lost: 0,
        }
    }

    /// CPU time of a cgroup and all inside of it, in cores.
    pub fn cores_inside(&self, path: &str) -> f64 {
        let inside = self.cgroups.values().filter(|observed| is_inside(&observed.path, path));
        inside.map(|observed| observed.totals.cpu_ns.cores(self.span.duration_ns).0).sum()
    }

    /// Why the recording is too short for any verdict: too few intervals, or no time in them. `None` if it is long
    /// enough.
    pub(super) fn too_short(&self, thresholds: &Thresholds) -> Option<String> {
        let (intervals, needed) = (self.span.intervals, thresholds.min_intervals);
        if intervals < needed {
            let needed = units::plural(needed, "interval");
            return Some(format!("this needs at least {needed} (measured: {intervals})"));
        }
        let has_time = self.span.duration_ns > Nanos::ZERO && self.whole().capacity_ns > 0.0 && self.cpus() > 0;
        (!has_time).then(|| "the intervals have no CPU time".to_owned())
    }

    /// Does the recording have figures of single CPUs?
    pub(super) fn has_cpus(&self) -> bool {
        !self.cpu_numbers.is_empty()
    }

    /// The readable name of a cgroup.
    pub(super) fn name_of(&self, id: CgroupId) -> String {
        self.cgroups.get(&id).map_or_else(|| format!("cgroup {}", id.0), |observed| observed.subject(id).to_string())
    }

    /// The number of cgroups that ran or wanted to.
    pub(super) fn active(&self) -> u64 {
        self.cgroups.iter().filter(|(id, observed)| is_rated(**id) && observed.totals.cpu_ns > Nanos::ZERO).count()
            as u64
    }

    /// The number of CPUs online at the end of the last interval.
    pub(super) fn cpus(&self) -> u64 {
        self.host.as_ref().map_or(self.session.cpus_online, |host| host.cpus_online)
    }

    /// Numbers of these CPUs. Counted from 0 if the recording does not have them.
    pub(super) fn cpu_numbers(&self) -> Vec<u32> {
        let count = u32::try_from(self.cpus()).unwrap_or(0).min(1 << 16);
        if self.cpu_numbers.len() as u64 == self.cpus() { self.cpu_numbers.clone() } else { (0..count).collect() }
    }

    /// The sum over all intervals of the host.
    pub(super) fn whole(&self) -> HostSample {
        HostSample::sum(&self.samples)
    }

    /// The sum over all tasks but idle.
    pub(super) fn tasks(&self) -> Option<Totals> {
        self.cgroups.values().map(|observed| observed.totals).reduce(|mut sum, totals| {
            sum.add(&totals);
            sum
        })
    }

    /// How long something happened, in words. For merged intervals this is rough: each of them only has the average.
    pub(super) fn how_long(&self, during: &During) -> String {
        let rough = if self.span.merged_intervals > 0 { " about" } else { "" };
        format!(" for{rough} {}", during.how_long(self.span.duration_ns))
    }

    /// What cannot be judged because of how the recording was made or read, a sentence each.
    pub(super) fn not_judged(&self) -> Vec<String> {
        let Span { duration_ns, skipped_intervals, .. } = self.span;
        let seconds = |time: Nanos| Unit::Seconds.show(time.seconds());
        let mut all = Vec::new();
        if self.merged_ns > Nanos::ZERO {
            let (merged, longest) = (seconds(self.merged_ns), seconds(self.longest_merged_ns));
            all.push(format!(
                "bursts, overload and noisy neighbours that lasted less than {longest}, in {merged} of {}: only averages of merged \
                 intervals are left of that time.",
                seconds(duration_ns)
            ));
        }
        if !self.asked.is_whole() {
            all.push(
                "whether the CPUs were too few for only a part of the time: the recording has too many intervals and cgroups to \
                 keep all for that."
                    .to_owned(),
            );
        }
        if skipped_intervals > 0 {
            all.push(format!("{} that the recording lacks in between.", units::plural(skipped_intervals, "interval")));
        }
        all
    }

    /// Caveats that concern every figure.
    pub(super) fn common_caveats(&self) -> Vec<String> {
        let Some(host) = &self.host else { return Vec::new() };
        let mut caveats = Vec::new();
        let capacity = self.whole().capacity_ns;
        let wall = self.span.duration_ns.0 as f64 * self.cpus() as f64;
        if wall > 0.0 && !ACCOUNTED.contains(&(capacity / wall)) {
            caveats.push(format!(
                "CPUs account for {} of the elapsed time, because CPUs that rarely switch report late.",
                units::percent(capacity / wall)
            ));
        }
        let steal = host.times.steal_ns.unwrap_or_default().0 as f64;
        if steal > 0.0 {
            caveats.push(format!(
                "The hypervisor took {} of the CPU time ({}); within a switch or a wait, that time counts as part of \
                 it.",
                units::percent(steal / capacity.max(wall).max(1.0)),
                host.times.steal_ns.unwrap_or_default()
            ));
        }
        let excluded = &self.session.excluded_cpus;
        if !excluded.is_empty() {
            caveats.push(format!(
                "CPU{} {} {} excluded: what ran or waited there is in no figure.",
                units::ending(excluded.len() as u64),
                units::show_cpus(excluded),
                if excluded.len() == 1 { "was" } else { "were" }
            ));
        }
        for (count, what) in [
            (host.lost.entries, "switches without pick cost (entry not seen)"),
            (host.lost.switches, "switches without cost (not reported by the kernel)"),
            (host.lost.task_states, "task states (waits may be understated)"),
            (host.lost.cgroup_overflows, "separate cgroup entries (counted under (other), because the table was full)"),
        ] {
            if count > 0 {
                caveats.push(format!("Lost: {} {what}.", units::count(count)));
            }
        }
        if self.span.merged_intervals > 0 {
            caveats.push(format!(
                "{} were merged into {}, so shorter changes in load do not show.",
                units::plural(self.span.intervals.saturating_add(self.span.merged_intervals), "interval"),
                units::count(self.span.intervals)
            ));
        }
        if self.span.skipped_intervals > 0 {
            caveats.push(format!(
                "The recording lacks {} in between.",
                units::plural(self.span.skipped_intervals, "interval")
            ));
        }
        caveats
    }

    /// Lost events that may bias costs.
    pub(super) fn lost_switches(&self) -> u64 {
        let lost = self.host.as_ref().map(|host| host.lost).unwrap_or_default();
        lost.entries.saturating_add(lost.switches)
    }
}

/// Is `path` the cgroup `of`, or inside of it?
pub(crate) fn is_inside(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixture, merge};

    #[test]
    fn missing_lines_of_a_recording_are_counted() {
        let mut observations = Observations::new(fixture::session());
        for interval in fixture::idle(10).iter().filter(|i| ![3, 4, 7].contains(&i.seq)) {
            observations.add(interval);
        }
        assert_eq!((observations.span.intervals, observations.span.skipped_intervals), (7, 3));
        assert!(observations.common_caveats().iter().any(|caveat| caveat.contains("lacks 3 intervals")));
    }

    #[test]
    fn merged_intervals_are_none_that_are_missing() {
        let mut observations = Observations::new(fixture::session());
        for part in fixture::idle(12).chunks(4).take(2) {
            observations.add(&merge(Nanos::SECOND, part).unwrap());
        }
        observations.add(&fixture::idle(12)[9]);
        let Span { intervals, merged_intervals, skipped_intervals, .. } = observations.span;
        assert_eq!((intervals, merged_intervals, skipped_intervals), (3, 6, 1));
        assert!(
            observations.common_caveats().iter().any(|caveat| caveat.starts_with("9 intervals were merged into 3"))
        );
    }

    #[test]
    fn what_merged_and_missing_intervals_hide_is_said() {
        let mut observations = Observations::new(fixture::session());
        fixture::idle(10).iter().for_each(|interval| observations.add(interval));
        assert_eq!(observations.not_judged(), [""; 0]);
        let mut observations = Observations::new(fixture::session());
        let all = fixture::idle(30);
        for part in all[..20].chunks(10) {
            observations.add(&merge(Nanos::SECOND, part).unwrap());
        }
        all[21..].iter().for_each(|interval| observations.add(interval));
        let said = observations.not_judged();
        assert!(said[0].contains("that lasted less than 10.0 s, in 20.0 s of 29.0 s"), "{said:?}");
        assert_eq!(said[1], "1 interval that the recording lacks in between.");
        let headline = observations.diagnose(&Thresholds::default()).verdict.headline;
        assert!(headline.starts_with("Healthy on average: "), "{headline}");
        let mut during = During::default();
        during.add(Nanos::ZERO, Nanos(5 * Nanos::SECOND.0));
        assert_eq!(observations.how_long(&during), " for about 5.00 s of 29.0 s");
    }

    #[test]
    fn what_a_recording_is_too_long_for_is_said() {
        let mut observations = Observations::new(fixture::session());
        let intervals = fixture::overloaded(40);
        (0..60_000).for_each(|n| observations.add(&intervals[n % intervals.len()]));
        assert!(
            observations.not_judged()[0].contains("too many intervals and cgroups"),
            "{:?}",
            observations.not_judged()
        );
    }

    #[test]
    fn the_sum_is_that_of_the_intervals() {
        let intervals = fixture::overloaded(8);
        let mut observations = Observations::new(fixture::session());
        intervals.iter().for_each(|interval| observations.add(interval));
        let host = observations.host.as_ref().unwrap();
        assert_eq!(host.times.busy_ns, intervals.iter().map(|i| i.host.times.busy_ns).sum());
        assert_eq!(host.totals.switches, intervals.iter().map(|i| i.host.totals.switches).sum::<u64>());
        let whole = observations.whole();
        assert!((whole.overhead().unwrap() - host.overhead().unwrap()).abs() < 1e-12);
        assert_eq!(Nanos(whole.mean_cost_ns().unwrap() as u64), host.mean_switch_cost().unwrap());
    }
}
