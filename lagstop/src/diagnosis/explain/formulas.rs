//! The formulas.

use crate::diagnosis::Rule;

const COUNTED: &str = "counted";
const LAGS: &str = "CFS-LAGS paper, arXiv 2508.15703";
const SIMULATED: &str = "trace-driven simulation: docs/diagnose.md";
const DRAWN: &str = "bootstrap over intervals: docs/diagnose.md";
const LMDI: &str = "LMDI: B. W. Ang, Energy Policy 33, 2005";

type Formula = (&'static str, &'static str, &'static str);

/// Name, formula, source.
const fn table(rule: Rule) -> &'static [Formula] {
    match rule {
        Rule::SchedulingOverhead => &[
            ("overhead", "(switching_ns + kept_ns) / capacity_ns", LAGS),
            ("mean_switch_cost", "switching_ns / switches", LAGS),
            ("switch_rate", "switches / duration_ns", COUNTED),
            ("kept_running", "kept_ns / capacity_ns", COUNTED),
            ("cross_cgroup", "cross_cgroup_switches / switches", COUNTED),
            ("involuntary", "involuntary_switches / switches", COUNTED),
            (
                "quiet_overhead",
                "overhead in the quarter of the intervals with the least (busy_ns + runq_wait_ns) / capacity_ns",
                COUNTED,
            ),
            ("busy_overhead", "overhead in the quarter with the most", COUNTED),
            ("quiet_mean_switch_cost", "mean_switch_cost in the quiet quarter", COUNTED),
            ("busy_mean_switch_cost", "mean_switch_cost in the busy quarter", COUNTED),
            (
                "growth_by_rate",
                "L · ln(r1 / r0), L = (O1 − O0) / ln(O1 / O0), O = r · c, of quiet (0) and busy (1) quarter",
                LMDI,
            ),
            ("growth_by_cost", "L · ln(c1 / c0)", LMDI),
            ("growth_by_kept", "kept_running in the busy quarter − in the quiet one", LMDI),
            ("growth_factor", "O1 / O0", LMDI),
            ("payer", "switch cost of the cgroup / switch cost of all cgroups", COUNTED),
        ],
        Rule::Utilisation => &[
            ("perceived_utilisation", "busy_ns / capacity_ns", LAGS),
            ("effective_utilisation", "(busy_ns − switching_ns − kept_ns) / capacity_ns", LAGS),
            ("cores_lost", "(switching_ns + kept_ns) / capacity_ns · cpus_online", LAGS),
            ("share_of_used", "(switching_ns + kept_ns) / busy_ns", LAGS),
            ("gap", "(switching_ns + kept_ns) / (busy_ns − switching_ns − kept_ns)", COUNTED),
        ],
        Rule::LagsCandidates => &[
            ("waiting_per_cpu", "(light_wait_ns + heavy_wait_ns) / capacity_ns", COUNTED),
            ("wait_per_cpu", "(light_wait_ns + heavy_wait_ns) / (light_cpu_ns + heavy_cpu_ns)", COUNTED),
            ("light", "siblings with light_cpu_ns / weight below Σ cpu_ns / Σ weight", COUNTED),
            ("light_wait", "light_wait_ns / light_cpu_ns", COUNTED),
            ("heavy", "their other siblings", COUNTED),
            ("heavy_wait", "heavy_wait_ns / heavy_cpu_ns", COUNTED),
            ("light_error", "waits of those that go first simulated as it is / measured − 1", SIMULATED),
            ("heavy_error", "waits of the heavy simulated as it is / measured − 1", SIMULATED),
            ("others_error", "waits of all others simulated as it is / measured − 1", SIMULATED),
            ("light_waiting", "waits of those that go first, simulated with more weight / as it is − 1", SIMULATED),
            (
                "light_gain",
                "median of 1 − wait simulated with more weight / as it is, of those that go first",
                SIMULATED,
            ),
            (
                "heavy_time",
                "(CPU time + wait) / CPU time of the heavy, simulated with more weight for the light / as it is − 1",
                SIMULATED,
            ),
            ("others_time", "the same of all that are neither", SIMULATED),
            ("waiting_change", "waits of all, simulated with more weight for the light / as it is − 1", SIMULATED),
            ("queue_length", "(busy_ns + runq_wait_ns · (1 + waiting_change)) / capacity_ns", SIMULATED),
            ("switches_change", "switches simulated with more weight for the light / as it is − 1", SIMULATED),
            (
                "overhead_change",
                "switch costs simulated with more weight for the light / as it is − 1; costs by this host's own curve",
                SIMULATED,
            ),
            ("cores_freed", "−overhead_change · overhead · cpus_online", SIMULATED),
            ("can_go_first", "all that wait long, or the lightest half or fourth: the most that others bear", LAGS),
            ("heaviest", "mean Load Credit of all inside of the cgroup", LAGS),
            ("light_gaining_most", "mean Load Credit of the cgroup while it was runnable", LAGS),
        ],
        Rule::WaitCauses => &[
            ("behind_others", "runq_wait_ns / duration_ns − behind_itself − in_throttled − behind_unknown", COUNTED),
            (
                "behind_unknown",
                "Σ wait of a cgroup on CPUs that it does not crowd · its CPU time there / least busy time of a CPU / duration_ns",
                "an estimate: docs/diagnose.md",
            ),
            (
                "behind_itself",
                "Σ wait of a cgroup on a CPU · its CPU time there / busy time there / duration_ns",
                "an estimate: docs/diagnose.md",
            ),
            ("in_throttled", "Σ run-queue wait of throttled cgroups / duration_ns", COUNTED),
            ("steal", "steal_ns / (capacity_ns + steal_ns)", COUNTED),
            ("throttled", "nr_throttled / nr_periods of the cgroup", COUNTED),
        ],
        Rule::Density => &[
            ("peak", "active cgroups where (busy_ns − overhead) / capacity_ns is largest, of six densities", LAGS),
            ("peak_from", "5th percentile of the peak in draws of the intervals", DRAWN),
            ("peak_to", "95th percentile", DRAWN),
            ("peak_per_cpu", "peak / cpus_online", LAGS),
            ("now", "mean of active cgroups in the last quarter of the intervals", COUNTED),
            ("headroom", "peak − now; of peak_from and peak_to beside it", COUNTED),
            ("lost", "(busy_ns − overhead) / capacity_ns at the peak − that in the last quarter", DRAWN),
            ("independent", "intervals / their integrated autocorrelation time", DRAWN),
            ("at_density", "mean of active cgroups in a sixth of the intervals", COUNTED),
        ],
        Rule::Migrations => &[
            ("migrations_per_cpu_second", "migrations / cpu_ns", COUNTED),
            ("migrations", "migrations / duration_ns", COUNTED),
            ("migrations_per_wakeup", "migrations / voluntary_switches", COUNTED),
            ("cross_llc", "migrations_cross_llc / migrations", COUNTED),
            ("cross_numa", "migrations_cross_numa / migrations", COUNTED),
            ("threads", "Σ tasks seen running in an interval / intervals in which any was", COUNTED),
            ("runnable", "(cpu_ns + runq_wait_ns) / duration_ns", COUNTED),
        ],
        Rule::OvercommittedThreads => &[
            ("overcommit", "runnable / active", "thesis on oversubscribed thread pools (004)"),
            ("runnable", "(cpu_ns + runq_wait_ns) / duration_ns", COUNTED),
            (
                "active",
                "ceil(min(cpu_ns / all_cpu_ns · cpus_online, quota_ns per second))",
                "thesis on oversubscribed thread pools (004), O = 1",
            ),
            ("threads", "Σ tasks seen running in an interval / intervals in which any was", COUNTED),
            ("waiting", "runq_wait_ns / duration_ns", COUNTED),
            ("self_inflicted", "behind_itself_ns / runq_wait_ns", "an estimate: docs/diagnose.md"),
            ("throttled", "nr_throttled / nr_periods", COUNTED),
            ("quota", "quota_ns per second", COUNTED),
            ("runnable_per_cpu", "(busy_ns + runq_wait_ns) / capacity_ns", COUNTED),
        ],
        Rule::QuotaWithoutCpuset => &[
            ("throttled", "nr_throttled / nr_periods", "WYSIWYG paper (003)"),
            ("quota", "quota_ns per second", COUNTED),
            ("cpus", "cpus_online", COUNTED),
            ("threads", "Σ tasks seen running in an interval / intervals in which any was", COUNTED),
            ("runnable", "(cpu_ns + runq_wait_ns) / duration_ns", COUNTED),
            ("cpu", "cpu_ns / duration_ns", COUNTED),
            ("quotas", "cgroups with a quota of their own", COUNTED),
        ],
        Rule::Backlog => &[
            ("accept_wait", "accept_wait_ns / accepts", "thesis on accept backlogs (002)"),
            ("arrivals", "established / duration_ns", COUNTED),
            ("accepts", "accepts / duration_ns", COUNTED),
            ("abandoned", "abandoned", COUNTED),
            ("backlog_used", "deepest / backlog_capacity", COUNTED),
            ("backlog", "backlogs / listed", COUNTED),
            ("worst_backlog", "the largest of all listeners: deepest / capacity", COUNTED),
            ("all_overflows", "Σ ListenOverflows of all network namespaces", COUNTED),
            ("drops", "drops", COUNTED),
            ("overflows", "listen_overflows of the network namespace", COUNTED),
            ("starved", "acceptor_wait_ns / duration_ns", COUNTED),
            (
                "service_time",
                "1/μ: service_ns / services, or kept_waiting_ns / kept_waiting where the thread waits elsewhere than in accept",
                "from busy time, never from throughput: thesis on accept backlogs (002)",
            ),
            ("service_variation", "variance / service_time^2 of the same services", COUNTED),
            ("servers", "c: threads that accept", COUNTED),
            ("utilisation", "ρ = λ / (c·μ), λ = arrivals", "Kleinrock, Queueing Systems I, §2.1"),
            (
                "wait_mmck",
                "Lq / (λ·(1 − P_K)) of M/M/c/K, c = servers, μ = 1 / service_time, K = backlog_capacity + c",
                "Kleinrock, Queueing Systems I, §3.6",
            ),
            (
                "wait_ggc",
                "C(c, ρ) / (c·μ − λ) · (dispersion + service_variation) / 2, c = servers, μ = 1 / service_time",
                "Allen–Cunneen; c_a² by the dispersion of arrivals, c_s² of the services",
            ),
            ("residual", "backlog − arrivals · accept_wait", "Little's law"),
        ],
    }
}

/// Formula and source of a rule's figure.
pub(super) fn of(rule: Rule, figure: &str) -> Option<(&'static str, &'static str)> {
    table(rule).iter().find(|(name, ..)| *name == figure).map(|&(_, formula, source)| (formula, source))
}

/// All there are.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (Rule, &'static str)> {
    Rule::ALL.into_iter().flat_map(|rule| table(rule).iter().map(move |&(name, ..)| (rule, name)))
}
