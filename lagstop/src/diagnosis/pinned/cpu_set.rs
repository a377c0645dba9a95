//! CPU sets that are full while other CPUs are idle: the cgroups that may use no others wait for each other.

use std::{collections::BTreeMap, sync::Arc};

use super::{figures, is_narrow, on_full_cpus, wait_for_cpus};
use crate::{
    diagnosis::{
        Advice, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds, confidence::Basis, is_inside,
        noisy_neighbour, observations::Observed, overload, rated::is_rated,
    },
    model::{CgroupId, Group, Nanos},
    units::{self, MOSTLY},
};

/// The most cgroups that are named, and that are kept as culprits.
const NAMED: usize = 3;
const CULPRITS: usize = 32;

/// A full CPU set.
pub(super) struct CpuSet<'a> {
    /// Its CPUs, in the kernel's list format.
    list: &'a str,
    cpus: usize,
    /// All cgroups that ran and may use no other CPUs, sorted by the CPU time that they ask for.
    members: Vec<(CgroupId, &'a Observed)>,
    /// The members that wait long, the longest first.
    waiting: Vec<(CgroupId, &'a Observed)>,
}

impl<'a> CpuSet<'a> {
    /// CPU sets in which a cgroup waits long for that reason.
    pub(super) fn all(observations: &'a Observations, thresholds: &Thresholds) -> Vec<Self> {
        let online = observations.cpu_numbers();
        let mut by_list: BTreeMap<&str, Vec<(CgroupId, &Observed)>> = BTreeMap::new();
        for (&id, observed) in observations.cgroups.iter().filter(|(id, _)| is_rated(**id)) {
            if let Some(list) = observed.cpus.as_deref().filter(|list| is_narrow(list, &online)) {
                by_list.entry(list).or_default().push((id, observed));
            }
        }
        let set = |(list, mut members): (&'a str, Vec<(CgroupId, &'a Observed)>)| {
            members.sort_by_key(|(id, observed)| (std::cmp::Reverse(observed.asked_ns()), *id));
            let mut waiting: Vec<(CgroupId, &Observed)> =
                members.iter().copied().filter(|(_, it)| Self::has_made_wait(observations, it, thresholds)).collect();
            waiting.sort_by_key(|(id, observed)| (std::cmp::Reverse(wait_for_cpus(observed)), *id));
            let cpus = Group::allowed(list, &online).iter().filter(|is_allowed| **is_allowed).count();
            (!waiting.is_empty()).then_some(Self { list, cpus, members, waiting })
        };
        by_list.into_iter().filter_map(set).collect()
    }

    /// Does it wait long, mostly while all CPUs of its CPU set were full and others idle?
    pub(super) fn has_made_wait(observations: &Observations, observed: &Observed, thresholds: &Thresholds) -> bool {
        2 * observed.crowded.in_full_set >= observed.crowded.intervals
            && observed.crowded.in_full_set > 0
            && observed.waits_long(observations.span.duration_ns, thresholds)
            && on_full_cpus(observed).is_some_and(|part| part >= MOSTLY)
    }

    /// For ranking: the wait of all members that wait long.
    pub(super) fn wait(&self) -> f64 {
        self.waiting.iter().map(|(_, observed)| wait_for_cpus(observed).0 as f64).sum()
    }

    /// The cgroup that has the CPU set: the one that is or contains all members, if all cgroups inside of it are
    /// confined like this.
    fn owner(&self, observations: &Observations) -> Option<Subject> {
        let (_, first) = self.members.first()?;
        let has_all = |path: &&str| self.members.iter().all(|(_, it)| is_inside(&it.path, path));
        let ends = first.path.match_indices('/').map(|(end, _)| end).filter(|end| *end > 0).chain([first.path.len()]);
        let path = ends.map(|end| &first.path[..end]).rfind(has_all)?;
        let inside = observations.cgroups.iter().filter(|(id, it)| is_rated(**id) && is_inside(&it.path, path));
        let is_confined = |it: &Observed| it.cpus.as_deref().is_none_or(|list| list == self.list);
        if path.len() < 2 || !inside.map(|(_, it)| it).all(is_confined) {
            return None;
        }
        let own = self.members.iter().find(|(_, it)| &*it.path == path);
        Some(match own {
            Some((id, observed)) => observed.subject(*id),
            None => Subject::Cgroup { id: None, path: Arc::from(path), name: Arc::from(path) },
        })
    }

    pub(super) fn finding(&self, observations: &Observations, thresholds: &Thresholds) -> Finding {
        let duration = observations.span.duration_ns;
        let subjects = || self.members.iter().map(|(id, observed)| observed.subject(*id));
        let names = overload::names(subjects().take(NAMED), self.members.len() as u64);
        let asked = self.members.iter().filter_map(|(_, it)| it.asked_ns()).sum::<Nanos>().cores(duration).0;
        let sum = |of: fn(&Observed) -> Nanos| self.waiting.iter().map(|(_, it)| of(it)).sum::<Nanos>().0 as f64;
        let (wait, cpu) = (sum(wait_for_cpus), sum(|it| it.totals.cpu_ns));
        let (_, worst) = self.waiting[0];
        let idle = worst.crowded.idle_cores();
        let owner = self.owner(observations);
        let list = self.list;
        let (set, who) = match &owner {
            Some(owner) if self.members.len() == 1 => {
                (format!("The CPU set of {owner} (CPUs {list})"), "it asks".into())
            }
            Some(owner) => (format!("The CPU set of {owner} (CPUs {list})"), format!("{names} in it ask")),
            None => (format!("The CPU set {list}"), format!("{names}, which may use no other CPUs, ask")),
        };
        let verdict = format!(
            "{set} is full: {who} for {} CPUs and it has {}, while {} of {} on this host are idle. {} {} {} of {} runnable time.",
            units::number(asked),
            self.cpus,
            units::number(idle),
            units::plural(observations.cpus(), "CPU"),
            if self.members.len() == 1 { "It".to_owned() } else { units::plural(self.waiting.len() as u64, "cgroup") },
            if self.waiting.len() == 1 { "waits" } else { "wait" },
            units::percent(wait / (wait + cpu)),
            if self.waiting.len() == 1 { "its" } else { "their" },
        );
        let harm = |(_, it): &(CgroupId, &Observed)| {
            overload::harm(wait_for_cpus(it).0 as f64 / (it.totals.cpu_ns.0 as f64).max(1.0), thresholds)
        };
        Finding {
            rule: Rule::Pinned,
            severity: self.waiting.iter().map(harm).max().unwrap_or(Severity::Info),
            culprits: subjects().take(CULPRITS).collect(),
            measured: vec![
                figures::set_asked
                    .is(asked)
                    .note(format!("of {} in the CPU set", units::plural(self.cpus as u64, "CPU"))),
                figures::idle_cpus.is(idle).note(format!("of {}", units::plural(observations.cpus(), "CPU"))),
                figures::set_waits.is(wait / (wait + cpu)),
                figures::set_waiting
                    .is(self.waiting.len() as u64)
                    .note(format!("of {} in the CPU set", self.members.len())),
                noisy_neighbour::figures::wait_p99
                    .measured(
                        worst.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99)),
                        "there is no distribution of its waits",
                    )
                    .of(worst.subject(self.waiting[0].0)),
            ],
            threshold: [Limit::wait_per_cpu_warn, Limit::wait_per_cpu_critical, Limit::light_wait_p99]
                .map(|limit| thresholds.state(limit))
                .into(),
            confidence: Basis {
                intervals: observations.span.intervals,
                samples: self.waiting.iter().filter_map(|(_, it)| it.totals.runq_waits).sum(),
                samples_are: "waits",
                agreeing: Some((worst.crowded.in_full_set, observations.span.intervals)),
                lost: 0,
            }
            .confidence_from(thresholds.min_waits),
            caveats: vec!["The CPU set may be meant to keep its cgroups away from others.".to_owned()],
            advice: vec![advice(owner.as_ref(), list, asked, self.cpus)],
            subject: owner.unwrap_or_else(|| worst.subject(self.waiting[0].0)),
            verdict,
            cgroups: Vec::new(),
        }
    }
}

fn advice(owner: Option<&Subject>, list: &str, asked: f64, cpus: usize) -> Advice {
    let whose = owner.map_or_else(|| format!("the CPU set {list}"), |owner| format!("the CPU set of {owner}"));
    Advice::new(format!(
        "Widen {whose} from {} towards {}, or give some of its cgroups other CPUs: CPUs outside of it are idle. More CPUs for the \
         host would not help.",
        units::plural(cpus as u64, "CPU"),
        units::count(asked.ceil() as u64),
    ))
}
