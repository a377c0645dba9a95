//! What figures are held against.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{
    Severity,
    setting::{Setting, ThresholdSettingError},
};
use crate::{
    model::{Nanos, place_of},
    units::{Unit, Value},
};

/// What a threshold is, apart from the value that it is set to.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdDefinition {
    pub name: &'static str,
    pub meaning: &'static str,
    pub unit: Unit,
    /// Where the default comes from.
    pub source: &'static str,
}

/// Declares each threshold once: its meaning, name, type, default and unit, the severity of reaching it (`_` where it
/// decides none), and where the default comes from.
macro_rules! thresholds {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr => $unit:ident, $severity:tt, $source:literal;)+) => {
        /// What figures are held against. The defaults say where they come from: [`Thresholds::state`].
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        pub struct Thresholds {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Default for Thresholds {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        impl Thresholds {
            pub(crate) const DEFAULT: Self = Self { $($name: $default,)+ };

            const NAMES: &[&str] = &[$(stringify!($name)),+];

            pub const ALL: &[ThresholdDefinition] = &[$(ThresholdDefinition {
                name: stringify!($name),
                meaning: concat!($($doc),+),
                unit: Unit::$unit,
                source: $source,
            }),+];

            /// What each is set to, in the order of [`Self::ALL`].
            pub fn values(&self) -> impl Iterator<Item = Value> {
                [$(self.$name.into()),+].into_iter()
            }

            /// Sets the one that is called `name`: shares as `5%` or `0.05`, times as `10us`, other numbers as they are.
            ///
            /// # Errors
            /// When none is called so, or `value` is no such figure.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), ThresholdError> {
                match name {
                    $(stringify!($name) => self.$name = Setting::parse(value)?,)+
                    _ => return Err(ThresholdError::Unknown { name: name.to_owned() }),
                }
                Ok(())
            }

            /// The one that is called `name`, as [`Self::set`] takes it.
            pub fn get(&self, name: &str) -> Option<String> {
                Some(match name {
                    $(stringify!($name) => Setting::write(&self.$name),)+
                    _ => return None,
                })
            }
        }

        thresholds!(@limits {} $([$name $severity])+);
    };

    (@limits {$($limits:tt)*} [$name:ident _] $($rest:tt)*) => {
        thresholds!(@limits {$($limits)*} $($rest)*);
    };
    (@limits {$($limits:tt)*} [$name:ident $severity:ident] $($rest:tt)*) => {
        thresholds!(@limits {$($limits)* $name $severity,} $($rest)*);
    };
    (@limits {$($name:ident $severity:ident,)*}) => {
        /// The thresholds that decide a severity, each called as its field in [`Thresholds`].
        #[allow(non_camel_case_types, reason = "made from the names of the fields")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limit {
            $($name,)*
        }

        impl Limit {
            /// What reaching it means.
            pub(super) const fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }

            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            const fn definition(self) -> ThresholdDefinition {
                Thresholds::ALL[place_of(Thresholds::NAMES, self.name())]
            }
        }

        impl Thresholds {
            pub(super) fn value(&self, limit: Limit) -> Value {
                match limit {
                    $(Limit::$name => self.$name.into(),)*
                }
            }
        }
    };
}

thresholds! {
    /// Share of all CPU time spent on scheduling that is worth acting on.
    overhead_warn: f64 = 0.05 => Share, Warning,
        "CFS-LAGS paper (arXiv 2508.15703, §3.1): 5 to 7 % at peak throughput";
    /// The same, critical.
    overhead_critical: f64 = 0.10 => Share, Critical,
        "CFS-LAGS paper (arXiv 2508.15703, §3.1): steady load stays below 10 %, overload reaches 28 %";
    /// Mean switch cost that counts as expensive.
    mean_switch_cost_warn: Nanos = Nanos(10_000) => Ns, Info,
        "CFS-LAGS paper (arXiv 2508.15703, §3.1): below 10 µs under steady load, more under bursts";
    /// The same, critical.
    mean_switch_cost_critical: Nanos = Nanos(20_000) => Ns, Critical,
        "CFS-LAGS paper (arXiv 2508.15703, §3.1): up to 20 µs on its overloaded host";
    /// Factor by which overhead must change between quiet and busy times to be called a change.
    growth_notable: f64 = 1.2 => Factor, _,
        "lagstop's own choice: a smaller change may be chance";
    /// CPU time used on top of the tasks' own work, as a share of that work, worth acting on.
    utilisation_gap_warn: f64 = 0.10 => Share, Warning,
        "lagstop's own choice; the CFS-LAGS paper's +10 and +100 % (arXiv 2508.15703, §5.1) compare CPU time used \
         with CPU time needed, not the cost of switches";
    /// The same, critical.
    utilisation_gap_critical: f64 = 0.25 => Share, Critical,
        "lagstop's own choice";
    /// Part of all CPU time in use from which a host looks full, so that the gap matters.
    full_utilisation: f64 = 0.45 => Share, Warning,
        "CFS-LAGS paper (arXiv 2508.15703, §5.1): production hosts under CFS target at most 45 %";
    /// Tasks waiting per CPU, on average, from which a host counts as contended.
    contended_wait: f64 = 0.05 => Tasks, Info,
        "lagstop's own choice: one waiting task per twenty CPUs";
    /// CPU time by weight, as a share of the heavy cgroups' mean, up to which a light cgroup is much lighter.
    light_credit: f64 = 0.5 => Share, Warning,
        "lagstop's own choice: with a smaller difference, priority hardly matters";
    /// Run-queue wait per CPU time from which a light cgroup waits long.
    light_wait_per_cpu: f64 = 1.0 => Factor, Warning,
        "lagstop's own choice: waiting as long as running doubles response times";
    /// 99th percentile of its run-queue waits from which a light cgroup waits long.
    light_wait_p99: Nanos = Nanos(10_000_000) => Ns, Warning,
        "lagstop's own choice: a few time slices, and the least that users notice";
    /// Share of a light cgroup's wait that priority must be predicted to save to be worthwhile.
    light_gain: f64 = 0.2 => Share, Warning,
        "lagstop's own choice: smaller gains are within the simulation error";
    /// How much longer heavy cgroups may take for the same work, as a share, when light ones are prioritised.
    heavy_tolerance: f64 = 0.1 => Share, Warning,
        "lagstop's own choice; the CFS-LAGS paper (arXiv 2508.15703, §4.1) prioritises more cgroups until the others \
         miss their latency target";
    /// Part of the time of all CPUs that must be used for the host to count as full.
    full_cpus: f64 = 0.9 => Share, Warning,
        "lagstop's own choice: with more room than a tenth, hardly anything waits for want of CPUs";
    /// Run-queue wait per CPU time from which any cgroup waits long.
    wait_per_cpu_warn: f64 = 1.0 => Factor, Warning,
        "lagstop's own choice: waiting as long as running doubles response times";
    /// The same, critical.
    wait_per_cpu_critical: f64 = 4.0 => Factor, Critical,
        "lagstop's own choice: one second of work takes five";
    /// Slowdown of a cgroup's work, compared with its entitled CPU time, from which it is starved.
    starved_warn: f64 = 1.5 => Factor, Warning,
        "lagstop's own choice: three equal tasks on two CPUs differ by 1.33 if the kernel does not move them";
    /// The same, critical.
    starved_critical: f64 = 3.0 => Factor, Critical,
        "lagstop's own choice: it gets a third of what it is entitled to";
    /// Ratio of a cgroup's CPU time with equal weights to its present CPU time from which it is outweighed.
    outweighed_warn: f64 = 2.0 => Factor, Warning,
        "lagstop's own choice: with a smaller ratio, other weights hardly help";
    /// The same, critical.
    outweighed_critical: f64 = 8.0 => Factor, Critical,
        "lagstop's own choice: one second of work takes eight";
    /// Ratio of two weights from which the CPU times of their cgroups are compared.
    weights_differ: f64 = 2.0 => Factor, Warning,
        "lagstop's own choice: with a smaller ratio, chance may hide it";
    /// Share of a cgroup's wait from which one neighbour counts as its cause.
    neighbour_wait: f64 = 0.3 => Share, Warning,
        "lagstop's own choice: without that neighbour, about a third of the wait would go";
    /// Ratio of a neighbour's CPU time to its share from which it counts as noisy.
    neighbour_takes: f64 = 1.1 => Factor, Warning,
        "lagstop's own choice: a smaller excess is within the error of CPU time and demand in an interval";
    /// Runnable threads of a cgroup per CPU it gets that are too many.
    threads_overcommit_warn: f64 = 2.0 => Factor, Warning,
        "lagstop's own choice; the thesis on oversubscribed pools (004) recommends one active thread per CPU";
    /// How far below the host's CPUs a quota must be, as a share of them, for a cgroup to see more than it gets.
    quota_gap: f64 = 0.25 => Share, Warning,
        "lagstop's own choice: with a smaller gap, pools are hardly too large";
    /// Share of all CPU time taken by a hypervisor that is worth acting on.
    steal_warn: f64 = 0.05 => Share, Warning,
        "lagstop's own choice: one CPU in twenty";
    /// The same, critical.
    steal_critical: f64 = 0.2 => Share, Critical,
        "lagstop's own choice: one CPU in five";
    /// Mean accept wait that is long.
    accept_wait_warn: Nanos = Nanos(10_000_000) => Ns, Warning,
        "lagstop's own choice: the least that users notice";
    /// Migrations per second of a cgroup's CPU time that are too many.
    migrations_warn: f64 = 1_000.0 => PerSecond, Warning,
        "lagstop's own choice: a thousand means one warm cache lost per millisecond of work";
    /// Part of a listener's backlog in use that is worth acting on.
    backlog_warn: f64 = 0.5 => Share, Warning,
        "lagstop's own choice: a burst twice as large would not fit";
    /// The same, critical.
    backlog_critical: f64 = 1.0 => Share, Critical,
        "the kernel refuses connections from here on";
    /// Dropped connections of a listener that are worth acting on.
    drops_warn: u64 = 1 => Count, Warning,
        "lagstop's own choice: each drop makes a client wait for a second or more";
    /// Independent intervals that a verdict on density needs.
    density_intervals: u64 = 24 => Count, _,
        "lagstop's own choice: four for each of six densities";
    /// How many times as many cgroups must be active at the fullest density as at the emptiest for a verdict.
    density_spread: f64 = 1.5 => Factor, Info,
        "lagstop's own choice: with less spread, all densities look alike";
    /// Share of the time of all CPUs that must be used at the peak of density: a host with less to do has none.
    density_full: f64 = 0.8 => Share, Info,
        "lagstop's own choice: below this, the work runs out before the CPUs do";
    /// Share of all CPU time that more cgroups must cost, compared with the peak of density, to be worth acting on.
    density_loss: f64 = 0.02 => Share, Warning,
        "lagstop's own choice: with full CPUs, each further cgroup costs a few thousandths";
    /// Share of its bandwidth periods in which a cgroup used its quota up that is worth acting on.
    throttled_warn: f64 = 0.05 => Share, Warning,
        "lagstop's own choice: one period in twenty";
    /// The same, critical.
    throttled_critical: f64 = 0.25 => Share, Critical,
        "lagstop's own choice: one period in four";
    /// Part of its runnable time that a cgroup is throttled, from which that is critical.
    throttled_wait_critical: f64 = 0.5 => Share, Critical,
        "lagstop's own choice: it is stopped for as long as it runs and waits otherwise";
    /// Maximum number of findings about single cgroups.
    max_cgroup_findings: usize = 5 => Count, _,
        "lagstop's own choice: few people read more";
    /// Intervals that a verdict needs.
    min_intervals: u64 = 5 => Count, _,
        "lagstop's own choice: with fewer, one odd interval decides";
    /// Switches that a verdict on their cost needs.
    min_switches: u64 = 1_000 => Count, _,
        "lagstop's own choice: with a standard deviation as large as the mean, the standard error is then 3 %";
    /// Run-queue waits that a verdict on one cgroup needs in 20 s or more. In less time, in proportion, but at least a tenth.
    min_waits: u64 = 100 => Count, _,
        "lagstop's own choice: of 100 waits, one is above the 99th percentile";
}

/// Why a threshold cannot be set.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ThresholdError {
    #[error("no threshold is called {name}; there are {}", Thresholds::NAMES.join(", "))]
    Unknown { name: String },
    #[error(transparent)]
    Setting(#[from] ThresholdSettingError),
}

/// A threshold as a finding states it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    /// Its name in [`Thresholds`].
    pub name: &'static str,
    /// What it is set to.
    pub value: Value,
    /// What the value counts.
    pub unit: Unit,
    /// What reaching it means.
    pub severity: Severity,
    /// Where it comes from.
    pub source: String,
}

/// The time to which [`Thresholds::min_waits`] applies. Chosen: five waits in each second.
const FULL_TIME: Nanos = Nanos(20 * Nanos::SECOND.0);
/// The least share of them, however short the time. Chosen: of ten waits, one does not decide.
const LEAST_PART: f64 = 0.1;

impl Thresholds {
    /// Are so many waits enough for a verdict on a cgroup that was watched for so long?
    pub(super) fn are_enough(&self, waits: u64, during: Nanos) -> bool {
        let part = (during.0 as f64 / FULL_TIME.0 as f64).clamp(LEAST_PART, 1.0);
        waits as f64 >= self.min_waits as f64 * part
    }

    /// As a finding states it.
    pub fn state(&self, limit: Limit) -> Threshold {
        let (value, default) = (self.value(limit), Self::default().value(limit));
        let ThresholdDefinition { name, unit, source, .. } = limit.definition();
        let source = if value == default {
            format!("default; {source}")
        } else {
            format!("set for this report; the default is {} ({source})", unit.show(default))
        };
        Threshold { name, value, unit, severity: limit.severity(), source }
    }

    /// How bad this overhead is, with this mean switch cost.
    ///
    /// Overhead decides, for it is what is lost. Expensive switches alone lose little while they are few, so they add one
    /// step at most: from fine to worth knowing, and, where they are very expensive, from worth acting on to critical.
    pub fn overhead_severity(&self, overhead: f64, mean_switch_cost: Option<Nanos>) -> Severity {
        let is_expensive = |limit: Nanos| mean_switch_cost.is_some_and(|cost| cost >= limit);
        if overhead >= self.overhead_critical {
            Severity::Critical
        } else if overhead >= self.overhead_warn {
            if is_expensive(self.mean_switch_cost_critical) { Severity::Critical } else { Severity::Warning }
        } else if is_expensive(self.mean_switch_cost_warn) {
            Severity::Info
        } else {
            Severity::Ok
        }
    }

    /// How bad this gap between CPU utilisation and effective utilisation is, on a host that is so full.
    pub fn utilisation_severity(&self, gap: f64, utilisation: f64) -> Severity {
        match (gap, utilisation >= self.full_utilisation) {
            (gap, true) if gap >= self.utilisation_gap_critical => Severity::Critical,
            (gap, true) if gap >= self.utilisation_gap_warn => Severity::Warning,
            (gap, false) if gap >= self.utilisation_gap_warn => Severity::Info,
            _ => Severity::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_decides_and_expensive_switches_add_a_step_at_most() {
        let t = Thresholds::default();
        for (overhead, cost, expected) in [
            (0.0, None, Severity::Ok),
            (0.0499, Some(9_999), Severity::Ok),
            (0.0499, Some(10_000), Severity::Info),
            (0.0001, Some(48_000), Severity::Info),
            (0.05, None, Severity::Warning),
            (0.05, Some(19_999), Severity::Warning),
            (0.05, Some(20_000), Severity::Critical),
            (0.0999, Some(1_000), Severity::Warning),
            (0.10, Some(1_000), Severity::Critical),
            (0.28, Some(20_000), Severity::Critical),
        ] {
            assert_eq!(t.overhead_severity(overhead, cost.map(Nanos)), expected, "{overhead} at {cost:?} ns");
        }
    }

    #[test]
    fn a_gap_matters_on_a_host_that_looks_full() {
        let t = Thresholds::default();
        for (gap, utilisation, expected) in [
            (0.09, 1.0, Severity::Ok),
            (0.10, 0.45, Severity::Warning),
            (0.25, 0.45, Severity::Critical),
            (1.0, 0.44, Severity::Info),
            (0.05, 0.1, Severity::Ok),
        ] {
            assert_eq!(t.utilisation_severity(gap, utilisation), expected, "{gap} at {utilisation}");
        }
    }

    #[test]
    fn every_threshold_is_set_by_its_name() {
        let mut thresholds = Thresholds::default();
        for ThresholdDefinition { name, meaning, .. } in Thresholds::ALL {
            assert!(meaning.trim().ends_with('.'), "{name}");
            let value = thresholds.get(name).unwrap();
            thresholds.set(name, &value).unwrap();
        }
        assert_eq!(thresholds, Thresholds::default());
        thresholds.set("overhead_warn", "3%").unwrap();
        thresholds.set("light_wait_p99", "5ms").unwrap();
        assert_eq!((thresholds.overhead_warn, thresholds.light_wait_p99), (0.03, Nanos(5_000_000)));
        assert!(thresholds.set("overhead", "1").unwrap_err().to_string().contains("overhead_warn, "));
        for wrong in ["", "-1", "NaN", "inf", "5 %%", "much"] {
            assert!(thresholds.set("overhead_warn", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_threshold_says_that_it_was_changed() {
        assert!(Thresholds::default().state(Limit::overhead_warn).source.starts_with("default; CFS-LAGS paper"));
        let changed = Thresholds { overhead_warn: 0.03, ..Thresholds::default() }.state(Limit::overhead_warn);
        assert!(changed.source.starts_with("set for this report; the default is 5.0 %"), "{}", changed.source);
    }
}
