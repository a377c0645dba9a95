//! Rule: a hypervisor gives the CPUs of this host to somebody else.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
};
use crate::units::{self, Unit};

figures! {
    steal = STEAL, COUNTED;
    stolen_cores: Cores, "CPUs lost to it" = "steal · cpus_online", COUNTED;
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let stolen = stolen(observations);
    let (severity, verdict) = match (observations.too_short(thresholds), stolen) {
        (Some(why), _) => {
            (Severity::NotEnoughData, format!("Cannot judge whether a hypervisor takes CPU time: {why}."))
        }
        (None, None) => (
            Severity::NotEnoughData,
            "Cannot judge whether a hypervisor takes CPU time: the kernel does not report steal time.".to_owned(),
        ),
        (None, Some(stolen)) => {
            let severity = severity(stolen, thresholds);
            let share = units::percent(stolen);
            let verdict = match severity {
                Severity::Ok => format!("The hypervisor steals {share} of the CPU time."),
                _ => format!(
                    "Steal: the hypervisor keeps {share} of the CPU time ({} of {}) from this machine.",
                    units::number(stolen * observations.cpus() as f64),
                    units::plural(observations.cpus(), "CPU")
                ),
            };
            (severity, verdict)
        }
    };
    let unknown = "the kernel does not report it";
    Finding {
        rule: Rule::Steal,
        severity,
        subject: Subject::Host,
        culprits: Vec::new(),
        verdict,
        measured: vec![
            figures::steal.measured(stolen, unknown).note("of the time of all CPUs"),
            figures::stolen_cores
                .measured(stolen.map(|stolen| stolen * observations.cpus() as f64), unknown)
                .note(format!("of {}", Unit::Cores.show(observations.cpus() as f64))),
        ],
        threshold: [Limit::steal_warn, Limit::steal_critical].map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: observations.span.intervals,
            samples_are: "readings of /proc/stat",
            agreeing: None,
            lost: 0,
        }
        .confidence_from(1),
        caveats: vec!["Waits and switch costs in this report include stolen time.".to_owned()],
        advice: if severity >= Severity::Warning {
            vec![Advice::new(
                "Ask the provider for CPUs that are not shared, or for a higher limit if this machine has one. Or move it to a \
                 host with more room.",
            )]
        } else {
            Vec::new()
        },
        cgroups: Vec::new(),
    }
}

fn severity(stolen: f64, thresholds: &Thresholds) -> Severity {
    if stolen >= thresholds.steal_critical {
        Severity::Critical
    } else if stolen >= thresholds.steal_warn {
        Severity::Warning
    } else {
        Severity::Ok
    }
}

/// Share of the time of all CPUs that a hypervisor took. `None` if the kernel does not report it.
pub(super) fn stolen(observations: &Observations) -> Option<f64> {
    observations.host.as_ref()?.steal(observations.span.duration_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnosis::fixture::findings_of, model::Nanos, model::fixture};

    #[test]
    fn steal_is_held_against_its_thresholds() {
        let judged = |steal: Option<u64>| {
            let mut intervals = fixture::idle(20);
            intervals.iter_mut().for_each(|it| it.host.times.steal_ns = steal.map(|ms| Nanos(ms * 1_000_000)));
            findings_of(Rule::Steal, &intervals).remove(0)
        };
        for (steal, severity) in [(0, Severity::Ok), (400, Severity::Warning), (2_000, Severity::Critical)] {
            assert_eq!(judged(Some(steal)).severity, severity, "{steal} ms of 4 CPUs");
        }
        assert!(
            judged(Some(2_000))
                .verdict
                .starts_with("Steal: the hypervisor keeps 50.0 % of the CPU time (2.00 of 4 CPUs)")
        );
        assert_eq!(judged(None).severity, Severity::NotEnoughData);
    }
}
