//! The host strip: where this is, and what scheduling costs it as a whole.

use std::borrow::Cow;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{chart, whole_parts};
use crate::{
    diagnosis::{AlertKind, AlertSubject},
    display::{display_name, fit, short_name, width},
    model::{Derived, Interval, Nanos},
    source::Link,
    top::{
        frame,
        quantity::{Cell, Quantity},
        state::{Mode, State},
        text::clock_time,
        theme::Theme,
    },
};

/// Lines of the strip.
pub(super) const HEIGHT: u16 = 4;

/// Columns of figures: cells of the label, and of the figure with its unit. All four fit into 80.
const COLUMNS: [(u16, u16); 4] = [(9, 7), (11, 9), (10, 6), (12, 6)];

/// Cells for the names of the host and the kernel.
const LONGEST_NAME: usize = 28;
/// Cells between parts of the first line.
const GAP: usize = 2;
/// The sparkline reaches its top at this overhead at least, so that a quiet host looks quiet.
const FULL_OVERHEAD: f64 = 0.05;

struct Item {
    label: &'static str,
    meaning: &'static str,
    cell: Cell,
    unit: &'static str,
    alert: Option<AlertKind>,
}

const fn item(label: &'static str, meaning: &'static str, cell: Cell, unit: &'static str) -> Item {
    Item { label, meaning, cell, unit, alert: None }
}

/// The labels of the figures, and what they mean.
pub(super) fn terms() -> impl Iterator<Item = (&'static str, &'static str)> {
    items(&Interval::default()).into_iter().flatten().map(|item| (item.label, item.meaning))
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let [first, lines @ ..] = Layout::vertical([Constraint::Length(1); HEIGHT as usize]).areas::<4>(area);
    draw_identity(frame, first, state, theme);
    let Some(now) = state.frame() else { return };
    for (line, items) in lines.into_iter().zip(items(&now.interval)) {
        draw_items(frame, line, &items, now, theme);
    }
    draw_overheads(frame, lines[2], now, theme);
}

fn draw_identity(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let session = state.session();
    let now = state.frame();
    let cpus = now.map_or(session.cpus_online, |now| now.interval.host.cpus_online);
    let every = now.map_or(session.interval_ns, |now| now.interval.duration_ns);
    let badge = badge(state);
    let mut parts =
        vec![Span::styled("lagstop top", theme.title()), Span::styled(shortened(&session.hostname), theme.strong())];
    parts.extend(now.and_then(|now| clock_time(session, now.end())).map(Span::raw));
    if let Some(why) = state.link().and_then(why_nothing_comes) {
        // Instead of what does not change: as much of it as there is room for.
        let used: usize = parts.iter().map(|part| part.width() + GAP).sum();
        let room = usize::from(area.width).saturating_sub(used + width(&badge));
        parts.push(Span::raw(short_name(&why, room).into_owned()));
    } else {
        parts.extend(state.link().map(|link| Span::raw(format!("from {}", shortened(&link.server)))));
        parts.extend([
            Span::raw(session.cpus(cpus)),
            Span::raw(format!("interval {every}")),
            Span::raw(format!("Linux {}", shortened(&session.kernel))),
        ]);
        let loaded = now.map_or(session.sched_ext.as_deref(), |now| session.loaded_scheduler(&now.interval));
        let loaded = loaded.filter(|name| !name.is_empty());
        parts.extend(loaded.map(|name| Span::styled(format!("scheduler {}", shortened(name)), theme.strong())));
    }
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width(&badge) as u16)]).areas(area);
    frame.render_widget(whole_parts(parts, left.width), left);
    frame.render_widget(Span::styled(badge, theme.badge()), right);
}

/// Why no intervals come from another host.
fn why_nothing_comes(link: &Link) -> Option<Cow<'_, str>> {
    match &link.lost {
        Some(why) => Some(Cow::Borrowed(why)),
        None if link.is_calm => {
            Some(Cow::Owned(format!("{}: all is calm, nothing is measured", shortened(&link.server))))
        }
        None => None,
    }
}

/// What is easily forgotten: that this is not now.
fn badge(state: &State) -> String {
    let behind = match state.behind() {
        Nanos::ZERO => String::new(),
        behind => format!(" −{behind}"),
    };
    if state.link().is_some_and(|link| link.lost.is_some()) && !state.ended() {
        let held = if state.running() { "" } else { " PAUSED" };
        return format!("{held}{behind} RECONNECTING ");
    }
    if state.link().is_some_and(|link| link.is_calm) && state.running() && !state.ended() {
        return " CALM ".to_owned();
    }
    match (state.mode(), state.running(), state.ended()) {
        (Mode::Live, false, _) => format!(" PAUSED{behind} "),
        (Mode::Live, true, true) => " END ".to_owned(),
        (Mode::Live, true, false) => String::new(),
        (Mode::Replay, running, ended) => {
            let place = state.shown().zip(state.span());
            let place = place.map_or(String::new(), |(n, (_, last))| format!(" {}/{}", n + 1, last + 1));
            let what = if running {
                "PLAYING"
            } else if ended {
                "END"
            } else {
                "REPLAY"
            };
            format!(" {what}{place} ")
        }
    }
}

/// A name of the host's, harmless and no longer than the first line bears.
fn shortened(name: &str) -> String {
    let name = display_name(name);
    let cells = width(&name).min(LONGEST_NAME);
    fit(&name, cells)
}

/// The figures, line by line.
fn items(interval: &Interval) -> [Vec<Item>; 3] {
    let host = &interval.host;
    let totals = &host.totals;
    let per_duration = |time: Nanos| time.cores(interval.duration_ns).0;
    let rate = |count| Quantity::Rate(interval.per_second(count));
    let steal = host.steal(interval.duration_ns).map(Quantity::Share);
    let pressure = host.pressure.map(|pressure| Quantity::Share(per_duration(pressure.some_ns)));
    [
        vec![
            Item {
                alert: Some(AlertKind::Overhead),
                ..item(
                    Derived::OVERHEAD.label,
                    Derived::OVERHEAD.meaning,
                    host.overhead().map(Quantity::Share).into(),
                    "%",
                )
            },
            Item {
                alert: Some(AlertKind::MeanSwitchCost),
                ..item(
                    "mean switch",
                    Derived::MEAN_SWITCH_COST.meaning,
                    host.mean_switch_cost().map(Quantity::Time).into(),
                    "",
                )
            },
            item("switches/s", Derived::SWITCH_RATE.meaning, Cell::Quantity(rate(host.task_switches())), ""),
            item("migrations/s", Derived::MIGRATION_RATE.meaning, totals.migrations.map(rate).into(), ""),
        ],
        vec![
            item(
                "CPU used",
                Derived::CPU_UTILISATION.meaning,
                Cell::Quantity(Quantity::Share(host.cpu_utilisation())),
                "%",
            ),
            item(
                "effective",
                Derived::EFFECTIVE_UTILISATION.meaning,
                host.effective_utilisation().map(Quantity::Share).into(),
                "%",
            ),
            Item {
                alert: Some(AlertKind::WaitPerCpu),
                ..item(
                    "waiting",
                    Derived::WAITING.meaning,
                    totals.runq_wait_ns.map(|wait| Quantity::Amount(per_duration(wait))).into(),
                    "",
                )
            },
            item(Derived::STEAL.label, Derived::STEAL.meaning, steal.into(), "%"),
        ],
        vec![
            item("runq wait", Derived::MEAN_WAIT.meaning, Cell::mean(totals.runq_wait_ns, totals.runq_waits), ""),
            item(
                "accept wait",
                Derived::MEAN_ACCEPT_WAIT.meaning,
                Cell::mean(totals.accept_wait_ns, totals.accepts),
                "",
            ),
            item(
                "PSI some",
                "share of time in which some task waited for a CPU, as measured by the kernel",
                pressure.into(),
                "%",
            ),
        ],
    ]
}

/// As many as fit. Each has its place, so that a figure that grows does not move the others.
fn draw_items(frame: &mut Frame<'_>, area: Rect, items: &[Item], now: &frame::Frame, theme: &Theme) {
    for (item, (left, cells, (label_width, figure_width))) in items.iter().zip(places(area.width)) {
        let unit = if item.unit.is_empty() || item.cell == Cell::NotMeasured {
            String::new()
        } else {
            format!(" {}", item.unit)
        };
        let figure = format!(" {:>figure_width$}", format!("{}{unit}", item.cell), figure_width = figure_width.into());
        let severity = item.alert.and_then(|kind| now.severity(AlertSubject::Host, kind));
        let style = severity.map_or_else(Style::new, |severity| theme.severity(severity));
        let line = Line::from(vec![
            Span::styled(format!("{:label_width$}", item.label, label_width = label_width.into()), theme.label()),
            Span::styled(figure, theme.strong().patch(style)),
        ]);
        frame.render_widget(line, Rect { x: area.x + left, width: cells, ..area });
    }
}

/// Where the columns are that fit: their first cell, their cells, and the parts of these.
fn places(width: u16) -> impl Iterator<Item = (u16, u16, (u16, u16))> {
    let used: u16 = COLUMNS.iter().map(|(label, figure)| label + 1 + figure).sum();
    let gap = (width.saturating_sub(used) / (COLUMNS.len() as u16 - 1)).clamp(1, 4);
    let place = move |left: &mut u16, (label, figure): (u16, u16)| {
        let (at, cells) = (*left, label + 1 + figure);
        *left += cells + gap;
        (at + cells <= width).then_some((at, cells, (label, figure)))
    };
    COLUMNS.into_iter().scan(0, place)
}

/// The overhead of the last minutes, to the right of the last line.
fn draw_overheads(frame: &mut Frame<'_>, area: Rect, now: &frame::Frame, theme: &Theme) {
    let Some((left, ..)) = places(area.width).nth(3) else { return };
    if now.overheads.iter().all(Option::is_none) {
        return;
    }
    let label = "overhead ";
    let cells = usize::from(area.width - left).saturating_sub(label.len());
    // All that is kept: where there are more intervals than cells, each cell is the worst of several.
    let each = now.overheads.len().div_ceil(cells.max(1)).max(1);
    let worst = |some: &[Option<f32>]| some.iter().flatten().copied().reduce(f32::max).map(f64::from);
    let values: Vec<Option<f64>> = now.overheads.rchunks(each).rev().map(worst).collect();
    let line = Line::from(vec![
        Span::styled(label, theme.label()),
        Span::styled(chart::sparkline(&values, cells, FULL_OVERHEAD), theme.bar()),
    ]);
    frame.render_widget(line, Rect { x: area.x + left, width: area.width - left, ..area });
}
