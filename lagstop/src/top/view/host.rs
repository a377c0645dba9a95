//! The host strip: where this is, and what scheduling costs it as a whole.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
};

use super::whole_parts;
use crate::report::display_name;
use crate::{
    model::{Interval, Nanos},
    top::{
        figure::{Cell, Figure},
        state::State,
        text::{fit, width},
        theme::Theme,
    },
};

/// Lines of the strip.
pub(super) const HEIGHT: u16 = 3;

/// Columns of figures: cells of the label, and of the figure with its unit. All four fit into 80.
const COLUMNS: [(u16, u16); 4] = [(9, 7), (11, 9), (10, 6), (12, 6)];

/// Cells for the names of the host and the kernel.
const LONGEST_NAME: usize = 28;

type Item = (&'static str, Cell, &'static str);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let [first, second, third] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
    draw_identity(frame, first, state, theme);
    if let Some(interval) = state.interval() {
        let [upper, lower] = items(interval);
        draw_items(frame, second, &upper, theme);
        draw_items(frame, third, &lower, theme);
    }
}

fn draw_identity(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let session = state.session();
    let interval = state.interval();
    let cpus = interval.map_or(session.cpus_online, |interval| interval.host.cpus_online);
    let every = interval.map_or(session.interval_ns, |interval| interval.duration_ns);
    let badge = match (state.paused(), state.ended()) {
        (true, _) => " PAUSED ",
        (_, true) => " END ",
        _ => "",
    };
    let parts = vec![
        Span::styled("lagstop top", theme.title()),
        Span::styled(shortened(&session.hostname), theme.strong()),
        Span::raw(format!("Linux {}", shortened(&session.kernel))),
        Span::raw(format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })),
        Span::raw(format!("interval {every}")),
    ];
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(badge.len() as u16)]).areas(area);
    frame.render_widget(whole_parts(parts, left.width), left);
    frame.render_widget(Span::styled(badge, theme.badge()), right);
}

/// A name of the host's, harmless and no longer than the first line bears.
fn shortened(name: &str) -> String {
    let name = display_name(name);
    let cells = width(&name).min(LONGEST_NAME);
    fit(&name, cells)
}

/// The figures, line by line.
fn items(interval: &Interval) -> [[Item; 4]; 2] {
    let host = &interval.host;
    let totals = &host.totals;
    let per_duration = |time: Nanos| time.cores(interval.duration_ns).0;
    let rate = |count| Figure::Rate(interval.per_second(count));
    // Steal is summed over CPUs, like the capacity it is a share of.
    let steal = host.steal_ns.map(|steal| Figure::Share(steal.cores(host.capacity()).0));
    let mean_switch = host.mean_switch_cost().map(Figure::Time);
    [
        [
            ("overhead", host.overhead().map(Figure::Share).into(), "%"),
            ("mean switch", mean_switch.into(), ""),
            ("switches/s", Cell::Figure(rate(host.task_switches())), ""),
            ("migrations/s", totals.migrations.map(rate).into(), ""),
        ],
        [
            ("perceived", Cell::Figure(Figure::Share(host.perceived_utilisation())), "%"),
            ("effective", host.effective_utilisation().map(Figure::Share).into(), "%"),
            ("waiting", totals.runq_wait_ns.map(|wait| Figure::Amount(per_duration(wait))).into(), ""),
            ("steal", steal.into(), "%"),
        ],
    ]
}

/// As many as fit. Each has its place, so that a figure that grows does not move the others.
fn draw_items(frame: &mut Frame<'_>, area: Rect, items: &[Item], theme: &Theme) {
    let used: u16 = COLUMNS.iter().map(|(label, figure)| label + 1 + figure).sum();
    let gap = (area.width.saturating_sub(used) / (COLUMNS.len() as u16 - 1)).clamp(1, 4);
    let mut left = 0;
    for (&(label, cell, unit), (label_width, figure_width)) in items.iter().zip(COLUMNS) {
        let width = label_width + 1 + figure_width;
        if left + width > area.width {
            break;
        }
        let unit = if unit.is_empty() || cell == Cell::NotMeasured { String::new() } else { format!(" {unit}") };
        let figure = format!(" {:>figure_width$}", format!("{cell}{unit}"), figure_width = figure_width.into());
        let line = Line::from(vec![
            Span::styled(format!("{label:label_width$}", label_width = label_width.into()), theme.label()),
            Span::styled(figure, theme.strong()),
        ]);
        frame.render_widget(line, Rect { x: area.x + left, width, ..area });
        left += width + gap;
    }
}
