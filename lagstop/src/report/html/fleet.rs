//! A fleet as a page: what it loses, over time and over density, and how few nodes would do.

use plotters::prelude::*;

use super::{
    Page,
    charts::{Area, Drawn, HEIGHT, INK, SERIES, axes, font, picture, room_above},
};
use crate::{
    fleet::{Bin, Knee, NodeStep, Packing},
    report::fleet::{FleetReport, HEADINGS, doubts, headline, knees, limits, tables, utilisation, verdict},
};

/// The most rows of nodes and workloads.
const ROWS: usize = 50;

/// A picture of some height, what it is, and what it says.
type Candidate<'a> = (bool, &'static str, &'static str, &'a dyn Fn(&Area<'_>) -> Drawn);

pub fn render_fleet(report: &FleetReport<'_>) -> String {
    let mut page = Page(String::new());
    let analysis = report.analysis;
    let verdict = verdict(report);
    page.begin(&verdict);
    page.element("h1", "", "Fleet");
    page.element("p", "verdict", &verdict);
    page.element("p", "note", &headline(report));
    utilisation(&analysis.totals).iter().for_each(|text| page.element("p", "", text));
    let hours: Vec<(f64, f64)> = lost_over_time(report);
    let density = analysis.density.as_ref();
    let bins: &[Bin] = density.map_or(&[], |density| &density.bins);
    let points = &analysis.points;
    let overhead_knee = density.and_then(|density| density.overhead_knee);
    let wait_knee = density.and_then(|density| density.wait_knee);
    let share = |point: &NodeStep| Some(point.overhead * 100.0);
    let ms = |point: &NodeStep| point.wait.map(|wait| wait * 1e3);
    let candidates: [Candidate<'_>; 5] = [
        (
            hours.len() > 1,
            "Cores lost over time",
            "Sum over all nodes, by hours before the end of the window.",
            &|area| over_time(area, &hours),
        ),
        (
            !points.is_empty(),
            "Overhead against density",
            "Each dot is a node in a step. The line is their mean. The vertical line is the knee, with its interval.",
            &|area| {
                against_density(
                    area,
                    points,
                    &share,
                    bins,
                    &|bin| Some(bin.overhead * 100.0),
                    overhead_knee.as_ref(),
                    "overhead, %",
                )
            },
        ),
        (
            points.iter().any(|point| point.wait.is_some()),
            "p99 run-queue wait against density",
            "The same for the 99th percentile of run-queue waits.",
            &|area| {
                against_density(
                    area,
                    points,
                    &ms,
                    bins,
                    &|bin| bin.wait_p99.map(|wait| wait * 1e3),
                    wait_knee.as_ref(),
                    "ms",
                )
            },
        ),
        (
            !points.is_empty(),
            "CPU utilisation, with and without switching",
            "Each dot is a node in a step. On the line, all used CPU time is work. The distance above the line is switching.",
            &|area| utilisations(area, points),
        ),
        (
            analysis.packing.is_some() && bins.iter().any(|bin| bin.wait_p99.is_some()),
            "p99 run-queue wait, measured and as assumed with LAGS",
            "Blue: measured. Orange: half of the effect assumed for LAGS. Green: all of it. The horizontal line is the wait limit. \
             The dots show the planned mean density and the wait at that density, including fluctuation.",
            &|area| analysis.packing.as_ref().map_or(Ok(()), |packing| packed(area, bins, packing)),
        ),
    ];
    for (has_enough, heading, says, draw) in candidates {
        if has_enough {
            // A picture that cannot be drawn is omitted. Its metrics are in the tables.
            picture(draw, HEIGHT).iter().for_each(|drawn| page.picture(heading, says, drawn));
        }
    }
    let tables = tables(report, ROWS);
    page.section("Nodes, by cores lost", HEADINGS[0], &tables.nodes);
    page.section("Workloads, by switch cost", HEADINGS[1], &tables.workloads);
    page.section("Workloads, by wait caused", HEADINGS[2], &tables.neighbours);
    knees(report).iter().for_each(|knee| page.element("p", "", knee));
    page.section("Density", HEADINGS[3], &tables.bins);
    if let Some(packing) = &analysis.packing {
        page.section("The same work on fewer nodes", HEADINGS[4], &tables.packed);
        page.element("p", "", &limits(packing));
        page.list("Assumptions", packing.assumptions.iter().cloned());
    }
    page.list("Caveats", doubts(report).into_iter());
    let footer = format!("lagstop {}. docs/fleet.md explains how each metric is computed.", env!("CARGO_PKG_VERSION"));
    page.element("footer", "", &footer);
    page.end()
}

impl Page {
    /// A table under a heading, where it has any rows.
    fn section(&mut self, heading: &str, headings: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        self.element("h3", "", heading);
        let first: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
        self.table(std::iter::once(&first[..]).chain(rows.iter().map(Vec::as_slice)));
    }
}

/// Hours from the end, and cores.
fn lost_over_time(report: &FleetReport<'_>) -> Vec<(f64, f64)> {
    let end = report.analysis.window.end as f64;
    let steps = report.analysis.steps.iter();
    steps.filter_map(|step| Some(((step.time as f64 - end) / 3_600.0, step.cores_lost?))).collect()
}

fn over_time(area: &Area<'_>, hours: &[(f64, f64)]) -> Drawn {
    let first = hours.first().map_or(-1.0, |point| point.0).min(-1e-3);
    let most = room_above(hours.iter().map(|point| point.1).fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(first..0.0, 0.0..most)?;
    axes(&mut chart, "hours", "cores")?;
    chart.draw_series(LineSeries::new(hours.iter().copied(), SERIES[1].stroke_width(2)))?;
    Ok(())
}

fn against_density(
    area: &Area<'_>,
    points: &[NodeStep],
    of_point: &dyn Fn(&NodeStep) -> Option<f64>,
    bins: &[Bin],
    of_bin: &dyn Fn(&Bin) -> Option<f64>,
    knee: Option<&Knee>,
    unit: &str,
) -> Drawn {
    let dots: Vec<(f64, f64)> = points.iter().filter_map(|point| Some((point.density(), of_point(point)?))).collect();
    let densest = room_above(dots.iter().map(|dot| dot.0).fold(0.0, f64::max));
    let most = room_above(dots.iter().map(|dot| dot.1).fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..densest, 0.0..most)?;
    axes(&mut chart, "active cgroups per CPU", unit)?;
    chart.draw_series(dots.iter().map(|&dot| Circle::new(dot, 2, SERIES[0].mix(0.35).filled())))?;
    let line = bins.iter().filter_map(|bin| Some((bin.density, of_bin(bin)?)));
    chart.draw_series(LineSeries::new(line, SERIES[1].stroke_width(2)))?;
    if let Some(knee) = knee {
        let between = [(knee.low, 0.0), (knee.high, most)];
        chart.draw_series([Rectangle::new(between, INK.mix(0.08).filled())])?;
        chart.draw_series(LineSeries::new([(knee.density, 0.0), (knee.density, most)], INK.mix(0.5)))?;
    }
    Ok(())
}

fn utilisations(area: &Area<'_>, points: &[NodeStep]) -> Drawn {
    let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..100.0, 0.0..100.0)?;
    axes(&mut chart, "effective, %", "CPU utilisation, %")?;
    chart.draw_series(LineSeries::new([(0.0, 0.0), (100.0, 100.0)], INK.mix(0.4)))?;
    let dots = points.iter().map(|point| (percent(point.utilisation - point.overhead), percent(point.utilisation)));
    chart.draw_series(dots.map(|dot| Circle::new(dot, 2, SERIES[0].mix(0.5).filled())))?;
    Ok(())
}

fn packed(area: &Area<'_>, bins: &[Bin], packing: &Packing) -> Drawn {
    let limit = packing.wait_limit * 1e3;
    let densest = room_above(bins.last().map_or(0.0, |bin| bin.density));
    let most = bins.iter().filter_map(|bin| bin.wait_p99).fold(packing.wait_limit, f64::max) * 1e3;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..densest, 0.0..room_above(most))?;
    axes(&mut chart, "active cgroups per CPU", "ms")?;
    chart.draw_series(LineSeries::new([(0.0, limit), (densest, limit)], INK.mix(0.5)))?;
    for (option, colour) in packing.options.iter().zip(SERIES) {
        let left = (1.0 - option.wait_cut) * 1e3;
        let line = bins.iter().filter_map(|bin| Some((bin.density, bin.wait_p99? * left)));
        let name = if option.strength == 0.0 {
            "measured".to_owned()
        } else {
            format!("assumed: LAGS × {:.1}", option.strength)
        };
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
        chart.draw_series([Circle::new((option.density, option.wait_p99 * 1e3), 5, colour.filled())])?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).label_font(font()).draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fleet::{NodeMetric, NodeTable, fixture},
        report::fleet::tests::{gathered, with},
    };

    fn page(table: NodeTable) -> String {
        with(&gathered(table), render_fleet)
    }

    #[test]
    fn a_fleet_has_all_pictures_and_a_hostile_name_is_nothing_but_text() {
        let mut table = fixture::dense(40);
        table.set("<img src=x onerror=alert(1)>", 0, NodeMetric::CoresLost, 1e6);
        table.set("<img src=x onerror=alert(1)>", 0, NodeMetric::Cpus, 8.0);
        let page = page(table);
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(!page.contains("<script") && page.contains("&lt;script"));
        assert!(!page.contains("<img") && page.contains("&lt;img"));
        assert!(page.contains("currentColor") && !page.contains("#010203") && page.ends_with("</html>\n"));
    }

    #[test]
    fn without_spread_there_is_no_line_and_without_anything_no_picture() {
        let equal = page(fixture::equal(8));
        assert_eq!(equal.matches("<svg").count(), 4);
        assert!(equal.contains("not enough spread"));
        let nothing = page(NodeTable::new(fixture::window()));
        assert!(!nothing.contains("<svg") && nothing.ends_with("</html>\n") && !nothing.contains("NaN"));
    }
}
