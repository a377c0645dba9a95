use proptest::prelude::*;

use super::*;
use crate::model::{Distribution, FileCounters, Level, Nanos, Tasks, Totals, WaitBehind};

fn distribution() -> impl Strategy<Value = Option<Distribution>> {
    let counts = prop::collection::btree_map(0u8..144, 1u32..5_000, 0..6);
    prop::option::of(counts.prop_map(|counts| Distribution::from_buckets(counts).unwrap()))
}

prop_compose! {
    fn level()(
        weight in prop::option::of(prop_oneof![Just(Level::DEFAULT_WEIGHT), 0.2f64..10_000.0]),
        is_idle in any::<bool>(),
        quota in prop::option::of(any::<u64>()),
        period in prop::option::of(any::<u64>()),
    ) -> Level {
        Level { weight, is_idle, quota_ns: quota.map(Nanos), period_ns: period.map(Nanos) }
    }
}

prop_compose! {
    fn cgroup()(
        figures in prop::collection::vec(prop::option::of(prop_oneof![Just(0), 0u64..9, any::<u64>()]), Totals::COUNT),
        follows in any::<bool>(),
        load in prop::option::of(0u32..99_999),
        credit in prop::option::of(0u32..99_999),
        throttling in (prop::option::of(any::<u64>()), prop::option::of(any::<u64>()), prop::option::of(any::<u64>())),
        shapes in (distribution(), distribution(), distribution()),
        workload in any::<bool>(),
        levels in prop::option::of(prop::collection::vec(level(), 0..4)),
        cpus in prop::option::of("[0-9,-]{0,5}"),
    ) -> Cgroup {
        let mut totals = Totals::from_figures(std::array::from_fn(|n| figures[n]));
        if follows {
            totals.switches = totals.voluntary_switches.saturating_add(totals.involuntary_switches);
            let [wait, a, b, c] = [8, 4, 2, 1].map(|part| Some(Nanos(u64::from(load.unwrap_or_default()) * part)));
            (totals.runq_wait_ns, totals.wait_behind_ns, totals.wait_self_ns, totals.wait_kernel_ns) = (wait, b, a, c);
            (totals.wait_idle_ns, totals.wait_throttled_ns, totals.wait_elsewhere_ns) = (c, Some(Nanos(0)), Some(Nanos(0)));
            totals.wait_unknown_ns = Some(Nanos(0));
        }
        // All causes are measured, or none.
        if totals.wait_behind_ns.is_none() {
            totals.wait_self_ns = None;
        }
        Cgroup {
            totals,
            workload: workload.then(|| Arc::new(Workload { pod: Some("p".into()), ..Workload::default() })),
            levels: levels.map(Into::into),
            cpus: cpus.map(Into::into),
            runnable_load: load.map(|load| Tasks(f64::from(load) / 1_024.0)),
            load_credit: credit.map(|credit| Tasks(f64::from(credit) / 1_024.0)),
            files: FileCounters { nr_periods: throttling.0, nr_throttled: throttling.1, throttled_ns: throttling.2.map(Nanos), ..FileCounters::default() },
            switch_cost: shapes.0,
            runq_wait: shapes.1,
            accept_wait: shapes.2,
            ..Cgroup::default()
        }
    }
}

pub(in crate::recording) fn interval() -> impl Strategy<Value = Interval> {
    let waits = prop::collection::vec(prop::collection::vec((0u64..6, 0u64..=250), 0..=4), 6);
    (prop::collection::vec(cgroup(), 0..6), waits).prop_map(|(mut cgroups, waits)| {
        let id = |n: u64| CgroupId(n * n + 3);
        let there = cgroups.len() as u64;
        for ((n, cgroup), waits) in (0..).zip(&mut cgroups).zip(waits) {
            cgroup.id = id(n);
            if let Some(all) = cgroup.totals.wait_behind_ns {
                let one = |(n, thousandths): (u64, u64)| WaitBehind::of(id(n), thousandths, all);
                cgroup.waits_behind = waits.into_iter().filter(|(n, _)| *n < there).map(one).collect();
            }
            cgroup.path = format!("/a\"\u{1b}{n}").into();
            cgroup.name = format!("{n}").into();
        }
        Interval { duration_ns: Nanos(7_000), switch_cost_way: Some("a".into()), cgroups, ..Interval::default() }
    })
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(interval in interval()) {
        let mut names = Names::trusted();
        names.new_in(&interval);
        let text = serde_json::to_string(&pack(&interval)).unwrap();
        let packed: PackedInterval = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(unpack(&packed, &names).unwrap(), interval);
    }
}

#[test]
fn loads_that_follow_from_others_are_left_out() {
    let totals = Totals { cpu_ns: Nanos(300), runq_wait_ns: Some(Nanos(500)), ..Totals::default() };
    let load = totals.runnable_load(Nanos(1_000));
    let cgroup = Cgroup { totals, runnable_load: load, ..Cgroup::default() };
    let interval = Interval { duration_ns: Nanos(1_000), cgroups: vec![cgroup], ..Interval::default() };
    let text = serde_json::to_string(&pack(&interval)).unwrap();
    assert!(!text.contains("runnable_load") && text.contains(r#""cpu_ns":300,"#), "{text}");
}

#[test]
fn names_are_said_once_and_again_when_they_change() {
    let cgroup = |name: &str| Cgroup { id: CgroupId(4), name: name.into(), ..Cgroup::default() };
    let interval = |name| Interval { cgroups: vec![cgroup(name)], ..Interval::default() };
    let mut names = Names::trusted();
    let said = |names: &mut Names, name| names.new_in(&interval(name)).len();
    assert_eq!([said(&mut names, "a"), said(&mut names, "a"), said(&mut names, "b")], [1, 0, 1]);
    names.clear();
    assert_eq!(said(&mut names, "b"), 1);
}

#[test]
fn what_a_cgroup_is_entitled_to_is_said_again_when_it_changes() {
    let said = |names: &mut Names, weight, cpus: &str| {
        let level = Level { weight: Some(weight), ..Level::DEFAULT };
        let cgroup = Cgroup { levels: Some([level].into()), cpus: Some(cpus.into()), ..Cgroup::default() };
        names.new_in(&Interval { cgroups: vec![cgroup], ..Interval::default() }).len()
    };
    let mut names = Names::trusted();
    let said: Vec<usize> =
        [(1.0, "0"), (1.0, "0"), (2.0, "0"), (2.0, "0-1")].map(|(weight, cpus)| said(&mut names, weight, cpus)).into();
    assert_eq!(said, [1, 0, 1, 1]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let unpacked = |columns: &str, names: &Names| {
        let text = serde_json::to_string(&pack(&Interval::default())).unwrap();
        let text = text.replace(r#""cgroups":{"id":[],"#, &format!(r#""cgroups":{{{columns},"future":[[]],"#));
        let text = text.replace(r#""voluntary_switches":null,"#, "").replace(r#""runq_wait":null"#, r#""later":null"#);
        unpack(&serde_json::from_str(&text).unwrap(), names)
    };
    let mut names = Names::trusted();
    assert_eq!(unpacked(r#""id":[5]"#, &names), Err(UnpackError::NoName(CgroupId(5))));
    names.learn([5, 6].map(|id| Named { id: CgroupId(id), path: "/".into(), ..Named::default() })).unwrap();
    assert_eq!(unpacked(r#""id":[5,1]"#, &names).unwrap().cgroups.len(), 2);
    let error = unpacked(r#""id":[5,1],"voluntary_switches":[1,2,3]"#, &names).unwrap_err();
    assert_eq!(error, UnpackError::Length { column: "voluntary_switches", found: 3, expected: 2 });
    let error = unpacked(r#""id":[5,1],"runq_wait":"a""#, &names).unwrap_err();
    assert_eq!(error, UnpackError::Length { column: "runq_wait", found: 1, expected: 2 });
    let error = unpacked(r#""id":[5,1],"runq_wait":"a A""#, &names).unwrap_err();
    assert_eq!(error, UnpackError::Shape("A".to_owned()));
}

#[test]
fn ids_ascend_and_are_no_more_than_a_host_has() {
    let read = |ids: &str| {
        let text = serde_json::to_string(&pack(&Interval::default())).unwrap();
        serde_json::from_str::<PackedInterval>(&text.replace(r#""id":[]"#, &format!("\"id\":[{ids}]")))
    };
    // The row of others is 0, ids may be as large as numbers are, and as far apart.
    for ids in ["", "0", "0,1", "5,1,1", "-1", "1,-2", "0,-1"] {
        assert!(read(ids).is_ok(), "{ids}");
    }
    for (ids, expected) in [
        ("5,0", "the ids of its cgroups do not ascend: after 5 comes 5"),
        ("5,-1", "the ids of its cgroups do not ascend: after 5 comes 4"),
        ("-1,1", "the ids of its cgroups do not ascend: after 18446744073709551615 comes 0"),
        (&vec!["1"; CGROUPS + 1].join(","), "it has more than 102400 cgroups, too many for a recording"),
        (&vec!["0"; 1 << 20].join(","), "it has more than 102400 cgroups, too many for a recording"),
    ] {
        let error = read(ids).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(read(&vec!["1"; CGROUPS].join(",")).is_ok());
}

#[test]
fn a_column_is_no_longer_than_a_host_has_cgroups() {
    let read = |count: usize| {
        let text = serde_json::to_string(&pack(&Interval::default())).unwrap();
        let column = format!("\"cpu_ns\":[{}],\"threads\":", vec!["0"; count].join(","));
        let text = text.replacen("\"cgroups\":{", &format!("\"cgroups\":{{{column}0,\"later\":0,"), 1);
        serde_json::from_str::<PackedInterval>(&text)
    };
    assert!(read(CGROUPS).is_ok());
    let error = read(CGROUPS + 1).unwrap_err().to_string();
    assert!(error.starts_with("it has a column of more than 102400 cgroups"), "{error}");
}

#[test]
fn what_cannot_be_read_in_columns_is_not_packed() {
    let of = |ids: &[u64]| {
        let cgroups = ids.iter().map(|&id| Cgroup { id: CgroupId(id), ..Cgroup::default() }).collect();
        can_pack(&Interval { cgroups, ..Interval::default() })
    };
    assert!(of(&[]) && of(&[0]) && of(&[0, 1, u64::MAX]));
    assert!(!of(&[1, 1]) && !of(&[2, 1]));
}

/// All causes of 10 ns of waits, of which `behind` were behind others.
fn caused(behind: Option<u64>) -> Cgroup {
    let none = Some(Nanos(0));
    let totals = Totals {
        runq_wait_ns: Some(Nanos(10)),
        wait_behind_ns: behind.map(Nanos),
        wait_self_ns: Some(Nanos(3)),
        wait_kernel_ns: none,
        wait_idle_ns: none,
        wait_throttled_ns: none,
        wait_elsewhere_ns: none,
        wait_unknown_ns: none,
        ..Totals::default()
    };
    Cgroup { id: CgroupId(1), totals, ..Cgroup::default() }
}

#[test]
fn what_was_behind_others_is_left_out_where_the_other_causes_leave_it() {
    let text = |cgroup| {
        let interval = Interval { cgroups: vec![cgroup], ..Interval::default() };
        serde_json::to_string(&pack(&interval)).unwrap()
    };
    assert!(text(caused(Some(7))).contains(r#""wait_behind_ns":null"#));
    assert!(text(caused(Some(6))).contains(r#""wait_behind_ns":6"#));
}

#[test]
fn a_cgroup_that_columns_do_not_hold_is_not_packed() {
    let packs = |cgroup: Cgroup| can_pack(&Interval { cgroups: vec![cgroup], ..Interval::default() });
    let behind = |count| Cgroup { waits_behind: vec![WaitBehind::default(); count], ..caused(Some(7)) };
    assert!(packs(caused(Some(6))) && packs(behind(WaitBehind::NAMED)));
    assert!(!packs(caused(None)), "the rest would be put down to others");
    assert!(!packs(behind(WaitBehind::NAMED + 1)));
}

#[test]
fn names_weigh_what_they_take() {
    let named = |id, path: &str| Named { id: CgroupId(id), path: path.into(), ..Named::default() };
    let mut names = Names::within(2_000);
    assert_eq!(names.learn([named(1, "/a"), named(2, "/b")]), Ok(()));
    // The same again takes no more.
    assert_eq!((0..100).try_for_each(|_| names.learn([named(1, "/a")])), Ok(()));
    assert_eq!(names.learn([named(1, &"/a".repeat(1_000))]), Err(TooManyNames));
    names.clear();
    assert_eq!(names.learn([named(3, "/c")]), Ok(()));
    let levels = Some([Level::DEFAULT; 100].as_slice().into());
    assert_eq!(names.learn([Named { levels, ..named(4, "/d") }]), Err(TooManyNames));
    assert_eq!(Names::within(2_000).learn((0..100).map(|id| named(id, ""))), Err(TooManyNames));
}
