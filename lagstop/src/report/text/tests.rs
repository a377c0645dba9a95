use super::*;
use crate::{
    diagnosis::{Rule, Thresholds, diagnose},
    model::fixture,
};

fn overloaded() -> Report {
    diagnose(&fixture::session(), &fixture::overloaded(40), &Thresholds::default())
}

#[test]
fn an_overloaded_host_reads_like_this() {
    insta::assert_snapshot!(render(&overloaded(), Options::default()), @"
    1 critical finding, 1 warning, 2 things worth knowing, 5 questions without enough data.
    node-7, Linux 6.12.1, 4 CPUs; 40 intervals, 40.0 s from 2026-08-03T10:00:00Z

      scheduling overhead         10.6 %  of the time of all CPUs
      mean switch cost           13.0 µs
      switches                  32.0 k/s
      perceived utilisation       60.0 %
      effective utilisation       49.4 %
      runnable tasks per CPU  3.68 tasks
      cgroups that ran                 4
      taken by a hypervisor          0 %

    [CRITICAL] Scheduling took 10.6 % of the time of all CPUs (0.42 of 4 cores), in its busy times 45.1
    times what it takes when quiet, because there were more switches (59.6 % of the growth) and each got
    dearer (40.4 %).
      scheduling_overhead, host
        scheduling overhead                10.6 %  of the time of all CPUs
        mean switch cost                  13.0 µs  pick + swap, calls that switched
        switches                         32.0 k/s  8000/s per CPU
        calls that kept the task            0.2 %  part of the overhead
        switches between cgroups           80.0 %  of all switches
        involuntary switches               75.0 %  of all switches
        overhead, quietest quarter          0.5 %  at 0.26 tasks runnable per CPU: 1500/s per CPU, 3.00
                                                   µs each
        overhead, busiest quarter          20.7 %  at 7.09 tasks runnable per CPU: 14.5 k/s per CPU,
                                                   14.0 µs each
        quiet mean switch cost            3.00 µs
        busy mean switch cost             14.0 µs
        growth by more switches     +11.82 points  × 9.67 as many
        growth by dearer switches    +8.03 points  × 4.67 as dear
        growth by calls that kept    +0.40 points
        growth of switch cost              × 45.1  the product of the two
        pays: batch                        58.8 %  0.25 cores of it by 19.0 k/s, 12.8 µs each
        pays: train                        21.7 %  0.092 cores of it by 6000/s, 15.0 µs each
        pays: web                          14.8 %  0.063 cores of it by 5500/s, 11.2 µs each
        pays: api�[2J                       4.7 %  0.020 cores of it by 1500/s, 13.0 µs each
        threshold   overhead_warn 5.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): 5 to 7 % at
                    peak throughput
        threshold   overhead_critical 10.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): steady
                    load stays below 10 %, overload reaches 28 %
        threshold   mean_switch_cost_warn 10.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1):
                    below 10 µs under steady load, more under bursts
        threshold   mean_switch_cost_critical 20.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1):
                    up to 20 µs on its overloaded host
        confidence  medium: 40 intervals, 1.28 M switches; 20 of 40 intervals alone support it
        against     The paper's percentages cannot be reproduced from its own raw data, so the
                    thresholds are starting points: this host's own quiet cost is the better measure.
        against     lagstop's own programs ran for 360 ms, part of it within the 16.9 s that are called
                    overhead.
        advice      Fewer switches: most are preemptions, so longer time slices help. This doubles the
                    base slice; tasks that wait for a CPU then wait longer. Halve it again to undo.
                    $ sudo sh -c 'n=$(cat /sys/kernel/debug/sched/base_slice_ns) && echo $((2 * n)) > /sys/kernel/debug/sched/base_slice_ns'
        advice      Cheaper switches: fewer runnable cgroups per CPU, or fewer levels of them. Spread
                    the cgroups that pay most over more hosts or CPUs, and turn the cpu controller off
                    below cgroups that need no weights or limits inside: each level with it is one more
                    run queue to put back and pick from. See which levels there are:
                    $ find /sys/fs/cgroup -name cgroup.subtree_control -exec grep -lw cpu {} +

    [WARNING] 17.6 % of the CPU time that looks used, 0.42 cores, is switching: the CPUs look 60.0 %
    used, and 49.4 % without switching.
      utilisation, host
        perceived utilisation         60.0 %  of the time of all CPUs that was not idle: what other
                                              tools show
        effective utilisation         49.4 %  the same without the cost of switches
        lost to switching         0.42 cores  of 4 cores
        share of what looks used      17.6 %
        gap: switching per work       21.4 %  100 % is twice as much used as worked
        threshold   utilisation_gap_warn 10.0 %: default; lagstop's own choice; the CFS-LAGS paper's +10
                    and +100 % (arXiv 2508.15703, §5.1) are CPU time used against needed, not the cost
                    of switches
        threshold   utilisation_gap_critical 25.0 %: default; lagstop's own choice
        threshold   full_utilisation 45.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §5.1):
                    production hosts under CFS aim at no more than 45 %
        confidence  medium: 40 intervals, 1.28 M switches; 20 of 40 intervals alone support it
        against     Scheduling outside of a switch counts as the tasks' time: queueing a task that wakes
                    up (try_to_wake_up), the tick, load balancing in softirq, and caches and TLBs that a
                    switch left cold. The true gap is wider.
        against     Interrupts, and lagstop's own programs in the kernel, count as work or as scheduling
                    by where they struck.
        advice      Do not add work because other tools show room, and do not buy CPUs because they show
                    none: 0.42 cores come back when switching is brought down. See the finding
                    scheduling_overhead for how.

    [INFO] 2 of 3 cgroups in “/apps.slice” below their fair share wait long; 1 above it used 77.1 % of
    these cgroups' CPU time. What more weight would do is not predicted: simulating the host as it is
    puts waits of those that go first -80 % off the measured; the limit is 50 %. Run a trial to find
    out.
      lags_candidates, host
        tasks waiting per CPU               3.08 tasks
        wait per CPU time                       × 5.13  of all cgroups compared
        light cgroups                                3  22.9 % of the CPU time
        their wait per CPU time                 × 10.0  1.21 ms each on average
        heavy cgroups                                1  77.1 % of the CPU time
        their wait per CPU time                 × 3.68  1.14 ms each on average
        simulation error, light                -80.1 %  simulated as it is: 0.12 instead of 0.71 tasks
                                                        waiting
        simulation error, heavy                -54.4 %  simulated as it is: 2.50 instead of 6.81 tasks
                                                        waiting
        simulation error, all others           -35.9 %  simulated as it is: 1.80 instead of 4.80 tasks
                                                        waiting
        waits of those that go first               n/a  simulating the host as it is puts waits of those
                                                        that go first -80 % off the measured; the limit
                                                        is 50 %
        wait spared, of each                       n/a  for the same reason
        heavy: time for the same work              n/a  simulating the host as it is puts waits of the
                                                        heavy ones -54 % off the measured; the limit is
                                                        50 %
        all others: time for the same work         n/a  simulating the host as it is puts CPU time of
                                                        all others +432 % off the measured; the limit is
                                                        25 %
        all waits                               -1.3 %  -29.8 % to +38.7 %
        tasks per CPU then                  3.64 tasks  running ones included; 3.68 tasks now
        switches                                10.6 %  -24.7 % to +62.5 %
        overhead                                   n/a  it may be anything from -29 % to +76 %
        cores freed                                n/a  overhead is not predicted
        light cgroups that can go first              2  of 2 that wait long
        heavy: batch                        8.45 tasks  Load Credit; 77.1 % of the CPU time, waited ×
                                                        3.68 its own, p99 wait 1.44 ms
        light, gaining most: train          10.0 tasks  Load Credit; 10.4 % of the CPU time, waited ×
                                                        19.2 its own, p99 wait 1.18 ms
        light, gaining most: web            0.90 tasks  Load Credit; 8.3 % of the CPU time, waited ×
                                                        2.77 its own, p99 wait 18.9 ms
        light, gaining most: api�[2J        0.50 tasks  Load Credit; 4.2 % of the CPU time, waited ×
                                                        1.50 its own, p99 wait 15.7 ms
        threshold   contended_wait 0.050 tasks: default; lagstop's own choice: one task in twenty CPUs
        threshold   light_credit 50.0 %: default; lagstop's own choice: with less between them, who goes
                    first hardly matters
        threshold   light_wait_per_cpu × 1.00: default; lagstop's own choice: waiting as long as running
                    doubles every response
        threshold   light_wait_p99 10.0 ms: default; lagstop's own choice: a few time slices, and the
                    least that users may notice
        threshold   light_gain 20.0 %: default; lagstop's own choice: less is within what the simulation
                    is off
        threshold   heavy_tolerance 10.0 %: default; lagstop's own choice; the CFS-LAGS paper (arXiv
                    2508.15703, §4.1) adds to the light ones until the latency target of the others is
                    missed
        confidence  low: 40 intervals, 422 k waits; simulated as it is, waits are -80 % off; too far off
                    to predict from
        against     What each wait was caused by is not measured by the lagstop that made the recording:
                    light cgroups that wait for their own threads are not left out.
        against     Weights were not recorded: all are taken to have the usual one. Where they differ,
                    so does the outcome.
        against     The simulation knows how much was asked for, not when: when tasks wake up and for
                    how long they run is drawn at random; who wakes whom, affinities and nice values are
                    left out. Whether somebody does more when it is done sooner is not known: the
                    prediction is in the middle.
        advice      Try it first. The trial measures anew who is light and who is heavy, takes turns
                    with and without the new weights, shows what changed beside what is predicted, and
                    undoes all of it.
                    $ sudo lagstop trial --policy weight --from-diagnose --apply

    [INFO] 12.3 tasks wait for a CPU on average; the cause of their waits is not measured by the lagstop
    that made the recording.
      wait_causes, host
        tasks waiting                12.3 tasks  on average
        wait behind other cgroups           n/a  not measured by the lagstop that made the recording
        wait behind own threads             n/a  for the same reason
        wait behind kernel threads          n/a  for the same reason
        wait while throttled                n/a  for the same reason
        wait before a migration             n/a  for the same reason
        wait while the CPU was idle         n/a  for the same reason
        wait of unknown cause               n/a  for the same reason
        taken by a hypervisor               0 %  of the time of all CPUs
        threshold   contended_wait 0.050 tasks: default; lagstop's own choice: one task in twenty CPUs
        threshold   throttled_warn 5.0 %: default; lagstop's own choice: one period in twenty
        threshold   throttled_critical 25.0 %: default; lagstop's own choice: one period in four
        threshold   steal_warn 5.0 %: default; lagstop's own choice: one CPU in twenty
        threshold   steal_critical 20.0 %: default; lagstop's own choice: one CPU in five
        confidence  high: 40 intervals, 422 k waits
        against     What caused each wait is not measured by the lagstop that made the recording. It may
                    be a neighbour, the cgroup's own threads or its quota.

    [NOT ENOUGH DATA] Cannot tell whether a neighbour makes others wait: what caused each wait is not
    measured by the lagstop that made the recording.
      noisy_neighbour, host

    [NOT ENOUGH DATA] Cannot tell whether a cgroup has too many threads: some have many more runnable
    ones than CPUs that they get, and whether these queue behind one another is not measured by the
    lagstop that made the recording.
      overcommitted_threads, host

    [NOT ENOUGH DATA] Cannot tell whether a cgroup gets less CPU time than its share: the weights of
    cgroups that used 100 % of the CPU time were not recorded.
      starved, host

    [NOT ENOUGH DATA] Cannot tell whether weights make a cgroup wait: the weights of cgroups that used
    100 % of the CPU time were not recorded.
      outweighed, host

    [NOT ENOUGH DATA] Cannot tell whether weights have an effect: the weights of cgroups that used 100 %
    of the CPU time were not recorded.
      weights_have_no_effect, host

    [OK] No peak found: the tasks got most CPU time at or near the most active cgroups there were, 4.
      density, host

    [OK] No cgroup's tasks are moved from CPU to CPU too often.
      migrations, host

    [OK] No cgroup with a quota of its own ran.
      quota_without_cpuset, host

    [OK] No connection waits long to be accepted at any of 0 listeners.
      backlog, host

    Measuring took 80.0 ms of CPU time and 360 ms in the kernel, 0.011 cores in all.
    Nothing was lost.
    Measured: switches by switches.
    ");
}

#[test]
fn a_kernel_without_the_hooks_reads_like_this() {
    let thresholds = Thresholds::default();
    let report = diagnose(&fixture::session_without_cost(), &fixture::without_cost(4), &thresholds);
    insta::assert_snapshot!(render(&report, Options { width: 80, colour: false }), @"
    13 questions without enough data.
    node-7, Linux 6.12.1, 4 CPUs; 4 intervals, 4.00 s from 2026-08-03T10:00:00Z

      scheduling overhead            n/a  not measured without switch-cost (kernel
                                          6.8.0 has no such tracepoint)
      mean switch cost               n/a  for the same reason
      switches                  32.0 k/s
      perceived utilisation       60.0 %
      effective utilisation          n/a  for the same reason
      runnable tasks per CPU  3.68 tasks
      cgroups that ran                 4
      taken by a hypervisor          0 %

    [NOT ENOUGH DATA] Cannot tell whether a neighbour makes others wait: it takes 5
    intervals at least, and there are 4.
      noisy_neighbour, host

    [NOT ENOUGH DATA] What scheduling costs cannot be said: switch cost is not
    measured without switch-cost (kernel 6.8.0 has no such tracepoint).
      scheduling_overhead, host

    [NOT ENOUGH DATA] How much of the used CPU time is work cannot be said: switch
    cost is not measured without switch-cost (kernel 6.8.0 has no such tracepoint).
      utilisation, host

    [NOT ENOUGH DATA] Cannot tell which cgroups wait: it takes 5 intervals at least,
    and there are 4.
      lags_candidates, host

    [NOT ENOUGH DATA] What tasks wait for cannot be said: it takes 5 intervals at
    least, and there are 4.
      wait_causes, host

    [NOT ENOUGH DATA] Cannot tell how many cgroups this host can take: it takes 5
    intervals at least, and there are 4.
      density, host

    [NOT ENOUGH DATA] Whether tasks move too often cannot be said: it takes 5
    intervals at least, and there are 4.
      migrations, host

    [NOT ENOUGH DATA] Cannot tell whether a cgroup has too many threads: it takes 5
    intervals at least, and there are 4.
      overcommitted_threads, host

    [NOT ENOUGH DATA] Whether quotas are too small cannot be said: it takes 5
    intervals at least, and there are 4.
      quota_without_cpuset, host

    [NOT ENOUGH DATA] Cannot tell whether a cgroup gets less CPU time than its
    share: it takes 5 intervals at least, and there are 4.
      starved, host

    [NOT ENOUGH DATA] Cannot tell whether weights make a cgroup wait: it takes 5
    intervals at least, and there are 4.
      outweighed, host

    [NOT ENOUGH DATA] Cannot tell whether weights have an effect: it takes 5
    intervals at least, and there are 4.
      weights_have_no_effect, host

    [NOT ENOUGH DATA] Whether connections wait cannot be said: it takes 5 intervals
    at least, and there are 4.
      backlog, host

    Measuring took 8.00 ms of CPU time and 36.0 ms in the kernel, 0.011 cores in
    all.
    Nothing was lost.
    Not measured: pick cost, kept-running cost, switch cost (switch-cost: kernel
    6.8.0 has no such tracepoint).
    ");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let coloured = render(&overloaded(), Options { width: 100, colour: true });
    assert!(coloured.contains("\u{1b}[1;31m[CRITICAL]\u{1b}[0m"));
    let mut plain = coloured.clone();
    for sgr in ["0", "1", "2", "1;31", "32", "1;33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{sgr}m"), "");
    }
    assert_eq!(plain, render(&overloaded(), Options::default()));
}

#[test]
fn nothing_hostile_gets_through() {
    let mut report = overloaded();
    report.session.hostname = "\u{1b}]0;owned\u{7}\u{202e}".to_owned();
    for width in [0, 30, 100] {
        let text = render(&report, Options { width, colour: false });
        assert!(text.lines().all(|line| !line.contains(display::is_hostile)));
    }
}

#[test]
fn merged_intervals_are_said_to_be() {
    let part = crate::model::merge(crate::model::Nanos::SECOND, &fixture::overloaded(40)).unwrap();
    let report = diagnose(&fixture::session(), &[part], &Thresholds::default());
    assert!(render(&report, Options::default()).contains("40 intervals merged into 1 of 40.0 s each, 40.0 s from"));
}

#[test]
fn no_label_of_a_rule_is_broken() {
    let labels = Rule::ALL.iter().flat_map(|rule| rule.figures()).map(|figure| figure.label);
    let broken: Vec<&str> = labels.filter(|label| display::width(label) > LONGEST_LABEL).collect();
    assert_eq!(broken, <[&str; 0]>::default());
}
