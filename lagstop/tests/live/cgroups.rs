//! Which cgroup something is booked to, over the life of cgroups.

use std::{thread, time::Duration};

use lagstop::{
    host::Cpus,
    kernel::KernelCgroup,
    model::{Cgroup, CgroupId, CgroupMode, GroupBy, Level, Nanos},
    source::Stream,
};

use crate::{
    Test,
    fixture::{
        Probes, Setup, TestCgroup, assert_within, eventually, own_cgroups, tolerance, with_stream, with_stream_every,
    },
};

pub(crate) const TESTS: &[Test] = &[
    ("nested_cgroups_have_their_paths", nested),
    ("grouping_by_leaf_uses_the_unified_hierarchy", by_leaf),
    ("the_surplus_goes_to_other_and_nothing_is_lost", surplus),
    ("a_row_is_given_back_and_its_next_owner_inherits_nothing", reuse),
    ("a_cgroup_that_is_gone_is_still_named", gone),
    ("each_level_of_the_tree_is_as_it_was_set", levels),
    ("the_weight_of_a_cgroup_with_many_tasks_counts_as_the_kernel_counts_it", many_tasks),
];

fn nested() {
    let outer = TestCgroup::new("outer");
    let middle = outer.child("middle");
    let inner = middle.child("inner \u{1b}[31m name");
    let mut probes = Probes::attach();
    let mut load = inner.start("none");
    load.line();
    load.go();
    load.line();
    let snapshot = probes.snapshot();
    assert_eq!(*snapshot.cgroups[&inner.id()].path, *inner.path);
}

fn by_leaf() {
    let cgroup = TestCgroup::new("leaf");
    let Some(id) = cgroup.leaf_id() else {
        println!("no unified hierarchy here: the scheduler's is the only one");
        return;
    };
    let mut probes = Probes::with(&Setup { group_by: GroupBy::Leaf, ..Setup::default() });
    let mut load = cgroup.start("spin 500");
    load.line();
    // It runs on for a moment after each line, between the two figures if they are read at once.
    let settles = || thread::sleep(Duration::from_millis(50));
    settles();
    let (before, then) = (probes.counters(id), cgroup.cpu_ns());
    load.go();
    load.line();
    settles();
    let (after, now) = (probes.counters(id), cgroup.cpu_ns());
    assert_eq!(*probes.snapshot().cgroups[&id].path, *cgroup.path);
    assert_within("CPU time", after.since(&before).totals.cpu_ns.0, now - then, 1.0);
}

fn surplus() {
    let cgroups: Vec<TestCgroup> = (0..6).map(|n| TestCgroup::new(&format!("surplus{n}"))).collect();
    // Some rows are taken by whatever else runs here.
    let mut probes = Probes::with(&Setup { max_cgroups: Some(3), ..Setup::default() });
    let before: u64 = cgroups.iter().map(TestCgroup::cpu_ns).sum();
    let mut loads: Vec<_> = cgroups.iter().map(|cgroup| cgroup.start("nap 1000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(|load| load.go());
    loads.iter_mut().for_each(|load| drop(load.line()));
    let expected: u64 = cgroups.iter().map(TestCgroup::cpu_ns).sum::<u64>() - before;
    // A reading takes some time: figures are equal only once nothing moves any more.
    probes.reader.detach();
    let snapshot = probes.snapshot();
    let other = &snapshot.cgroups[&CgroupId::OTHER].counters.totals;
    assert!(other.switches > 0);
    // Each switch, and each task that was running at one of the two readings: the first, and the one just now.
    let at_readings = snapshot.lost.cgroup_overflows.checked_sub(other.switches);
    let most = 2 * snapshot.cpus.len() as u64;
    assert!(at_readings.is_some_and(|n| n <= most), "{} of {}", snapshot.lost.cgroup_overflows, other.switches);
    assert!(snapshot.cgroups.len() <= 4, "three and (other)");
    let root = CgroupId::ROOT;
    let ours = |id: &CgroupId| *id == CgroupId::OTHER || cgroups.iter().any(|cgroup| cgroup.id() == *id);
    let measured: u64 =
        snapshot.cgroups.iter().filter(|(id, _)| ours(id)).map(|(_, known)| known.counters.totals.cpu_ns.0).sum();
    // `(other)` holds strangers as well, if the root did not get its row first.
    assert!(snapshot.cgroups.contains_key(&root), "the root runs first");
    assert_within("CPU time with (other)", measured, expected, tolerance(3.0));
}

fn reuse() {
    // Room for what runs here anyway, and one more.
    let mut probes = Probes::with(&Setup { max_cgroups: Some(1 + own_cgroups() + 1), ..Setup::default() });
    let first = TestCgroup::new("first");
    let first_id = first.id();
    let mut load = first.start("spin 800");
    load.line();
    load.go();
    load.line();
    assert!(probes.counters(first_id).totals.cpu_ns.0 > 50_000_000, "there is to be something to inherit");
    drop(load);
    drop(first);
    probes.snapshot();
    probes.reader.retire([first_id]).unwrap();
    eventually("the return of the row", || !probes.snapshot().cgroups.contains_key(&first_id));
    // The freed row is known to every CPU after one more reading.
    probes.snapshot();

    let second = TestCgroup::new("second");
    let before = second.cpu_ns();
    let mut load = second.start("spin 200");
    load.line();
    load.go();
    load.line();
    let now = second.cpu_ns();
    // Costs and switches are not read at the same moment.
    probes.reader.detach();
    let counters = probes.counters(second.id());
    assert_within("CPU time of the second owner", counters.totals.cpu_ns.0, now - before, tolerance(5.0));
    // Each switch has a cost but for those that the kernel does not show; the first owner's would come on top.
    let costs = counters.switch_cost.as_ref().unwrap().count();
    assert!(costs <= counters.totals.switches, "{costs} costs of {} switches", counters.totals.switches);
}

fn gone() {
    let mut probes = Probes::attach();
    let parent = TestCgroup::new("parent");
    let cgroup = parent.child("gone");
    let (id, path) = (cgroup.id(), cgroup.path.clone());
    let mut load = cgroup.start("spin 500");
    load.line();
    load.go();
    load.line();
    let used = cgroup.cpu_ns();
    drop(load);
    drop(cgroup);
    thread::sleep(Duration::from_millis(50));
    let snapshot = probes.snapshot();
    let KernelCgroup { path: last_path, counters, .. } = &snapshot.cgroups[&id];
    assert_eq!(**last_path, *path);
    // Ending takes a little more.
    assert_within("CPU time", counters.totals.cpu_ns.0, used, tolerance(5.0));
}

/// As Kubernetes and systemd lay them out.
/// On one CPU: how the kernel divides a weight over CPUs does not matter there.
fn many_tasks() {
    const THREADS: u32 = 4;
    let (many, one) = (TestCgroup::new("many"), TestCgroup::new("one"));
    let cpus = Cpus::read().unwrap().online;
    let mut loads = [(&many, THREADS), (&one, 1)]
        .map(|(cgroup, threads)| cgroup.start(&format!("crowd {} {threads} 120000", cpus[0])));
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(|load| load.go());
    let mode = with_stream(GroupBy::Scheduler, async |stream| stream.session.cgroup_mode());
    let used = || [&many, &one].map(TestCgroup::cpu_ns);
    let before = used();
    thread::sleep(Duration::from_secs(4));
    let now = used();
    let [many, one] = [0, 1].map(|n| now[n] - before[n]);
    let times = CgroupMode::times(THREADS.into(), mode.most_times(cpus.len()));
    println!("{mode:?} on {} CPUs: {many} ns beside {one} ns, a factor of {times} was expected", cpus.len());
    assert_within("CPU time of four threads", many, (one as f64 * times) as u64, tolerance(10.0));
}

fn levels() {
    const UID: &str = "11111111_2222_3333_4444_555555555555";
    let host = TestCgroup::new("levels");
    let kubepods = host.child("kubepods.slice");
    let burstable = kubepods.child("kubepods-burstable.slice");
    let pod = burstable.child(&format!("kubepods-burstable-pod{UID}.slice"));
    let [one, other] = [1, 2].map(|container: u32| pod.child(&format!("cri-containerd-{container:064x}.scope")));
    let system = host.child("system.slice");
    let service = system.child("x.service");

    let weighing = |weight: u32| Level { weight: Some(weight.into()), ..Level::DEFAULT };
    let limited = Level { quota_ns: Some(Nanos(150_000_000)), period_ns: Some(Nanos(100_000_000)), ..weighing(50) };
    for (cgroup, level) in [
        (&host, weighing(100)),
        (&kubepods, weighing(200)),
        (&burstable, weighing(75)),
        (&pod, limited),
        (&one, weighing(25)),
    ] {
        cgroup.entitle(&level);
    }
    system.entitle(&weighing(300));
    let has_idle = service.make_idle();
    let idle = if has_idle {
        Level { weight: Some(Level::IDLE_WEIGHT), is_idle: true, ..Level::DEFAULT }
    } else {
        Level::DEFAULT
    };

    let mut loads: Vec<_> = [&one, &other, &service].map(|cgroup| cgroup.start("nap 600000")).into();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(|load| load.go());
    let ids = [&one, &other, &service].map(TestCgroup::id);
    // What counts is the number of looks, not the time between them.
    let (first, changed) = with_stream_every(Duration::from_millis(20), GroupBy::Scheduler, async |stream| {
        let first = next_with(stream, ids).await;
        // By now it is read only once in a long while.
        for _ in 0..100 {
            next_with(stream, ids).await;
        }
        pod.entitle(&Level { weight: Some(400.0), ..limited });
        let mut changed = Vec::new();
        for _ in 0..61 {
            changed.push(next_with(stream, ids).await);
        }
        (first, changed)
    });

    let above = [Level::DEFAULT, weighing(200), weighing(75), limited];
    let of = |cgroup: &Cgroup| cgroup.levels.as_deref().map(<[Level]>::to_vec).unwrap_or_default();
    assert_eq!(of(&first[0]), [&above[..], &[weighing(25)]].concat());
    assert_eq!(of(&first[1]), [&above[..], &[Level::DEFAULT]].concat());
    assert_eq!(of(&first[2]), [Level::DEFAULT, weighing(300), idle]);
    let weights: Vec<[Option<f64>; 2]> =
        changed.iter().map(|[one, other, _]| [one, other].map(|cgroup| of(cgroup)[3].weight)).collect();
    println!("{weights:?}");
    assert!(weights.iter().all(|[one, other]| one == other), "those in a pod agree on it");
    assert_eq!(weights.last(), Some(&[Some(400.0); 2]));
}

/// The cgroups in the next interval that has all of them.
async fn next_with<const N: usize>(stream: &mut Stream, ids: [CgroupId; N]) -> [Cgroup; N] {
    loop {
        let interval = stream.intervals.recv().await.unwrap().unwrap();
        let of = |id| interval.cgroups.iter().find(|cgroup| cgroup.id == id).cloned();
        let found = ids.map(of);
        if found.iter().all(Option::is_some) {
            return found.map(Option::unwrap);
        }
    }
}
