//! What goes into formulas.

use super::Input;
use crate::{
    diagnosis::{
        Candidate, CandidateClass, Figure, Finding, Observations, Subject,
        observations::{Observed, ObservedListener},
    },
    model::{Counter, CounterUnit, FileCounters, HostTimes, ListenerTotals, Nanos, Reading, Totals, place_of},
    units::{Unit, Value},
};

const COSTS: &str = Totals::COUNTERS[place_of(&Totals::NAMES, "pick_ns")].source;
const WAITS: &str = Totals::COUNTERS[place_of(&Totals::NAMES, "runq_wait_ns")].source;
const RUNTIME: &str = Totals::COUNTERS[place_of(&Totals::NAMES, "cpu_ns")].source;
const BEHIND: &str = Totals::COUNTERS[place_of(&Totals::NAMES, "wait_behind_ns")].source;
const BUSY: &str = HostTimes::COUNTERS[place_of(&HostTimes::NAMES, "busy_ns")].source;
const STEAL: &str = HostTimes::COUNTERS[place_of(&HostTimes::NAMES, "steal_ns")].source;
const CONNECTIONS: &str = ListenerTotals::COUNTERS[place_of(&ListenerTotals::NAMES, "established")].source;
const SERVICES: &str = "accept, from one connection until the thread asks for the next: services";

/// All known inputs of formulas for the subject of `finding`.
pub(super) fn of(observations: &Observations, finding: &Finding) -> Vec<Input> {
    let mut inputs = vec![input("duration_ns", observations.span.duration_ns, Unit::Ns, "CLOCK_MONOTONIC")];
    inputs.push(read(Reading::CPUS_ONLINE, Some(observations.cpus()), Unit::Count));
    match &finding.subject {
        Subject::Host => {
            host(observations, &mut inputs);
            inputs.extend(classes(observations, &finding.cgroups));
            inputs.extend(finding.measured.iter().flat_map(|figure| periods(observations, figure)));
        }
        Subject::Cgroup { id, .. } => {
            let all = observations.tasks().map(|totals| totals.cpu_ns);
            inputs.push(known("all_cpu_ns", all, Unit::Ns, RUNTIME));
            inputs.extend(id.and_then(|id| observations.cgroups.get(&id)).into_iter().flat_map(cgroup));
        }
        Subject::Listener { netns, address, .. } => {
            inputs.extend(observations.listeners.get(&(*netns, *address)).into_iter().flat_map(|observed| {
                let acceptor = observed.cgroup.and_then(|id| observations.cgroups.get(&id)?.totals.runq_wait_ns);
                let mut inputs = listener(observed);
                inputs.push(known("acceptor_wait_ns", acceptor, Unit::Ns, WAITS));
                inputs
            }));
            let overflows = observations.overflows.get(netns).copied().flatten();
            inputs.push(read(Reading::LISTEN_OVERFLOWS, overflows, Unit::Count));
        }
    }
    inputs
}

/// The periods of a cgroup's quota, for a figure that is about it.
fn periods(observations: &Observations, figure: &Figure) -> Vec<Input> {
    let Some(subject @ Subject::Cgroup { id, .. }) = &figure.of else { return Vec::new() };
    let Some(observed) = id.and_then(|id| observations.cgroups.get(&id)) else { return Vec::new() };
    let of = |Input { figure, source }| Input { figure: figure.of(subject.clone()), source };
    counted(&FileCounters::COUNTERS, &observed.files.figures()).map(of).collect()
}

/// CPU time and run-queue wait of the light and of the heavy cgroups.
fn classes(observations: &Observations, cgroups: &[Candidate]) -> Vec<Input> {
    let sum = |class: CandidateClass, of: fn(&Totals) -> Nanos| -> Nanos {
        let members = cgroups.iter().filter(|one| one.class == class);
        members.flat_map(|one| observations.inside(&one.cgroup)).map(|observed| of(&observed.totals)).sum()
    };
    let cpu = |class| sum(class, |totals| totals.cpu_ns);
    let wait = |class| sum(class, |totals| totals.runq_wait_ns.unwrap_or_default());
    vec![
        input("light_cpu_ns", cpu(CandidateClass::Light), Unit::Ns, RUNTIME),
        input("light_wait_ns", wait(CandidateClass::Light), Unit::Ns, WAITS),
        input("heavy_cpu_ns", cpu(CandidateClass::Heavy), Unit::Ns, RUNTIME),
        input("heavy_wait_ns", wait(CandidateClass::Heavy), Unit::Ns, WAITS),
    ]
}

fn input(name: &'static str, value: impl Into<Value>, unit: Unit, source: &'static str) -> Input {
    Input { figure: Figure::new(name, name, value, unit), source }
}

fn known<V: Into<Value>>(name: &'static str, value: Option<V>, unit: Unit, source: &'static str) -> Input {
    Input { figure: Figure::measured(name, name, value, unit, "not measured"), source }
}

fn read<V: Into<Value>>(reading: Reading, value: Option<V>, unit: Unit) -> Input {
    known(reading.name, value, unit, reading.source)
}

fn host(observations: &Observations, inputs: &mut Vec<Input>) {
    let whole = observations.whole();
    let ns = |time: f64| time as u64;
    inputs.extend([
        input("capacity_ns", ns(whole.capacity_ns), Unit::Ns, BUSY),
        input("busy_ns", ns(whole.busy_ns), Unit::Ns, BUSY),
        known("switching_ns", whole.switching_ns.map(ns), Unit::Ns, COSTS),
        known("kept_ns", whole.kept_ns.map(ns), Unit::Ns, COSTS),
        known("steal_ns", observations.host.as_ref().and_then(|host| host.times.steal_ns), Unit::Ns, STEAL),
    ]);
    inputs.push(waits_behind(observations.cgroups.values()));
    inputs.extend(totals(&observations.tasks().unwrap_or_default()));
}

/// The waits behind named cgroups.
fn waits_behind<'o>(of: impl IntoIterator<Item = &'o Observed>) -> Input {
    let culprits = of.into_iter().flat_map(|observed| observed.behind.culprits());
    let sum: Nanos = culprits.map(|(_, culprit)| culprit.wait_ns).sum();
    input("waits_behind", sum, Unit::Ns, BEHIND)
}

fn cgroup(observed: &Observed) -> Vec<Input> {
    let mut inputs = totals(&observed.totals);
    inputs.extend(counted(&FileCounters::COUNTERS, &observed.files.figures()));
    inputs.extend([
        waits_behind([observed]),
        read(Reading::QUOTA, observed.quota_ns, Unit::Ns),
        input("threads", observed.threads(), Unit::Count, "tasks seen running in an interval, on average: threads"),
    ]);
    inputs
}

/// Counters as inputs, with the source that they are declared with.
fn counted(counters: &'static [Counter], figures: &[Option<u64>]) -> impl Iterator<Item = Input> {
    let input = |(counter, figure): (&'static Counter, &Option<u64>)| {
        let unit = match counter.unit {
            CounterUnit::Count => Unit::Count,
            CounterUnit::Nanos => Unit::Ns,
        };
        known(counter.name, *figure, unit, counter.source)
    };
    counters.iter().zip(figures).map(input).collect::<Vec<_>>().into_iter()
}

fn totals(totals: &Totals) -> Vec<Input> {
    // What is the most of any interval is no sum that a formula may use.
    let figures = totals.figures();
    let inputs = counted(&Totals::COUNTERS, &figures).zip(Totals::COUNTERS);
    inputs.filter_map(|(input, counter)| (!counter.is_most_of_parts).then_some(input)).collect()
}

fn listener(observed: &ObservedListener) -> Vec<Input> {
    let totals = observed.totals;
    let services = observed.services;
    let figures = totals.map_or([None; ListenerTotals::COUNT], |totals| totals.figures());
    let mut inputs: Vec<Input> = counted(&ListenerTotals::COUNTERS, &figures).collect();
    inputs.extend([
        known("threads", services.map(|services| services.threads), Unit::Count, SERVICES),
        known("strayed", services.map(|services| services.strayed), Unit::Count, SERVICES),
        known("found_none", services.map(|services| services.found_none), Unit::Count, SERVICES),
        known("services", services.map(|services| services.all.count), Unit::Count, SERVICES),
        known("service_ns", services.map(|services| services.all.time_ns), Unit::Ns, SERVICES),
        known("kept_waiting", services.map(|services| services.kept_waiting.count), Unit::Count, SERVICES),
        known("kept_waiting_ns", services.map(|services| services.kept_waiting.time_ns), Unit::Ns, SERVICES),
        known("deepest", observed.deepest, Unit::Count, Reading::BACKLOG.source),
        read(Reading::BACKLOG_CAPACITY, observed.capacity, Unit::Count),
        read(Reading::DROPS, observed.drops, Unit::Count),
        input("backlogs", observed.backlogs, Unit::Count, Reading::BACKLOG.source),
        input("listed", observed.listed, Unit::Count, "intervals at whose end the sockets were listed"),
        known("dispersion", observed.arrivals().map(|(_, dispersion)| dispersion), Unit::Factor, CONNECTIONS),
    ]);
    inputs
}
