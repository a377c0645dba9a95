//! The pictures, as SVG. Ink is the page's text colour, so that they are readable in light and in dark.

use std::{borrow::Cow, error::Error, ops::Range};

use plotters::{
    coord::{Shift, ranged1d::ValueFormatter},
    prelude::*,
};

use crate::{
    diagnosis::{CandidateClass, HistoryPiece, Pictures},
    model::Derived,
    units::on_axis,
};

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), Box<dyn Error>>;

const WIDTH: u32 = 960;
pub(super) const HEIGHT: u32 = 300;
/// Stands for the page's text colour, which plotters has no name for.
pub(super) const INK: RGBColor = RGBColor(1, 2, 3);
const INK_WRITTEN: &str = "#010203";
/// Colours that colour-blind people can tell apart, on white and on black.
const BLUE: RGBColor = RGBColor(58, 134, 214);
const ORANGE: RGBColor = RGBColor(221, 124, 28);
pub(super) const SERIES: [RGBColor; 5] =
    [BLUE, ORANGE, RGBColor(27, 158, 119), RGBColor(199, 84, 160), RGBColor(140, 140, 60)];
/// What captions call them.
const SERIES_NAMES: [&str; SERIES.len()] = ["blue", "orange", "green", "purple", "olive"];
/// Lower end of a logarithmic axis, where values of 0 are drawn. No cgroup has so little.
const LEAST: f64 = 1e-3;

/// Whether there is enough for it, heading, what it says, how it is drawn, and its height.
type Candidate<'a> = (bool, &'static str, Cow<'static, str>, &'a dyn Fn(&Area<'_>) -> Drawn, u32);

/// Network namespace and address of a listener.
type Address = (u32, std::net::SocketAddr);

/// Points on two axes, class, and whether it waits long.
type Dot = (f64, f64, CandidateClass, bool);

/// Heading, what it says, and picture, of all that there is enough for.
pub(super) fn all(pictures: &Pictures) -> Vec<(&'static str, Cow<'static, str>, String)> {
    let moments = &pictures.moments;
    let costed = moments.iter().any(|moment| moment.sample.overhead().is_some());
    let is_long = moments.len() > 1;
    let listeners = deepest(moments);
    let names: Vec<String> =
        listeners.iter().zip(SERIES_NAMES).map(|((_, address), colour)| format!("{colour} {address}")).collect();
    let candidates: [Candidate<'_>; 6] = [
        (
            is_long && costed,
            "Overhead over time",
            "Overhead is the switch rate × the cost of a switch, plus the cost of calls that kept the running task.".into(),
            &|area| overhead(area, moments),
            2 * HEIGHT,
        ),
        (
            !pictures.costs.is_empty(),
            "Cost of a switch against run-queue length",
            "Each dot is an interval. The line is the cost curve of this host.".into(),
            &|area| cost(area, pictures),
            HEIGHT,
        ),
        (
            !pictures.cgroups.is_empty(),
            "Light and heavy cgroups",
            "Each dot is a cgroup: blue is light, orange is heavy, filled waits long. Cgroups at the top left would gain.".into(),
            &|area| classes(area, pictures),
            HEIGHT,
        ),
        (
            pictures.light_waits.is_some(),
            "Run-queue waits of light cgroups",
            "Share of the waits up to each length. Blue: measured. Orange: simulated, with the lightest cgroups first. Each cgroup's measured waits are scaled by the fraction that remains in the simulation.".into(),
            &|area| waits(area, pictures),
            HEIGHT,
        ),
        (
            is_long && moments.iter().any(|moment| !moment.cpus.is_empty()),
            "CPUs over time",
            "Running and waiting tasks on each CPU. A stronger colour means more tasks; the colour is full at 4 or more.".into(),
            &|area| cpus(area, moments),
            HEIGHT,
        ),
        (
            is_long && moments.iter().any(|moment| !moment.backlogs.is_empty()),
            "Backlog over time",
            format!("Connections waiting to be accepted, for the listeners with the most: {}.", names.join(", ")).into(),
            &|area| backlog(area, moments, &listeners),
            HEIGHT,
        ),
    ];
    candidates
        .into_iter()
        .filter(|(has_enough, ..)| *has_enough)
        // A picture that cannot be drawn is omitted. Its figures are in the findings.
        .filter_map(|(_, heading, says, draw, height)| Some((heading, says, picture(draw, height)?)))
        .collect()
}

pub(super) fn picture(draw: &dyn Fn(&Area<'_>) -> Drawn, height: u32) -> Option<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?)).ok()?;
    }
    // Without a fixed size, the picture shrinks with the page.
    let svg = svg.replacen(&format!("width=\"{WIDTH}\" height=\"{height}\" "), "", 1);
    Some(svg.replace(INK_WRITTEN, "currentColor"))
}

pub(super) fn font() -> TextStyle<'static> {
    ("sans-serif", 13).into_font().color(&INK)
}

/// Axes that say what they count, and faint lines across.
pub(super) fn axes<X, Y>(chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>, x: &str, y: &str) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(font())
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|value| on_axis(*value))
        .y_label_formatter(&|value| on_axis(*value))
        .draw()?;
    Ok(())
}

/// A line chart over time: a moment's figure from its begin to its end.
fn over_time(area: &Area<'_>, moments: &[HistoryPiece], unit: &str, lines: &[(RGBColor, Vec<Option<f64>>)]) -> Drawn {
    let highest = lines.iter().flat_map(|(_, values)| values).flatten().copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(span(moments), 0.0..room_above(highest))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.5))
        .label_style(font())
        .y_desc(unit)
        .y_labels(5)
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|value| on_axis(*value))
        .draw()?;
    for (colour, values) in lines {
        // Missing values leave a gap in the line.
        for run in moments.iter().zip(values).collect::<Vec<_>>().split(|(_, value)| value.is_none()) {
            let points = run.iter().flat_map(|(moment, value)| {
                let value = value.unwrap_or_default();
                [(moment.begins, value), (moment.begins + moment.duration, value)]
            });
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
    }
    Ok(())
}

fn span(moments: &[HistoryPiece]) -> Range<f64> {
    let begins = moments.first().map_or(0.0, |moment| moment.begins);
    let ends = moments.last().map_or(1.0, |moment| moment.begins + moment.duration);
    begins..ends.max(begins + 1e-3)
}

pub(super) fn room_above(highest: f64) -> f64 {
    if highest > 0.0 && highest.is_finite() { highest * 1.1 } else { 1.0 }
}

fn overhead(area: &Area<'_>, moments: &[HistoryPiece]) -> Drawn {
    let series = |of: fn(&HistoryPiece) -> Option<f64>| moments.iter().map(of).collect::<Vec<_>>();
    let parts = area.split_evenly((3, 1));
    let lines = [
        ("overhead, %", ORANGE, series(|moment| moment.sample.overhead().map(|share| share * 100.0))),
        ("switches/s per CPU", BLUE, series(|moment| Some(moment.sample.rate()))),
        ("µs a switch", SERIES[2], series(|moment| moment.sample.mean_cost_ns().map(|ns| ns / 1e3))),
    ];
    for (part, (unit, colour, values)) in parts.iter().zip(lines) {
        over_time(part, moments, unit, &[(colour, values)])?;
    }
    Ok(())
}

fn cost(area: &Area<'_>, pictures: &Pictures) -> Drawn {
    let points: Vec<(f64, f64)> = pictures.costs.iter().map(|&(load, ns)| (load, ns / 1e3)).collect();
    let most = |of: fn(&(f64, f64)) -> f64| room_above(points.iter().map(of).fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..most(|point| point.0), 0.0..most(|point| point.1))?;
    axes(&mut chart, "runnable tasks per CPU", "µs a switch")?;
    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, BLUE.mix(0.6).filled())))?;
    if let Some(curve) = &pictures.curve {
        let points = curve.points().iter().map(|&(load, ns)| (load, ns / 1e3));
        chart.draw_series(LineSeries::new(points, ORANGE.stroke_width(2)))?;
    }
    Ok(())
}

fn classes(area: &Area<'_>, pictures: &Pictures) -> Drawn {
    let most = |of: fn(&Dot) -> f64| {
        pictures.cgroups.iter().map(of).filter(|value| value.is_finite()).fold(1.0, f64::max) * 2.0
    };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((LEAST..most(|it| it.0)).log_scale(), (LEAST..most(|it| it.1)).log_scale())?;
    axes(&mut chart, "Load Credit, tasks", Derived::WAIT_PER_CPU.label)?;
    let dots = pictures.cgroups.iter().filter(|it| it.0.is_finite() && it.1.is_finite());
    chart.draw_series(dots.map(|&(credit, wait, class, waits_long)| {
        let colour = if class == CandidateClass::Light { BLUE } else { ORANGE };
        let style = if waits_long { colour.filled() } else { colour.stroke_width(1) };
        Circle::new((credit.max(LEAST), wait.max(LEAST)), 4, style)
    }))?;
    Ok(())
}

fn waits(area: &Area<'_>, pictures: &Pictures) -> Drawn {
    let Some((before, after)) = &pictures.light_waits else { return Ok(()) };
    let longest = before.iter().chain(after).map(|it| it.0 / 1e6).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((LEAST..longest * 1.1).log_scale(), 0.0..100.0)?;
    axes(&mut chart, "ms", "% of waits")?;
    for (waits, colour) in [(before, BLUE), (after, ORANGE)] {
        let mut waits = waits.clone();
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = waits.iter().map(|it| it.1).sum();
        let mut seen = 0.0;
        let points = waits.iter().map(|&(ns, count)| {
            seen += count;
            ((ns / 1e6).max(LEAST), seen / all * 100.0)
        });
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    Ok(())
}

fn cpus(area: &Area<'_>, moments: &[HistoryPiece]) -> Drawn {
    let mut numbers: Vec<u32> = moments.iter().flat_map(|moment| moment.cpus.keys().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(span(moments), 0.0..numbers.len() as f64)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK.mix(0.5))
        .label_style(font())
        .y_desc("CPU")
        .y_labels(numbers.len().min(8))
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|row| numbers.get(*row as usize).map_or_else(String::new, u32::to_string))
        .draw()?;
    let cells = moments.iter().flat_map(|moment| {
        moment.cpus.iter().map(|(cpu, &(runnable, capacity))| {
            let row = numbers.partition_point(|number| number < cpu) as f64;
            let tasks = if capacity > 0.0 { runnable / capacity } else { 0.0 };
            let corners = [(moment.begins, row + 0.05), (moment.begins + moment.duration, row + 0.95)];
            Rectangle::new(corners, ORANGE.mix((tasks / 4.0).clamp(0.03, 1.0)).filled())
        })
    });
    chart.draw_series(cells)?;
    Ok(())
}

/// The listeners with the longest backlogs, the longest first.
fn deepest(moments: &[HistoryPiece]) -> Vec<Address> {
    let mut listeners: Vec<_> =
        moments.iter().flat_map(|moment| moment.backlogs.iter()).map(|(&at, &most)| (at, most)).collect();
    listeners.sort_by_key(|&(at, most)| (at, std::cmp::Reverse(most)));
    listeners.dedup_by_key(|&mut (at, _)| at);
    listeners.sort_by_key(|&(at, most)| (std::cmp::Reverse(most), at));
    listeners.into_iter().take(SERIES.len()).map(|(at, _)| at).collect()
}

fn backlog(area: &Area<'_>, moments: &[HistoryPiece], listeners: &[Address]) -> Drawn {
    let line = |(at, colour): (&Address, RGBColor)| {
        let of = |moment: &HistoryPiece| Some(moment.backlogs.get(at).copied().unwrap_or_default() as f64);
        (colour, moments.iter().map(of).collect())
    };
    let lines: Vec<(RGBColor, Vec<Option<f64>>)> = listeners.iter().zip(SERIES).map(line).collect();
    over_time(area, moments, "connections", &lines)
}
