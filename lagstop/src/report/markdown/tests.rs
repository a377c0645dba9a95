use super::*;
use crate::{
    diagnosis::{Thresholds, diagnose},
    model::fixture,
};

#[test]
fn an_overloaded_host_is_a_ticket() {
    let report = diagnose(&fixture::session(), &fixture::overloaded(40), &Thresholds::default());
    insta::assert_snapshot!(render(&report), @r"
    # node-7: The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as much when busy as when quiet, because of more switches (59.6 % of the growth) and costlier ones (40.4 %); top contributor: batch (58.8 %).

    - Next: Use longer time slices, because most switches are preemptions. This doubles the base slice. Tasks then wait longer for a CPU. To undo it, halve the value.

      ```sh
      sudo sh -c 'n=$(cat /sys/kernel/debug/sched/base_slice_ns) && echo $((2 * n)) > /sys/kernel/debug/sched/base_slice_ns'
      ```

    **Also (WARNING):** Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice” (using less than their fair share) wait 70.1 % of their runnable time, while the heavy batch (using its share or more) takes 77.1 % of the CPU time there; the effect of more weight cannot be predicted.

    - Next: Run a trial. For a minute it alternates between the old weights and new ones, more for light cgroups and less for heavy ones. It shows the effect, then restores the old weights, also when interrupted: --apply keeps nothing.

      ```sh
      sudo lagstop trial --policy weight --from-diagnose --apply
      ```

    Linux 6.12.1, 4 CPUs; 40 intervals, 40.0 s from 2026-08-03T10:00:00Z.

    | | | |
    | --- | ---: | --- |
    | overhead | 10.6 % | of all CPU time |
    | mean switch cost | 13.0 µs |  |
    | switches | 32.0 k/s |  |
    | CPU utilisation | 60.0 % |  |
    | effective utilisation | 49.4 % |  |
    | runnable tasks per CPU | 3.68 tasks |  |
    | cgroups that ran | 4 |  |
    | steal | 0 % |  |

    ## CRITICAL: The host spends 10.6 % of its CPU time (0.42 of 4 cores) on scheduling, 45.1 times as much when busy as when quiet, because of more switches (59.6 % of the growth) and costlier ones (40.4 %); top contributor: batch (58.8 %).

    `scheduling_overhead`, host. Confidence medium: 40 intervals, 1.28 M switches; 20 of 40 intervals agree.

    | | | |
    | --- | ---: | --- |
    | overhead | 10.6 % | of all CPU time |
    | mean switch cost | 13.0 µs | pick + swap, per switch |
    | switches | 32.0 k/s | 8000/s per CPU |
    | scheduler calls without a switch | 0.2 % | included in the overhead |
    | switches between cgroups | 80.0 % | of all switches |
    | involuntary switches | 75.0 % | of all switches |
    | overhead, quietest quarter | 0.5 % | 0.26 tasks runnable per CPU; 1500/s switches per CPU, 3.00 µs each |
    | overhead, busiest quarter | 20.7 % | 7.09 tasks runnable per CPU; 14.5 k/s switches per CPU, 14.0 µs each |
    | mean switch cost, quietest quarter | 3.00 µs |  |
    | mean switch cost, busiest quarter | 14.0 µs |  |
    | growth by more switches | +11.82 points | 9.67x as many switches |
    | growth by costlier switches | +8.03 points | 4.67x the cost |
    | growth by calls without a switch | +0.40 points |  |
    | growth of total switch cost | × 45.1 | product of both factors |
    | share of switch cost: batch | 58.8 % | 0.25 cores; 19.0 k/s switches, 12.8 µs each |
    | share of switch cost: train | 21.7 % | 0.092 cores; 6000/s switches, 15.0 µs each |
    | share of switch cost: web | 14.8 % | 0.063 cores; 5500/s switches, 11.2 µs each |
    | share of switch cost: api�\[2J | 4.7 % | 0.020 cores; 1500/s switches, 13.0 µs each |

    <details><summary>Thresholds</summary>

    - `overhead_warn` 5.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): 5 to 7 % at peak throughput
    - `overhead_critical` 10.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): steady load stays below 10 %, overload reaches 28 %
    - `mean_switch_cost_warn` 10.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): below 10 µs under steady load, more under bursts
    - `mean_switch_cost_critical` 20.0 µs: default; CFS-LAGS paper (arXiv 2508.15703, §3.1): up to 20 µs on its overloaded host

    </details>

    <details><summary>Caveats</summary>

    - lagstop's own programs ran for 360 ms, part of which is included in the 16.9 s of scheduling time.
    - The thresholds are starting points, because the paper's percentages cannot be reproduced from its raw data; compare with this host's quiet times.

    </details>

    **What to do**

    - Use longer time slices, because most switches are preemptions. This doubles the base slice. Tasks then wait longer for a CPU. To undo it, halve the value.

      ```sh
      sudo sh -c 'n=$(cat /sys/kernel/debug/sched/base_slice_ns) && echo $((2 * n)) > /sys/kernel/debug/sched/base_slice_ns'
      ```

    - Spread the top contributors over more hosts or CPUs: fewer runnable cgroups per CPU make switches cheaper. Disable the cpu controller below cgroups that need no weights or limits inside, because each level adds a run queue to every switch. This lists the levels:

      ```sh
      find /sys/fs/cgroup -name cgroup.subtree_control -exec grep -lw cpu {} +
      ```

    ## WARNING: Overloaded for 20.0 s of 40.0 s: tasks then ask for 17.9 CPUs and there are 4, so CPU work takes 4.58 times as long. All 4 cgroups wait long; batch and train fill the CPUs.

    `overload`, host. Confidence high: 40 intervals, 422 k waits.

    | | | |
    | --- | ---: | --- |
    | CPUs that tasks ask for | 17.9 tasks | of 4 CPUs, while they were full |
    | time with too few CPUs | 20.0 s | of 40.0 s: from 20.0 s to 40.0 s of the recording |
    | CPU utilisation | 60.0 % | of all CPUs |
    | slowdown of work by waits | × 4.58 |  |
    | cgroups that wait long | 4 | of 4 |
    | cgroups that fill the CPUs | 2 |  |
    | asks for: batch | 8.00 tasks |  |
    | asks for: train | 8.00 tasks |  |

    <details><summary>Thresholds</summary>

    - `full_cpus` 90.0 %: default; lagstop's own choice: with more room than a tenth, hardly anything waits for want of CPUs
    - `wait_per_cpu_warn` × 1.00: default; lagstop's own choice: waiting as long as running doubles response times
    - `wait_per_cpu_critical` × 4.00: default; lagstop's own choice: one second of work takes five

    </details>

    <details><summary>Caveats</summary>

    - With that many CPUs these tasks would not wait, but work that never ends keeps any number of CPUs busy.
    - This is an average: short bursts may be worse.
    - The share that a cgroup gets is computed without thread affinities and nice values.

    </details>

    **What to do**

    - Move work to other hosts, or add CPUs.

    ## WARNING: Switching takes 17.6 % of the used CPU time (0.42 cores): the CPUs are 60.0 % used with it and 49.4 % without.

    `utilisation`, host. Confidence medium: 40 intervals, 1.28 M switches; 20 of 40 intervals agree.

    | | | |
    | --- | ---: | --- |
    | CPU utilisation | 60.0 % | of all CPU time, as other tools show it |
    | effective utilisation | 49.4 % | of all CPU time |
    | lost to switching | 0.42 cores | of 4 cores |
    | switching, share of used CPU time | 17.6 % |  |
    | switching time / work time | 21.4 % | 100 % means as much switching as work |

    <details><summary>Thresholds</summary>

    - `utilisation_gap_warn` 10.0 %: default; lagstop's own choice; the CFS-LAGS paper's +10 and +100 % (arXiv 2508.15703, §5.1) compare CPU time used with CPU time needed, not the cost of switches
    - `utilisation_gap_critical` 25.0 %: default; lagstop's own choice
    - `full_utilisation` 45.0 %: default; CFS-LAGS paper (arXiv 2508.15703, §5.1): production hosts under CFS target at most 45 %

    </details>

    <details><summary>Caveats</summary>

    - The true cost is higher, because wakeups, the tick, load balancing and cold caches count as the tasks' own time.
    - Interrupts and lagstop's own programs count as work or as scheduling, depending on where they occur.

    </details>

    **What to do**

    - Reduce switching before adding CPUs: this frees up to 0.42 cores. The advice on the cost of scheduling shows how.

    ## WARNING: Short jobs wait behind long ones (LAGS): 2 of 3 light cgroups in “/apps.slice” (using less than their fair share) wait 70.1 % of their runnable time, while the heavy batch (using its share or more) takes 77.1 % of the CPU time there; the effect of more weight cannot be predicted.

    `lags_candidates`, host. Confidence low: 40 intervals, 422 k waits; simulated waits are -80 % off; too far off to predict from.

    | | | |
    | --- | ---: | --- |
    | tasks waiting per CPU | 3.08 tasks |  |
    | wait per CPU time | × 5.13 | of all compared cgroups |
    | light cgroups | 3 | below their fair share; 22.9 % of the CPU time |
    | light: wait per CPU time | × 10.0 | 1.21 ms per wait on average |
    | heavy cgroups | 1 | at or above their fair share; 77.1 % of the CPU time |
    | heavy: wait per CPU time | × 3.68 | 1.14 ms per wait on average |
    | simulation error, light | -80.1 % | 0.12 tasks waiting in the simulation, 0.71 measured |
    | simulation error, heavy | -54.4 % | 2.50 tasks waiting in the simulation, 6.81 measured |
    | simulation error, others | -35.9 % | 1.80 tasks waiting in the simulation, 4.80 measured |
    | predicted wait, prioritised | n/a | the simulation error is too large: waits of the prioritised cgroups -80 % off the measured (limit 50 %) |
    | wait saved per cgroup (median) | n/a | the simulation error is too large: waits of the prioritised cgroups -80 % off the measured (limit 50 %) |
    | predicted time per work, heavy | n/a | the simulation error is too large: waits of the heavy cgroups -54 % off the measured (limit 50 %) |
    | predicted time per work, others | n/a | the simulation error is too large: CPU time of all other cgroups +432 % off the measured (limit 25 %) |
    | predicted wait, all cgroups | -1.4 % | -29.8 % to +38.6 % |
    | predicted tasks per CPU | 3.64 tasks | including running tasks; 3.68 tasks now |
    | predicted switches | 14.3 % | -24.8 % to +73.5 % |
    | predicted overhead | n/a | the predicted range is too wide (-28 % to +79 %) |
    | predicted cores freed | n/a | overhead is not predicted |
    | light cgroups to prioritise | 2 | of 2 that wait long |
    | heavy: batch | 8.45 tasks | demand over the last seconds (Load Credit); 77.1 % of the CPU time, waited 3.68x its CPU time, p99 wait 1.44 ms |
    | light, most to gain: train | 10.0 tasks | demand over the last seconds (Load Credit); 10.4 % of the CPU time, waited 19.2x its CPU time, p99 wait 1.18 ms |
    | light, most to gain: web | 0.90 tasks | demand over the last seconds (Load Credit); 8.3 % of the CPU time, waited 2.77x its CPU time, p99 wait 18.9 ms |
    | light, most to gain: api�\[2J | 0.50 tasks | demand over the last seconds (Load Credit); 4.2 % of the CPU time, waited 1.50x its CPU time, p99 wait 15.7 ms |

    <details><summary>Thresholds</summary>

    - `contended_wait` 0.050 tasks: default; lagstop's own choice: one waiting task per twenty CPUs
    - `light_credit` 50.0 %: default; lagstop's own choice: with a smaller difference, priority hardly matters
    - `light_wait_per_cpu` × 1.00: default; lagstop's own choice: waiting as long as running doubles response times
    - `light_wait_p99` 10.0 ms: default; lagstop's own choice: a few time slices, and the least that users notice
    - `light_gain` 20.0 %: default; lagstop's own choice: smaller gains are within the simulation error
    - `heavy_tolerance` 10.0 %: default; lagstop's own choice; the CFS-LAGS paper (arXiv 2508.15703, §4.1) prioritises more cgroups until the others miss their latency target

    </details>

    <details><summary>Caveats</summary>

    - The effect of more weight is not predicted: the simulation error is too large: waits of the prioritised cgroups -80 % off the measured (limit 50 %).
    - Light cgroups that wait for their own threads may be included, because the cause of each wait is not measured by the lagstop that made the recording.
    - Weights were not recorded, so all cgroups are assumed to have the default weight.
    - The simulation draws wakeup times and run lengths at random, and ignores wakeup chains, affinities and nice values.
    - Whether tasks would do more work if they ran sooner is unknown; the prediction lies between both cases.

    </details>

    **What to do**

    - Run a trial. For a minute it alternates between the old weights and new ones, more for light cgroups and less for heavy ones. It shows the effect, then restores the old weights, also when interrupted: --apply keeps nothing.

      ```sh
      sudo lagstop trial --policy weight --from-diagnose --apply
      ```

    ## INFO: 12.3 tasks wait for a CPU on average, but the cause is not measured by the lagstop that made the recording.

    `wait_causes`, host. Confidence high: 40 intervals, 422 k waits.

    | | | |
    | --- | ---: | --- |
    | tasks waiting | 12.3 tasks | on average |
    | wait behind other cgroups | n/a | not measured by the lagstop that made the recording |
    | wait behind own threads | n/a | not measured by the lagstop that made the recording |
    | wait behind kernel threads | n/a | not measured by the lagstop that made the recording |
    | wait while the CPU was idle | n/a | not measured by the lagstop that made the recording |
    | wait while throttled | n/a | not measured by the lagstop that made the recording |
    | wait before a migration | n/a | not measured by the lagstop that made the recording |
    | wait unattributed | n/a | not measured by the lagstop that made the recording |
    | steal | 0 % | of all CPU time |

    <details><summary>Thresholds</summary>

    - `contended_wait` 0.050 tasks: default; lagstop's own choice: one waiting task per twenty CPUs

    </details>

    <details><summary>Caveats</summary>

    - The wait may be behind a neighbour, behind own threads or for a quota, because the cause is not measured by the lagstop that made the recording.

    </details>

    ## No problem, or not enough data

    - **NOT ENOUGH DATA**, `pinned`: Cannot judge whether tasks wait while CPUs are idle: the recording has no rows of CPUs.
    - **NOT ENOUGH DATA**, `overcommitted_threads`: Cannot judge thread counts: some cgroups have many more runnable threads than CPUs, but whether these queue behind each other is not measured by the lagstop that made the recording.
    - **NOT ENOUGH DATA**, `starved`: Cannot judge whether a cgroup gets its share of CPU time: the weights of cgroups that used 100 % of the CPU time were not recorded.
    - **NOT ENOUGH DATA**, `outweighed`: Cannot judge whether weights make a cgroup wait: the weights of cgroups that used 100 % of the CPU time were not recorded.
    - **NOT ENOUGH DATA**, `weights_have_no_effect`: Cannot judge whether weights take effect: the weights of cgroups that used 100 % of the CPU time were not recorded.
    - **NOT ENOUGH DATA**, `noisy_neighbour`: Cannot judge noisy neighbours: the cause of each wait is not measured by the lagstop that made the recording.
    - **OK**, `steal`: The hypervisor steals 0 % of the CPU time.
    - **OK**, `density`: The host is not overfilled: tasks got the most CPU time near the highest density seen (4 active cgroups).
    - **OK**, `backlog`: No TCP listener was active.
    - **OK**, `throttled`: No cgroup that ran has a quota of its own.
    - **OK**, `migrations`: No cgroup moves its tasks between CPUs too often.
    - **OK**, `quota_without_cpuset`: No cgroup with a quota of its own ran.

    ---

    lagstop 0.1.0. Measuring took 80.0 ms of CPU time and 360 ms in the kernel, 0.011 cores in all. Nothing was lost. Measured: switches by switches.
    ");
}

#[test]
fn a_name_is_nothing_but_text() {
    assert_eq!(text("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
    assert_eq!(text("[a](javascript:1) **b** `c` @all #1"), r"\[a\](javascript:1) \*\*b\*\* \`c\` \@all \#1");
    assert_eq!(text("a\nb\u{202e}"), "a\u{fffd}b\u{fffd}");
}

#[test]
fn a_command_cannot_leave_its_block() {
    let mut page = Page(String::new());
    page.block("echo ```` | tee");
    assert_eq!(page.0, "  `````sh\n  echo ```` | tee\n  `````\n");
}
