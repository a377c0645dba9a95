use super::{super::Switching, *};

/// So many tasks that those which sleep are always about as many: bursts come at any time.
const MANY: u32 = 2_000;

/// Bursts a second, CPU time of each in ms, tasks, Load Credit. Without bursts it never sleeps.
struct Of(u32, f64, u32, f64);

fn trace(cpus: usize, seconds: usize, groups: &[Of]) -> Trace {
    let demand = |&Of(bursts, ms, tasks, credit): &Of| {
        let service = ms / 1_000.0;
        let slept = (f64::from(tasks) - f64::from(bursts) * service).max(0.0);
        Demand { credit, tasks, bursts, service, slept, waited: 0.0, taken: 0.0, is_many: false }
    };
    let step = Step { duration: 1.0, demands: groups.iter().map(demand).enumerate().collect() };
    Trace { cpus, groups: groups.len(), steps: vec![step; seconds] }
}

/// Where switches cost nothing.
fn run_free(trace: &Trace, policy: Policy<'_>) -> Outcome {
    run(trace, &Switching::new(f64::INFINITY, |_| 0.0), policy, 1)
}

fn assert_close(what: &str, found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() <= part * expected, "{what}: {found}, and {expected} was expected");
}

#[test]
fn one_cpu_that_is_shared_waits_as_in_theory() {
    // M/M/1 under processor sharing: λ·ρ/(μ − λ) = ρ²/(1 − ρ) wait on average.
    for load in [0.3, 0.6, 0.8] {
        let trace = trace(1, 400, &[Of((load * 1_000.0) as u32, 1.0, MANY, 0.0)]);
        let outcome = run_free(&trace, Policy::Sharing);
        assert_close("CPU time", outcome.cpu() / 400.0, load, 0.01);
        assert_close("waiting", outcome.wait() / 400.0, load * load / (1.0 - load), 0.08);
    }
}

#[test]
fn who_goes_first_waits_as_if_it_were_alone() {
    // The first class sees M/M/1 of its own; all together have as much work before them as ever.
    let groups = [Of(300, 1.0, MANY, 0.1), Of(400, 1.0, MANY, 0.9)];
    let outcome = run_free(&trace(1, 500, &groups), Policy::LightestFirst);
    assert_close("the first", outcome.groups[0].wait / 500.0, 0.3 * 0.3 / 0.7, 0.08);
    // Preemptive priority of one mean service: all wait ρ²/(1 − ρ) in sum.
    assert_close("all", outcome.wait() / 500.0, 0.7 * 0.7 / 0.3, 0.08);
    assert!(outcome.switches > 500.0 * 700.0, "some take a CPU away");
    assert_eq!(
        run_free(&trace(1, 10, &groups), Policy::First(&[true, false])),
        run_free(&trace(1, 10, &groups), Policy::LightestFirst)
    );
}

#[test]
fn those_that_never_sleep_share_what_there_is() {
    let outcome = run_free(&trace(2, 10, &[Of(0, 0.0, 3, 1.0), Of(0, 0.0, 1, 1.0)]), Policy::Sharing);
    assert_close("CPU time", outcome.cpu(), 20.0, 1e-9);
    assert_close("waits", outcome.wait(), 20.0, 1e-9);
    let first = run_free(&trace(1, 10, &[Of(0, 0.0, 1, 0.1), Of(0, 0.0, 1, 2.0)]), Policy::LightestFirst);
    assert_eq!(first.groups.iter().map(|group| group.cpu.round()).collect::<Vec<_>>(), [10.0, 0.0]);
}

#[test]
fn equally_heavy_cgroups_gain_nothing() {
    let groups: Vec<Of> = (0..12).map(|_| Of(90, 10.0, 20, 0.9)).collect();
    let trace = trace(12, 30, &groups);
    let (shared, lightest) = (run_free(&trace, Policy::Sharing), run_free(&trace, Policy::LightestFirst));
    assert_eq!(shared, lightest, "nobody is lighter");
}

/// A host like the CFS-LAGS paper's (§3): 12 CPUs that are full, ten functions for each, of which most run briefly and a few
/// for long; switches cost 10 µs and more, and take the 5 to 7 % of the CPUs that it found there (§3.1). Where the brief ones
/// go first (CFS-LAGS-static, §4.1), queues are short, tasks hardly take turns any more, and what that frees is enough for the
/// others.
#[test]
fn static_priority_cuts_waits_by_three_quarters_and_the_heavy_do_not_pay() {
    let groups: Vec<Of> = (0..120).map(|_| Of(19, 3.4, 4, 0.1)).chain((0..6).map(|_| Of(2, 200.0, 12, 2.0))).collect();
    let trace = trace(12, 40, &groups);
    let switching = Switching::new(150e-6, |tasks| 10e-6 + 3e-6 * tasks);
    let first: Vec<bool> = (0..126).map(|group| group < 120).collect();
    let shared = run(&trace, &switching, Policy::Sharing, 1);
    let fixed = run(&trace, &switching, Policy::First(&first), 1);
    let heavy = |outcome: &Outcome| {
        let sum = |of: fn(&Served) -> f64| outcome.groups[120..].iter().map(of).sum::<f64>();
        sum(|group| group.cpu + group.wait) / sum(|group| group.work)
    };
    let overhead = shared.switching / shared.cpu();
    assert!((0.05..0.07).contains(&overhead), "{overhead}");
    let spared = 1.0 - fixed.wait() / shared.wait();
    assert!((0.70..0.80).contains(&spared), "{spared}");
    assert!(heavy(&fixed) <= heavy(&shared), "{} and {}", heavy(&shared), heavy(&fixed));
}

/// More functions on the same CPUs make queues longer, and tasks take turns for more of the time; with a switch that is the
/// dearer the longer the queue (CFS-LAGS paper, §3.1), overhead grows faster than their number. The lightest first keeps
/// queues short.
#[test]
fn overhead_grows_with_density() {
    let switching = Switching::new(0.003, |tasks| 2e-6 + 2e-6 * tasks);
    let host = |density: usize, policy| {
        let groups: Vec<Of> = (0..density * 4).map(|n| Of(10, 10.0, 4, 0.01 * n as f64)).collect();
        let outcome = run(&trace(4, 20, &groups), &switching, policy, 3);
        ((outcome.cpu() + outcome.wait()) / 80.0, outcome.switching / 80.0)
    };
    let shared: Vec<(f64, f64)> = [3, 6, 9].into_iter().map(|density| host(density, Policy::Sharing)).collect();
    for pair in shared.windows(2) {
        assert!(pair[1].0 > pair[0].0 && pair[1].1 > 2.0 * pair[0].1, "{shared:?}");
    }
    let lightest = host(9, Policy::LightestFirst);
    assert!(lightest.0 <= shared[2].0 * 1.02 && lightest.1 < 0.8 * shared[2].1, "{lightest:?} and {shared:?}");
}

#[test]
fn no_cpu_is_idle_while_tasks_wait() {
    let trace = trace(4, 20, &[Of(0, 0.0, 2, 2.0), Of(500, 2.0, 8, 1.0), Of(50, 20.0, 8, 1.0)]);
    for policy in [Policy::Sharing, Policy::LightestFirst, Policy::First(&[false, true, false])] {
        // All that is asked for fits, but for what is not over at the end.
        let outcome = run_free(&trace, policy);
        assert_close("bursts", outcome.groups[1].cpu, 20.0, 0.02);
        assert_close("long bursts", outcome.groups[2].cpu, 20.0, 0.05);
        assert!(outcome.cpu() <= 80.0 + 1e-6);
    }
}

/// Whoever is never served has neither worked nor paid for switches.
#[test]
fn the_starved_have_done_nothing() {
    let trace = trace(1, 20, &[Of(0, 0.0, 4, 0.1), Of(100, 1.0, 4, 1.0)]);
    let outcome = run(&trace, &Switching::new(0.01, |_| 1e-4), Policy::First(&[true, false]), 1);
    let [first, starved] = [&outcome.groups[0], &outcome.groups[1]];
    assert_close("all there is", first.cpu, 20.0, 1e-9);
    assert!(first.work > 19.0 && first.work < first.cpu, "{first:?}");
    assert_eq!((starved.cpu, starved.work), (0.0, 0.0));
    assert!(starved.wait > 70.0, "{starved:?}");
}

#[test]
fn nothing_asked_for_is_nothing_served() {
    let empty = Trace { cpus: 0, groups: 0, steps: vec![Step::default()] };
    assert_eq!(run_free(&empty, Policy::Sharing), Outcome::default());
}
