//! What a fleet's figures say. Pure: no server, no clock, no terminal.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    AssumedEffect, Bin, Gathered, Knee, NodeMetric, NodeStep, NodeTable, Packing, Window, WorkloadFigures,
    curve::{NoCurve, bins, bins_of, spread},
    draws::Draw,
    fluctuation::memory,
    packing::{NoPacking, PackingLimits},
    points::points,
};

/// Nodes that have a smaller share of the samples are listed. Chosen: a few scrapes fail on any node.
const COVERED: f64 = 0.9;
/// Number of points that are kept for charts.
const DRAWN: usize = 1_500;

/// Settings of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetSettings {
    /// Limit of the p99 run-queue wait, in seconds. `None`: the current p99 wait.
    pub wait_limit: Option<f64>,
    /// Limit of CPU utilisation, as a share. `None`: as `density_full`, or the current utilisation if that is higher.
    pub utilisation_limit: Option<f64>,
    /// Assumed effect of LAGS.
    pub prediction: AssumedEffect,
    /// Number of resamples of nodes and blocks of steps, for intervals.
    pub draws: u32,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self { wait_limit: None, utilisation_limit: None, prediction: AssumedEffect::default(), draws: 200, seed: 1 }
    }
}

/// Results of the analysis.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Analysis {
    /// The time range that was analysed.
    pub window: Window,
    /// Metrics of all nodes together.
    pub totals: FleetTotals,
    /// Missing data, by node.
    pub gaps: Gaps,
    /// Nodes, sorted by cores lost, most first.
    pub nodes: Vec<NodeFigures>,
    /// Workloads, sorted by switch cost, highest first.
    pub workloads: Vec<WorkloadFigures>,
    /// Steps, in order of time.
    pub steps: Vec<StepFigures>,
    /// Effect of density. `None` if unknown.
    pub density: Option<Densities>,
    /// Why the effect of density is unknown.
    pub density_missing: Option<String>,
    /// Number of nodes for the same work. `None` if unknown.
    pub packing: Option<Packing>,
    /// Why the number of nodes is unknown.
    pub packing_missing: Option<String>,
    /// A sample of the node-steps, for charts.
    #[serde(skip)]
    pub points: Vec<NodeStep>,
}

/// All nodes, on average over the steps with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FleetTotals {
    /// Nodes that existed at any time.
    pub nodes: u64,
    /// Mean number of nodes.
    pub nodes_at_a_time: f64,
    /// Mean number of CPUs.
    pub cpus: f64,
    /// Mean number of active cgroups. `None` if not measured.
    pub active: Option<f64>,
    /// Cores lost to switching. `None` if not measured.
    pub cores_lost: Option<f64>,
    /// Overhead: cores lost as a share of the CPUs on which they were measured.
    pub overhead: Option<f64>,
    /// CPU time that is not idle, as a share of all CPU time.
    pub utilisation: Option<f64>,
    /// CPU time spent on the tasks' own work, as a share of all CPU time.
    pub effective: Option<f64>,
    /// 99th percentile of the run-queue waits, in seconds: the mean over nodes, weighted by active cgroups.
    pub wait_p99: Option<f64>,
    /// Time taken by hypervisors, as a share of the time of all CPUs.
    pub steal: Option<f64>,
    /// CPU time of lagstop itself, in cores.
    pub own_cores: Option<f64>,
    /// Events that lagstop lost, per second.
    pub lost: Option<f64>,
}

/// Missing data, by node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Gaps {
    /// Number of steps.
    pub steps: u64,
    /// Number of steps for which the server has data of any node.
    pub steps_with_data: u64,
    /// Nodes of which the server has less than 90 % of the samples, sorted by coverage, lowest first.
    pub thin: Vec<Thin>,
    /// Nodes whose overhead was not measured.
    pub unmeasured: Vec<String>,
    /// Number of restarts of lagstop on any node. `None` if unknown.
    pub restarts: Option<u64>,
    /// Nodes with restarts, sorted by restarts, most first.
    pub restarted: Vec<String>,
    /// Values of nodes that were dropped because there were too many nodes.
    pub dropped: u64,
}

/// A node with gaps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Thin {
    /// Name of the node.
    pub node: String,
    /// Share of its samples that the server has.
    pub coverage: f64,
}

/// A node, on average over the steps with data of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeFigures {
    /// Its label `instance`.
    pub node: String,
    /// Share of its samples that the server has.
    pub coverage: Option<f64>,
    /// CPUs.
    pub cpus: Option<f64>,
    /// Active cgroups.
    pub active: Option<f64>,
    /// Active cgroups per CPU. `None` if the number of CPUs is unknown or 0.
    pub density: Option<f64>,
    /// Overhead, as a share of the time of all CPUs.
    pub overhead: Option<f64>,
    /// Cores lost to switching.
    pub cores_lost: Option<f64>,
    /// CPU time that is not idle, as a share of all CPU time.
    pub utilisation: Option<f64>,
    /// CPU time spent on the tasks' own work, as a share of all CPU time.
    pub effective: Option<f64>,
    /// 99th percentile of the run-queue waits, in seconds: the mean over the steps.
    pub wait_p99: Option<f64>,
    /// Mean cost of a switch, in seconds.
    pub switch_cost: Option<f64>,
    /// Switches per second.
    pub switches: Option<f64>,
    /// Time taken by a hypervisor, as a share of the time of all CPUs.
    pub steal: Option<f64>,
    /// Run-queue wait of light cgroups per second of their CPU time.
    pub light_wait: Option<f64>,
    /// Run-queue wait of heavy cgroups per second of their CPU time.
    pub heavy_wait: Option<f64>,
    /// Number of restarts of lagstop.
    pub restarts: Option<u64>,
}

/// The fleet in a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepFigures {
    /// End of the step, in seconds since 1970.
    pub time: u64,
    /// Nodes with data.
    pub nodes: u64,
    /// CPUs of these nodes.
    pub cpus: f64,
    /// Cores lost to switching on these nodes. `None` if not measured.
    pub cores_lost: Option<f64>,
    /// Active cgroups on these nodes. `None` if not measured.
    pub active: Option<f64>,
}

/// Effect of density.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Densities {
    /// Node-steps, grouped by density.
    pub bins: Vec<Bin>,
    /// Density at which overhead bends upwards. `None` if there is no significant bend.
    pub overhead_knee: Option<Knee>,
    /// Why overhead has no knee.
    pub overhead_knee_missing: Option<String>,
    /// Density at which the p99 wait bends upwards. Slopes are in seconds per cgroup per CPU.
    pub wait_knee: Option<Knee>,
    /// Why the p99 wait has no knee.
    pub wait_knee_missing: Option<String>,
}

/// The value, or the error as text.
fn split<T>(result: Result<T, impl ToString>) -> (Option<T>, Option<String>) {
    match result {
        Ok(found) => (Some(found), None),
        Err(why) => (None, Some(why.to_string())),
    }
}

impl Analysis {
    /// Of what a server said.
    pub fn new(gathered: &Gathered, settings: &FleetSettings) -> Self {
        Self::of(&gathered.table, gathered.workloads.ranked(), settings)
    }

    pub(super) fn of(table: &NodeTable, workloads: Vec<WorkloadFigures>, settings: &FleetSettings) -> Self {
        let steps: Vec<StepFigures> = (0..table.window().steps).map(|step| step_figures(table, step)).collect();
        let full = samples_of_best(table);
        let mut nodes: Vec<NodeFigures> =
            (0..table.nodes().len()).map(|node| node_figures(table, node, &full)).collect();
        let lost = |node: &NodeFigures| node.cores_lost.unwrap_or(f64::NEG_INFINITY);
        nodes.sort_by(|a, b| lost(b).total_cmp(&lost(a)).then_with(|| a.node.cmp(&b.node)));
        let points = points(table);
        let (density, packing) = curves(table, &points, settings);
        let (density, density_missing) = split(density);
        let (packing, packing_missing) = split(packing);
        let every = points.len().div_ceil(DRAWN).max(1);
        Self {
            window: table.window(),
            totals: totals(table, &steps),
            gaps: gaps(table, &steps, &nodes),
            nodes,
            workloads,
            steps,
            density,
            density_missing,
            packing,
            packing_missing,
            points: points.into_iter().step_by(every).collect(),
        }
    }
}

/// Cores lost on a node in a step. Computed from the share, if the server only has that.
fn lost(table: &NodeTable, node: usize, step: usize) -> Option<f64> {
    let get = |figure| table.get(node, step, figure);
    get(NodeMetric::CoresLost).or_else(|| Some(get(NodeMetric::Overhead)? * get(NodeMetric::Cpus)?))
}

fn step_figures(table: &NodeTable, step: usize) -> StepFigures {
    let mut figures =
        StepFigures { time: table.window().time(step), nodes: 0, cpus: 0.0, cores_lost: None, active: None };
    let add = |sum: &mut Option<f64>, value: Option<f64>| {
        if let Some(value) = value {
            *sum = Some(sum.unwrap_or(0.0) + value);
        }
    };
    for node in 0..table.nodes().len() {
        let Some(cpus) = table.get(node, step, NodeMetric::Cpus) else { continue };
        figures.nodes += 1;
        figures.cpus += cpus;
        add(&mut figures.cores_lost, lost(table, node, step));
        add(&mut figures.active, table.get(node, step, NodeMetric::Active));
    }
    figures
}

/// In each step, the samples of the node that the server has the most samples of. 1 if these are unknown.
fn samples_of_best(table: &NodeTable) -> Vec<f64> {
    let samples = |node, step| match table.has(NodeMetric::Samples) {
        true => table.get(node, step, NodeMetric::Samples),
        false => table.get(node, step, NodeMetric::Cpus).map(|_| 1.0),
    };
    (0..table.window().steps)
        .map(|step| (0..table.nodes().len()).filter_map(|node| samples(node, step)).fold(0.0, f64::max))
        .collect()
}

fn node_figures(table: &NodeTable, node: usize, full: &[f64]) -> NodeFigures {
    let mean = |figure| table.mean(node, figure);
    let steps = table.window().steps;
    let means = |of: &dyn Fn(usize) -> Option<f64>| {
        let known: Vec<f64> = (0..steps).filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let all: f64 = full.iter().sum();
    let has: f64 = if table.has(NodeMetric::Samples) {
        table.sum(node, NodeMetric::Samples).unwrap_or(0.0)
    } else {
        (0..steps).filter(|&step| table.get(node, step, NodeMetric::Cpus).is_some()).count() as f64
    };
    let effective = |step| {
        let used = table.get(node, step, NodeMetric::Utilisation)?;
        Some((used - table.get(node, step, NodeMetric::Overhead)?).max(0.0))
    };
    let (cpus, active) = (mean(NodeMetric::Cpus), mean(NodeMetric::Active));
    NodeFigures {
        node: table.nodes()[node].clone(),
        coverage: (all > 0.0).then(|| (has / all).min(1.0)),
        cpus,
        active,
        density: active.zip(cpus).map(|(active, cpus)| active / cpus).filter(|density| density.is_finite()),
        overhead: mean(NodeMetric::Overhead),
        cores_lost: means(&|step| lost(table, node, step)),
        utilisation: mean(NodeMetric::Utilisation),
        effective: means(&effective),
        wait_p99: mean(NodeMetric::WaitP99),
        switch_cost: mean(NodeMetric::SwitchCost),
        switches: mean(NodeMetric::Switches),
        steal: mean(NodeMetric::Steal),
        light_wait: mean(NodeMetric::LightWait),
        heavy_wait: mean(NodeMetric::HeavyWait),
        restarts: table.sum(node, NodeMetric::Restarts).map(|sum| sum.round() as u64),
    }
}

fn totals(table: &NodeTable, steps: &[StepFigures]) -> FleetTotals {
    let with_data = steps.iter().filter(|step| step.nodes > 0).count() as f64;
    if with_data == 0.0 {
        return FleetTotals::default();
    }
    let each = |of: fn(&StepFigures) -> Option<f64>| {
        let known: Vec<f64> = steps.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let everywhere =
        || (0..table.nodes().len()).flat_map(|node| (0..table.window().steps).map(move |step| (node, step)));
    // Means over all nodes in all steps, each weighted by the metric `by`.
    let mean = |figure: &dyn Fn(usize, usize) -> Option<f64>, by: NodeMetric| {
        let known = everywhere().filter_map(|(node, step)| Some((figure(node, step)?, table.get(node, step, by)?)));
        let (sum, all) = known.fold((0.0, 0.0), |(sum, all), (value, by)| (sum + value * by, all + by));
        (all > 0.0).then(|| sum / all)
    };
    let share = |figure| mean(&|node, step| table.get(node, step, figure), NodeMetric::Cpus);
    let effective = |node, step| {
        let used = table.get(node, step, NodeMetric::Utilisation)?;
        Some((used - table.get(node, step, NodeMetric::Overhead)?).max(0.0))
    };
    let sum = |figure| {
        let known: Vec<f64> = everywhere().filter_map(|(node, step)| table.get(node, step, figure)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / with_data)
    };
    FleetTotals {
        nodes: table.nodes().len() as u64,
        nodes_at_a_time: steps.iter().map(|step| step.nodes as f64).sum::<f64>() / with_data,
        cpus: steps.iter().map(|step| step.cpus).sum::<f64>() / with_data,
        active: each(|step| step.active),
        cores_lost: each(|step| step.cores_lost),
        overhead: share(NodeMetric::Overhead),
        utilisation: share(NodeMetric::Utilisation),
        effective: mean(&effective, NodeMetric::Cpus),
        wait_p99: mean(&|node, step| table.get(node, step, NodeMetric::WaitP99), NodeMetric::Active),
        steal: share(NodeMetric::Steal),
        own_cores: sum(NodeMetric::OwnCores),
        lost: sum(NodeMetric::Lost),
    }
}

fn gaps(table: &NodeTable, steps: &[StepFigures], nodes: &[NodeFigures]) -> Gaps {
    let covered = |node: &NodeFigures| node.coverage.unwrap_or(0.0);
    let mut thin: Vec<Thin> = nodes
        .iter()
        .filter(|node| covered(node) < COVERED)
        .map(|node| Thin { node: node.node.clone(), coverage: covered(node) })
        .collect();
    thin.sort_by(|a, b| a.coverage.total_cmp(&b.coverage).then_with(|| a.node.cmp(&b.node)));
    let mut unmeasured: Vec<String> =
        nodes.iter().filter(|node| node.overhead.is_none()).map(|node| node.node.clone()).collect();
    unmeasured.sort();
    let mut restarted: Vec<(&str, u64)> =
        nodes.iter().filter_map(|node| Some((&*node.node, node.restarts.filter(|&times| times > 0)?))).collect();
    restarted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    Gaps {
        steps: steps.len() as u64,
        steps_with_data: steps.iter().filter(|step| step.nodes > 0).count() as u64,
        thin,
        unmeasured,
        restarts: table
            .has(NodeMetric::Restarts)
            .then(|| nodes.iter().filter_map(|node| node.restarts).fold(0, u64::saturating_add)),
        restarted: restarted.into_iter().map(|(node, _)| node.to_owned()).collect(),
        dropped: table.dropped() as u64,
    }
}

/// The effect of density, and the number of nodes that follows from it.
fn curves(
    table: &NodeTable,
    points: &[NodeStep],
    settings: &FleetSettings,
) -> (Result<Densities, NoCurve>, Result<Packing, NoPacking>) {
    let nodes = table.nodes().len();
    let with_points = {
        let mut known = vec![false; nodes];
        points.iter().for_each(|point| known[point.node] = true);
        known.iter().filter(|&&known| known).count()
    };
    let steps = table.window().steps;
    let count = bins_of(points.len());
    let all = Draw::all(nodes, steps);
    let bins = bins(points, &all, count);
    if let Err(why) = spread(points, &bins, with_points) {
        return (Err(why), Err(why.into()));
    }
    let memory = memory(points, nodes, steps);
    let draws = Draw::many(nodes, steps, memory, settings.draws, settings.seed);
    let knee = |figure| split(Knee::find(points, count, &all, &draws, figure));
    let (overhead_knee, overhead_knee_missing) = knee(|bin| Some(bin.overhead));
    let (wait_knee, wait_knee_missing) = knee(|bin| bin.wait_p99);
    let limits = PackingLimits {
        wait: settings.wait_limit,
        utilisation: settings.utilisation_limit,
        prediction: settings.prediction,
    };
    let packing = Packing::find(points, count, memory, &all, &draws, &limits);
    (Ok(Densities { bins, overhead_knee, overhead_knee_missing, wait_knee, wait_knee_missing }), packing)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::fixture;

    fn of(table: &NodeTable) -> Analysis {
        Analysis::of(table, Vec::new(), &FleetSettings { draws: 100, ..FleetSettings::default() })
    }

    #[test]
    fn a_known_knee_is_found_with_an_interval_around_it() {
        let analysis = of(&fixture::dense(60));
        let density = analysis.density.unwrap();
        for knee in [density.overhead_knee.unwrap(), density.wait_knee.unwrap()] {
            assert!(knee.low <= 9.0 && 9.0 <= knee.high, "{knee:?}");
            assert!((knee.density - 9.0).abs() < 1.0 && knee.beyond > 2.0 * knee.before, "{knee:?}");
        }
        assert_eq!(density.bins.len(), 24);
        let packing = analysis.packing.unwrap();
        let measured = packing.measured().unwrap();
        assert!(measured.fewer > 0 && packing.options[2].fewer > measured.fewer, "{packing:#?}");
        assert_eq!(of(&fixture::dense(60)).packing.unwrap(), packing, "the same seed, the same answer");
    }

    #[test]
    fn equal_nodes_are_not_enough_spread() {
        let analysis = of(&fixture::equal(20));
        assert!(analysis.density_missing.unwrap().contains("not enough spread"));
        assert!(analysis.packing_missing.unwrap().contains("not enough spread"));
        assert_eq!((analysis.nodes.len(), analysis.totals.cpus), (20, 160.0));
        assert!((analysis.totals.cores_lost.unwrap() - 20.0 * 8.0 * 0.04).abs() < 1e-3, "f32 inside");
    }

    #[test]
    fn a_fleet_of_one_has_figures_and_no_curve() {
        let analysis = of(&fixture::equal(1));
        assert!(analysis.density_missing.unwrap().contains("5 nodes are needed, and there is 1"));
        assert!((analysis.nodes[0].overhead.unwrap() - 0.04).abs() < 1e-6);
    }

    #[test]
    fn gaps_are_named_and_not_counted_as_nothing() {
        let analysis = of(&fixture::with_gaps());
        let gaps = analysis.gaps;
        assert_eq!((gaps.steps, gaps.steps_with_data), (24, 23));
        let thin: Vec<&str> = gaps.thin.iter().map(|thin| &*thin.node).collect();
        assert_eq!(thin, ["node-3", "node-5"], "the one with least first");
        assert_eq!(gaps.unmeasured, ["node-7"]);
        assert_eq!((gaps.restarts, gaps.restarted), (Some(3), vec!["node-2".to_owned()]));
        let node = |name: &str| analysis.nodes.iter().find(|node| node.node == name).unwrap();
        assert!((node("node-3").overhead.unwrap() - 0.04).abs() < 1e-6, "of the steps that there are");
        assert_eq!((node("node-7").overhead, node("node-7").cores_lost, node("node-7").effective), (None, None, None));
        assert_eq!(analysis.nodes.last().unwrap().node, "node-7", "not measured is not 0");
        assert_eq!((node("node-8").density, node("node-8").cpus), (None, Some(0.0)), "no CPUs");
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        let analysis = of(&NodeTable::new(fixture::window()));
        assert_eq!((analysis.totals, analysis.nodes.len(), analysis.packing), (FleetTotals::default(), 0, None));
        assert!(analysis.density_missing.unwrap().contains("there are 0"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A server can say anything.
        #[test]
        fn no_fleet_is_too_strange(values in prop::collection::vec((0usize..8, 0usize..24, 0usize..15, prop_oneof![
            any::<f64>(), Just(0.0), Just(1.0), 0.0..1.0, Just(f64::MAX), Just(f64::MIN_POSITIVE), Just(f64::NAN)]), 0..400))
        {
            let mut table = fixture::dense(8);
            for (node, step, figure, value) in values {
                table.set(&format!("node-{node}"), step, NodeMetric::ALL[figure], value);
            }
            let analysis = of(&table);
            prop_assert!(serde_json::to_string(&analysis).is_ok());
        }
    }
}
