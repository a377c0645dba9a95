use super::*;
use crate::{
    diagnosis::{
        Rule, Thresholds, diagnose,
        fixture::{bullied, contended, unfair},
    },
    model::fixture,
};

fn overloaded() -> Report {
    diagnose(&fixture::session(), &fixture::overloaded(40), &Thresholds::default())
}

#[test]
fn an_overloaded_host_reads_like_this() {
    insta::assert_snapshot!(render(&overloaded(), Depth::Verbose, PageOptions::default()), @"
    The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as much when busy
    as when quiet, because of more switches (59.6 % of the growth) and costlier ones (40.4 %); top
    contributor: batch (58.8 %).
    node-7, Linux 6.12.1, 4 CPUs; 40 intervals, 40.0 s from 2026-08-03T10:00:00Z

      overhead                    10.6 %  of all CPU time
      mean switch cost           13.0 µs
      switches                  32.0 k/s
      CPU utilisation             60.0 %
      effective utilisation       49.4 %
      runnable tasks per CPU  3.68 tasks
      cgroups that ran                 4
      steal                          0 %

    [CRITICAL] The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as
    much when busy as when quiet, because of more switches (59.6 % of the growth) and costlier ones
    (40.4 %); top contributor: batch (58.8 %).
      scheduling_overhead, host
        overhead                                   10.6 %  of all CPU time
        mean switch cost                          13.0 µs  pick + swap, per switch
        switches                                 32.0 k/s  8000/s per CPU
        scheduler calls without a switch            0.2 %  included in the overhead
        switches between cgroups                   80.0 %  of all switches
        involuntary switches                       75.0 %  of all switches
        overhead, quietest quarter                  0.5 %  0.26 tasks runnable per CPU; 1500/s switches
                                                           per CPU, 3.00 µs each
        overhead, busiest quarter                  20.7 %  7.09 tasks runnable per CPU; 14.5 k/s
                                                           switches per CPU, 14.0 µs each
        mean switch cost, quietest quarter        3.00 µs
        mean switch cost, busiest quarter         14.0 µs
        growth by more switches             +11.82 points  9.67x as many switches
        growth by costlier switches          +8.03 points  4.67x the cost
        growth by calls without a switch     +0.40 points
        growth of total switch cost                × 45.1  product of both factors
        share of switch cost: batch                58.8 %  0.25 cores; 19.0 k/s switches, 12.8 µs each
        share of switch cost: train                21.7 %  0.092 cores; 6000/s switches, 15.0 µs each
        share of switch cost: web                  14.8 %  0.063 cores; 5500/s switches, 11.2 µs each
        share of switch cost: api�[2J               4.7 %  0.020 cores; 1500/s switches, 13.0 µs each
        threshold   overhead_warn 5.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): 5 to 7 % at
                    peak throughput
        threshold   overhead_critical 10.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): steady
                    load stays below 10 %, overload reaches 28 %
        threshold   mean_switch_cost_warn 10.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1):
                    below 10 µs under steady load, more under bursts
        threshold   mean_switch_cost_critical 20.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1):
                    up to 20 µs on its overloaded host
        confidence  medium: 40 intervals, 1.28 M switches; 20 of 40 intervals agree
        caveat      lagstop's own programs ran for 360 ms, part of which is included in the 16.9 s of
                    scheduling time.
        caveat      The thresholds are starting points, because the paper's percentages cannot be
                    reproduced from its raw data; compare with this host's quiet times.
        advice      Use longer time slices, because most switches are preemptions. This doubles the base
                    slice. Tasks then wait longer for a CPU. To undo it, halve the value.
                    $ sudo sh -c 'n=$(cat /sys/kernel/debug/sched/base_slice_ns) && echo $((2 * n)) > /sys/kernel/debug/sched/base_slice_ns'
        advice      Spread the top contributors over more hosts or CPUs: fewer runnable cgroups per CPU
                    make switches cheaper. Disable the cpu controller below cgroups that need no weights
                    or limits inside, because each level adds a run queue to every switch. This lists
                    the levels:
                    $ find /sys/fs/cgroup -name cgroup.subtree_control -exec grep -lw cpu {} +

    [WARNING] Overloaded for 20.0 s of 40.0 s: tasks then ask for 17.9 CPUs and there are 4, so CPU work
    takes 4.58 times as long. All 4 cgroups wait long; batch and train fill the CPUs.
      overload, host
        CPUs that tasks ask for     17.9 tasks  of 4 CPUs, while they were full
        time with too few CPUs          20.0 s  of 40.0 s: from 20.0 s to 40.0 s of the recording
        CPU utilisation                 60.0 %  of all CPUs
        slowdown of work by waits       × 4.58
        cgroups that wait long               4  of 4
        cgroups that fill the CPUs           2
        asks for: batch             8.00 tasks
        asks for: train             8.00 tasks
        threshold   full_cpus 90.0 %: default; lagstop's own choice: with more room than a tenth, hardly
                    anything waits for want of CPUs
        threshold   wait_per_cpu_warn × 1.00: default; lagstop's own choice: waiting as long as running
                    doubles response times
        threshold   wait_per_cpu_critical × 4.00: default; lagstop's own choice: one second of work
                    takes five
        confidence  high: 40 intervals, 422 k waits
        caveat      With that many CPUs these tasks would not wait, but work that never ends keeps any
                    number of CPUs busy.
        caveat      This is an average: short bursts may be worse.
        caveat      The share that a cgroup gets is computed without thread affinities and nice values.
        advice      Move work to other hosts, or add CPUs.

    [WARNING] Switching takes 17.6 % of the used CPU time (0.42 cores): the CPUs are 60.0 % used with it
    and 49.4 % without.
      utilisation, host
        CPU utilisation                        60.0 %  of all CPU time, as other tools show it
        effective utilisation                  49.4 %  of all CPU time
        lost to switching                  0.42 cores  of 4 cores
        switching, share of used CPU time      17.6 %
        switching time / work time             21.4 %  100 % means as much switching as work
        threshold   utilisation_gap_warn 10.0 %: default; lagstop's own choice; the CFS-LAGS paper's +10
                    and +100 % (arXiv 2508.15703, §5.1) compare CPU time used with CPU time needed, not
                    the cost of switches
        threshold   utilisation_gap_critical 25.0 %: default; lagstop's own choice
        threshold   full_utilisation 45.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §5.1):
                    production hosts under CFS target at most 45 %
        confidence  medium: 40 intervals, 1.28 M switches; 20 of 40 intervals agree
        caveat      The true cost is higher, because wakeups, the tick, load balancing and cold caches
                    count as the tasks' own time.
        caveat      Interrupts and lagstop's own programs count as work or as scheduling, depending on
                    where they occur.
        advice      Reduce switching before adding CPUs: this frees up to 0.42 cores. The advice on the
                    cost of scheduling shows how.

    [WARNING] Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice” (using less
    than their fair share) wait 70.1 % of their runnable time, while the heavy batch (using its share or
    more) takes 77.1 % of the CPU time there; the effect of more weight cannot be predicted.
      lags_candidates, host
        tasks waiting per CPU            3.08 tasks
        wait per CPU time                    × 5.13  of all compared cgroups
        light cgroups                             3  below their fair share; 22.9 % of the CPU time
        light: wait per CPU time             × 10.0  1.21 ms per wait on average
        heavy cgroups                             1  at or above their fair share; 77.1 % of the CPU
                                                     time
        heavy: wait per CPU time             × 3.68  1.14 ms per wait on average
        simulation error, light             -80.1 %  0.12 tasks waiting in the simulation, 0.71 measured
        simulation error, heavy             -54.4 %  2.50 tasks waiting in the simulation, 6.81 measured
        simulation error, others            -35.9 %  1.80 tasks waiting in the simulation, 4.80 measured
        predicted wait, prioritised             n/a  the simulation error is too large: waits of the
                                                     prioritised cgroups -80 % off the measured (limit
                                                     50 %)
        wait saved per cgroup (median)          n/a  for the same reason
        predicted time per work, heavy          n/a  the simulation error is too large: waits of the
                                                     heavy cgroups -54 % off the measured (limit 50 %)
        predicted time per work, others         n/a  the simulation error is too large: CPU time of all
                                                     other cgroups +432 % off the measured (limit 25 %)
        predicted wait, all cgroups          -1.4 %  -29.8 % to +38.6 %
        predicted tasks per CPU          3.64 tasks  including running tasks; 3.68 tasks now
        predicted switches                   14.3 %  -24.8 % to +73.5 %
        predicted overhead                      n/a  the predicted range is too wide (-28 % to +79 %)
        predicted cores freed                   n/a  overhead is not predicted
        light cgroups to prioritise               2  of 2 that wait long
        heavy: batch                     8.45 tasks  demand over the last seconds (Load Credit); 77.1 %
                                                     of the CPU time, waited 3.68x its CPU time, p99
                                                     wait 1.44 ms
        light, most to gain: train       10.0 tasks  demand over the last seconds (Load Credit); 10.4 %
                                                     of the CPU time, waited 19.2x its CPU time, p99
                                                     wait 1.18 ms
        light, most to gain: web         0.90 tasks  demand over the last seconds (Load Credit); 8.3 %
                                                     of the CPU time, waited 2.77x its CPU time, p99
                                                     wait 18.9 ms
        light, most to gain: api�[2J     0.50 tasks  demand over the last seconds (Load Credit); 4.2 %
                                                     of the CPU time, waited 1.50x its CPU time, p99
                                                     wait 15.7 ms
        threshold   contended_wait 0.050 tasks: default; lagstop's own choice: one waiting task per
                    twenty CPUs
        threshold   light_credit 50.0 %: default; lagstop's own choice: with a smaller difference,
                    priority hardly matters
        threshold   light_wait_per_cpu × 1.00: default; lagstop's own choice: waiting as long as running
                    doubles response times
        threshold   light_wait_p99 10.0 ms: default; lagstop's own choice: a few time slices, and the
                    least that users notice
        threshold   light_gain 20.0 %: default; lagstop's own choice: smaller gains are within the
                    simulation error
        threshold   heavy_tolerance 10.0 %: default; lagstop's own choice; the CFS-LAGS paper (arXiv
                    2508.15703, §4.1) prioritises more cgroups until the others miss their latency
                    target
        confidence  low: 40 intervals, 422 k waits; simulated waits are -80 % off; too far off to
                    predict from
        caveat      The effect of more weight is not predicted: the simulation error is too large: waits
                    of the prioritised cgroups -80 % off the measured (limit 50 %).
        caveat      Light cgroups that wait for their own threads may be included, because the cause of
                    each wait is not measured by the lagstop that made the recording.
        caveat      Weights were not recorded, so all cgroups are assumed to have the default weight.
        caveat      The simulation draws wakeup times and run lengths at random, and ignores wakeup
                    chains, affinities and nice values.
        caveat      Whether tasks would do more work if they ran sooner is unknown; the prediction lies
                    between both cases.
        advice      Run a trial. For a minute it alternates between the old weights and new ones, more
                    for light cgroups and less for heavy ones. It shows the effect, then restores the
                    old weights, also when interrupted: --apply keeps nothing.
                    $ sudo lagstop trial --policy weight --from-diagnose --apply

    [INFO] 12.3 tasks wait for a CPU on average, but the cause is not measured by the lagstop that made
    the recording.
      wait_causes, host
        tasks waiting                12.3 tasks  on average
        wait behind other cgroups           n/a  not measured by the lagstop that made the recording
        wait behind own threads             n/a  for the same reason
        wait behind kernel threads          n/a  for the same reason
        wait while the CPU was idle         n/a  for the same reason
        wait while throttled                n/a  for the same reason
        wait before a migration             n/a  for the same reason
        wait unattributed                   n/a  for the same reason
        steal                               0 %  of all CPU time
        threshold   contended_wait 0.050 tasks: default; lagstop's own choice: one waiting task per
                    twenty CPUs
        confidence  high: 40 intervals, 422 k waits
        caveat      The wait may be behind a neighbour, behind own threads or for a quota, because the
                    cause is not measured by the lagstop that made the recording.

    [NOT ENOUGH DATA] Cannot judge whether tasks wait while CPUs are idle: the recording has no rows of
    CPUs.
      pinned, host

    [NOT ENOUGH DATA] Cannot judge thread counts: some cgroups have many more runnable threads than
    CPUs, but whether these queue behind each other is not measured by the lagstop that made the
    recording.
      overcommitted_threads, host

    [NOT ENOUGH DATA] Cannot judge whether a cgroup gets its share of CPU time: the weights of cgroups
    that used 100 % of the CPU time were not recorded.
      starved, host

    [NOT ENOUGH DATA] Cannot judge whether weights make a cgroup wait: the weights of cgroups that used
    100 % of the CPU time were not recorded.
      outweighed, host

    [NOT ENOUGH DATA] Cannot judge whether weights take effect: the weights of cgroups that used 100 %
    of the CPU time were not recorded.
      weights_have_no_effect, host

    [NOT ENOUGH DATA] Cannot judge noisy neighbours: the cause of each wait is not measured by the
    lagstop that made the recording.
      noisy_neighbour, host

    [OK] The hypervisor steals 0 % of the CPU time.
      steal, host

    [OK] The host is not overfilled: tasks got the most CPU time near the highest density seen (4 active
    cgroups).
      density, host

    [OK] No TCP listener was active.
      backlog, host

    [OK] No cgroup that ran has a quota of its own.
      throttled, host

    [OK] No cgroup moves its tasks between CPUs too often.
      migrations, host

    [OK] No cgroup with a quota of its own ran.
      quota_without_cpuset, host

    Measuring took 80.0 ms of CPU time and 360 ms in the kernel, 0.011 cores in all.
    Nothing was lost.
    Measured: switches by switches.
    ");
}

#[test]
fn the_answer_of_an_overloaded_host_reads_like_this() {
    insta::assert_snapshot!(render(&overloaded(), Depth::Short, PageOptions::default()), @"
    The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as much when busy
    as when quiet, because of more switches (59.6 % of the growth) and costlier ones (40.4 %); top
    contributor: batch (58.8 %).
    Next: Use longer time slices, because most switches are preemptions. This doubles the base slice.
    Tasks then wait longer for a CPU. To undo it, halve the value.
      $ sudo sh -c 'n=$(cat /sys/kernel/debug/sched/base_slice_ns) && echo $((2 * n)) > /sys/kernel/debug/sched/base_slice_ns'

    Also: Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice” (using less
    than their fair share) wait 70.1 % of their runnable time, while the heavy batch (using its share or
    more) takes 77.1 % of the CPU time there; the effect of more weight cannot be predicted.
    Next: Run a trial.
      $ sudo lagstop trial --policy weight --from-diagnose --apply

    node-7, Linux 6.12.1, 4 CPUs; 40 intervals, 40.0 s from 2026-08-03T10:00:00Z

    Evidence (cost of scheduling, host):
      overhead                            10.6 %  of all CPU time
      mean switch cost                   13.0 µs  pick + swap, per switch
      switches                          32.0 k/s  8000/s per CPU
      scheduler calls without a switch     0.2 %  included in the overhead
      switches between cgroups            80.0 %  of all switches
      involuntary switches                75.0 %  of all switches
      Caveat: lagstop's own programs ran for 360 ms, part of which is included in the 16.9 s of
              scheduling time.
      Caveat: The thresholds are starting points, because the paper's percentages cannot be reproduced
              from its raw data; compare with this host's quiet times.

    Notes: what tasks wait for
    Fine: steal, how many cgroups fit, connection backlogs, throttling, moves between CPUs, quota below
          the visible CPUs
    Too little data to judge: full CPUs beside idle ones, too many threads, less than its share, low
                              weights, weights without effect, waits behind one neighbour
    Measuring took 0.011 cores. Nothing was lost. --verbose shows everything.
    ");
}

#[test]
fn the_answer_of_a_healthy_host_reads_like_this() {
    let report = diagnose(&fixture::session(), &fixture::idle(60), &Thresholds::default());
    let answer = render(&report, Depth::Short, PageOptions::default());
    assert!(answer.lines().count() <= 10, "{answer}");
    insta::assert_snapshot!(answer, @"
    Healthy: 99 % of all waits for a CPU end within 4.61 µs (the longest: about 4.61 µs), switching
    takes 0.01 % of the CPU time, and the CPUs are 0.3 % busy.

    node-7, Linux 6.12.1, 4 CPUs; 60 intervals, 60.0 s from 2026-08-03T10:00:00Z

    Fine: 11 checks.
    Too little data to judge: how many cgroups fit, full CPUs beside idle ones, less than its share, low
                              weights, weights without effect, waits behind one neighbour
    Measuring took 0.011 cores. Nothing was lost. --verbose shows everything.
    ");
}

#[test]
fn an_answer_fits_on_a_screen() {
    let loads = [fixture::full_of_problems(), contended(40), unfair(), bullied(40), fixture::overloaded(40)];
    for intervals in loads {
        let report = diagnose(&fixture::session(), &intervals, &Thresholds::default());
        for width in [80, 100] {
            let answer = render(&report, Depth::Short, PageOptions { width, colour: false });
            assert!(answer.lines().count() <= 40, "{answer}");
        }
    }
}

#[test]
fn a_kernel_without_the_hooks_reads_like_this() {
    let thresholds = Thresholds::default();
    let report = diagnose(&fixture::session_without_cost(), &fixture::without_cost(4), &thresholds);
    insta::assert_snapshot!(render(&report, Depth::Verbose, PageOptions { width: 80, colour: false }), @"
    Cannot tell how this host does: this needs at least 5 intervals (measured: 4).
    node-7, Linux 6.12.1, 4 CPUs; 4 intervals, 4.00 s from 2026-08-03T10:00:00Z

      overhead                       n/a  not measured without switch-cost (kernel
                                          6.8.0 has no such tracepoint)
      mean switch cost               n/a  for the same reason
      switches                  32.0 k/s
      CPU utilisation             60.0 %
      effective utilisation          n/a  for the same reason
      runnable tasks per CPU  3.68 tasks
      cgroups that ran                 4
      steal                          0 %

    [NOT ENOUGH DATA] Cannot judge whether the CPUs suffice: this needs at least 5
    intervals (measured: 4).
      overload, host

    [NOT ENOUGH DATA] Cannot judge whether a hypervisor takes CPU time: this needs
    at least 5 intervals (measured: 4).
      steal, host

    [NOT ENOUGH DATA] Cannot judge scheduling overhead: switch cost is not measured
    without switch-cost (kernel 6.8.0 has no such tracepoint).
      scheduling_overhead, host

    [NOT ENOUGH DATA] Cannot judge the CPU time lost to switching: switch cost is
    not measured without switch-cost (kernel 6.8.0 has no such tracepoint).
      utilisation, host

    [NOT ENOUGH DATA] Cannot judge whether short jobs wait behind long ones: this
    needs at least 5 intervals (measured: 4).
      lags_candidates, host

    [NOT ENOUGH DATA] Cannot judge what tasks wait for: this needs at least 5
    intervals (measured: 4).
      wait_causes, host

    [NOT ENOUGH DATA] Cannot judge how many cgroups this host can take: this needs
    at least 5 intervals (measured: 4).
      density, host

    [NOT ENOUGH DATA] Cannot judge accept waits: this needs at least 5 intervals
    (measured: 4).
      backlog, host

    [NOT ENOUGH DATA] Cannot judge whether a quota makes a cgroup wait: this needs
    at least 5 intervals (measured: 4).
      throttled, host

    [NOT ENOUGH DATA] Cannot judge whether tasks wait while CPUs are idle: this
    needs at least 5 intervals (measured: 4).
      pinned, host

    [NOT ENOUGH DATA] Cannot judge migrations: this needs at least 5 intervals
    (measured: 4).
      migrations, host

    [NOT ENOUGH DATA] Cannot judge thread counts: this needs at least 5 intervals
    (measured: 4).
      overcommitted_threads, host

    [NOT ENOUGH DATA] Cannot judge quotas: this needs at least 5 intervals
    (measured: 4).
      quota_without_cpuset, host

    [NOT ENOUGH DATA] Cannot judge whether a cgroup gets its share of CPU time: this
    needs at least 5 intervals (measured: 4).
      starved, host

    [NOT ENOUGH DATA] Cannot judge whether weights make a cgroup wait: this needs at
    least 5 intervals (measured: 4).
      outweighed, host

    [NOT ENOUGH DATA] Cannot judge whether weights take effect: this needs at least
    5 intervals (measured: 4).
      weights_have_no_effect, host

    [NOT ENOUGH DATA] Cannot judge noisy neighbours: this needs at least 5 intervals
    (measured: 4).
      noisy_neighbour, host

    Measuring took 8.00 ms of CPU time and 36.0 ms in the kernel, 0.011 cores in
    all.
    Nothing was lost.
    Not measured: pick cost, kept-running cost, switch cost (switch-cost: kernel
    6.8.0 has no such tracepoint).
    ");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let coloured = render(&overloaded(), Depth::Verbose, PageOptions { width: 100, colour: true });
    assert!(coloured.contains("\u{1b}[1;31m[CRITICAL]\u{1b}[0m"));
    let mut plain = coloured.clone();
    for sgr in ["0", "1", "2", "1;31", "32", "1;33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{sgr}m"), "");
    }
    assert_eq!(plain, render(&overloaded(), Depth::Verbose, PageOptions::default()));
}

#[test]
fn nothing_hostile_gets_through() {
    let mut report = overloaded();
    report.session.hostname = "\u{1b}]0;owned\u{7}\u{202e}".to_owned();
    for width in [0, 30, 100] {
        let text = render(&report, Depth::Verbose, PageOptions { width, colour: false });
        assert!(text.lines().all(|line| !line.contains(display::is_hostile)));
    }
}

#[test]
fn merged_intervals_are_said_to_be() {
    let part = crate::model::merge(crate::model::Nanos::SECOND, &fixture::overloaded(40)).unwrap();
    let report = diagnose(&fixture::session(), &[part], &Thresholds::default());
    assert!(
        render(&report, Depth::Verbose, PageOptions::default())
            .contains("40 intervals merged into 1 of 40.0 s each, 40.0 s from")
    );
    for depth in [Depth::Short, Depth::Verbose] {
        assert!(
            render(&report, depth, PageOptions::default())
                .contains("Not judged: bursts, overload and noisy neighbours")
        );
    }
}

/// Names of rules are for programs. The unwanted words are only known to experts.
#[test]
fn the_answer_is_in_plain_words() {
    let loads = [
        fixture::full_of_problems(),
        contended(40),
        unfair(),
        bullied(40),
        fixture::overloaded(40),
        fixture::idle(60),
        fixture::without_cost(20),
    ];
    for intervals in loads {
        let report = diagnose(&fixture::session(), &intervals, &Thresholds::default());
        let answer = render(&report, Depth::Short, PageOptions::default());
        // Commands are what they are.
        let prose: String = answer.lines().filter(|line| !line.starts_with("  $ ")).collect::<Vec<_>>().join(" ");
        for rule in Rule::ALL.iter().map(|rule| rule.name()).filter(|name| name.contains('_')) {
            assert!(!prose.contains(rule), "{rule} is in {prose}");
        }
        for word in ["perceived", "sibling", "top level", "self-inflicted"] {
            assert!(!prose.contains(word), "{word:?} is in {prose}");
        }
        for word in ["light cgroup", "heavy cgroup"] {
            if let Some(at) = prose.find(word) {
                let after: String = prose[at..].chars().take(120).collect();
                assert!(after.contains("share"), "{word:?} is not explained in {prose}");
            }
        }
    }
}

#[test]
fn no_label_of_a_rule_is_broken() {
    let labels = Rule::ALL.iter().flat_map(|rule| rule.figures()).map(|figure| figure.label);
    let broken: Vec<&str> = labels.filter(|label| display::width(label) > LONGEST_LABEL).collect();
    assert_eq!(broken, <[&str; 0]>::default());
}
