//! What is asked for, in PromQL: the series of the recording rules, and where a server has none of them, what the rules
//! would have computed from the exporter's own.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::Selector;
use crate::model::Derived;

/// A metric of a node in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeMetric {
    /// CPUs.
    Cpus,
    /// Cgroups that ran in a measurement interval of lagstop.
    Active,
    /// Overhead, as a share of the time of all CPUs.
    Overhead,
    /// Cores lost to switching.
    CoresLost,
    /// CPU time that is not idle, as a share of all CPU time.
    Utilisation,
    /// 99th percentile of all run-queue waits, in seconds.
    WaitP99,
    /// Mean cost of a switch, in seconds.
    SwitchCost,
    /// Switches per second.
    Switches,
    /// Time taken by a hypervisor, as a share of the time of all CPUs.
    Steal,
    /// Run-queue wait of light cgroups per second of their CPU time.
    LightWait,
    /// Run-queue wait of heavy cgroups per second of their CPU time.
    HeavyWait,
    /// CPU time of lagstop itself, in cores.
    OwnCores,
    /// Events that lagstop lost, per second.
    Lost,
    /// Number of samples of the node that the server has.
    Samples,
    /// Number of restarts of lagstop.
    Restarts,
}

/// Source of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Series written by the recording rules.
    Recorded,
    /// Raw series of the exporter, aggregated by the server at query time.
    Raw,
}

/// Series that the server lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NoSeries {
    #[error("the server has no {0}. Without this recording rule, the query needs the series of every cgroup")]
    OfRule(&'static str),
    #[error("the server has no {recorded}, and no {}", raw.join(", "))]
    Either { recorded: &'static str, raw: Vec<&'static str> },
    #[error("the server has no {}", .0.join(", "))]
    Raw(Vec<&'static str>),
}

/// A query for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub source: Source,
    pub text: String,
}

/// Regular expression for the names of all lagstop series, of recording rules and of the exporter.
pub(super) const NAMES: &str = "(node:|workload:)?lagstop_.+";

const BUSY: &str = "lagstop_host_busy_seconds_total";
const IDLE: &str = "lagstop_host_idle_seconds_total";
const CPUS: &str = "lagstop_host_cpus_online";
const STEAL: &str = "lagstop_host_steal_seconds_total";
const COST: &str = "lagstop_host_switch_cost_seconds_total";

/// A quantile of waits of all cgroups: more than one wait in a hundred is longer than that.
const QUANTILE: &str = "0.99";

impl NodeMetric {
    pub const ALL: [Self; 15] = [
        Self::Cpus,
        Self::Active,
        Self::Overhead,
        Self::CoresLost,
        Self::Utilisation,
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

    pub const fn label(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs",
            Self::Active => "active cgroups",
            Self::Overhead => Derived::OVERHEAD.label,
            Self::CoresLost => "cores lost",
            Self::Utilisation => Derived::CPU_UTILISATION.label,
            Self::WaitP99 => Derived::WAIT_P99.label,
            Self::SwitchCost => Derived::MEAN_SWITCH_COST.label,
            Self::Switches => Derived::SWITCH_RATE.label,
            Self::Steal => Derived::STEAL.label,
            Self::LightWait => "wait of light cgroups",
            Self::HeavyWait => "wait of heavy cgroups",
            Self::OwnCores => "lagstop's own cost",
            Self::Lost => "lost events",
            Self::Samples => "coverage",
            Self::Restarts => "restarts",
        }
    }

    /// The series that the recording rules write. `None` if there is no rule.
    const fn recorded(self) -> Option<&'static str> {
        Some(match self {
            Self::Cpus | Self::Samples => "node:lagstop_cpus_online:avg5m",
            Self::Active => "node:lagstop_cgroups_active:avg5m",
            Self::Overhead => "node:lagstop_overhead:ratio5m",
            Self::CoresLost => "node:lagstop_cores_lost:rate5m",
            Self::Utilisation => "node:lagstop_cpu_utilisation:ratio5m",
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

    /// The exporter's series that it needs. Empty if that would be too many: the series of every cgroup of every node.
    const fn raw(self) -> &'static [&'static str] {
        match self {
            Self::Cpus | Self::Samples => &[CPUS],
            Self::Active => &["lagstop_host_cgroups_active"],
            Self::Overhead => &[COST, BUSY, IDLE],
            Self::CoresLost => &[COST],
            Self::Utilisation => &[BUSY, IDLE],
            Self::WaitP99 => &["lagstop_host_runqueue_wait_seconds"],
            Self::SwitchCost => &[COST, "lagstop_host_kept_running_seconds_total", "lagstop_host_switches_total"],
            Self::Switches => &["lagstop_host_switches_total"],
            Self::Steal => &[STEAL, CPUS],
            Self::LightWait | Self::HeavyWait => &[],
            Self::OwnCores => &["lagstop_self_cpu_seconds_total", "lagstop_self_probe_seconds_total"],
            Self::Lost => &["lagstop_lost_total"],
            Self::Restarts => &["lagstop_intervals_total"],
        }
    }

    /// The query for a server with series of these names. Each time covers the `step` seconds before it.
    ///
    /// # Errors
    /// When the server lacks the series for this metric. The error names the missing ones.
    pub(super) fn query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> Result<Query, NoSeries> {
        if let Some(name) = self.recorded().filter(|&name| names.contains(name)) {
            let text = of_gauge(self, &selector.of(name, &[]), step);
            return Ok(Query { source: Source::Recorded, text });
        }
        let needed = self.raw();
        let is_there = |name: &str| names.contains(name) || names.contains(&format!("{name}_bucket"));
        let missing: Vec<&'static str> = needed.iter().copied().filter(|&name| !is_there(name)).collect();
        match self.recorded() {
            Some(recorded) if needed.is_empty() => Err(NoSeries::OfRule(recorded)),
            _ if missing.is_empty() => Ok(Query { source: Source::Raw, text: self.raw_query(names, selector, step) }),
            Some(recorded) => Err(NoSeries::Either { recorded, raw: missing }),
            None => Err(NoSeries::Raw(missing)),
        }
    }

    fn raw_query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> String {
        let rates = |names: &[&str]| {
            let rates: Vec<String> =
                names.iter().map(|name| format!("rate({}[{step}s])", selector.of(name, &[]))).collect();
            sum(&rates.join(" + "))
        };
        let rate = |name: &str| rates(&[name]);
        let capacity = || rates(&[BUSY, IDLE]);
        let cost = || {
            // Without one of its parts, a cost is unknown.
            let [pick, swap] = ["phase=\"pick\"", "phase=\"swap\""]
                .map(|phase| sum(&format!("rate({}[{step}s])", selector.of(COST, &[phase]))));
            format!("({pick} + {swap})")
        };
        match self {
            Self::Overhead => format!("{} / {}", cost(), capacity()),
            Self::CoresLost => cost(),
            Self::Utilisation => format!("{} / {}", rate(BUSY), capacity()),
            Self::WaitP99 => {
                let name = self.raw().first().unwrap_or(&"");
                let native = || format!("histogram_quantile({QUANTILE}, {})", rate(name));
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
                let cpus = sum(&format!("avg_over_time({}[{step}s])", selector.of(CPUS, &[])));
                format!("{} / {cpus}", rate(STEAL))
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

/// Labels that identify nodes and workloads. `cluster` is empty if scrapes do not have it.
const NODE: &str = "cluster, instance";
const WORKLOAD: &str = "cluster, namespace, workload";

/// The sum over all series of a node.
fn sum(of: &str) -> String {
    format!("sum by ({NODE}) ({of})")
}

/// The native histogram, which is one series. Without it, the classic one, with one series per bucket.
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
fn of_gauge(figure: NodeMetric, selector: &str, step: u64) -> String {
    // A pair of servers that scrape the same nodes has every series twice.
    match figure {
        NodeMetric::Samples => format!("max by ({NODE}) (count_over_time({selector}[{step}s]))"),
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
    /// Tasks of other cgroups that wait while its pods run, on average.
    WaitCaused,
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
    pub(super) const ALL: [Self; 4] = [Self::SwitchCost, Self::Cpu, Self::Waiting, Self::WaitCaused];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::SwitchCost => "switch cost of workloads",
            Self::Cpu => "CPU time of workloads",
            Self::Waiting => "wait of workloads",
            Self::WaitCaused => "wait caused by workloads",
        }
    }

    /// The series that the recording rules write.
    const fn recorded(self) -> &'static str {
        match self {
            Self::SwitchCost => "workload:lagstop_switch_cost:cores5m",
            Self::Cpu => "workload:lagstop_cpu:cores5m",
            Self::Waiting => "workload:lagstop_runqueue_wait:cores5m",
            Self::WaitCaused => "workload:lagstop_wait_caused:cores5m",
        }
    }

    /// The exporter's.
    const fn raw(self) -> &'static str {
        match self {
            Self::SwitchCost => "lagstop_cgroup_switch_cost_seconds_total",
            Self::Cpu => "lagstop_cgroup_cpu_seconds_total",
            Self::Waiting => "lagstop_cgroup_runqueue_wait_seconds",
            Self::WaitCaused => "lagstop_cgroup_wait_caused_seconds_total",
        }
    }

    /// As [`NodeMetric::query`].
    pub(super) fn query(self, names: &HashSet<String>, selector: &Selector, step: u64) -> Result<Query, NoSeries> {
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
            // Wait per CPU time × CPU time gives a value that can be summed.
            return by_rule(format!("{} * on ({WORKLOAD}) {}", of_rule(RATIO, "avg"), of_rule(cpu, "sum")));
        }
        if !names.contains(raw) && !names.contains(&format!("{raw}_sum")) {
            return Err(NoSeries::Either { recorded, raw: vec![raw] });
        }
        // Of a pair, the pod that ran.
        let (of_pods, namespace, pod) = match self {
            Self::WaitCaused => (["by_namespace!=\"\"", "by_pod!=\"\""], "by_namespace", "by_pod"),
            _ => (["namespace!=\"\"", "pod!=\"\""], "namespace", "pod"),
        };
        let rate =
            |name: &str, more: &[&str]| format!("rate({}[{LOOK}s])", selector.of(name, &[&of_pods[..], more].concat()));
        let rates = match self {
            Self::SwitchCost => {
                let [pick, swap] = ["phase=\"pick\"", "phase=\"swap\""].map(|phase| rate(raw, &[phase]));
                format!("{pick} + ignoring (phase) {swap}")
            }
            Self::Cpu | Self::WaitCaused => rate(raw, &[]),
            Self::Waiting => {
                let native = || format!("histogram_sum({})", rate(raw, &[]));
                either(names, raw, &native, "_sum", &|| rate(&format!("{raw}_sum"), &[]))
            }
        };
        let mut by_pod = format!("sum by (cluster, {namespace}, {pod}) ({rates})");
        if namespace != "namespace" {
            by_pod = format!("label_replace({by_pod}, \"namespace\", \"$1\", \"{namespace}\", \"(.+)\")");
        }
        let named = TEMPLATES.iter().fold(by_pod, |inner, template| {
            format!("label_replace({inner}, \"workload\", \"$1\", \"{pod}\", \"{template}\")")
        });
        Ok(Query { source: Source::Raw, text: format!("sum by ({WORKLOAD}) ({named})") })
    }
}

/// Another form of what workloads wait.
const RATIO: &str = "workload:lagstop_runqueue_wait:ratio5m";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use regex::Regex;

    use super::*;

    fn names(all: &[&str]) -> HashSet<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    fn ask(figure: NodeMetric, all: &[&str]) -> Result<Query, NoSeries> {
        figure.query(&names(all), &Selector::default(), 3_600)
    }

    #[test]
    fn recorded_series_are_asked_for_where_there_are_any() {
        let both = ["node:lagstop_overhead:ratio5m", "lagstop_host_switch_cost_seconds_total"];
        let query = ask(NodeMetric::Overhead, &both).unwrap();
        assert_eq!(query.source, Source::Recorded);
        assert_eq!(query.text, "avg by (cluster, instance) (avg_over_time(node:lagstop_overhead:ratio5m[3600s]))");
        let error = ask(NodeMetric::Overhead, &both[1..]).unwrap_err().to_string();
        assert!(error.contains("node:lagstop_overhead:ratio5m") && error.contains("lagstop_host_idle_seconds_total"));
        assert!(ask(NodeMetric::LightWait, &both).unwrap_err().to_string().contains("every cgroup"));
        assert!(ask(NodeMetric::Restarts, &both).unwrap_err().to_string().ends_with("no lagstop_intervals_total"));
    }

    #[test]
    fn without_rules_the_server_computes_what_they_would_have() {
        let host = [
            "lagstop_host_switch_cost_seconds_total",
            "lagstop_host_busy_seconds_total",
            "lagstop_host_idle_seconds_total",
            "lagstop_host_runqueue_wait_seconds",
        ];
        let query = ask(NodeMetric::Overhead, &host).unwrap();
        assert_eq!(query.source, Source::Raw);
        assert_eq!(
            query.text,
            "(sum by (cluster, instance) (rate(lagstop_host_switch_cost_seconds_total{phase=\"pick\"}[3600s])) + \
             sum by (cluster, instance) (rate(lagstop_host_switch_cost_seconds_total{phase=\"swap\"}[3600s]))) / \
             sum by (cluster, instance) (rate(lagstop_host_busy_seconds_total[3600s]) + \
             rate(lagstop_host_idle_seconds_total[3600s]))"
        );
        let native = ask(NodeMetric::WaitP99, &host).unwrap().text;
        assert_eq!(
            native,
            "histogram_quantile(0.99, sum by (cluster, instance) (rate(lagstop_host_runqueue_wait_seconds[3600s])))"
        );
        let classic = ask(NodeMetric::WaitP99, &["lagstop_host_runqueue_wait_seconds_bucket"]).unwrap().text;
        assert!(classic.contains("by (cluster, instance, le)") && classic.contains("_bucket[3600s]"), "{classic}");
        let waits = ["lagstop_host_runqueue_wait_seconds", "lagstop_host_runqueue_wait_seconds_bucket"];
        assert_eq!(ask(NodeMetric::WaitP99, &waits).unwrap().text, format!("{native} or {classic}"));
    }

    /// What `lagstop.rules.yml` records, each with its expression: without spaces, and with the expressions of rules before it in
    /// place of their names.
    fn rules() -> HashMap<String, String> {
        let text = include_str!("../../../docs/deploy/prometheus/lagstop.rules.yml");
        let beside = Regex::new(r"(?m)^ *(#|- name:|rules:).*$").unwrap();
        let series = Regex::new("(node|workload):[a-z0-9_:]+").unwrap();
        let mut all = HashMap::<String, String>::new();
        for rule in beside.replace_all(text, "").split("- record: ").skip(1) {
            let (name, expr) = rule.split_once("expr:").unwrap();
            let expr = spaceless(expr.trim_start().trim_start_matches('|')).replace("[5m]", "[300s]");
            let expr =
                series.replace_all(&expr, |found: &regex::Captures<'_>| in_brackets(&all[&found[0]])).into_owned();
            all.insert(name.trim().to_owned(), expr);
        }
        all
    }

    fn spaceless(text: &str) -> String {
        text.split_whitespace().collect()
    }

    /// As an operand.
    fn in_brackets(expr: &str) -> String {
        let mut depth = 0;
        let is_operation = expr.chars().any(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && "+-*/".contains(c)
        });
        if is_operation { format!("({expr})") } else { expr.to_owned() }
    }

    /// What only the rules compute (waits of light and heavy cgroups, samples) is held to be recorded, no more.
    #[test]
    fn rules_record_what_is_asked_for_and_compute_the_same() {
        let rules = rules();
        let raw = NodeMetric::ALL.into_iter().flat_map(NodeMetric::raw).copied().chain(Share::ALL.map(Share::raw));
        let raw: HashSet<String> =
            raw.flat_map(|name| ["", "_bucket", "_sum"].map(|suffix| format!("{name}{suffix}"))).collect();
        let is_rule = |query: &str, name: &str| {
            let rule = rules.get(name).unwrap_or_else(|| panic!("no rule records {name}"));
            let query = spaceless(query);
            assert!([rule, &format!("({rule})")].contains(&&query), "{name} is\n{rule}\nand not\n{query}");
        };
        for metric in NodeMetric::ALL {
            let Some(name) = metric.recorded() else { continue };
            match metric.query(&raw, &Selector::default(), LOOK) {
                // A rule cannot say how many samples a gauge has.
                Ok(_) if metric == NodeMetric::Samples => assert!(rules.contains_key(name)),
                // Replicas differ only by when they scrape: queries take the mean of gauges, rules the greatest.
                Ok(query) => is_rule(&query.text.replace("avg by", "max by"), name),
                Err(_) => assert!(metric.raw().is_empty() && rules.contains_key(name)),
            }
        }
        for share in Share::ALL {
            is_rule(&share.query(&raw, &Selector::default(), LOOK).unwrap().text, share.recorded());
        }
        let [waiting, cpu] = [Share::Waiting, Share::Cpu].map(|share| &rules[share.recorded()]);
        assert_eq!(rules[RATIO], format!("{waiting}/({cpu}>0)"));
    }

    #[test]
    fn conditions_are_in_every_query() {
        let selector = Selector(vec![super::super::Matcher::parse("cluster=a").unwrap()]);
        let raw: HashSet<String> =
            NodeMetric::ALL.iter().flat_map(|figure| figure.raw()).map(|&name| name.to_owned()).collect();
        let rules: HashSet<String> =
            NodeMetric::ALL.iter().filter_map(|figure| figure.recorded()).map(str::to_owned).collect();
        for figure in NodeMetric::ALL {
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
            let of_pods = match share {
                Share::WaitCaused => "{by_namespace!=\"\",by_pod!=\"\",",
                _ => "{namespace!=\"\",pod!=\"\",",
            };
            assert!(query.text.contains(of_pods), "{}", query.text);
        }
    }

    #[test]
    fn pods_are_put_together_by_their_template() {
        let patterns = TEMPLATES.map(|template| Regex::new(&format!("^(?:{template})$")).unwrap());
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
