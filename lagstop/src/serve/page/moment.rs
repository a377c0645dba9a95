//! What the page shows of one interval.

use std::{cmp::Reverse, collections::BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    diagnosis::{Severity, Told, Wait},
    display::display_name,
    model::{Cgroup, CgroupId, CgroupNow, HostNow, Interval, Nanos, Session, id_as_text},
};

/// What the fields mean; the number goes up when one of them changes its meaning or goes away.
const SCHEMA: &str = "lagstop.moment/1";
/// Cgroups that are shown: so many with the most CPU time, and so many that waited most.
const MOST: usize = 40;
/// Waits that are shown, the longest.
const MOST_WAITS: usize = 200;

/// What was in one interval.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageMoment {
    /// What the fields mean; the number goes up when one of them changes its meaning or goes away.
    schema: &'static str,
    /// Number of the moment. The next one has the next number.
    pub n: u64,
    /// Its end, in milliseconds since 1970.
    pub ended_at_ms: u64,
    /// Its length, in nanoseconds: an interval, or a piece of one while somebody looks.
    duration_ns: Nanos,
    /// Intended length of an interval, in nanoseconds.
    interval_ns: Nanos,
    pub host: HostNow,
    /// Verdict on the last intervals. `None` before there are enough of them.
    pub verdict: Option<VerdictNow>,
    /// The cgroups with the most CPU time and the longest waits, the longest waits first.
    pub cgroups: Vec<CgroupNow>,
    /// Number of cgroups that were active.
    active: usize,
    /// What they waited for, the longest waits first.
    waits: Vec<WaitNow>,
    /// Why causes of waits are missing. `None` if they were measured.
    waits_missing: Option<String>,
    /// Measures that are missing on this host, separated by commas. Empty if all are there.
    not_measured: String,
}

/// What is wrong, and what to do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictNow {
    pub severity: Severity,
    pub headline: String,
    /// What to do about it. `None` if there is nothing to do.
    next: Option<String>,
    /// Further causes, the worst first.
    beneath: Vec<Said>,
}

/// One further cause.
#[derive(Debug, Serialize, JsonSchema)]
struct Said {
    severity: Severity,
    says: String,
}

/// A part of a cgroup's wait.
#[derive(Debug, Serialize, JsonSchema)]
struct WaitNow {
    /// Who waited: an id of `cgroups`.
    #[serde(serialize_with = "id_as_text")]
    #[schemars(with = "String")]
    victim: CgroupId,
    /// Whose tasks ran: an id of `cgroups`. `None` if the cause is no cgroup.
    #[serde(serialize_with = "maybe_as_text")]
    #[schemars(with = "Option<String>")]
    culprit: Option<CgroupId>,
    /// The cause, if it is no cgroup.
    cause: Option<&'static str>,
    /// Average number of tasks that waited for this.
    waiting: f64,
    /// Share of all that the victim waited.
    share: f64,
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn maybe_as_text<S: serde::Serializer>(id: &Option<CgroupId>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => serializer.serialize_some(&id.0.to_string()),
        None => serializer.serialize_none(),
    }
}

impl PageMoment {
    /// The `n`th interval, which ended at this time.
    pub(super) fn of(
        n: u64,
        ended_at_ms: u64,
        interval: &Interval,
        session: &Session,
        verdict: Option<VerdictNow>,
    ) -> Self {
        let duration = interval.duration_ns;
        let all = &interval.cgroups;
        let by = |figure: fn(&Cgroup) -> Nanos| {
            let mut ids: Vec<(Reverse<Nanos>, CgroupId)> =
                all.iter().map(|cgroup| (Reverse(figure(cgroup)), cgroup.id)).collect();
            ids.sort_unstable();
            ids.truncate(MOST);
            ids.into_iter().filter(|(figure, _)| figure.0 > Nanos::ZERO).map(|(_, id)| id)
        };
        let mut shown: BTreeSet<CgroupId> = by(|cgroup| cgroup.totals.cpu_ns).collect();
        shown.extend(by(waited));
        let is_shown = |cgroup: &&Cgroup| shown.contains(&cgroup.id);
        let mut waits: Vec<Wait> = all.iter().filter(is_shown).filter_map(Wait::parts).flatten().collect();
        Wait::sort(&mut waits);
        waits.truncate(MOST_WAITS);
        // Whoever is named is shown.
        shown.extend(waits.iter().filter_map(|wait| wait.blamed.culprit()));
        let is_shown = |cgroup: &&Cgroup| shown.contains(&cgroup.id);
        let mut cgroups: Vec<&Cgroup> = all.iter().filter(is_shown).collect();
        cgroups.sort_by_key(|cgroup| (Reverse((waited(cgroup), cgroup.totals.cpu_ns)), cgroup.id));
        let is_known = all.iter().any(|cgroup| cgroup.totals.wait_behind_ns.is_some());
        let waits_missing = (!is_known && !all.is_empty()).then(|| session.why_not(crate::model::Measure::Blame));
        Self {
            schema: SCHEMA,
            n,
            ended_at_ms,
            duration_ns: duration,
            interval_ns: session.interval_ns,
            host: HostNow::of(&interval.host, session, duration),
            verdict,
            cgroups: cgroups.into_iter().map(|cgroup| CgroupNow::of(cgroup, duration)).collect(),
            active: all.len(),
            waits: waits.iter().map(|wait| WaitNow::of(wait, duration)).collect(),
            waits_missing,
            not_measured: session.missing_metrics().join(", "),
        }
    }
}

fn waited(cgroup: &Cgroup) -> Nanos {
    cgroup.totals.runq_wait_ns.unwrap_or_default()
}

impl VerdictNow {
    pub(super) fn of(told: &Told) -> Self {
        let verdict = &told.verdict;
        let text = |text: &str| display_name(text).into_owned();
        let said = |cause: &crate::diagnosis::VerdictCause| Said { severity: cause.severity, says: text(&cause.says) };
        Self {
            severity: verdict.severity,
            headline: text(&verdict.headline),
            next: verdict.next.as_ref().map(|advice| text(&advice.text)),
            beneath: verdict.beneath().iter().map(said).collect(),
        }
    }
}

impl WaitNow {
    fn of(wait: &Wait, duration: Nanos) -> Self {
        Self {
            victim: wait.victim,
            culprit: wait.blamed.culprit(),
            cause: wait.blamed.label(),
            waiting: wait.time.cores(duration).0,
            share: wait.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{diagnosis::Thresholds, model::fixture, serve::page::maker::Maker};

    fn moments(intervals: &[Interval]) -> Vec<Value> {
        let mut maker = Maker::new(fixture::session(), &Thresholds::default(), 0);
        intervals.iter().map(|interval| serde_json::to_value(maker.moment(interval.clone(), 0)).unwrap()).collect()
    }

    #[test]
    fn a_moment_tells_what_top_tells() {
        let moments = moments(&fixture::overloaded(20));
        assert_eq!(moments[3]["verdict"], Value::Null, "too few to tell");
        let last = &moments[19];
        assert!(last["verdict"]["headline"].as_str().unwrap().len() > 10, "{last}");
        assert!(["warning", "critical"].contains(&last["verdict"]["severity"].as_str().unwrap()));
        assert_eq!((&last["n"], &last["schema"]), (&19.into(), &SCHEMA.into()));
        assert!(last["host"]["waiting"].as_f64().unwrap() > 0.0);
        let waiting: Vec<f64> =
            last["cgroups"].as_array().unwrap().iter().map(|it| it["waiting"].as_f64().unwrap()).collect();
        assert!(!waiting.is_empty() && waiting.is_sorted_by(|a, b| a >= b), "{waiting:?}");
    }

    #[test]
    fn a_dense_host_has_the_worst_and_whoever_is_named() {
        let one = fixture::full_of_problems()[0].cgroups[0].clone();
        let cgroup = |id: u64| {
            let mut cgroup = one.clone();
            cgroup.id = CgroupId(id);
            cgroup.totals.cpu_ns = Nanos(id);
            cgroup.totals.runq_wait_ns = Some(Nanos(1_000_000 - id));
            fixture::blame(&mut cgroup, &[(1_500, 0.9)], 0.1, 0.0);
            cgroup
        };
        let interval = Interval { cgroups: (2..3_000).map(cgroup).collect(), ..fixture::idle(1)[0].clone() };
        let moment = &moments(&[interval])[0];
        let ids: Vec<&str> =
            moment["cgroups"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!((ids.len(), &moment["active"]), (2 * MOST + 1, &2_998.into()));
        assert!(ids.contains(&"2") && ids.contains(&"2999") && ids.contains(&"1500"), "{ids:?}");
        assert!(moment["waits"].as_array().unwrap().len() <= MOST_WAITS);
        assert!(moment.to_string().len() < 64_000, "{}", moment.to_string().len());
    }

    #[test]
    fn what_is_not_measured_is_null_and_names_are_harmless() {
        let cgroup = Cgroup {
            id: CgroupId(7),
            name: "a\u{202e}b<script>".into(),
            path: format!("/{}", "x".repeat(4_000)).into(),
            totals: crate::model::Totals { cpu_ns: Nanos(5), ..crate::model::Totals::default() },
            ..Cgroup::default()
        };
        let interval = Interval { cgroups: vec![cgroup], duration_ns: Nanos::SECOND, ..Interval::default() };
        let moment = &moments(&[interval])[0];
        let shown = &moment["cgroups"][0];
        assert_eq!(
            (&shown["waiting"], &shown["switch_cost"], &shown["throttled"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(shown["name"], "a\u{fffd}b<script>");
        assert!(shown["path"].as_str().unwrap().chars().count() <= CgroupNow::LONGEST_NAME);
        assert!(moment["waits_missing"].is_string() && moment["host"]["waiting"] == Value::Null);
    }

    #[test]
    fn what_is_answered_fits_its_schema() {
        let validator = jsonschema::validator_for(&super::super::schema()).unwrap();
        for moment in moments(&fixture::overloaded(8)).iter().chain(&moments(&fixture::idle(3))) {
            let error = validator.validate(moment).err().map(|error| error.to_string());
            assert_eq!(error, None);
        }
        assert!(!validator.is_valid(&serde_json::json!({})));
    }
}
