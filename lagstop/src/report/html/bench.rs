//! A benchmark as a page, with pictures of the same form as the CFS-LAGS paper's.

use plotters::prelude::*;

use super::{
    Page,
    charts::{Area, Drawn, HEIGHT, INK, SERIES, axes, font, picture, room_above},
};
use crate::{
    bench::{Bench, BenchRun},
    model::Nanos,
    report::bench::{missing, policy, table, verdict},
};

/// Number of steps of a distribution.
const STEPS: u32 = 100;
/// The most densities whose distributions are drawn.
const DISTRIBUTIONS: usize = SERIES.len();

/// A name, and points.
type Line = (String, Vec<(f64, f64)>);

pub fn render_bench(bench: &Bench) -> String {
    let mut page = Page(String::new());
    let verdict = verdict(bench);
    page.begin(&verdict);
    page.element("h1", "", &format!("{verdict}."));
    page.table(table(bench).iter().map(Vec::as_slice));
    missing(bench).iter().for_each(|why| page.element("p", "", why));
    let ms = |time: Option<Nanos>| time.map(|time| time.0 as f64 / 1e6);
    let pictures: [(&str, &str, &str, Vec<Vec<Line>>); 5] = [
        (
            "Requests served in time (Fig. 3a, 9)",
            "Requests per second that were served within 1 s. They peak, then drop as more functions share the CPUs.",
            "requests/s",
            vec![
                lines(bench, "in time", |point| Some(point.throughput)),
                lines(bench, "offered", |point| Some(point.offered as f64 / point.seconds)),
            ],
        ),
        (
            "Scheduling overhead (Fig. 3b, 10)",
            "Share of the time of all CPUs that is spent on switching.",
            "%",
            vec![lines(bench, "overhead", |point| point.overhead.map(|share| share * 100.0))],
        ),
        (
            "Cost of a switch (Fig. 3c, 10)",
            "Mean time from scheduler entry to the switch (pick), and from the switch to scheduler exit (swap).",
            "µs",
            vec![
                lines(bench, "switch", |point| point.switch_cost_ns().map(|ns| ns / 1e3)),
                lines(bench, "pick", |point| point.pick_ns.map(|ns| ns / 1e3)),
                lines(bench, "swap", |point| point.swap_ns.map(|ns| ns / 1e3)),
            ],
        ),
        (
            "Switches (Fig. 10)",
            "Switches per second on all CPUs.",
            "switches/s",
            vec![lines(bench, "switches", |point| Some(point.switches_per_second))],
        ),
        (
            "Latency (Fig. 9)",
            "Time from the arrival of a request until it was served. Requests not served by the end count with their time until the end.",
            "ms",
            vec![
                lines(bench, "p50", |point| ms(point.latency.p50_ns)),
                lines(bench, "p95", |point| ms(point.latency.p95_ns)),
            ],
        ),
    ];
    for (heading, says, unit, lines) in pictures {
        let drawn = picture(&|area| by_density(area, unit, &lines.concat()), HEIGHT);
        drawn.iter().for_each(|drawn| page.picture(heading, says, drawn));
    }
    let drawn = picture(&|area| distributions(area, bench), HEIGHT);
    let says = "Share of the requests up to each latency, by functions per CPU. Requests left of the line at 1,000 ms are in time.";
    drawn.iter().for_each(|drawn| page.picture("Latency distribution (Fig. 8)", says, drawn));
    page.element("footer", "", &format!("lagstop {}. See docs/bench.md.", env!("CARGO_PKG_VERSION")));
    page.end()
}

/// A figure against density: the median of its runs, a line for each policy.
fn lines(bench: &Bench, name: &str, figure: impl Fn(&BenchRun) -> Option<f64>) -> Vec<Line> {
    let mut policies: Vec<&str> = bench.points.iter().map(policy).collect();
    policies.sort_unstable();
    policies.dedup();
    let is_one = policies.len() < 2;
    let line = |tried: &str| {
        let runs: Vec<&BenchRun> = bench.points.iter().filter(|point| policy(point) == tried).collect();
        let mut densities: Vec<u32> = runs.iter().map(|point| point.density).collect();
        densities.sort_unstable();
        densities.dedup();
        let median = |density: u32| {
            let runs = runs.iter().filter(|point| point.density == density);
            let mut values: Vec<f64> = runs.filter_map(|run| figure(run)).filter(|value| value.is_finite()).collect();
            values.sort_by(f64::total_cmp);
            Some((f64::from(density), *values.get(values.len() / 2)?))
        };
        let name = if is_one { name.to_owned() } else { format!("{name}, {tried}") };
        (name, densities.into_iter().filter_map(median).collect())
    };
    policies.into_iter().map(line).collect()
}

fn by_density(area: &Area<'_>, unit: &str, lines: &[Line]) -> Drawn {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..most * 1.05, 0.0..room_above(highest))?;
    axes(&mut chart, "functions per CPU", unit)?;
    for ((name, points), colour) in lines.iter().zip(SERIES.into_iter().cycle()) {
        let series = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(series)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}

fn distributions(area: &Area<'_>, bench: &Bench) -> Drawn {
    let mut points: Vec<&BenchRun> = bench.points.iter().filter(|point| point.round == 0).collect();
    points.sort_by_key(|point| point.density);
    // The first, the last, and some in between.
    let stride = points.len().div_ceil(DISTRIBUTIONS).max(1);
    let ms = |time: Nanos| time.0 as f64 / 1e6;
    let lines: Vec<Line> = points
        .iter()
        .rev()
        .step_by(stride)
        .map(|point| {
            let shares = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
            let at = |share| Some((ms(point.latencies.quantile(share)?).max(0.1), share * 100.0));
            (format!("{} per CPU, {}", point.density, policy(point)), shares.filter_map(at).collect())
        })
        .collect();
    let longest = lines.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(1_000.0, f64::max);
    let shortest = lines.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(longest, f64::min);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((shortest..longest * 1.1).log_scale(), 0.0..100.0)?;
    axes(&mut chart, "ms", "% of requests")?;
    chart.draw_series(LineSeries::new([(1_000.0, 0.0), (1_000.0, 100.0)], INK.mix(0.4)))?;
    for ((name, points), colour) in lines.iter().zip(SERIES.into_iter().cycle()) {
        let series = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(series)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

fn legend<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    place: SeriesLabelPosition,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart.configure_series_labels().position(place).label_font(font()).draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bench::tests::example;

    #[test]
    fn a_page_has_all_pictures_and_a_hostile_name_is_nothing_but_text() {
        let page = render_bench(&example());
        assert_eq!(page.matches("<svg").count(), 6);
        assert!(!page.contains("<script") && page.contains("&lt;script"), "{}", &page[..900]);
        for figure in ["Fig. 3a", "Fig. 3b", "Fig. 3c", "Fig. 8", "Fig. 9", "Fig. 10"] {
            assert!(page.contains(figure), "{figure}");
        }
    }

    #[test]
    fn without_runs_there_is_a_page_without_lines() {
        let page = render_bench(&Bench { points: Vec::new(), ..example() });
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn of_several_rounds_the_median_is_drawn() {
        let mut bench = example();
        for throughput in [100.0, 11.0] {
            bench.points.push(BenchRun { throughput, ..bench.points[0].clone() });
        }
        let drawn = |bench: &Bench| lines(bench, "in time", |point| Some(point.throughput));
        assert_eq!(drawn(&bench), [("in time".to_owned(), vec![(1.0, 11.0), (9.0, 9.0)])]);
        bench.points[0].policy = Some(crate::trial::Policy::Idle);
        let names: Vec<String> = drawn(&bench).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["in time, idle", "in time, none"]);
    }
}
