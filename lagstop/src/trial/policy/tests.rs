use std::{fs, path::Path};

use super::*;
use crate::{
    model::{Cgroup, CgroupId, GroupBy, Interval, Tasks},
    trial::{Made, undo::undo},
};

/// A hierarchy of version 2 in a directory, with cgroups of so much Load Credit.
fn host(credits: &[(&str, f64)]) -> (tempfile::TempDir, Kernel, Sides) {
    let home = tempfile::tempdir().unwrap();
    let mut sides = Sides::default();
    let fair = credits.iter().map(|(_, credit)| credit).sum::<f64>() / credits.len().max(1) as f64;
    for (id, &(name, credit)) in (10..).zip(credits) {
        let directory = home.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("cpu.weight"), "100\n").unwrap();
        fs::write(directory.join("cpu.idle"), "0\n").unwrap();
        let group = TriedGroup { id: CgroupId(id), path: format!("/{name}"), directory, cores: credit };
        if credit < fair { sides.light.push(group) } else { sides.heavy.push(group) }
    }
    let kernel = Kernel::here(Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler));
    (home, kernel, sides.sorted())
}

fn says(home: &Path, name: &str, file: &str) -> String {
    fs::read_to_string(home.join(name).join(file)).unwrap().trim().to_owned()
}

fn make(changes: &[PolicyChange]) {
    changes.iter().for_each(|change| assert_eq!(change.make().unwrap(), Made::Yes));
}

fn put_back(changes: &[PolicyChange]) {
    let (restored, _) = undo(changes, &mut || {});
    assert!(restored.left.is_empty() && restored.failed.is_empty(), "{restored:?}");
}

const MIX: &[(&str, f64)] = &[("web", 0.1), ("api", 0.5), ("batch", 4.0), ("train", 3.4)];

#[test]
fn weights_go_by_load_credit_within_limits() {
    let (home, kernel, sides) = host(MIX);
    let changes = Policy::Weight.changes(&sides, &kernel).unwrap();
    make(&changes);
    // The fair share is 2 tasks.
    let weights = ["web", "api", "batch", "train"].map(|name| says(home.path(), name, "cpu.weight"));
    assert_eq!(weights, ["1000", "400", "50", "59"]);
    put_back(&changes);
    assert!(MIX.iter().all(|(name, _)| says(home.path(), name, "cpu.weight") == "100"));
}

#[test]
fn the_heaviest_are_idle_and_their_weight_is_kept() {
    let (home, kernel, sides) = host(MIX);
    fs::write(home.path().join("batch/cpu.weight"), "250\n").unwrap();
    let changes = Policy::Idle.changes(&sides, &kernel).unwrap();
    make(&changes);
    let idle = ["web", "api", "batch", "train"].map(|name| says(home.path(), name, "cpu.idle"));
    assert_eq!(idle, ["0", "0", "1", "0"], "it has more than half of what is heavy");
    // The kernel forgets the weight of a cgroup that becomes idle, and gives it the usual one: its own is written behind it.
    fs::write(home.path().join("batch/cpu.weight"), "100").unwrap();
    put_back(&changes);
    assert_eq!(
        (says(home.path(), "batch", "cpu.idle"), says(home.path(), "batch", "cpu.weight")),
        ("0".into(), "250".into())
    );
}

#[test]
fn what_somebody_has_made_idle_gets_no_weight() {
    let (home, kernel, sides) = host(MIX);
    fs::write(home.path().join("batch/cpu.idle"), "1\n").unwrap();
    let changes = Policy::Weight.changes(&sides, &kernel).unwrap();
    assert!(changes.len() == 3 && changes.iter().all(|change| !change.what().contains("/batch/")), "{changes:?}");
}

#[test]
fn what_the_kernel_has_not_is_said() {
    let (home, kernel, sides) = host(MIX);
    assert!(Policy::KernelLags.changes(&sides, &kernel).unwrap_err().to_string().contains("cpu.latency_awareness"));
    let without = Kernel { has_slices: false, ..kernel.clone() };
    assert!(Policy::Slice.changes(&sides, &without).unwrap_err().to_string().contains("6.12"));
    fs::remove_file(home.path().join("train/cpu.idle")).unwrap();
    assert!(Policy::LagsDynamic.changes(&sides, &kernel).unwrap_err().to_string().contains("/train has no cpu.idle"));
    for (name, _) in MIX {
        fs::write(home.path().join(name).join("cpu.latency_awareness"), "0").unwrap();
    }
    assert_eq!(Policy::KernelLags.changes(&sides, &kernel).unwrap().len(), 4);
}

#[test]
fn what_changes_cgroups_takes_both_light_and_heavy() {
    let (_home, kernel, sides) = host(MIX);
    for sides in [Sides { light: vec![], ..sides.clone() }, Sides { heavy: vec![], ..sides }] {
        for policy in Policy::value_variants() {
            let changes = policy.changes(&sides, &kernel).map(|changes| changes.len());
            let refused = changes
                .as_ref()
                .is_err_and(|error| error.to_string().contains("a trial needs a light and a heavy one"));
            assert!(
                if policy.switches_scheduler() { changes.is_ok_and(|count| count == 0) } else { refused },
                "{policy}"
            );
        }
    }
}

#[test]
fn real_time_budgets_are_given_from_above() {
    let (home, kernel, sides) = host(MIX);
    fs::write(home.path().join("cpu.rt_runtime_us"), "950000\n").unwrap();
    for (name, _) in MIX {
        fs::write(home.path().join(name).join("cpu.rt_runtime_us"), "0\n").unwrap();
        // Of a thread that is gone.
        fs::write(home.path().join(name).join("cgroup.threads"), "4194303\n").unwrap();
    }
    make(&Policy::LagsStatic.changes(&sides, &kernel).unwrap());
    let budgets = ["web", "api", "batch"].map(|name| says(home.path(), name, "cpu.rt_runtime_us"));
    assert_eq!(budgets, ["427500", "427500", "0"], "nine tenths of what the root has");
    fs::write(home.path().join("cpu.rt_runtime_us"), "0\n").unwrap();
    assert!(Policy::LagsStatic.changes(&sides, &kernel).unwrap_err().to_string().contains("no real-time budget"));
}

#[test]
fn the_dynamic_one_follows_load_credit_but_not_every_wiggle() {
    let (home, kernel, sides) = host(MIX);
    let mut dynamic = Dynamic::new(&sides, &kernel);
    let mut made = Policy::LagsDynamic.changes(&sides, &kernel).unwrap();
    make(&made);
    let idle = || ["web", "api", "batch", "train"].map(|name| says(home.path(), name, "cpu.idle")).join("");
    assert_eq!(idle(), "0011");
    let interval = |credits: [f64; 4]| {
        // Rows are of what is inside of them.
        let cgroup = |(name, credit)| {
            let half = |row: &str| Cgroup {
                path: format!("/{name}{row}").into(),
                load_credit: Some(Tasks(credit / 2.0)),
                ..Cgroup::default()
            };
            ["", "/inner"].map(half)
        };
        let names = ["web", "api", "batch", "train"];
        Interval { cgroups: names.into_iter().zip(credits).flat_map(cgroup).collect(), ..Interval::default() }
    };
    let mut step = |credits| {
        let changes = dynamic.changes(&interval(credits), &kernel);
        make(&changes);
        made.extend(changes);
        idle()
    };
    assert_eq!(step([2.1, 2.0, 2.0, 1.9]), "0011", "at the border nobody changes sides");
    assert_eq!(step([6.0, 0.5, 4.0, 0.5]), "1010");
    assert_eq!(step([0.0, 0.0, 0.0, 0.0]), "1010", "nobody ran");
    put_back(&made);
    assert_eq!(idle(), "0000");
    assert!(MIX.iter().all(|(name, _)| says(home.path(), name, "cpu.weight") == "100"));
}

#[test]
fn what_another_scheduler_ignores_is_refused_with_its_name() {
    let (_home, kernel, _) = host(MIX);
    let under = |name: Option<&str>| Kernel { other_scheduler: name.map(str::to_owned), ..kernel.clone() };
    for policy in [Policy::Weight, Policy::Idle, Policy::Slice, Policy::LagsDynamic, Policy::KernelLags] {
        let error = policy.has_effect(&under(Some("scx_lavd"))).unwrap_err().to_string();
        assert!(error.contains("scx_lavd is loaded"), "{error}");
        assert!(policy.has_effect(&under(None)).is_ok());
    }
    assert!(Policy::LagsStatic.has_effect(&under(Some("scx_lavd"))).is_ok());
}

#[test]
fn it_is_written_and_read_as_it_is_named() {
    let program = SchedulerProgram::named("/usr/bin/scx_lavd").unwrap();
    let text = serde_json::to_string(&Policy::Scx(program)).unwrap();
    assert_eq!(text, "\"scx:/usr/bin/scx_lavd\"");
    assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), Policy::Scx(program));
    assert_eq!(serde_json::from_str::<Policy>("\"lags\"").unwrap(), Policy::Lags);
    assert!(serde_json::from_str::<Policy>("\"scx:\"").is_err() && serde_json::from_str::<Policy>("\"x\"").is_err());
}

#[test]
fn only_some_policies_switch_the_scheduler() {
    let program = SchedulerProgram::named("scx_simple").unwrap();
    assert_eq!(Policy::Scx(program).switches_to(), Some(SwitchTo::Program(program)));
    assert_eq!(Policy::Lags.switches_to(), Some(SwitchTo::Lags));
    assert!(!Policy::Weight.switches_scheduler() && !Policy::KernelLags.switches_scheduler());
}
