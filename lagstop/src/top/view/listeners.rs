//! The view of listeners: who listens where, how full the backlog is, how long connections wait to be accepted.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{chart, waits::cgroup_name};
use crate::{
    diagnosis::{AlertKind, AlertSubject},
    display::{self, fit},
    model::Listener,
    top::{
        column::Column,
        frame,
        listeners::{fullness, sorted},
        quantity::{Cell, Quantity},
        state::State,
        theme::{Theme, severity_mark},
    },
    units::ending,
};

/// Titles over the figures, and their cells with the gap before them.
const TITLES: [(&str, usize); 7] = [
    ("backlog", 17),
    (Column::AcceptWait.title(), 9),
    (Column::ACCEPTS.title(), 9),
    ("new/s", 7),
    ("abandon/s", 10),
    ("drops/s", 8),
    ("netns", 11),
];
const BAR: usize = 6;
/// Figures are left out from the end before address and owner get narrower than this.
const NARROWEST: usize = 36;

/// Rows that `area` has room for below the titles.
pub(super) const fn rows(area: Rect) -> usize {
    area.height.saturating_sub(1) as usize
}

pub(super) fn len(state: &State) -> usize {
    state.frame().map_or(0, |now| now.interval.listeners.len())
}

/// How many listeners, and how many connections found a full backlog, by network namespace.
pub(super) fn title(state: &State) -> String {
    let Some(now) = state.frame() else { return " listeners ".to_owned() };
    let count = len(state);
    let overflows: Vec<u64> = now.interval.network_namespaces.iter().filter_map(|it| it.listen_overflows).collect();
    let overflow = if overflows.is_empty() {
        "overflows n/a".to_owned()
    } else {
        let count: u64 = overflows.iter().sum();
        format!("{count} overflow{} in {} network namespace{}", ending(count), overflows.len(), ending(overflows.len()))
    };
    format!(" {count} listener{}, the fullest backlog first, {overflow} ", ending(count))
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: &frame::Frame, theme: &Theme) {
    let width = usize::from(area.width);
    let shown = shown(width);
    let left = width - shown.iter().map(|(_, cells)| cells).sum::<usize>();
    let line_at = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    let mut titles = fit("   address", left / 2) + &fit("cgroup", left - left / 2);
    for (title, cells) in shown {
        titles.push_str(&format!("{title:>cells$}"));
    }
    frame.render_widget(Line::styled(titles, theme.title()), line_at(0));
    let listeners = sorted(now);
    if listeners.is_empty() {
        frame.render_widget(Line::from("No visible TCP listeners.").centered(), line_at(1));
    }
    let seen = listeners.iter().enumerate().skip(state.listeners.scroll.top).take(rows(area));
    for (y, (n, listener)) in (1..).zip(seen) {
        let style = if n == state.listeners.scroll.selected { theme.selected() } else { Style::new() };
        frame.render_widget(line(listener, now, shown, left, theme).style(style), line_at(y));
    }
}

/// The figures that there is room for.
fn shown(width: usize) -> &'static [(&'static str, usize)] {
    let fits = |count: &usize| TITLES[..*count].iter().map(|(_, cells)| cells).sum::<usize>() + NARROWEST <= width;
    &TITLES[..(0..=TITLES.len()).rev().find(fits).unwrap_or(0)]
}

fn line(listener: &Listener, now: &frame::Frame, shown: &[(&str, usize)], left: usize, theme: &Theme) -> Line<'static> {
    let severity = now.severity(AlertSubject::Listener(listener.netns, listener.address), AlertKind::Backlog);
    let owner = match listener.cgroup {
        Some(id) => cgroup_name(id, now),
        None => "n/a".to_owned(),
    };
    let mut spans = vec![
        severity.map_or_else(|| Span::raw("  "), |it| Span::styled(severity_mark(it), theme.severity(it))),
        Span::raw(format!(" {} ", fit(&listener.address.to_string(), (left / 2).saturating_sub(4)))),
        Span::raw(fit(&owner, left - left / 2)),
    ];
    let rate = |count: u64| Quantity::Rate(now.interval.per_second(count));
    let totals = listener.totals;
    let cells: [Cell; 5] = [
        Cell::mean(totals.map(|it| it.accept_wait_ns), totals.map(|it| it.accepts)),
        totals.map(|it| rate(it.accepts)).into(),
        totals.map(|it| rate(it.established)).into(),
        totals.map(|it| rate(it.abandoned)).into(),
        listener.drops.map(rate).into(),
    ];
    let backlog = match listener.backlog.zip(listener.backlog_capacity) {
        Some((backlog, capacity)) => (format!("{backlog}/{capacity}"), chart::bar(fullness(listener), BAR)),
        None => ("n/a".to_owned(), String::new()),
    };
    let mut texts = vec![backlog.0];
    texts.extend(cells.iter().map(ToString::to_string));
    texts.push(listener.netns.to_string());
    for (n, (text, (_, cells))) in texts.iter().zip(shown).enumerate() {
        let bar = if n == 0 { backlog.1.as_str() } else { "" };
        let style = match severity {
            Some(severity) if n == 0 => theme.severity(severity),
            _ if text == "n/a" => theme.label(),
            _ => Style::new(),
        };
        let gap = cells.saturating_sub(display::width(bar) + display::width(text));
        spans.extend([Span::raw(" "), Span::styled(bar.to_owned(), theme.bar())]);
        spans.extend([Span::raw(" ".repeat(gap.saturating_sub(1))), Span::styled(text.clone(), style)]);
    }
    Line::from(spans)
}
