use proptest::prelude::*;

use super::*;
use crate::{
    diagnosis::simulation::Weight,
    diagnosis::simulation::{Demand, Group, SimulatedDynamic},
};

/// A kernel whose turns are so short that all share at any time, as in theory.
fn ideal() -> SimulatedKernel {
    SimulatedKernel { tick: 5e-5, slice: 5e-5, ..SimulatedKernel::usual(1) }
}

fn usual(cpus: usize) -> SimulatedKernel {
    SimulatedKernel::usual(cpus)
}

/// So many tasks, bursts a second, CPU time of each in ms.
fn sleeps(tasks: u32, bursts: u32, ms: f64) -> Demand {
    let service = ms / 1_000.0;
    let pause = (f64::from(tasks) / f64::from(bursts) - service).max(0.0);
    Demand { credit: 0.1, tasks, bursts, service, pause, ..Demand::default() }
}

fn spins(spinners: u32) -> Demand {
    Demand { credit: f64::from(spinners), spinners, ..Demand::default() }
}

/// Each in a cgroup of its own, right below the root.
fn trace(cpus: usize, seconds: usize, demands: &[Demand]) -> Trace {
    let step = Step { duration: 1.0, demands: demands.iter().copied().enumerate().collect(), ..Step::default() };
    Trace { cpus, groups: vec![Group::default(); demands.len()], steps: vec![step; seconds], ..Trace::default() }
}

/// Where switches cost nothing.
fn run_free(trace: &Trace, kernel: &SimulatedKernel, policy: &SimulatedPolicy) -> SimulationOutcome {
    run(trace, kernel, &Switching::default(), policy, 1)
}

fn weights(weights: &[(usize, f64)]) -> SimulatedPolicy {
    let weight = |&(number, weight)| (number, Weight { weight, is_idle: false });
    SimulatedPolicy { weights: weights.iter().map(weight).collect(), ..SimulatedPolicy::none() }
}

fn idle(numbers: &[usize]) -> SimulatedPolicy {
    let weight = |&number| (number, Weight { weight: 1.0, is_idle: true });
    SimulatedPolicy { weights: numbers.iter().map(weight).collect(), ..SimulatedPolicy::none() }
}

fn real_time(numbers: &[usize]) -> SimulatedPolicy {
    SimulatedPolicy { real_time: numbers.to_vec(), ..SimulatedPolicy::none() }
}

fn assert_close(what: &str, found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() <= part * expected, "{what}: {found}, and {expected} was expected");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However they are grouped and weighed: those that never sleep have all there is, and the rest of the time they wait.
    #[test]
    fn spinners_wait_for_all_that_is_missing(
        groups in prop::collection::vec((1u32..4, 0.1f64..10.0, 0usize..3), 1..6),
        cpus in 1usize..5,
        seed in 0u64..1_000,
    ) {
        let mut trace = trace(cpus, 3, &groups.iter().map(|&(count, ..)| spins(count)).collect::<Vec<_>>());
        for (number, &(_, weight, parent)) in groups.iter().enumerate() {
            trace.groups[number].weight = weight;
            trace.groups[number].parent = (parent < number).then_some(parent);
        }
        let spinners: u32 = groups.iter().map(|&(count, ..)| count).sum();
        let outcome = run(&trace, &usual(cpus), &Switching::default(), &SimulatedPolicy::none(), seed);
        let busy = f64::from(spinners).min(cpus as f64);
        prop_assert!((outcome.cpu() - 3.0 * busy).abs() < 0.02, "CPU time {}", outcome.cpu());
        prop_assert!((outcome.wait() - 3.0 * (f64::from(spinners) - busy)).abs() < 0.02, "wait {}", outcome.wait());
    }
}

#[test]
fn one_cpu_that_is_shared_waits_as_in_theory() {
    // M/M/1 under processor sharing: λ·ρ/(μ − λ) = ρ²/(1 − ρ) wait on average. A cgroup for each task: all weigh the same.
    for load in [0.3, 0.6, 0.8] {
        let demands = vec![sleeps(1, (load * 10.0) as u32, 1.0); 100];
        let outcome = run_free(&trace(1, 120, &demands), &ideal(), &SimulatedPolicy::none());
        assert_close("CPU time", outcome.cpu() / 120.0, load, 0.01);
        assert_close("waiting", outcome.wait() / 120.0, load * load / (1.0 - load), 0.1);
    }
}

#[test]
fn a_weight_counts_for_each_runnable_task_where_the_kernel_does_it_so() {
    let mut trace = trace(1, 20, &[spins(4), spins(1)]);
    // Also from further up.
    trace.groups.push(Group::default());
    trace.groups[0].parent = Some(2);
    let share = |most_times| {
        let kernel = SimulatedKernel { most_times, ..usual(1) };
        run_free(&trace, &kernel, &SimulatedPolicy::none()).groups[0].cpu / 20.0
    };
    for (most_times, expected) in [(1.0, 1.0 / 2.0), (2.0, 2.0 / 3.0), (8.0, 3.0 / 4.0)] {
        assert_close(&format!("{most_times}"), share(most_times), expected, 0.02);
    }
}

#[test]
fn real_time_tasks_wait_as_if_they_were_alone() {
    // First come, first served, whoever else there is: M/M/1 again, of their own load.
    let demands: Vec<Demand> = (0..4).map(|_| sleeps(200, 100, 1.0)).chain([spins(4)]).collect();
    let first: Vec<usize> = (0..4).collect();
    let kernel = SimulatedKernel { real_time_slice: 1e3, ..usual(1) };
    let outcome = run_free(&trace(1, 200, &demands), &kernel, &real_time(&first));
    let wait: f64 = outcome.groups[..4].iter().map(|group| group.wait).sum();
    assert_close("waiting", wait / 200.0, 0.4 * 0.4 / 0.6, 0.08);
    assert_close("the rest", outcome.groups[4].cpu, 200.0 * 0.6, 0.01);
}

#[test]
fn real_time_tasks_leave_a_twentieth_to_the_others() {
    let outcome = run_free(&trace(1, 20, &[spins(1), spins(1)]), &usual(1), &real_time(&[0]));
    assert_close("the others", outcome.groups[1].cpu, 1.0, 0.1);
}

#[test]
fn weights_are_compared_among_siblings_only() {
    let mut trace = trace(1, 20, &[spins(0), spins(0), spins(1), spins(1), spins(1)]);
    trace.groups[1].weight = 3.0;
    for (inner, parent) in [(2, 0), (3, 1), (4, 1)] {
        trace.groups[inner].parent = Some(parent);
    }
    let shares = |policy: &SimulatedPolicy| -> Vec<f64> {
        let outcome = run_free(&trace, &usual(1), policy);
        outcome.groups[2..].iter().map(|group| (group.cpu / 20.0 * 40.0).round() / 40.0).collect()
    };
    assert_eq!(shares(&SimulatedPolicy::none()), [0.25, 0.375, 0.375]);
    assert_eq!(shares(&weights(&[(2, 10.0)])), [0.25, 0.375, 0.375], "it has no sibling");
    assert_eq!(shares(&weights(&[(3, 2.0)])), [0.25, 0.5, 0.25]);
    assert_eq!(shares(&weights(&[(0, 3.0)])), [0.5, 0.25, 0.25]);
}

#[test]
fn what_has_no_queue_competes_in_the_next_one_above() {
    let mut trace = trace(1, 20, &[spins(0), spins(1), spins(1), spins(1)]);
    (trace.groups[1].parent, trace.groups[2].parent) = (Some(0), Some(0));
    (trace.groups[2].has_queue, trace.groups[3].has_queue) = (false, false);
    let outcome = run_free(&trace, &usual(1), &SimulatedPolicy::none());
    let shares: Vec<f64> = outcome.groups[1..].iter().map(|group| (group.cpu / 20.0 * 20.0).round() / 20.0).collect();
    assert_eq!(shares, [0.25, 0.25, 0.5], "the last one's tasks are beside all of the others");
}

#[test]
fn idle_cgroups_run_when_nobody_else_wants_to() {
    let demands = [spins(1), spins(1), sleeps(4, 100, 2.0)];
    let outcome = run_free(&trace(1, 20, &demands), &usual(1), &idle(&[0, 1]));
    assert_close("who sleeps at times", outcome.groups[2].cpu, 4.0, 0.02);
    assert!(outcome.groups[2].wait < 4.0 * 0.2, "{}", outcome.groups[2].wait);
    let alone = run_free(&trace(1, 20, &demands), &usual(1), &SimulatedPolicy::none());
    assert!(alone.groups[2].wait > 3.0 * outcome.groups[2].wait, "{alone:?}");
}

#[test]
fn a_quota_ends_a_cgroups_time_in_each_period() {
    let mut trace = trace(2, 20, &[spins(0), spins(3), spins(1)]);
    (trace.groups[0].quota, trace.groups[1].parent) = (Some((0.05, 0.1)), Some(0));
    let outcome = run_free(&trace, &usual(2), &SimulatedPolicy::none());
    assert_close("half a core", outcome.groups[1].cpu, 10.0, 0.05);
    assert_close("what it waits is throttling, too", outcome.groups[1].wait, 50.0, 0.05);
    assert_close("the other", outcome.groups[2].cpu, 20.0, 0.02);
}

/// A quota is for others than real-time tasks.
#[test]
fn real_time_tasks_go_on_when_a_quota_is_used_up() {
    let mut trace = trace(1, 20, &[spins(0), spins(1), sleeps(1, 100, 2.0)]);
    trace.groups[0].quota = Some((0.01, 0.1));
    (trace.groups[1].parent, trace.groups[2].parent) = (Some(0), Some(0));
    let outcome = run_free(&trace, &usual(1), &real_time(&[2]));
    assert_close("real-time", outcome.groups[2].cpu, 4.0, 0.02);
    assert!(outcome.groups[2].wait < 0.1, "{outcome:?}");
    assert_close("under the quota", outcome.groups[1].cpu, 2.0, 0.1);
}

#[test]
fn where_there_are_fewer_tasks_the_others_do_their_work() {
    let mut trace = trace(4, 20, &[sleeps(30, 200, 1.0)]);
    trace.steps.iter_mut().step_by(2).for_each(|step| step.demands[0].1.tasks = 20);
    assert_close("work", run_free(&trace, &usual(4), &SimulatedPolicy::none()).groups[0].cpu, 4.0, 0.02);
}

/// The first one is idle at the start, for it was heavy before.
#[test]
fn who_is_heavy_is_decided_anew() {
    let trace = trace(1, 40, &[sleeps(1, 50, 2.0), spins(2), spins(2)]);
    let dynamic =
        SimulatedDynamic { ranked: vec![0, 1, 2], heavy: vec![0], every: 0.5, heavy_from: 1.2, light_below: 0.8 };
    let then = run_free(&trace, &usual(1), &SimulatedPolicy { dynamic: Some(dynamic), ..SimulatedPolicy::none() });
    let now = run_free(&trace, &usual(1), &SimulatedPolicy::none());
    assert!(then.groups[0].wait < 0.5 * now.groups[0].wait, "{then:?} and {now:?}");
}

#[test]
fn tasks_stay_on_their_cpus() {
    let mut trace = trace(2, 10, &[spins(2), spins(1)]);
    trace.groups[0].cpus = vec![true, false];
    let outcome = run_free(&trace, &usual(2), &SimulatedPolicy::none());
    assert_eq!(outcome.groups.iter().map(|group| group.cpu.round()).collect::<Vec<_>>(), [10.0, 10.0]);
}

/// Six seconds of Linux 6.18 with two CPUs and 250 ticks a second: cores, tasks waiting, voluntary switches a second and
/// threads of each cgroup, by `/proc/*/schedstat` and `/proc/*/status`. Two of stress-ng with two spinners each, and four of
/// programs that run for 0.2, 1, 5 (two of them) and 20 ms on average, and sleep for 10, 20, 50 and 200 ms.
const MEASURED: [(f64, f64, u32, u32); 6] = [
    (0.838, 1.161, 0, 2),
    (0.852, 1.147, 0, 2),
    (0.0200, 0.0263, 94, 1),
    (0.0481, 0.0507, 45, 1),
    (0.1392, 0.1842, 30, 2),
    (0.0835, 0.0842, 4, 1),
];
/// What the last four waited next, with ten times the weight and half of it for the first two; and with those idle.
const WITH_WEIGHT: [f64; 4] = [0.0093, 0.0148, 0.0401, 0.0067];
const BESIDE_IDLE: [f64; 4] = [0.0091, 0.0097, 0.0303, 0.0150];

/// A millisecond of work, nine of sleep; of so many it does not do all, for it waits.
#[test]
fn who_is_done_sooner_does_more_where_work_comes_of_itself() {
    let demands = [&[Demand { bursts: 60, ..sleeps(1, 100, 1.0) }][..], &[spins(1); 8]].concat();
    let open = trace(1, 20, &demands);
    let closed = Trace { arrivals: Arrivals::Closed, ..open.clone() };
    let first = SimulatedPolicy { real_time: vec![0], ..SimulatedPolicy::none() };
    let bursts =
        |trace: &Trace, policy: &SimulatedPolicy| run_free(trace, &usual(1), policy).groups[0].cpu / 20.0 / 0.001;
    let none = SimulatedPolicy::none();
    let now = bursts(&closed, &none);
    assert!(now < 80.0 && (97.0..103.0).contains(&bursts(&closed, &first)), "{now}");
    assert!((58.0..62.0).contains(&bursts(&open, &first)), "{}", bursts(&open, &first));
}

#[test]
fn waits_are_those_of_a_real_kernel() {
    let demands: Vec<Demand> = MEASURED
        .iter()
        .map(|&(cpu, wait, slept, threads)| match slept {
            0 => spins(threads),
            _ => Demand {
                pause: (f64::from(threads) - cpu - wait) / f64::from(slept),
                waited: wait,
                ..sleeps(threads, slept, 1_000.0 * cpu / f64::from(slept))
            },
        })
        .collect();
    let trace = trace(2, 60, &demands);
    let light = |policy: &SimulatedPolicy| -> f64 {
        run_free(&trace, &usual(2), policy).groups[2..].iter().map(|group| group.wait / 60.0).sum()
    };
    let now = run_free(&trace, &usual(2), &SimulatedPolicy::none());
    for (served, (cpu, wait, ..)) in now.groups.iter().zip(MEASURED) {
        assert_close("CPU time", served.cpu / 60.0, cpu, 0.06);
        assert_close("wait", served.wait / 60.0, wait, 0.4);
    }
    assert_close("all light waits", light(&SimulatedPolicy::none()), MEASURED[2..].iter().map(|it| it.1).sum(), 0.15);
    let weighed = weights(&[(0, 0.5), (1, 0.5), (2, 10.0), (3, 10.0), (4, 10.0), (5, 10.0)]);
    assert_close("with weight", light(&weighed), WITH_WEIGHT.iter().sum(), 0.2);
    assert_close("beside idle ones", light(&idle(&[0, 1])), BESIDE_IDLE.iter().sum(), 0.35);
}

#[test]
fn longer_slices_are_fewer_turns() {
    let demands = [spins(2), spins(2)];
    let policy = SimulatedPolicy { slices: vec![(0, 0.02), (1, 0.02)], ..SimulatedPolicy::none() };
    let [before, after] =
        [SimulatedPolicy::none(), policy].map(|policy| run_free(&trace(2, 20, &demands), &usual(2), &policy).switches);
    assert_close("turns", after, before / 5.0, 0.15);
}

#[test]
fn the_lightest_go_first_and_the_root_shares_as_ever() {
    let mut trace = trace(1, 40, &[sleeps(4, 100, 1.0), sleeps(4, 40, 10.0), spins(4), sleeps(2, 50, 1.0)]);
    trace.groups[3].has_queue = false;
    let first = SimulatedPolicy { lightest_first: vec![0, 1, 2], ..SimulatedPolicy::none() };
    let (shared, lightest) =
        (run_free(&trace, &usual(1), &SimulatedPolicy::none()), run_free(&trace, &usual(1), &first));
    assert!(lightest.groups[0].wait < 0.2 * shared.groups[0].wait, "{lightest:?} and {shared:?}");
    assert_close("the root's work", lightest.groups[3].cpu, 2.0, 0.05);
    assert!(lightest.groups[3].wait < 2.0 * shared.groups[3].wait, "{lightest:?} and {shared:?}");
}

/// Credits that nobody knew at first are soon those that come of the load: who always wants to run is not light for ever.
#[test]
fn who_is_lightest_comes_of_the_load() {
    let unknown = |demand: Demand| Demand { credit: 0.0, ..demand };
    let trace = trace(1, 40, &[unknown(sleeps(4, 100, 1.0)), unknown(spins(2)), unknown(spins(2))]);
    let first = SimulatedPolicy { lightest_first: vec![0, 1, 2], ..SimulatedPolicy::none() };
    let [shared, lightest] =
        [SimulatedPolicy::none(), first].map(|policy| run_free(&trace, &usual(1), &policy).groups[0].wait);
    assert!(lightest < 0.2 * shared, "{lightest} and {shared}");
}

/// One that is not marked is no lighter than it was, however little it uses.
#[test]
fn only_those_that_are_marked_are_ranked() {
    let trace = trace(1, 40, &[sleeps(4, 100, 1.0), spins(4), spins(2)]);
    let of = |marked: &[usize]| {
        run_free(&trace, &usual(1), &SimulatedPolicy { lightest_first: marked.into(), ..SimulatedPolicy::none() })
    };
    let (nobody, others, all) = (of(&[]), of(&[1, 2]), of(&[0, 1, 2]));
    assert!(all.groups[0].wait < 0.2 * nobody.groups[0].wait, "{all:?} and {nobody:?}");
    assert!(others.groups[0].wait > 0.5 * nobody.groups[0].wait, "{others:?} and {nobody:?}");
}

#[test]
fn equal_cgroups_gain_nothing() {
    let trace = trace(4, 30, &vec![sleeps(8, 32, 10.0); 12]);
    let shared = run_free(&trace, &usual(4), &SimulatedPolicy::none());
    let same: Vec<(usize, f64)> = (0..12).map(|number| (number, 1.0)).collect();
    assert_eq!(shared, run_free(&trace, &usual(4), &weights(&same)));
    let first = SimulatedPolicy { lightest_first: (0..12).collect(), ..SimulatedPolicy::none() };
    assert_close("all waits", run_free(&trace, &usual(4), &first).wait(), shared.wait(), 0.25);
}

/// More functions on the same CPUs make queues longer; with a switch that costs more the longer the queue (CFS-LAGS paper,
/// §3.1), overhead grows faster than their number.
#[test]
fn overhead_grows_with_density() {
    let switching = Switching::new(|tasks| 2e-6 + 2e-6 * tasks);
    let host = |density: usize| {
        let demands: Vec<Demand> = (0..density * 4).map(|_| sleeps(4, 10, 10.0)).collect();
        let outcome = run(&trace(4, 20, &demands), &usual(4), &switching, &SimulatedPolicy::none(), 3);
        ((outcome.cpu() + outcome.wait()) / 80.0, outcome.switching / 80.0)
    };
    let [few, some, many] = [3, 6, 9].map(host);
    assert!(
        few.0 < some.0 && some.0 < many.0 && some.1 > 2.0 * few.1 && many.1 > 2.0 * some.1,
        "{few:?} {some:?} {many:?}"
    );
}

#[test]
fn no_cpu_is_idle_while_tasks_wait() {
    let trace = trace(4, 20, &[spins(2), sleeps(8, 500, 2.0), sleeps(8, 50, 20.0)]);
    for policy in [SimulatedPolicy::none(), weights(&[(1, 10.0)]), idle(&[0]), real_time(&[1])] {
        // All that is asked for fits, but for what is not over at the end.
        let outcome = run_free(&trace, &usual(4), &policy);
        assert_close("bursts", outcome.groups[1].cpu, 20.0, 0.02);
        assert_close("long bursts", outcome.groups[2].cpu, 20.0, 0.05);
        assert!(outcome.cpu() <= 80.0 + 1e-6, "{}", outcome.cpu());
    }
}

#[test]
fn what_switches_take_is_missing_for_work() {
    let outcome =
        run(&trace(1, 20, &[spins(1), spins(1)]), &usual(1), &Switching::new(|_| 4e-4), &SimulatedPolicy::none(), 1);
    let lost = outcome.cpu() - outcome.groups.iter().map(|group| group.work).sum::<f64>();
    assert_close("what they took", lost, outcome.switching, 0.05);
    assert_close("one in each tick", outcome.switches, 20.0 / 0.004, 0.05);
}

#[test]
fn a_crowd_that_hardly_runs_is_as_many_tasks_as_bursts() {
    let outcome = run_free(&trace(1, 20, &[sleeps(u32::MAX, 50, 4.0)]), &usual(1), &SimulatedPolicy::none());
    assert_close("CPU time", outcome.cpu(), 20.0 * 0.2, 0.1);
}

#[test]
fn nothing_asked_for_is_nothing_served() {
    let empty = Trace { cpus: 1, steps: vec![Step::default()], ..Trace::default() };
    assert_eq!(run_free(&empty, &usual(1), &SimulatedPolicy::none()), SimulationOutcome::default());
}
