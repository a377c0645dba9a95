use proptest::prelude::*;

use super::*;
use crate::model::{Level, Totals, fixture::interval_of};

/// A cgroup: what it is inside of, its weight beside the usual one, and its tasks that always want to run.
type Of = (Option<usize>, f64, f64);

fn groups(all: &[Of]) -> Vec<Group> {
    all.iter().map(|&(parent, weight, _)| Group { parent, weight, ..Group::default() }).collect()
}

fn asking(all: &[Of]) -> Vec<Asking> {
    let asks = all.iter().enumerate().filter(|(_, of)| of.2 > 0.0);
    asks.map(|(group, &(.., tasks))| Asking { group, tasks, throttled: 0.0 }).collect()
}

/// What those that ask are entitled to, with three decimals, where `change` was made to the cgroups.
fn changed(cpus: f64, all: &[Of], change: impl Fn(&mut [Group])) -> Vec<f64> {
    let mut groups = groups(all);
    change(&mut groups);
    rounded(&Entitlement::of(&groups, &asking(all), cpus, 1.0).asking)
}

fn rounded(all: &[f64]) -> Vec<f64> {
    all.iter().map(|cpu| (cpu * 1e3).round() / 1e3).collect()
}

fn of(cpus: f64, all: &[Of]) -> Vec<f64> {
    changed(cpus, all, |_| {})
}

#[test]
fn siblings_share_by_weight() {
    assert_eq!(of(2.0, &[(None, 1.0, 2.0), (None, 1.0, 2.0)]), [1.0, 1.0]);
    assert_eq!(of(2.0, &[(None, 1.0, 4.0), (None, 3.0, 4.0)]), [0.5, 1.5]);
    assert_eq!(of(4.0, &[(None, 1.0, 1.0), (None, 3.0, 0.5)]), [1.0, 0.5], "there is enough for both");
}

#[test]
fn what_one_does_not_need_goes_to_the_others_by_weight() {
    assert_eq!(of(2.0, &[(None, 1.0, 0.25), (None, 1.0, 4.0)]), [0.25, 1.75]);
    assert_eq!(of(3.0, &[(None, 7.0, 0.5), (None, 1.0, 4.0), (None, 4.0, 4.0)]), [0.5, 0.5, 2.0]);
    // A task runs on one CPU at a time.
    assert_eq!(of(2.0, &[(None, 100.0, 1.0), (None, 1.0, 4.0)]), [1.0, 1.0]);
}

#[test]
fn a_level_shares_what_the_one_above_it_gets() {
    // Pods of weights 1 and 3 inside of kubepods, which weighs 2 beside a system of 1.
    let all = [(None, 2.0, 0.0), (Some(0), 1.0, 4.0), (Some(0), 3.0, 4.0), (None, 1.0, 4.0)];
    assert_eq!(of(3.0, &all), [0.5, 1.5, 1.0]);
    let shares = Entitlement::of(&groups(&all), &asking(&all), 3.0, 1.0).groups;
    let figures = |n: usize| rounded(&[shares[n].demand, shares[n].cpu, shares[n].with_equal_weights]);
    assert_eq!((figures(0), figures(3)), (vec![8.0, 2.0, 1.5], vec![4.0, 1.0, 1.5]));
    assert_eq!((figures(1), figures(2)), (vec![4.0, 0.5, 1.0], vec![4.0, 1.5, 1.0]));
}

#[test]
fn a_weight_counts_for_each_task_where_the_kernel_does_it_so() {
    let of =
        |cpus, all: &[Of], most_times| rounded(&Entitlement::of(&groups(all), &asking(all), cpus, most_times).asking);
    let all = [(None, 1.0, 4.0), (None, 1.0, 1.0)];
    assert_eq!(of(1.0, &all, 1.0), [0.5, 0.5]);
    assert_eq!(of(1.0, &all, 2.0), [0.667, 0.333], "no more often than there are CPUs");
    assert_eq!(of(1.0, &all, 4.0), [0.75, 0.25]);
    // Tasks of all below count at the top, and those of each in its own queue.
    let tree = [(None, 1.0, 0.0), (Some(0), 1.0, 3.0), (Some(0), 1.0, 1.0), (None, 1.0, 4.0)];
    assert_eq!(of(1.2, &tree, 2.0), [0.4, 0.2, 0.6]);
    // Not those that a quota stops.
    let stopped = [(0, 4.0, 3.0), (1, 1.0, 0.0)].map(|(group, tasks, throttled)| Asking { group, tasks, throttled });
    assert_eq!(rounded(&Entitlement::of(&groups(&all), &stopped, 1.0, 4.0).asking), [0.5, 0.5]);
    // No more often than there are CPUs in its set, which a cgroup of cgroups that all have the same set has as well.
    let on_one_cpu = |all: &[Of]| {
        let confine = |group| Group { cpus: vec![true, false, false, false], ..group };
        let confined: Vec<Group> = groups(all).into_iter().map(confine).collect();
        rounded(&Entitlement::of(&confined, &asking(all), 4.0, 4.0).asking)
    };
    assert_eq!(on_one_cpu(&tree), [0.25, 0.25, 0.5]);
    assert_eq!(on_one_cpu(&[(None, 1.0, 0.0), (Some(0), 1.0, 4.0), (None, 1.0, 1.0)]), [0.5, 0.5]);
}

#[test]
fn tasks_of_an_inner_cgroup_compete_with_the_cgroups_in_it() {
    // Two tasks of its own beside a cgroup: each weighs as much as that.
    let all = [(None, 1.0, 2.0), (Some(0), 1.0, 5.0)];
    assert_eq!(of(1.0, &all), [0.667, 0.333]);
    // The root's own, as kernel threads are.
    let root = |groups: &mut [Group]| groups[0].has_queue = false;
    assert_eq!(changed(1.0, &[(None, 1.0, 3.0), (None, 1.0, 1.0)], root), [0.75, 0.25]);
    // A level without the controller: its tasks are in the queue above.
    let without = |groups: &mut [Group]| groups[1].has_queue = false;
    let all = [(None, 1.0, 0.0), (Some(0), 9.0, 1.0), (Some(0), 1.0, 1.0), (None, 1.0, 1.0)];
    assert_eq!(changed(1.0, &all, without), [0.25, 0.25, 0.5]);
}

#[test]
fn nobody_is_entitled_to_more_than_its_quota() {
    let quota = |groups: &mut [Group]| groups[0].quota = Some((0.05, 0.1));
    assert_eq!(changed(2.0, &[(None, 1.0, 4.0), (None, 1.0, 4.0)], quota), [0.5, 1.5]);
    // Of all inside of it.
    let all = [(None, 9.0, 0.0), (Some(0), 1.0, 4.0), (Some(0), 3.0, 4.0), (None, 1.0, 1.0)];
    assert_eq!(changed(2.0, &all, quota), [0.125, 0.375, 1.0]);
}

#[test]
fn a_set_of_cpus_is_shared_by_those_in_it() {
    let on = |pinned: &'static [usize]| {
        move |groups: &mut [Group]| pinned.iter().for_each(|&n| groups[n].cpus = vec![true, false])
    };
    let all = [(None, 1.0, 2.0), (None, 1.0, 2.0)];
    assert_eq!(changed(2.0, &all, on(&[0])), [1.0, 1.0]);
    let all = [(None, 9.0, 2.0), (None, 1.0, 2.0)];
    assert_eq!(changed(2.0, &all, on(&[0])), [1.0, 1.0], "one of two CPUs, whatever it weighs");
    let all = [(None, 3.0, 1.0), (None, 1.0, 1.0), (None, 1.0, 2.0)];
    assert_eq!(changed(2.0, &all, on(&[0, 1])), [0.75, 0.25, 1.0], "two on one CPU, and one on the other");
    assert_eq!(changed(1.0, &all, on(&[0, 1])), [0.375, 0.125, 0.5], "a hypervisor took half of each CPU");
}

#[test]
fn sets_that_overlap_hold_no_more_together_than_their_cpus() {
    // Each of three CPUs is in two of the sets.
    let around = |groups: &mut [Group]| {
        for (n, group) in groups.iter_mut().enumerate() {
            group.cpus = (0..8).map(|cpu| cpu < 3 && cpu != n).collect();
        }
    };
    assert_eq!(changed(8.0, &[(None, 1.0, 6.0); 3], around), [1.0, 1.0, 1.0]);
}

#[test]
fn an_idle_cgroup_has_next_to_no_weight() {
    let idle = |groups: &mut [Group]| groups[0].is_idle = true;
    let all = [(None, 1.0, 1.0), (None, 1.0, 1.0)];
    assert_eq!(changed(1.0, &all, idle), [0.003, 0.997], "3 of 1,027");
    assert_eq!(changed(2.0, &all, idle), [1.0, 1.0]);
}

/// A cgroup of an interval of a second with four CPUs.
fn cgroup(id: u64, path: &str, levels: Option<&[f64]>, cpu_ms: u64, wait_ms: u64) -> Cgroup {
    let levels = levels.map(|weights| {
        weights.iter().map(|&weight| Level { weight: Some(weight), ..Level::DEFAULT }).collect::<Vec<_>>().into()
    });
    let totals = Totals {
        cpu_ns: Nanos(cpu_ms * 1_000_000),
        runq_wait_ns: Some(Nanos(wait_ms * 1_000_000)),
        threads: 8,
        ..Totals::default()
    };
    Cgroup { id: CgroupId(id), path: path.into(), levels, totals, ..Cgroup::default() }
}

#[test]
fn an_interval_says_what_its_cgroups_were_entitled_to() {
    let of = |cgroups: Vec<Cgroup>| -> Vec<Option<f64>> {
        let entitled = interval_of(0, cgroups).entitled_cpu(CgroupMode::Smp);
        entitled.into_iter().map(|cpu| cpu.map(|cpu| (cpu.0 * 1e3).round() / 1e3)).collect()
    };
    let pods = || {
        vec![
            cgroup(10, "/pods/a", Some(&[300.0, 100.0]), 1_000, 3_000),
            cgroup(11, "/pods/b", Some(&[300.0, 200.0]), 1_000, 3_000),
            cgroup(12, "/system", Some(&[100.0]), 1_500, 3_000),
        ]
    };
    assert_eq!(of(pods()), [Some(1.0), Some(2.0), Some(1.0)]);
    let with = |more: Cgroup| of(pods().into_iter().chain([more]).collect());
    // The root's own tasks take part. Cgroups whose place is unknown keep what they got, and the others share the rest.
    assert_eq!(with(cgroup(1, "/", Some(&[]), 100, 100)), [Some(0.95), Some(1.9), Some(0.95), Some(0.2)]);
    assert_eq!(with(cgroup(0, "(other)", None, 400, 0)), [Some(0.9), Some(1.8), Some(0.9), None]);
    assert_eq!(with(cgroup(13, "/x", None, 400, 0))[3], None);
    assert_eq!(with(cgroup(13, "/x", Some(&[100.0; 2]), 400, 0))[3], None, "more levels than the path has");
    let mut unmeasured = pods();
    unmeasured[2].totals.runq_wait_ns = None;
    assert_eq!(of(unmeasured), [Some(0.833), Some(1.667), None]);
    assert_eq!(Interval::default().entitled_cpu(CgroupMode::Smp), []);
}

#[test]
fn an_interval_counts_weights_as_its_kernel_does() {
    let both = || vec![cgroup(10, "/a", Some(&[100.0]), 2_000, 6_000), cgroup(11, "/b", Some(&[100.0]), 2_000, 2_000)];
    let of = |mode| {
        let entitled = interval_of(0, both()).entitled_cpu(mode);
        entitled.into_iter().map(|cpu| cpu.map(|cpu| (cpu.0 * 1e3).round() / 1e3)).collect::<Vec<_>>()
    };
    assert_eq!(of(CgroupMode::Smp), [Some(2.0), Some(2.0)]);
    // Eight tasks count four times on four CPUs, and four of them three times: 4 and 3 of 7 parts.
    assert_eq!(of(CgroupMode::Concur), [Some(2.286), Some(1.714)]);
}

#[test]
fn a_wait_that_was_booked_late_is_not_taken_for_many_tasks() {
    let mut late = cgroup(10, "/a", Some(&[100.0]), 10, 9_000);
    late.totals.threads = 1;
    assert_eq!(interval_of(0, vec![late]).entitled_cpu(CgroupMode::Smp), [Some(Cores(1.0))]);
}

/// Cgroups inside of one another, some with a quota: weights, what they are inside of, tasks, quotas in CPUs.
fn any_tree() -> impl Strategy<Value = (Vec<Group>, Vec<Asking>)> {
    let one = (
        prop_oneof![Just(1.0), 0.01f64..100.0],
        any::<prop::sample::Index>(),
        0.0f64..4.0,
        prop::option::weighted(0.2, 0.05f64..2.0),
    );
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let group = |(n, (weight, parent, _, quota)): (usize, &(f64, prop::sample::Index, f64, Option<f64>))| Group {
            parent: parent.index(n + 1).checked_sub(1),
            weight: *weight,
            quota: quota.map(|cpus| (cpus * 0.1, 0.1)),
            ..Group::default()
        };
        let asking =
            all.iter().enumerate().map(|(group, one)| Asking { group, tasks: one.2, throttled: 0.0 }).collect();
        (all.iter().enumerate().map(group).collect(), asking)
    })
}

proptest! {
    #[test]
    fn no_more_than_there_is_is_granted_and_nobody_gets_more_than_it_wants((groups, asking) in any_tree(), cpus in 0.1f64..8.0, times in 1.0f64..8.0) {
        let shared = Entitlement::of(&groups, &asking, cpus, times);
        prop_assert!(shared.asking.iter().sum::<f64>() <= cpus + 1e-9);
        for (one, cpu) in asking.iter().zip(&shared.asking) {
            prop_assert!((0.0..=one.tasks + 1e-9).contains(cpu));
        }
        for (n, group) in groups.iter().enumerate() {
            let is_inside = |number: usize| std::iter::successors(Some(number), |&up| groups[up].parent).any(|up| up == n);
            let inside = asking.iter().zip(&shared.asking).filter(|(one, _)| is_inside(one.group)).map(|(_, cpu)| cpu);
            let cpu: f64 = inside.sum();
            prop_assert!((cpu - shared.groups[n].cpu).abs() < 1e-9);
            prop_assert!(group.quota_cpus().is_none_or(|quota| cpu <= quota + 1e-9));
        }
    }

    #[test]
    fn no_cpu_is_left_idle_while_anybody_wants_it((groups, asking) in any_tree(), cpus in 0.1f64..8.0, times in 1.0f64..8.0) {
        let unlimited: Vec<Group> = groups.into_iter().map(|group| Group { quota: None, ..group }).collect();
        let all: f64 = asking.iter().map(|one| one.tasks).sum();
        let granted: f64 = Entitlement::of(&unlimited, &asking, cpus, times).asking.iter().sum();
        prop_assert!((granted - all.min(cpus)).abs() < 1e-9, "{granted} of {cpus} for {all}");
    }

    #[test]
    fn sets_of_cpus_hold_no_more_than_they_have(
        pinned in prop::collection::vec((0usize..4, 0usize..4, 0.0f64..4.0, 0.1f64..10.0), 1..10),
        times in 1.0f64..4.0,
    ) {
        let set = |a: usize, b: usize| (0..4).map(|cpu| cpu == a || cpu == b).collect::<Vec<bool>>();
        let groups: Vec<Group> =
            pinned.iter().map(|&(a, b, _, weight)| Group { cpus: set(a, b), weight, ..Group::default() }).collect();
        let asking: Vec<Asking> = pinned.iter().enumerate().map(|(group, one)| Asking { group, tasks: one.2, throttled: 0.0 }).collect();
        let shared = Entitlement::of(&groups, &asking, 4.0, times).asking;
        for group in &groups {
            let is_inside = |one: &Asking| groups[one.group].cpus.iter().zip(&group.cpus).all(|(&own, &has)| has || !own);
            let inside: f64 = asking.iter().zip(&shared).filter(|(one, _)| is_inside(one)).map(|(_, cpu)| cpu).sum();
            prop_assert!(inside <= group.cpus.iter().filter(|&&has| has).count() as f64 + 1e-6);
        }
    }

    #[test]
    fn no_tree_is_too_strange(
        parents in prop::collection::vec((prop::option::of(0usize..12), any::<f64>(), any::<f64>(), any::<bool>()), 0..8),
        cpus in any::<f64>(),
        times in any::<f64>(),
    ) {
        let groups: Vec<Group> = parents
            .iter()
            .map(|&(parent, weight, _, has_queue)| Group { parent, weight, has_queue, ..Group::default() })
            .collect();
        let asking: Vec<Asking> = parents.iter().enumerate().map(|(group, one)| Asking { group: group * 2, tasks: one.2, throttled: 0.0 }).collect();
        let shared = Entitlement::of(&groups, &asking, cpus, times).asking;
        prop_assert!(shared.iter().all(|cpu| cpu.is_finite() && *cpu >= 0.0), "{shared:?}");
    }
}
