//! Which ways are taken on kernels that are not at hand, by what lagstop found out there. `cargo xtask vmtest` tries these
//! kernels, and records it in facts/.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

use super::*;
use crate::model::Measure;

/// One kernel, as recorded.
#[derive(Deserialize)]
struct Recorded {
    /// The way in which each measure was taken in the end, with programs attached and seen to fire.
    used: BTreeMap<String, Option<String>>,
    /// What was known by then, refusals included.
    facts: Facts,
}

/// The ways to switch cost and pick on each kernel. Those to the other measures are the same on all: [`ELSE`].
const EXPECTED: &[(&str, &str, &str)] = &[
    ("5.10", "fentry:schedule", "fentry:pick_next_task_fair"),
    ("6.1", "fentry:schedule", "fentry:pick_next_task_fair"),
    ("6.12", "fentry:schedule", "fentry:pick_next_task_fair"),
    ("6.12-arm64", "fentry:schedule", "fentry:pick_next_task_fair"),
    ("6.16", "tracepoints", "fentry:pick_next_task_fair"),
    ("6.17", "tracepoints", "fentry:pick_next_task_fair"),
    ("6.18", "tracepoints", "fentry:pick_next_task_fair"),
    ("6.19", "tracepoints", "fentry:pick_next_task_fair"),
    ("7.0", "tracepoints", "fentry:pick_next_task_fair"),
    ("7.1", "tracepoints", "fentry:pick_next_task_fair"),
    ("7.2", "tracepoints", "fentry:pick_task_fair"),
    ("7.2-arm64", "tracepoints", "fentry:pick_task_fair"),
    ("7.3", "tracepoints", "fentry:pick_task_fair"),
];

const ELSE: &[(Measure, &str)] = &[
    (Measure::Switches, "sched_switch"),
    (Measure::RunqWait, "sched_info"),
    (Measure::Blame, "stints"),
    (Measure::Migrations, "sched_migrate_task"),
    (Measure::TcpState, "fentry:tcp_set_state"),
    (Measure::Accept, "fexit:inet_csk_accept"),
];

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel/plan/facts")
}

fn recorded(kernel: &str) -> Recorded {
    let path = directory().join(format!("{kernel}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{}: {error}: record it anew: `cargo xtask vmtest {kernel}`", path.display()))
}

fn ways(facts: &Facts) -> BTreeMap<String, Option<String>> {
    let plan = AttachPlan::from_facts(facts, &Wishes::default()).unwrap();
    let way = |measure: Measure| (measure.name().to_owned(), plan.way(measure).map(|way| way.name.to_owned()));
    Measure::ALL.map(way).into()
}

fn expected(switch_cost: &str, pick: &str) -> BTreeMap<String, Option<String>> {
    let ways = [(Measure::SwitchCost, switch_cost), (Measure::Pick, pick)];
    ways.iter().chain(ELSE).map(|(measure, way)| (measure.name().to_owned(), Some((*way).to_owned()))).collect()
}

/// `expected` without the measures that did not exist yet when `used` was recorded.
fn as_far_as_known(
    used: &BTreeMap<String, Option<String>>,
    mut expected: BTreeMap<String, Option<String>>,
) -> BTreeMap<String, Option<String>> {
    expected.retain(|measure, _| used.contains_key(measure));
    expected
}

#[test]
fn every_recorded_kernel_is_measured_as_it_was_there() {
    for (kernel, switch_cost, pick) in EXPECTED {
        let Recorded { used, facts } = recorded(kernel);
        assert_eq!(ways(&facts), expected(switch_cost, pick), "{kernel}");
        assert_eq!(used, as_far_as_known(&used, expected(switch_cost, pick)), "{kernel}: what was used there");
    }
}

/// A kernel that lets nothing be attached to functions: trampolines are refused, and there are no kprobes.
const RESTRICTED: &str = "6.18-restricted";

#[test]
fn where_functions_cannot_be_hooked_tracepoints_are_left() {
    let Recorded { used, facts } = recorded(RESTRICTED);
    let mut expected = expected("tracepoints", "");
    expected.extend([
        ("pick".to_owned(), None),
        ("tcp-state".to_owned(), Some("inet_sock_set_state".to_owned())),
        ("accept".to_owned(), Some("syscalls".to_owned())),
    ]);
    assert_eq!(ways(&facts), expected);
    let known = as_far_as_known(&used, expected);
    assert_eq!(used, known);
}

#[test]
fn before_anything_is_tried_only_what_was_refused_there_is_planned_otherwise() {
    for (kernel, ..) in EXPECTED {
        let Recorded { used, mut facts } = recorded(kernel);
        let refused = std::mem::take(&mut facts.refused);
        let plan = AttachPlan::from_facts(&facts, &Wishes::default()).unwrap();
        for measure in Measure::ALL.into_iter().filter(|measure| used.contains_key(measure.name())) {
            let planned = plan.way(measure).unwrap();
            let mut needed = planned.probes.iter().filter(|probe| !probe.is_optional);
            let was_refused = needed.any(|probe| refused.contains_key(&probe.at));
            let was_used = used[measure.name()].as_deref() == Some(planned.name);
            assert!(was_used != was_refused, "{kernel}, {measure}: {} is planned, {refused:?}", planned.name);
        }
    }
}

#[test]
fn every_record_is_expected() {
    let files = fs::read_dir(directory()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let kernels = EXPECTED.iter().map(|(kernel, ..)| *kernel).chain([RESTRICTED]);
    let kernels: BTreeSet<String> = kernels.map(|kernel| format!("{kernel}.json")).collect();
    assert_eq!(files.collect::<BTreeSet<_>>(), kernels);
}
