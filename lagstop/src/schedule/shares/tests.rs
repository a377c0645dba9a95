use super::*;

fn root() -> Node {
    Node { weight: 100.0, is_ranked: true, ..Node::default() }
}

/// One with so many tasks that always want to run, or so much of one.
fn child(parent: usize, weight: f64, tasks: f64) -> Node {
    let is_active = tasks > 0.0;
    Node {
        parent: Some(parent),
        weight,
        is_active,
        tasks,
        used: tasks.min(0.1),
        turns: 10,
        is_ranked: true,
        ..Node::default()
    }
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.001, "{found} is not {expected}");
}

#[test]
fn weights_count_among_siblings_that_are_active_alone() {
    // Two slices of 1:3; in the second one two services of 1:2, and one that sleeps.
    let nodes = [
        root(),
        child(0, 100.0, 0.0),
        child(0, 300.0, 0.0),
        child(1, 100.0, 4.0),
        child(2, 100.0, 4.0),
        child(2, 200.0, 4.0),
        child(2, 300.0, 0.0),
    ];
    let cpus = entitled(&nodes, 4.0);
    for (n, expected) in [(3, 1.0), (4, 1.0), (5, 2.0), (6, 3.0)] {
        near(cpus[n], expected);
    }
}

#[test]
fn each_of_the_roots_own_tasks_weighs_as_a_cgroup() {
    let own = |tasks: f64| Node { is_active: true, tasks, used: tasks.min(1.0), ..root() };
    let nodes = [own(3.0), child(0, 100.0, 1.0), child(0, 100.0, 1.0)];
    let CpuShares { cpus, plans, promisable, .. } = shares(&nodes, 1.0, &Tuning::default());
    for (n, expected) in [(0, 0.6), (1, 0.2), (2, 0.2)] {
        near(cpus[n], expected);
        near(share(&plans[n]), 0.2);
    }
    assert_eq!(Plan { ahead: plans[1].ahead, ..plans[0] }, plans[1], "as if it were one");
    assert!(plans[0].ahead < plans[1].ahead, "which of them always want to run is not known");
    assert_eq!(promisable, f64::INFINITY, "nobody knows how many more there are");
    // Their turns are a part of a round.
    let many = [own(500.0), child(0, 100.0, 1.0)];
    let CpuShares { plans, .. } = shares(&many, 1.0, &Tuning::default());
    near(plans[0].slice as f64, 2e9 / 501.0);
    // What sleeps most of the time takes hardly anything from anybody.
    let daemons = Node { is_active: true, tasks: 0.01, used: 0.01, ..root() };
    near(entitled(&[daemons, child(0, 100.0, 1.0), child(0, 100.0, 1.0)], 1.0)[1], 0.495);
}

#[test]
fn what_one_does_not_use_is_its_siblings_first() {
    // Two slices of the same weight: in the first one a service uses a tenth of a CPU, and the other one wants all.
    let nodes = [
        root(),
        child(0, 100.0, 0.0),
        child(0, 100.0, 0.0),
        child(1, 100.0, 0.1),
        child(1, 100.0, 2.0),
        child(2, 100.0, 2.0),
    ];
    let cpus = entitled(&nodes, 1.0);
    for (n, expected) in [(3, 0.4), (4, 0.4), (5, 0.5)] {
        near(cpus[n], expected);
    }
    // One that has a single task leaves what that cannot use.
    let nodes = [root(), child(0, 900.0, 1.0), child(0, 100.0, 4.0)];
    near(entitled(&nodes, 4.0)[2], 3.0);
}

#[test]
fn where_there_is_enough_for_all_each_has_its_part_at_least() {
    let nodes = [root(), child(0, 100.0, 0.1), child(0, 100.0, 0.3)];
    let cpus = entitled(&nodes, 1.0);
    near(cpus[1], 0.5);
    near(cpus[2], 0.5);
}

#[test]
fn own_tasks_compete_with_the_cgroups_beside_them() {
    // As in version 1: two tasks, and a cgroup that weighs as much as both.
    let nodes = [root(), child(0, 100.0, 2.0), child(1, 200.0, 2.0)];
    let cpus = entitled(&nodes, 1.0);
    near(cpus[1], 0.5);
    near(cpus[2], 0.5);
}

#[test]
fn one_of_twice_the_weight_is_as_heavy_as_one_with_half_the_use() {
    let nodes = [root(), child(0, 100.0, 1.0), child(0, 200.0, 1.0)];
    let CpuShares { plans, .. } = shares(&nodes, 1.0, &Tuning::default());
    near(plans[1].factor as f64, 2.0 * plans[2].factor as f64);
    near(plans[2].slice as f64, 2.0 * plans[1].slice as f64);
    near((plans[1].slice + plans[2].slice) as f64, 10e6);
}

#[test]
fn turns_are_shared_out_among_those_that_always_want_one() {
    // Four with two tasks each, six that hardly want to run: those do not shorten the turns of the others.
    let mut nodes = vec![root()];
    nodes.extend((0..4).map(|_| child(0, 100.0, 2.0)));
    nodes.extend((0..6).map(|_| child(0, 100.0, 0.05)));
    let CpuShares { plans, cpus, .. } = shares(&nodes, 1.0, &Tuning::default());
    near(plans[1].slice as f64, 20e6);
    near(cpus[1], 0.7 / 4.0);
    near(plans[1].behind as f64, 2e9);
    assert!(plans[1].ahead > 2 * plans[10].ahead, "what hardly runs waits for less");
    near(plans[10].slice as f64, 20e6);
    nodes[1].is_assumed = true;
    let assumed = &shares(&nodes, 1.0, &Tuning::default()).plans[1];
    assert_eq!((assumed.ahead, assumed.slice), (plans[10].ahead, plans[1].slice), "it may be soon done");
}

#[test]
fn turns_count_whole_where_the_head_start_is_short() {
    // Nine on a CPU. A turn of 5 ms is 45 ms of virtual time: what is counted at most must be more.
    let mut nodes = vec![root()];
    nodes.extend((0..9).map(|_| child(0, 100.0, 1.0)));
    nodes.push(Node { turns: 0, ..child(0, 100.0, 0.0) });
    let ms = Duration::from_millis;
    let ahead = |tuning: Tuning| shares(&nodes, 1.0, &tuning).plans[10].ahead as f64;
    let usual = Tuning::default();
    near(ahead(usual), 900e6);
    near(ahead(Tuning { guard: ms(1), ..usual }), 90e6);
    near(ahead(Tuning { memory: ms(20), ..usual }), 90e6);
    near(ahead(Tuning { guard: ms(1), slice: ms(200), short_slice: ms(200), ..usual }), 1e9);
}

#[test]
fn turns_are_short_where_all_are_alike_and_long_where_many_are_light() {
    let turn = |heavy: usize, light: usize| {
        let mut nodes = vec![root()];
        nodes.extend((0..heavy).map(|_| child(0, 100.0, 1.0)));
        nodes.extend((0..light).map(|_| child(0, 100.0, 0.02)));
        shares(&nodes, 1.0, &Tuning::default()).plans[1].slice as f64
    };
    near(turn(4, 0), 5e6);
    near(turn(15, 1), 12.5e6);
    near(turn(7, 1), 20e6);
    near(turn(1, 99), 20e6);
    // Daemons that wake once a second do not count for as much as those that come all the time.
    let mut nodes = vec![root(), child(0, 100.0, 1.0), child(0, 100.0, 1.0)];
    nodes.extend((0..10).map(|_| Node { turns: 1, ..child(0, 100.0, 0.02) }));
    nodes[1..3].iter_mut().for_each(|node| node.turns = 95);
    near(shares(&nodes, 1.0, &Tuning::default()).plans[1].slice as f64, 11e6);
    // Those that cannot go first wait for the end of turns.
    let unranked: Vec<Node> = nodes.iter().map(|node| Node { is_ranked: false, ..node.clone() }).collect();
    near(shares(&unranked, 1.0, &Tuning::default()).plans[1].slice as f64, 5e6);
    let tuning = Tuning { preempts: false, ..Tuning::default() };
    near(shares(&nodes, 1.0, &tuning).plans[1].slice as f64, 5e6);
    let nodes = [root(), child(0, 100.0, 1.0)];
    let settings = Tuning { slice: Duration::from_millis(2), ..Tuning::default() };
    near(shares(&nodes, 1.0, &settings).plans[1].slice as f64, 2e6);
}

#[test]
fn tasks_of_a_cgroup_are_served_a_turn_after_each_other() {
    // Half of a CPU for each: a turn of 3 ms takes 6 ms of virtual time.
    let mut nodes = [root(), child(0, 100.0, 1.0), child(0, 100.0, 1.0)];
    nodes[1].turn = Some(Duration::from_millis(3));
    let CpuShares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
    near(plans[1].turn as f64, 6e6);
    // What is not known may be as long as a turn can be, and nothing is longer.
    near(plans[2].turn as f64, 10e6);
    near(any.turn as f64, 10e6);
    nodes[1].turn = Some(Duration::from_secs(1));
    near(shares(&nodes, 1.0, &Tuning::default()).plans[1].turn as f64, 10e6);
}

#[test]
fn rounds_of_many_end_before_the_guard_does() {
    let nodes: Vec<Node> = std::iter::once(root()).chain((0..500).map(|_| child(0, 100.0, 1.0))).collect();
    let CpuShares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
    near(plans[1].slice as f64, 4e6);
    near(plans[1].ahead as f64, 4e9);
    // The root cgroup's own tasks may wake.
    near(any.slice as f64, 2e9 / 501.0);
    assert_eq!(longest_turn(&plans[1..]), Duration::from_millis(4));
    // Those that sleep may all wake.
    let mut nodes = vec![root(), child(0, 100.0, 1.0)];
    nodes.extend((0..500).map(|_| child(0, 100.0, 0.01)));
    let CpuShares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
    near(plans[1].slice as f64, 20e6);
    near(plans[2].slice as f64, 2e9 / 502.0);
    near(any.slice as f64, 2e9 / 502.0);
}

#[test]
fn one_that_is_to_idle_is_served_least_and_briefly() {
    let nodes = [root(), child(0, model::Level::IDLE_WEIGHT, 1.0), child(0, 100.0, 1.0)];
    let CpuShares { plans, .. } = shares(&nodes, 1.0, &Tuning::default());
    assert_eq!(plans[1].slice, nanos(Tuning::SHORTEST_SLICE));
    near(plans[1].factor as f64, plans[2].factor as f64 * 100.0 / model::Level::IDLE_WEIGHT);
    assert_eq!(plans[1].behind, plans[2].behind);
    let seldom = [root(), child(0, model::Level::IDLE_WEIGHT, 0.01), child(0, 100.0, 1.0)];
    assert_eq!(shares(&seldom, 1.0, &Tuning::default()).plans[1].slice, nanos(Tuning::SHORTEST_SLICE));
}

#[test]
fn what_is_not_ranked_is_never_behind() {
    let mut nodes = [root(), child(0, 100.0, 1.0), child(0, 100.0, 1.0)];
    nodes[1].is_ranked = false;
    let CpuShares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
    assert!(plans[1].behind == 0 && plans[2].behind > 0 && any.behind == 0);
}

#[test]
fn credits_are_of_what_one_may_be_behind() {
    let nodes = [root(), child(0, 100.0, 1.0), child(0, 200.0, 1.0)];
    let CpuShares { plans, .. } = shares(&nodes, 1.0, &Tuning::default());
    let credit = (u128::from(plans[1].rank) * u128::from(plans[1].behind)) >> RANK_PLACES;
    near(credit as f64, ONE as f64);
}

#[test]
fn the_papers_credit_is_of_tasks() {
    let nodes = [root(), child(0, 100.0, 1.0), child(0, 200.0, 1.0)];
    let CpuShares { plans, .. } = shares(&nodes, 1.0, &Tuning { credit: Credit::Paper, ..Tuning::default() });
    assert_eq!((plans[1].factor, plans[2].factor), (ONE, ONE));
    near(plans[1].behind as f64 * 2.0, 400e6);
}

#[test]
fn nothing_at_all_has_a_plan() {
    let CpuShares { plans, any, .. } = shares(&[], 2.0, &Tuning::default());
    assert!(plans.is_empty() && any.slice > 0 && any.factor > 0);
}

#[test]
fn all_that_sleep_may_be_promised_too_much_together() {
    let mut nodes = vec![root()];
    nodes.extend(std::iter::repeat_n(child(0, 100.0, 0.0), 100));
    let promisable = |nodes: &[Node]| shares(nodes, 1.0, &Tuning::default()).promisable;
    near(promisable(&nodes), 100.0);
    // Beside sixty that always want to run, there is not much that one could get.
    nodes.extend(std::iter::repeat_n(child(0, 100.0, 1.0), 60));
    near(promisable(&nodes), 1.0 + 100.0 / 60.0);
    // What has others inside has no tasks.
    nodes.push(child(1, 100.0, 0.0));
    near(promisable(&nodes), 1.0 + 100.0 / 60.0);
}
