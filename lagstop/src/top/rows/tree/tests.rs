//! Which rows a tree has.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{
    model::{CgroupId, Distribution, Nanos, Totals, Workload},
    top::{
        column::Column,
        filter::Filter,
        frame::Frame,
        sort::{By, Sort},
    },
};

fn cgroup(id: u64, path: &str, switches: u64) -> Cgroup {
    Cgroup {
        id: CgroupId(id),
        path: path.into(),
        name: path.into(),
        totals: Totals { switches, pick_ns: Some(Nanos(switches)), swap_ns: Some(Nanos(0)), ..Totals::default() },
        runq_wait: Some(Distribution::of([(Nanos(switches), 100)])),
        ..Cgroup::default()
    }
}

fn frame(paths: &[(&str, u64)]) -> Frame {
    of((1..).zip(paths).map(|(id, &(path, switches))| cgroup(id, path, switches)).collect())
}

fn of(cgroups: Vec<Cgroup>) -> Frame {
    let interval = Interval { duration_ns: Nanos::SECOND, cgroups, ..Interval::default() };
    Frame::new(0, interval, HashMap::new(), Vec::new(), Vec::new())
}

fn shown(frame: &Frame, arrangement: &Arrangement) -> Vec<String> {
    let row = |row: &Row| {
        let switches = row.cell(Column::SWITCHES, &frame.interval);
        format!("{}{} {switches}", " ".repeat(row.depth.into()), row.label())
    };
    arrangement.rows(frame, &mut Arc::default()).iter().map(row).collect()
}

#[test]
fn each_row_is_the_sum_of_what_is_below_it() {
    let frame = frame(&[("/a/b", 10), ("/a/c/d", 20), ("/e", 25), ("/", 1), ("/a", 3)]);
    let mut arrangement = Arrangement { tree: true, ..Arrangement::default() };
    assert_eq!(shown(&frame, &arrangement), ["/ 59", " a 33", "  c/d 20", "  b 10", " e 25"]);
    arrangement.folded.insert("/a".into());
    assert_eq!(shown(&frame, &arrangement), ["/ 59", " a 33", " e 25"]);
    arrangement.filter = Filter::parse("/d$").unwrap();
    arrangement.folded.clear();
    assert_eq!(shown(&frame, &arrangement), ["/a/c/d 20"]);
}

#[test]
fn a_pod_is_called_what_its_containers_know_it_by() {
    let pod = "/kubepods.slice/pod1.slice";
    let mut frame =
        frame(&[(&format!("{pod}/a.scope"), 5), (&format!("{pod}/b.scope"), 3), ("/kubepods.slice/pod2/c", 1)]);
    for (cgroup, (pod, container)) in
        frame.interval.cgroups.iter_mut().zip([("web", "nginx"), ("web", "log"), ("db", "sql")])
    {
        cgroup.name = format!("shop/{pod}/{container}").into();
        cgroup.workload = Some(Arc::new(Workload {
            namespace: Some("shop".into()),
            pod: Some(pod.into()),
            container: Some(container.into()),
        }));
    }
    let arrangement = Arrangement { tree: true, ..Arrangement::default() };
    assert_eq!(
        shown(&frame, &arrangement),
        ["/kubepods.slice 9.0", " shop/web 8.0", "  nginx 5.0", "  log 3.0", " shop/db/sql 1.0"]
    );
}

#[test]
fn distributions_are_merged_when_somebody_looks() {
    let frame = frame(&[("/a/b", 10), ("/a/c", 3_000)]);
    let rows = Arrangement { tree: true, ..Arrangement::default() }.rows(&frame, &mut Arc::default());
    let tail = |row: &Row| row.cell(Column::RunqWaitP99, &frame.interval).to_string();
    assert_eq!(rows.iter().map(tail).collect::<Vec<_>>(), ["2.82 µs", "2.82 µs", "11 ns"]);
    assert_eq!(rows[0].members(&frame.interval).count(), 2);
}

#[test]
fn sums_are_sorted_by_their_own_quantiles() {
    let frame = frame(&[("/a", 10), ("/a/b", 3_000), ("/c", 20), ("/c/d", 30)]);
    let sort = Sort { by: By::Column(Column::RunqWaitP99), reversed: false };
    let arrangement = Arrangement { tree: true, sort, ..Arrangement::default() };
    let rows = arrangement.rows(&frame, &mut Arc::default());
    assert_eq!(rows.iter().map(|row| &*row.path).collect::<Vec<_>>(), ["/", "/a", "/a/b", "/c", "/c/d"]);
}

#[test]
fn two_of_the_same_path_are_both_there() {
    let frame = frame(&[("/a/b", 10), ("/a/b", 20), ("/a", 1)]);
    let arrangement = Arrangement { tree: true, ..Arrangement::default() };
    assert_eq!(shown(&frame, &arrangement), ["/a 31", " b 20", " b 10"]);
}

#[test]
fn strange_paths_have_their_place() {
    let deep = format!("/{}", "x/".repeat(500_000));
    let frame = frame(&[("", 1), ("//", 2), ("no slash", 3), (&deep, 4), ("/a//b", 5)]);
    let rows = Arrangement { tree: true, ..Arrangement::default() }.rows(&frame, &mut Arc::default());
    assert!(rows.len() < 10, "{}", rows.len());
}

/// Cgroups of which some are busy, under paths and names that may be others' in the next frame.
fn busy() -> impl Strategy<Value = Frame> {
    const PATHS: &[&str] =
        &["/", "/a", "/a/", "/a/b", "/a/b/c", "/a/d", "/e/f/g", "/e/f/h", "(other)", "", "//", "/a//b"];
    const NAMES: &[&str] = &["/a/b", "c", "shop/web/nginx", "web"];
    let parts = (0u64..12, prop::sample::select(PATHS), prop::sample::select(NAMES), 1u64..9, any::<bool>());
    let busy = parts.prop_map(|(id, path, name, switches, is_pod)| {
        let workload =
            || Workload { namespace: Some("shop".into()), pod: Some("web".into()), container: Some("nginx".into()) };
        Cgroup { name: name.into(), workload: is_pod.then(|| Arc::new(workload())), ..cgroup(id, path, switches) }
    });
    prop::collection::vec(busy, 0..8).prop_map(|cgroups| {
        let ids: std::collections::BTreeMap<u64, Cgroup> = cgroups.into_iter().map(|it| (it.id.0, it)).collect();
        of(ids.into_values().collect())
    })
}

proptest! {
    #[test]
    fn a_forest_of_another_frame_changes_nothing(
        frames in prop::collection::vec(busy(), 1..6),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 1..20),
    ) {
        let mut forest = Arc::default();
        for (n, is_filtered, is_folded) in order {
            let frame = n.get(&frames);
            let arrangement = Arrangement {
                tree: true,
                filter: is_filtered.then(|| Filter::parse("/[bce]").unwrap()).flatten(),
                folded: is_folded.then(|| "/a".into()).into_iter().collect(),
                ..Arrangement::default()
            };
            let said = |rows: &[Row]| -> Vec<_> {
                let said = |row: &Row| {
                    let cells = [Column::SWITCHES, Column::RunqWaitP99].map(|column| row.cell(column, &frame.interval));
                    let members: Vec<u64> = row.members(&frame.interval).map(|it| it.id.0).collect();
                    (row.key.clone(), row.label().to_owned(), Arc::clone(&row.path), row.depth, row.folded, cells, members)
                };
                rows.iter().map(said).collect()
            };
            let kept = said(&arrangement.rows(frame, &mut forest));
            prop_assert_eq!(kept, said(&arrangement.rows(frame, &mut Arc::default())));
        }
    }
}

#[test]
fn the_forest_stays_while_the_same_cgroups_are_busy() {
    let arrangement = Arrangement { tree: true, ..Arrangement::default() };
    let mut forest = Arc::default();
    let mut made = |paths: &[(&str, u64)]| {
        let before = Arc::as_ptr(&forest);
        arrangement.rows(&frame(paths), &mut forest);
        before != Arc::as_ptr(&forest)
    };
    assert!(made(&[("/a/b", 10), ("/a/c", 20)]));
    assert!(!made(&[("/a/b", 1), ("/a/c", 2)]), "other figures");
    assert!(made(&[("/a/b", 1), ("/a/d", 2)]), "another path");
    assert!(made(&[("/a/b", 1)]), "one less");
}
