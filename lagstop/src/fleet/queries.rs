//! What is asked for, in PromQL: the series of the recording rules, and where a server has none of them, what the rules
//! would have computed from the exporter's own.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::Selector;

/// A figure of a node in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// CPUs.
    Cpus,
    /// Cgroups that ran in an interval of lagstop's.
    Active,
    /// Overhead, as a share of the time of all CPUs.
    Overhead,
    /// Cores lost to switching.
    CoresLost,
    /// CPU time that is not idle, as a share of all.
    Perceived,
    /// 99th percentile of all run-queue waits, in seconds.
    WaitP99,
    /// Mean cost of a switch, in seconds.
    SwitchCost,
    /// Switches a second.
    Switches,
    /// Time taken by a hypervisor, as a share.
    Steal,
    /// Run-queue wait of light cgroups for each second of their CPU time.
    LightWait,
    /// The same of heavy ones.
    HeavyWait,
    /// What lagstop itself takes, in cores.
    OwnCores,
    /// Events that lagstop lost, a second.
    Lost,
    /// Samples that the server has of the node.
    Samples,
    /// Times that lagstop began anew.
    Restarts,
}

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The series that the recording rules wrote.
    Recorded,
    /// The exporter's own series, put together by the server when asked.
    Raw,
}

/// A question for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub source: Source,
    pub text: String,
}

/// What all names of lagstop's series match, those of rules and those of the exporter.
pub(super) const NAMES: &str = "(node:|workload:)?lagstop_.+";

/// A quantile of waits of all cgroups: more than one wait in a hundred is longer than that.
const QUANTILE: &str = "0.99";

impl Figure {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Cpus,
        Self::Active,
        Self::Overhead,
        Self::CoresLost,
        Self::Perceived,
        Self::WaitP99,
        Self::SwitchCost,
        Self::Switches,
        Self::Steal,
        Self::LightWait,
        Self::HeavyWait,
        Self::OwnCores,
        Self::Lost,
        Self::Samples,
        Self::Restarts,
    ];

    /// As people call it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs",
            Self::Active => "active cgroups",
            Self::Overhead => "overhead",
            Self::CoresLost => "cores lost",
            Self::Perceived => "perceived utilisation",
            Self::WaitP99 => "p99 run-queue wait",
            Self::SwitchCost => "mean switch cost",
            Self::Switches => "switches",
            Self::Steal => "steal",
            Self::LightWait => "wait of light cgroups",
            Self::HeavyWait => "wait of heavy cgroups",
            Self::OwnCores => "lagstop's own cost",
            Self::Lost => "lost events",
            Self::Samples => "coverage",
            Self::Restarts => "restarts",
        }
    }

    /// The series that the recording rules write. `None` where there is no rule.
    const fn recorded(self) -> Option<&'static str> {
        Some(match self {
            Self::Cpus | Self::Samples => "node:lagstop_cpus_online:avg5m",
            Self::Active => "node:lagstop_cgroups_active:avg5m",
            Self::Overhead => "node:lagstop_overhead:ratio5m",
            Self::CoresLost => "node:lagstop_cores_lost:rate5m",
            Self::Perceived => "node:lagstop_perceived_utilisation:ratio5m",
            Self::WaitP99 => "node:lagstop_runqueue_wait:p99_5m",
            Self::SwitchCost => "node:lagstop_mean_switch_cost:seconds5m",
            Self::Switches => "node:lagstop_switches:rate5m",
            Self::Steal => "node:lagstop_steal:ratio5m",
            Self::LightWait => "node:lagstop_light_wait:ratio5m",
            Self::HeavyWait => "node:lagstop_heavy_wait:ratio5m",
            Self::OwnCores => "node:lagstop_self:cores5m",
            Self::Lost => "node:lagstop_lost:rate5m",
            Self::Restarts => return None,
        })
    }

    /// The exporter's series that it takes. None where that is too much to ask: those of each cgroup of each node.
    const fn raw(self) -> &'static [&'static str] {
        const BUSY: &str = "lagstop_host_busy_seconds_total";
        const IDLE: &str = "lagstop_host_idle_seconds_total";
        const COST: &str = "lagstop_host_switch_cost_seconds_total";
        match self {
            Self::Cpus | Self::Samples => &["lagstop_host_cpus_online"],
            Self::Active => &["lagstop_host_cgroups_active"],
            Self::Overhead => &[COST, BUSY, IDLE],
            Self::CoresLost => &[COST],
            Self::Perceived => &[BUSY, IDLE],
            Self::WaitP99 => &["lagstop_host_runqueue_wait_seconds"],
            Self::SwitchCost => &[COST, "lagstop_host_kept_running_seconds_total", "lagstop_host_switches_total"],
            Self::Switches => &["lagstop_host_switches_total"],
            Self::Steal => &["lagstop_host_steal_seconds_total", BUSY, IDLE],
            Self::LightWait | Self::HeavyWait => &[],
            Self::OwnCores => &["lagstop_self_cpu_seconds_total", "lagstop_self_probe_seconds_total"],
            Self::Lost => &["lagstop_lost_total"],
            Self::Restarts => &["lagstop_intervals_total"],
        }
    }

    /// What to ask a server that has series of these names, so that each moment speaks of the `step` seconds before it.
    ///
    /// # Errors
    /// When it has none that the figure could be had from; says which are missing.
    pub(super) fn query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> Result<Query, String> {
        if let Some(name) = self.recorded().filter(|&name| names.contains(name)) {
            let text = of_gauge(self, &selector.of(name, &[]), step);
            return Ok(Query { source: Source::Recorded, text });
        }
        let needed = self.raw();
        let is_there = |name: &str| names.contains(name) || names.contains(&format!("{name}_bucket"));
        let missing: Vec<&str> = needed.iter().copied().filter(|&name| !is_there(name)).collect();
        let recorded = self.recorded().unwrap_or_default();
        match (needed, &missing[..]) {
            ([], _) => Err(format!(
                "the server has no {recorded}: without the recording rule it takes the series of every cgroup"
            )),
            (_, []) => Ok(Query { source: Source::Raw, text: self.raw_query(names, selector, step) }),
            (_, missing) if recorded.is_empty() => Err(format!("the server has no {}", missing.join(", "))),
            (_, missing) => Err(format!("the server has no {recorded}, and no {}", missing.join(", "))),
        }
    }

    fn raw_query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> String {
        let rate = |name: &str| sum(&format!("rate({}[{step}s])", selector.of(name, &[])));
        let all =
            || format!("({} + {})", rate("lagstop_host_busy_seconds_total"), rate("lagstop_host_idle_seconds_total"));
        let cost = || {
            // A cost without one of its parts is none.
            let [pick, swap] = ["phase=\"pick\"", "phase=\"swap\""].map(|phase| {
                sum(&format!("rate({}[{step}s])", selector.of("lagstop_host_switch_cost_seconds_total", &[phase])))
            });
            format!("({pick} + {swap})")
        };
        match self {
            Self::Overhead => format!("{} / {}", cost(), all()),
            Self::CoresLost => cost(),
            Self::Perceived => format!("{} / {}", rate("lagstop_host_busy_seconds_total"), all()),
            Self::WaitP99 => {
                let name = self.raw().first().unwrap_or(&"");
                let native = || {
                    let waits = sum(&format!("rate({}[{step}s])", selector.of(name, &[])));
                    format!("histogram_quantile({QUANTILE}, {waits})")
                };
                let classic = || {
                    let waits = selector.of(&format!("{name}_bucket"), &[]);
                    format!("histogram_quantile({QUANTILE}, sum by ({NODE}, le) (rate({waits}[{step}s])))")
                };
                either(names, name, &native, "_bucket", &classic)
            }
            Self::SwitchCost => {
                let kept = rate("lagstop_host_kept_running_seconds_total");
                format!("({} - {kept}) / ({} > 0)", cost(), rate("lagstop_host_switches_total"))
            }
            Self::Switches => rate("lagstop_host_switches_total"),
            Self::Steal => {
                let steal = rate("lagstop_host_steal_seconds_total");
                format!("{steal} / ({} + {steal})", all())
            }
            Self::OwnCores => {
                format!("{} + {}", rate("lagstop_self_cpu_seconds_total"), rate("lagstop_self_probe_seconds_total"))
            }
            Self::Lost => rate("lagstop_lost_total"),
            Self::Restarts => {
                let intervals = selector.of("lagstop_intervals_total", &[]);
                sum(&format!("resets({intervals}[{step}s])"))
            }
            Self::Cpus | Self::Active | Self::Samples | Self::LightWait | Self::HeavyWait => {
                of_gauge(self, &selector.of(self.raw().first().unwrap_or(&""), &[]), step)
            }
        }
    }
}

/// The labels that tell nodes and workloads apart. `cluster` is empty where scrapes do not have it.
const NODE: &str = "cluster, instance";
const WORKLOAD: &str = "cluster, namespace, workload";

/// All of a node's.
fn sum(of: &str) -> String {
    format!("sum by ({NODE}) ({of})")
}

/// What the native histogram says, which is one series, and where there is none the classic one, a series a bucket.
fn either(
    names: &HashSet<String>,
    name: &str,
    native: &dyn Fn() -> String,
    suffix: &str,
    classic: &dyn Fn() -> String,
) -> String {
    match (names.contains(name), names.contains(&format!("{name}{suffix}"))) {
        (true, true) => format!("{} or {}", native(), classic()),
        (true, false) => native(),
        (false, _) => classic(),
    }
}

/// The mean over a step, or how many samples that is of.
fn of_gauge(figure: Figure, selector: &str, step: u64) -> String {
    // A pair of servers that scrape the same nodes has everything twice.
    match figure {
        Figure::Samples => format!("max by ({NODE}) (count_over_time({selector}[{step}s]))"),
        _ => format!("avg by ({NODE}) (avg_over_time({selector}[{step}s]))"),
    }
}

/// A figure of a workload in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Cores that switching its pods takes.
    SwitchCost,
    /// CPU time of its pods, in cores.
    Cpu,
    /// Its tasks that wait, on average.
    Waiting,
}

/// Raw series of every pod are read over so many seconds at a time: those of a whole step are too many.
const LOOK: u64 = 300;

/// The label `workload` of what has a label `pod`: the pod's name without what its controller put behind it. The last one
/// that matches counts: StatefulSet (`name-0`), DaemonSet or Job (`name-x2x9p`), Deployment (`name-7d9c5b7f4d-x2x9p`) or CronJob
/// (`name-28391040-x2x9p`). Kubernetes draws such letters from those that make no words (k8s.io/apimachinery/pkg/util/rand).
/// As the recording rules have it.
const TEMPLATES: [&str; 4] = [
    "(.+)",
    "(.+)-[0-9]+",
    "(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}",
    "(.+)-(?:[bcdfghjklmnpqrstvwxz2456789]{8,10}|[0-9]{8,10})-[bcdfghjklmnpqrstvwxz2456789]{5}",
];

impl Share {
    pub(super) const ALL: [Self; 3] = [Self::SwitchCost, Self::Cpu, Self::Waiting];

    /// As people call it.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::SwitchCost => "switch cost of workloads",
            Self::Cpu => "CPU time of workloads",
            Self::Waiting => "wait of workloads",
        }
    }

    /// The series that the recording rules write.
    const fn recorded(self) -> &'static str {
        match self {
            Self::SwitchCost => "workload:lagstop_switch_cost:cores5m",
            Self::Cpu => "workload:lagstop_cpu:cores5m",
            Self::Waiting => "workload:lagstop_runqueue_wait:cores5m",
        }
    }

    /// The exporter's.
    const fn raw(self) -> &'static str {
        match self {
            Self::SwitchCost => "lagstop_cgroup_switch_cost_seconds_total",
            Self::Cpu => "lagstop_cgroup_cpu_seconds_total",
            Self::Waiting => "lagstop_cgroup_runqueue_wait_seconds",
        }
    }

    /// As [`Figure::query`].
    pub(super) fn query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> Result<Query, String> {
        let (recorded, raw) = (self.recorded(), self.raw());
        let of_rule = |name: &str, how: &str| {
            format!("{how} by ({WORKLOAD}) (avg_over_time({}[{step}s]))", selector.of(name, &[]))
        };
        let by_rule = |text: String| Ok(Query { source: Source::Recorded, text });
        if names.contains(recorded) {
            return by_rule(of_rule(recorded, "sum"));
        }
        let cpu = Self::Cpu.recorded();
        if self == Self::Waiting && names.contains(RATIO) && names.contains(cpu) {
            // Wait for each second of CPU time × CPU time: what can be added up.
            return by_rule(format!("{} * on ({WORKLOAD}) {}", of_rule(RATIO, "avg"), of_rule(cpu, "sum")));
        }
        if !names.contains(raw) && !names.contains(&format!("{raw}_sum")) {
            return Err(format!("the server has no {recorded}, and no {raw}"));
        }
        const OF_PODS: [&str; 2] = ["namespace!=\"\"", "pod!=\"\""];
        let rate =
            |name: &str, more: &[&str]| format!("rate({}[{LOOK}s])", selector.of(name, &[&OF_PODS[..], more].concat()));
        let rates = match self {
            Self::SwitchCost => {
                let [pick, swap] = ["phase=\"pick\"", "phase=\"swap\""].map(|phase| rate(raw, &[phase]));
                format!("{pick} + ignoring (phase) {swap}")
            }
            Self::Cpu => rate(raw, &[]),
            Self::Waiting => {
                let native = || format!("histogram_sum({})", rate(raw, &[]));
                either(names, raw, &native, "_sum", &|| rate(&format!("{raw}_sum"), &[]))
            }
        };
        let by_pod = format!("sum by (cluster, namespace, pod) ({rates})");
        let named = TEMPLATES.iter().fold(by_pod, |inner, template| {
            format!("label_replace({inner}, \"workload\", \"$1\", \"pod\", \"{template}\")")
        });
        Ok(Query { source: Source::Raw, text: format!("sum by ({WORKLOAD}) ({named})") })
    }
}

/// Another form of what workloads wait.
const RATIO: &str = "workload:lagstop_runqueue_wait:ratio5m";

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> HashSet<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    fn ask(figure: Figure, all: &[&str]) -> Result<Query, String> {
        figure.query(&names(all), &Selector::default(), 3_600)
    }

    #[test]
    fn recorded_series_are_asked_for_where_there_are_any() {
        let both = ["node:lagstop_overhead:ratio5m", "lagstop_host_switch_cost_seconds_total"];
        let query = ask(Figure::Overhead, &both).unwrap();
        assert_eq!(query.source, Source::Recorded);
        assert_eq!(query.text, "avg by (cluster, instance) (avg_over_time(node:lagstop_overhead:ratio5m[3600s]))");
        let error = ask(Figure::Overhead, &both[1..]).unwrap_err();
        assert!(error.contains("node:lagstop_overhead:ratio5m") && error.contains("lagstop_host_idle_seconds_total"));
        assert!(ask(Figure::LightWait, &both).unwrap_err().contains("every cgroup"));
        assert!(ask(Figure::Restarts, &both).unwrap_err().ends_with("no lagstop_intervals_total"));
    }

    #[test]
    fn without_rules_the_server_computes_what_they_would_have() {
        let host = [
            "lagstop_host_switch_cost_seconds_total",
            "lagstop_host_busy_seconds_total",
            "lagstop_host_idle_seconds_total",
            "lagstop_host_runqueue_wait_seconds",
        ];
        let query = ask(Figure::Overhead, &host).unwrap();
        assert_eq!(query.source, Source::Raw);
        assert_eq!(
            query.text,
            "(sum by (cluster, instance) (rate(lagstop_host_switch_cost_seconds_total{phase=\"pick\"}[3600s])) + \
             sum by (cluster, instance) (rate(lagstop_host_switch_cost_seconds_total{phase=\"swap\"}[3600s]))) / \
             (sum by (cluster, instance) (rate(lagstop_host_busy_seconds_total[3600s])) + \
             sum by (cluster, instance) (rate(lagstop_host_idle_seconds_total[3600s])))"
        );
        let native = ask(Figure::WaitP99, &host).unwrap().text;
        assert_eq!(
            native,
            "histogram_quantile(0.99, sum by (cluster, instance) (rate(lagstop_host_runqueue_wait_seconds[3600s])))"
        );
        let classic = ask(Figure::WaitP99, &["lagstop_host_runqueue_wait_seconds_bucket"]).unwrap().text;
        assert!(classic.contains("by (cluster, instance, le)") && classic.contains("_bucket[3600s]"), "{classic}");
        let waits = ["lagstop_host_runqueue_wait_seconds", "lagstop_host_runqueue_wait_seconds_bucket"];
        assert_eq!(ask(Figure::WaitP99, &waits).unwrap().text, format!("{native} or {classic}"));
    }

    #[test]
    fn conditions_are_in_every_query() {
        let selector = Selector(vec![super::super::Matcher::parse("cluster=a").unwrap()]);
        let raw: HashSet<String> =
            Figure::ALL.iter().flat_map(|figure| figure.raw()).map(|&name| name.to_owned()).collect();
        let rules: HashSet<String> =
            Figure::ALL.iter().filter_map(|figure| figure.recorded()).map(str::to_owned).collect();
        for figure in Figure::ALL {
            for names in [&raw, &rules] {
                if let Ok(query) = figure.query(names, &selector, 300) {
                    let selectors = query.text.matches("[300s]").count();
                    assert_eq!(query.text.matches("cluster=\"a\"}[300s]").count(), selectors, "{}", query.text);
                    assert!(selectors > 0);
                }
            }
        }
        let all = names(&Share::ALL.map(Share::raw));
        for share in Share::ALL {
            let query = share.query(&all, &selector, 3_600).unwrap();
            let selectors = query.text.matches("[300s]").count();
            assert_eq!(query.text.matches("cluster=\"a\"}[300s]").count(), selectors, "{}", query.text);
            assert!(query.text.contains("{namespace!=\"\",pod!=\"\","), "{}", query.text);
        }
    }

    #[test]
    fn pods_are_put_together_by_their_template() {
        let patterns = TEMPLATES.map(|template| regex::Regex::new(&format!("^(?:{template})$")).unwrap());
        let workload = |pod: &str| {
            let found = patterns.iter().rev().find_map(|pattern| pattern.captures(pod));
            found.and_then(|found| found.get(1)).map(|name| name.as_str().to_owned()).unwrap()
        };
        for (pod, name) in [
            ("web-7d9c5b7f4d-x2x9p", "web"),
            ("web-api-66bd8f5c94-zzxqs", "web-api"),
            ("db-0", "db"),
            ("db-12345", "db"),
            ("node-exporter-x2x9p", "node-exporter"),
            ("backup-28391040-gkqzx", "backup"),
            ("import-gkqzx", "import"),
            ("etcd", "etcd"),
            ("kube-proxy", "kube-proxy"),
        ] {
            assert_eq!(workload(pod), name);
        }
    }
}
