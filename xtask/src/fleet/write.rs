//! A made-up fleet as OpenMetrics, a series after the other.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{
    Fleet, FleetError,
    model::{Node, Pod, workload, workloads},
};

/// What Prometheus keeps in a block.
const BLOCK: u64 = 7_200;

/// Times of a file: from the start on, and before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The files of a fleet. Each covers what `promtool` makes one block of, so that it reads no line in vain.
pub(super) fn blocks(fleet: &Fleet) -> Vec<Block> {
    let first = fleet.end.saturating_sub(fleet.hours * 3_600);
    // The last sample is at the end itself.
    let starts = (first / BLOCK * BLOCK..=fleet.end).step_by(BLOCK as usize);
    starts.map(|start| Block { start: start.max(first), end: (start + BLOCK).min(fleet.end + 1) }).collect()
}

impl Block {
    /// Moments in it.
    fn moments(self, every: u64) -> impl Iterator<Item = u64> {
        (self.start.div_ceil(every) * every..self.end).step_by(every as usize)
    }
}

/// Upper bounds of the exporter's buckets, in seconds.
const BOUNDS: [f64; 11] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Writes the file and gives the number of its samples.
pub(super) fn write(fleet: &Fleet, block: &Block, path: &Path) -> Result<u64, FleetError> {
    let mut out = Out {
        file: BufWriter::with_capacity(1 << 20, File::create(path).map_err(FleetError::file(path))?),
        samples: 0,
    };
    let mut all = || -> io::Result<()> {
        for number in 0..fleet.nodes {
            node(&mut out, fleet, block, &Node::of(fleet, number))?;
        }
        for number in 0..workloads(fleet) {
            of_workload(&mut out, fleet, block, number)?;
        }
        out.file.write_all(b"# EOF\n")?;
        out.file.flush()
    };
    all().map_err(FleetError::file(path))?;
    Ok(out.samples)
}

struct Out {
    file: BufWriter<File>,
    samples: u64,
}

impl Out {
    fn series(&mut self, series: &str, samples: impl Iterator<Item = (u64, f64)>) -> io::Result<()> {
        for (time, value) in samples {
            self.samples += 1;
            writeln!(self.file, "{series} {value} {time}")?;
        }
        Ok(())
    }
}

fn node(out: &mut Out, fleet: &Fleet, block: &Block, node: &Node) -> io::Result<()> {
    let at = format!("instance=\"node-{:04}:9185\"", node.number);
    let moments: Vec<u64> = block.moments(fleet.every).filter(|&time| node.is_there(time)).collect();
    let states: Vec<_> = moments.iter().map(|&time| (time, node.at(time))).collect();
    let cpus = node.cpus;
    let mut series = |name: &str, labels: &str, of: &dyn Fn(u64, &super::model::Moment) -> f64| {
        out.series(&format!("{name}{{{at}{labels}}}"), states.iter().map(|(time, state)| (*time, of(*time, state))))
    };
    series("node:lagstop_cpus_online:avg5m", "", &|_, _| cpus)?;
    series("node:lagstop_cgroups_active:avg5m", "", &|_, it| it.active)?;
    series("node:lagstop_overhead:ratio5m", "", &|_, it| it.overhead)?;
    series("node:lagstop_cores_lost:rate5m", "", &|_, it| it.overhead * cpus)?;
    series("node:lagstop_cpu_utilisation:ratio5m", "", &|_, it| it.utilisation)?;
    series("node:lagstop_effective_utilisation:ratio5m", "", &|_, it| it.utilisation - it.overhead)?;
    series("node:lagstop_mean_switch_cost:seconds5m", "", &|_, it| it.switch_cost)?;
    series("node:lagstop_switches:rate5m", "", &|_, it| it.overhead * cpus / it.switch_cost)?;
    series("node:lagstop_runqueue_wait:p50_5m", "", &|_, it| it.wait_p99 / 10.0)?;
    series("node:lagstop_runqueue_wait:p99_5m", "", &|_, it| it.wait_p99)?;
    series("node:lagstop_runnable_per_cpu:avg5m", "", &|_, it| it.utilisation * 2.0)?;
    series("node:lagstop_steal:ratio5m", "", &|_, _| 0.0)?;
    series("node:lagstop_light_wait:ratio5m", "", &|_, it| it.wait_p99 * 50.0)?;
    series("node:lagstop_heavy_wait:ratio5m", "", &|_, it| it.wait_p99 * 10.0)?;
    series("node:lagstop_light_cpu:cores5m", "", &|_, it| it.utilisation * cpus * 0.2)?;
    series("node:lagstop_heavy_cpu:cores5m", "", &|_, it| it.utilisation * cpus * 0.8)?;
    series("node:lagstop_self:cores5m", "", &|_, it| 0.003 + it.active / 50_000.0)?;
    series("node:lagstop_lost:rate5m", "", &|_, _| 0.0)?;

    // The exporter's own, as if the node had always been as it is at that moment: good for rates over days, not for a moment.
    let mean = node.at(block.start);
    let since = |time: u64| (time - node.since(time)) as f64;
    let busy = mean.utilisation * cpus;
    series("lagstop_host_cpus_online", "", &|_, _| cpus)?;
    series("lagstop_host_cgroups_active", "", &|_, it| it.active)?;
    series("lagstop_intervals_total", "", &|time, _| since(time))?;
    series("lagstop_host_busy_seconds_total", "", &|time, _| busy * since(time))?;
    series("lagstop_host_idle_seconds_total", "", &|time, _| (cpus - busy) * since(time))?;
    series("lagstop_host_steal_seconds_total", "", &|_, _| 0.0)?;
    for (phase, part) in [("pick", 0.7), ("swap", 0.3)] {
        let labels = format!(",phase=\"{phase}\"");
        series("lagstop_host_switch_cost_seconds_total", &labels, &|time, _| {
            part * mean.overhead * cpus * since(time)
        })?;
    }
    for bound in BOUNDS {
        let below = 1.0 - 0.01_f64.powf(bound / mean.wait_p99);
        let labels = format!(",le=\"{bound}\"");
        series("lagstop_host_runqueue_wait_seconds_bucket", &labels, &|time, _| (1e3 * below * since(time)).floor())?;
    }
    series("lagstop_host_runqueue_wait_seconds_bucket", ",le=\"+Inf\"", &|time, _| (1e3 * since(time)).floor())?;

    for number in 0..fleet.pods {
        let Pod { namespace, name, cgroup } = Pod::of(fleet, node.number, number);
        let labels =
            format!("{at},cgroup=\"{cgroup}\",unit=\"\",namespace=\"{namespace}\",pod=\"{name}\",container=\"app\"");
        let part = mean.overhead * cpus / f64::from(fleet.pods);
        let times = || block.moments(fleet.pods_every).filter(|&time| node.is_there(time));
        for (series, each) in [
            (format!("lagstop_cgroup_switch_cost_seconds_total{{{labels},phase=\"pick\"}}"), part),
            (format!("lagstop_cgroup_cpu_seconds_total{{{labels}}}"), busy / f64::from(fleet.pods)),
        ] {
            out.series(&series, times().map(|time| (time, each * since(time))))?;
        }
    }
    Ok(())
}

fn of_workload(out: &mut Out, fleet: &Fleet, block: &Block, number: u32) -> io::Result<()> {
    let (namespace, name) = workload(number);
    let labels = format!("namespace=\"{namespace}\",workload=\"{name}\"");
    let like = Node::of(fleet, number);
    let times = || block.moments(fleet.every).map(|time| (time, like.at(time)));
    // Some take much more than others.
    let weight = 3.0 / f64::from(number % 500 + 1);
    out.series(
        &format!("workload:lagstop_switch_cost:cores5m{{{labels}}}"),
        times().map(|(time, it)| (time, weight * it.overhead)),
    )?;
    out.series(
        &format!("workload:lagstop_cpu:cores5m{{{labels}}}"),
        times().map(|(time, it)| (time, weight * it.utilisation)),
    )?;
    out.series(
        &format!("workload:lagstop_runqueue_wait:cores5m{{{labels}}}"),
        times().map(|(time, it)| (time, weight * it.utilisation * it.wait_p99 * 20.0)),
    )?;
    out.series(
        &format!("workload:lagstop_runqueue_wait:ratio5m{{{labels}}}"),
        times().map(|(time, it)| (time, it.wait_p99 * 20.0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_in_one_file() {
        let fleet = Fleet { nodes: 1, pods: 1, hours: 24, seed: 1, end: 1_699_999_200, every: 300, pods_every: 1_800 };
        let blocks = blocks(&fleet);
        let moments: Vec<u64> = blocks.iter().flat_map(|block| block.moments(300)).collect();
        assert_eq!((moments.len(), moments[0], moments[288]), (289, fleet.end - 86_400, fleet.end));
        assert!(moments.is_sorted() && blocks.iter().all(|block| block.start / BLOCK == (block.end - 1) / BLOCK));
    }
}
