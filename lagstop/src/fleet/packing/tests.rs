use super::*;
use crate::random::Random;

/// 40 nodes of 8 CPUs with 2 to 12 cgroups per CPU; waits are so many ms as there are cgroups per CPU, and more beyond 8.
fn fleet(steps: usize) -> Vec<NodeStep> {
    let mut points: Vec<NodeStep> = (0..40 * steps)
        .map(|n| {
            let (node, step) = (n % 40, n / 40);
            let density = 2.0 + 10.0 * node as f64 / 39.0;
            let overhead = 0.01 * density;
            let wait = (density + 4.0 * (density - 8.0).max(0.0)) / 1e3;
            NodeStep {
                node,
                step,
                cpus: 8.0,
                active: 8.0 * density,
                overhead,
                utilisation: 0.04 * density + overhead,
                wait: Some(wait),
            }
        })
        .collect();
    points.sort_by(|a, b| a.density().total_cmp(&b.density()));
    points
}

fn find(points: &[NodeStep], limits: &PackingLimits) -> Result<Packing, NoPacking> {
    found(points, 40, 8, 12, limits)
}

fn found(
    points: &[NodeStep],
    nodes: usize,
    steps: usize,
    count: usize,
    limits: &PackingLimits,
) -> Result<Packing, NoPacking> {
    let memory = crate::fleet::fluctuation::memory(points, nodes, steps);
    let draws = Draw::many(nodes, steps, memory, 100, 1);
    Packing::find(points, count, memory, &Draw::all(nodes, steps), &draws, limits)
}

#[test]
fn the_fewest_that_keep_todays_wait_are_found() {
    let packing = find(&fleet(8), &PackingLimits::default()).unwrap();
    let today = packing.today;
    assert_eq!((today.nodes, today.cpus, today.steps), (40, 320.0, 1));
    assert!((today.density - 7.0).abs() < 1e-9 && packing.curve_error.abs() < 0.02, "{packing:?}");
    assert!(packing.fluctuation < 1e-6 && (packing.differ - 0.42).abs() < 0.02, "{packing:?}");
    // Σ density · wait / Σ density is 13.1 ms; the curve has that at 9.0 cgroups per CPU: 2240 / 9.0 / 8 nodes.
    let [measured, half, full] = packing.options[..] else { panic!() };
    assert!((measured.density - 9.0).abs() < 0.2 && measured.bound_by == Bound::Wait, "{measured:?}");
    assert!((31..=33).contains(&measured.nodes) && measured.fewer == 40 - measured.nodes as i64);
    assert!(measured.fewer_low <= measured.fewer && measured.fewer <= measured.fewer_high);
    assert!(half.nodes < measured.nodes && full.nodes <= half.nodes, "{half:?} {full:?}");
    assert_eq!((half.wait_cut, full.wait_cut, full.overhead_cut), (0.375, 0.75, 0.46));
    assert!(full.wait_p99 <= packing.wait_limit && full.utilisation <= packing.utilisation_limit);
    assert_eq!(full.bound_by, Bound::Measured, "no node is denser than 12");
    assert_eq!(packing.measured(), Some(&measured));
}

#[test]
fn a_shorter_wait_takes_more_nodes_and_one_that_nobody_has_is_said() {
    let limits = |wait: f64| PackingLimits { wait: Some(wait), ..PackingLimits::default() };
    let packing = find(&fleet(8), &limits(0.004)).unwrap();
    assert!(packing.measured().unwrap().fewer < 0 && !packing.wait_limit_is_todays, "{packing:?}");
    assert!(find(&fleet(8), &limits(1e-6)).unwrap_err().to_string().contains("no measured density"));
}

#[test]
fn full_cpus_are_a_bound_as_well() {
    let limits = PackingLimits { utilisation: Some(0.25), wait: Some(1.0), ..PackingLimits::default() };
    let packing = find(&fleet(8), &limits).unwrap();
    let [measured, _, full] = packing.options[..] else { panic!() };
    assert_eq!((measured.bound_by, full.bound_by), (Bound::Utilisation, Bound::Utilisation));
    assert!((4.9..=5.0).contains(&measured.density), "0.05 a cgroup: {measured:?}");
    assert!(full.density > measured.density, "less overhead leaves room");
}

#[test]
fn without_waits_nothing_is_said() {
    let mut points = fleet(8);
    points.iter_mut().for_each(|point| point.wait = None);
    assert!(find(&points, &PackingLimits::default()).unwrap_err().to_string().contains("not measured"));
}

#[test]
fn waits_that_do_not_grow_are_said() {
    let mut points = fleet(8);
    let says = |points: &[NodeStep]| {
        let packing = find(points, &PackingLimits::default()).unwrap();
        packing.assumptions.iter().any(|it| it.contains("not longer on denser nodes"))
    };
    assert!(!says(&points));
    points.iter_mut().for_each(|point| point.wait = Some(0.02 / point.density()));
    assert!(says(&points));
}

#[test]
fn an_even_fleet_needs_the_nodes_it_has() {
    let mut points = fleet(8);
    // By day all are as dense, by night half as much.
    for point in &mut points {
        let density = if point.step < 4 { 8.0 } else { 4.0 };
        (point.active, point.wait) = (8.0 * density, Some(density / 1e3));
    }
    points.sort_by(|a, b| a.density().total_cmp(&b.density()));
    let packing = find(&points, &PackingLimits::default()).unwrap();
    let measured = packing.measured().unwrap();
    assert_eq!((measured.nodes, measured.fewer, measured.bound_by), (40, 0, Bound::Today));
}

/// A fleet of which is known what is true. Nodes' densities fluctuate around their means by a part of it, and resemble those of
/// the hour before by so much; all go up and down with the day. The p99 wait is e^(density / 4) ms.
struct Truth<'m> {
    means: &'m [f64],
    part: f64,
    resembles: f64,
}

impl Truth<'_> {
    /// Nodes by steps: densities.
    fn densities(&self, steps: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut random = Random::new(seed, 0);
        let mut normal = move || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let of_node = |mean: &f64| {
            let mut deviation = normal();
            let mut step = |step: usize| {
                deviation = self.resembles * deviation + (1.0 - self.resembles.powi(2)).sqrt() * normal();
                let day = 1.0 + 0.1 * (step as f64 / 24.0 * std::f64::consts::TAU).sin();
                (mean * day * (1.0 + self.part * deviation)).max(0.05)
            };
            (0..steps).map(&mut step).collect()
        };
        self.means.iter().map(of_node).collect()
    }

    /// What a server would say: waits with a tenth of noise.
    fn points(&self, steps: usize, seed: u64) -> Vec<NodeStep> {
        let mut random = Random::new(seed, 1);
        let densities = self.densities(steps, seed);
        let mut points = Vec::new();
        for (node, of_node) in densities.iter().enumerate() {
            for (step, density) in of_node.iter().enumerate() {
                let wait = Some((density / 4.0).exp() / 1e3 * (0.9 + 0.2 * random.unit()));
                let (active, overhead) = (8.0 * density, 0.002 * density);
                points.push(NodeStep { node, step, cpus: 8.0, active, overhead, utilisation: 0.02 * density, wait });
            }
        }
        points.sort_by(|a, b| a.density().total_cmp(&b.density()));
        points
    }

    /// The p99 wait in the busiest twentieth of many steps: what the fleet really has.
    fn p99(&self, seed: u64) -> f64 {
        let steps = 4_800;
        let densities = self.densities(steps, seed);
        let all = |step: usize| densities.iter().map(|of_node| of_node[step]).sum::<f64>();
        let mut order: Vec<(f64, usize)> = (0..steps).map(|step| (all(step), step)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let busy = || order[..steps / 20].iter().flat_map(|&(_, step)| densities.iter().map(move |node| node[step]));
        busy().map(|density| density * (density / 4.0).exp()).sum::<f64>() / busy().sum::<f64>() / 1e3
    }

    /// The p99 wait with so many nodes that are alike and hold as much, but fluctuate as these do.
    fn planned(&self, nodes: usize) -> f64 {
        let means = vec![self.means.iter().sum::<f64>() / nodes as f64; nodes];
        Truth { means: &means, ..*self }.p99(99)
    }
}

fn says(truth: &Truth<'_>, seed: u64) -> PackedFleet {
    let points = truth.points(168, seed);
    *found(&points, truth.means.len(), 168, 24, &PackingLimits::default()).unwrap().measured().unwrap()
}

#[test]
fn what_only_fluctuates_cannot_be_packed_away() {
    for (mean, part, resembles) in [(6.0, 0.2, 0.0), (6.0, 0.3, 0.0), (8.0, 0.3, 0.0), (6.0, 0.3, 0.8)] {
        let truth = Truth { means: &[mean; 50], part, resembles };
        let today = truth.p99(7);
        for seed in 1..=3 {
            let packed = says(&truth, seed);
            assert!(packed.fewer <= 1 && packed.fewer_low <= 0, "{part} {resembles}, seed {seed}: {packed:?}");
            let then = truth.planned(packed.nodes as usize);
            assert!(then < 1.06 * today, "{part} {resembles}, seed {seed}: {then} after {today}");
        }
    }
}

#[test]
fn means_that_differ_can_be_packed_away_and_by_how_much_is_right() {
    let means: Vec<f64> = (0..50).map(|n| 3.0 + 8.0 * f64::from(n) / 49.0).collect();
    for (part, resembles) in [(0.1, 0.0), (0.2, 0.0), (0.2, 0.8)] {
        let truth = Truth { means: &means, part, resembles };
        let today = truth.p99(7);
        let fewest = (1..=50).rev().take_while(|&nodes| truth.planned(nodes) <= today).last().unwrap();
        let really = 50 - fewest as i64;
        assert!(really >= 4, "{really}");
        for seed in 1..=3 {
            let packed = says(&truth, seed);
            assert!((packed.fewer - really).abs() <= 1, "{part}: really {really}, seed {seed}: {packed:?}");
            assert!((packed.fewer_low..=packed.fewer_high).contains(&really), "{part}: {really}, {packed:?}");
            assert!((packed.wait_p99 / truth.planned(packed.nodes as usize) - 1.0).abs() < 0.1, "{part}: {packed:?}");
        }
    }
}
