//! Which way is taken when something is missing.

use super::*;
use crate::{
    kernel::{Capabilities, Capability},
    model::{HookState, Measure},
};

/// Everything, on this release.
fn facts(release: &str) -> Facts {
    let mut facts = Facts::probe(None);
    facts.release = release.to_owned();
    facts.architecture = "x86_64".to_owned();
    facts.types = Types::Kernel;
    facts.missing_fields.clear();
    facts.capabilities = Capabilities::FULL;
    facts.in_host_user_namespace = Answer::Known(true);
    facts.kprobes = Answer::Known(true);
    facts.trampolines_outlive_sleep = true;
    facts.tracepoints.clear();
    facts.functions.clear();
    let mut symbols = std::collections::BTreeSet::new();
    for probe in Measure::ALL.into_iter().flat_map(Measure::ways).flat_map(|way| way.probes) {
        let target = probe.at.target().to_owned();
        match probe.at {
            At::Tracepoint(_) => drop(facts.tracepoints.insert(target, 4)),
            At::Entry(_) | At::Exit(_) => drop(facts.functions.insert(target, 2)),
            At::Kprobe(_) | At::Kretprobe(_) => drop(symbols.insert(target)),
            At::Syscall(_) => {}
        }
    }
    facts.symbols = Answer::Known(symbols);
    facts
}

fn plan(facts: &Facts) -> AttachPlan {
    AttachPlan::from_facts(facts, &Wishes::default()).unwrap()
}

fn way(facts: &Facts, measure: Measure) -> Option<&'static str> {
    plan(facts).way(measure).map(|way| way.name)
}

#[test]
fn a_full_kernel_is_measured_in_the_best_ways_and_attaches_the_switch_last() {
    let facts = facts("6.18.0");
    let plan = plan(&facts);
    for measure in Measure::ALL {
        assert_eq!(plan.way(measure), measure.ways().next(), "{measure}");
    }
    assert_eq!(plan.probes().last().unwrap().at, At::Tracepoint("sched_switch"));
    assert!(plan.hooks().iter().all(|hook| hook.state == HookState::On));
}

#[test]
fn what_is_missing_gives_way_to_the_next_best_with_the_reason() {
    let mut facts = facts("6.12.0");
    facts.tracepoints.remove("sched_entry_tp");
    assert_eq!(way(&facts, Measure::SwitchCost), Some("fentry:schedule"));
    let hook = plan(&facts).hooks().into_iter().find(|hook| hook.name == "switch-cost").unwrap();
    assert!(hook.detail.contains("tracepoints: kernel 6.12.0 has no tracepoint sched_entry_tp"), "{}", hook.detail);

    facts.trampolines_outlive_sleep = false;
    assert_eq!(way(&facts, Measure::SwitchCost), Some("kprobe:schedule"));
    assert_eq!(way(&facts, Measure::Accept), Some("kretprobe:inet_csk_accept"));
    facts.kprobes = Answer::Known(false);
    assert_eq!(way(&facts, Measure::SwitchCost), Some("fentry:pick-only"));
    assert_eq!(way(&facts, Measure::Accept), Some("syscalls"));
    facts.functions.remove("schedule");
    assert_eq!(way(&facts, Measure::SwitchCost), None);
}

#[test]
fn a_tracepoint_with_other_arguments_is_another_one() {
    let mut facts = facts("8.0.0");
    facts.tracepoints.insert("sched_migrate_task".to_owned(), 1);
    assert_eq!(way(&facts, Measure::Migrations), None);
}

#[test]
fn the_pick_function_of_newer_kernels_is_another_one() {
    let mut facts = facts("7.2.0");
    facts.functions.remove("pick_next_task_fair");
    let Answer::Known(symbols) = &mut facts.symbols else { unreachable!("made above") };
    symbols.remove("pick_next_task_fair");
    assert_eq!(way(&facts, Measure::Pick), Some("fentry:pick_task_fair"));
}

#[test]
fn a_pick_function_that_is_not_called_is_not_tried() {
    let facts = Facts { loaded_scheduler: Some("lags".to_owned()), ..facts("6.18.0") };
    assert_eq!(way(&facts, Measure::Pick), None);
    assert!(way(&facts, Measure::SwitchCost).is_some());
    let hooks = plan(&facts).hooks();
    let pick = hooks.iter().find(|hook| hook.measure() == Some(Measure::Pick)).unwrap();
    assert!(pick.detail.contains("the loaded sched_ext scheduler lags replaces"), "{}", pick.detail);
}

#[test]
fn a_suffix_of_the_compiler_does_not_hide_a_function() {
    let mut facts = facts("6.1.0");
    let Answer::Known(symbols) = &mut facts.symbols else { unreachable!("made above") };
    symbols.remove("finish_task_switch");
    symbols.insert("finish_task_switch.isra.0".to_owned());
    assert_eq!(facts.symbol("finish_task_switch").as_deref(), Some("finish_task_switch.isra.0"));
    facts.symbols = Answer::Unknown("hidden".to_owned());
    assert_eq!(facts.symbol("finish_task_switch").as_deref(), Some("finish_task_switch"), "the kernel will say");
}

#[test]
fn a_refusal_becomes_a_fact() {
    let mut facts = facts("6.18.0");
    facts.refuse(At::Entry("pick_next_task_fair"), "no".to_owned().into());
    assert_eq!(way(&facts, Measure::Pick), Some("kprobe:pick_next_task_fair"));
    // An optional probe takes nothing with it.
    facts.refuse(At::Tracepoint("sched_process_free"), "not here".to_owned().into());
    let plan = plan(&facts);
    assert_eq!(plan.way(Measure::Switches).unwrap().name, "sched_switch");
    assert!(plan.hooks()[0].detail.contains("not here"), "{:?}", plan.hooks()[0]);
}

#[test]
fn what_is_of_no_use_alone_goes_with_what_it_needs() {
    let mut facts = facts("6.18.0");
    facts.tracepoints.remove("inet_sock_set_state");
    facts.functions.remove("tcp_set_state");
    let plan = plan(&facts);
    assert!(!plan.uses(Measure::Accept) && !plan.uses(Measure::TcpState));
    let accept = plan.hooks().into_iter().find(|hook| hook.name == "accept").unwrap();
    assert!(accept.detail.contains("needs tcp-state"), "{}", accept.detail);
}

#[test]
fn without_the_kernels_types_only_raw_tracepoints_and_kprobes_are_left() {
    let mut facts = facts("6.18.0");
    facts.types = Types::File("vmlinux.btf".into());
    let plan = plan(&facts);
    assert!(!plan.has_types());
    assert!(plan.probes().all(|probe| !matches!(probe.at, At::Entry(_) | At::Exit(_))));
    assert_eq!(plan.way(Measure::SwitchCost).unwrap().name, "tracepoints");
    assert!(plan.hooks()[0].detail.contains("raw tracepoints"), "{:?}", plan.hooks()[0]);
}

#[test]
fn the_result_of_accept_is_found_where_the_kernel_puts_it() {
    let mut facts = facts("6.1.0");
    facts.functions.insert("inet_csk_accept".to_owned(), 4);
    assert_eq!(plan(&facts).accept_result, 32);
    facts.types = Types::File("vmlinux.btf".into());
    assert_eq!(plan(&facts).accept_result, 80, "the register of a kretprobe");
    facts.architecture = "aarch64".to_owned();
    assert_eq!(plan(&facts).accept_result, 0);
}

#[test]
fn wishes_are_kept() {
    let facts = facts("6.18.0");
    let mut wishes = Wishes::default();
    wishes.set(Measure::Pick, Wish::Off);
    wishes.set(Measure::Accept, Wish::Way("syscalls"));
    let plan = AttachPlan::from_facts(&facts, &wishes).unwrap();
    assert_eq!(plan.way(Measure::Accept).unwrap().name, "syscalls");
    assert!(!plan.uses(Measure::Pick) && plan.uses(Measure::TcpState));
    let light = AttachPlan::from_facts(&facts, &Wishes::light()).unwrap();
    let used: Vec<At> = light.probes().map(|probe| probe.at).collect();
    assert_eq!(used, [At::Tracepoint("sched_process_free"), At::Tracepoint("sched_switch")]);
    assert!(light.uses(Measure::RunqWait) && !light.uses(Measure::Blame));
}

#[test]
fn waits_are_taken_by_the_clock_where_the_kernel_does_not_keep_them() {
    let mut facts = facts("6.18.0");
    facts.missing_fields = vec!["task_run_delay".to_owned(), "task_last_queued".to_owned()];
    assert_eq!(way(&facts, Measure::RunqWait), Some("wakeups"));
    assert_eq!(way(&facts, Measure::Blame), None, "there is no CPU to look at");
}

#[test]
fn what_cannot_work_says_what_to_do() {
    let error = |facts: &Facts| AttachPlan::from_facts(facts, &Wishes::default()).unwrap_err().to_string();
    let mut old = facts("5.4.0-150-generic");
    assert!(error(&old).contains("5.10"));
    old.release = "5.10.0".to_owned();
    assert!(AttachPlan::from_facts(&old, &Wishes::default()).is_ok());
    let mut unprivileged = facts("6.18.0");
    unprivileged.capabilities = Capabilities::NONE.with(Capability::DacReadSearch);
    assert!(error(&unprivileged).contains("CAP_BPF and CAP_PERFMON") && error(&unprivileged).contains("setcap"));
    assert!(AttachPlan::ignoring_privileges(&unprivileged, &Wishes::default()).is_ok());
    let mut namespaced = facts("6.18.0");
    namespaced.in_host_user_namespace = Answer::Known(false);
    assert!(error(&namespaced).contains("user namespace"));
    let mut no_types = facts("6.18.0");
    no_types.types = Types::Missing("there is no such file".to_owned());
    assert!(error(&no_types).contains("--btf FILE"));
    let mut no_switch = facts("6.18.0");
    no_switch.tracepoints.remove("sched_switch");
    assert!(error(&no_switch).contains("sched_switch"));
    let mut no_start_of_stints = facts("6.18.0");
    no_start_of_stints.missing_fields = vec!["task_prev_sum_exec_runtime".to_owned()];
    assert!(AttachPlan::from_facts(&no_start_of_stints, &Wishes::default()).is_ok());
    let mut no_group = facts("6.18.0");
    no_group.missing_fields = vec!["task_group".to_owned()];
    assert!(error(&no_group).contains("task_group"));
    assert_eq!(
        [kernel_version("6.12.107+deb13"), kernel_version("7.0"), kernel_version("odd")],
        [Some((6, 12)), Some((7, 0)), None]
    );
}
