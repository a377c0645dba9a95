//! The view of waits: which cgroup waits, behind which other one or because of what else, and how long.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::chart;
use crate::{
    diagnosis::{AlertKind, AlertSubject},
    display::{self, display_name, fit, shorten, wrap},
    model::{CgroupId, Nanos},
    top::{
        frame,
        quantity::Quantity,
        state::State,
        text,
        theme::{Theme, severity_mark},
        waits::{self, Blamed, Wait},
    },
    units::ending,
};

/// Cells of the mark, of milliseconds a second and of the share of the wait, each with its gap, and of the bar.
const MARK: usize = 3;
const TIME: usize = 9;
const SHARE: usize = 11;
const BAR: usize = 8;
/// From this width on there is room for the bar.
const WIDE: usize = 76;

/// Rows that `area` has room for below the titles and above the note.
pub(super) const fn rows(area: Rect) -> usize {
    area.height.saturating_sub(2) as usize
}

/// How many causes of waits there are, how many tasks wait, and which part of that other cgroups caused.
pub(super) fn title(state: &State) -> String {
    let count = state.waits.rows().len();
    let mut title = match count {
        0 => " causes of waits".to_owned(),
        _ => format!(" {count} cause{} of waits, the worst first", ending(count)),
    };
    if !state.table.filter_text().is_empty() {
        title.push_str(&format!(", filter {}", display_name(state.table.filter_text())));
    } else if let Some(now) = state.frame() {
        let known = now.interval.cgroups.iter().map(|cgroup| &cgroup.totals).filter(|it| it.wait_behind_ns.is_some());
        let all: Nanos = known.clone().filter_map(|totals| totals.runq_wait_ns).sum();
        let behind: Nanos = known.filter_map(|totals| totals.wait_behind_ns).sum();
        if all > Nanos::ZERO {
            let share = Quantity::Share(behind.cores(all).0);
            title.push_str(&format!("; {} ms/s in all, {share} % behind other cgroups", millis(all, now)));
        }
    }
    title + " "
}

/// Milliseconds of waiting in a second.
pub(super) fn millis(time: Nanos, now: &frame::Frame) -> Quantity {
    Quantity::Amount(time.cores(now.interval.duration_ns).0 * 1e3)
}

/// What `blamed` is called; harmless.
pub(super) fn blamed_name(blamed: Blamed, now: &frame::Frame) -> String {
    match blamed {
        Blamed::Cgroup(id) => cgroup_name(id, now),
        Blamed::Cause(cause) => cause.label().to_owned(),
    }
}

/// What a cgroup is called; harmless.
pub(super) fn cgroup_name(id: CgroupId, now: &frame::Frame) -> String {
    display_name(&text::name_of(id, &now.interval)).into_owned()
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: &frame::Frame, theme: &Theme) {
    let width = usize::from(area.width);
    let bar = if width < WIDE { 0 } else { BAR };
    let names = width.saturating_sub(MARK + TIME + SHARE + bar);
    let names = (names - names / 2, names / 2);
    let line_at = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    let titles = fit("   waiting cgroup", MARK + names.0) + &fit("cause", names.1);
    let titles = format!("{titles}{:>TIME$}{:>SHARE$}", "ms/s", "its wait%");
    frame.render_widget(Line::styled(fit(&titles, width), theme.title()), line_at(0));
    let (rows_in_all, scroll) = (state.waits.rows(), state.waits.scroll());
    if rows_in_all.is_empty() {
        for (y, line) in (1..area.height).zip(wrap(&nothing(state, now), width)) {
            frame.render_widget(Line::from(line), line_at(y));
        }
    }
    let seen = rows_in_all.iter().enumerate().skip(scroll.top).take(rows(area));
    for (y, (n, wait)) in (1..).zip(seen) {
        let style = if n == scroll.selected { theme.selected() } else { Style::new() };
        frame.render_widget(line(wait, now, names, bar, theme).style(style), line_at(y));
    }
    let note = rows_in_all.get(scroll.selected).map(|wait| note(wait, now, width)).unwrap_or_default();
    frame.render_widget(Line::styled(note, theme.label()), line_at(area.height.saturating_sub(1)));
}

/// Why there is no row.
fn nothing(state: &State, now: &frame::Frame) -> String {
    if !now.interval.cgroups.is_empty() && !waits::are_known(&now.interval) {
        return format!("n/a: {}", display_name(&waits::why_not(state.session())));
    }
    let filter = state.table.filter_text();
    if filter.is_empty() { "No cgroup waited." } else { "No matching waits." }.to_owned()
}

fn line(wait: &Wait, now: &frame::Frame, names: (usize, usize), bar: usize, theme: &Theme) -> Line<'static> {
    let severity = now.severity(AlertSubject::Cgroup(wait.victim), AlertKind::WaitPerCpu);
    let gapped = |name: &str, cells: usize| fit(name, cells.saturating_sub(1)) + " ";
    let cause_style = if wait.blamed.label().is_some() { theme.label() } else { Style::new() };
    Line::from(vec![
        severity.map_or_else(|| Span::raw("  "), |it| Span::styled(severity_mark(it), theme.severity(it))),
        Span::raw(format!(" {}", gapped(&cgroup_name(wait.victim, now), names.0))),
        Span::styled(fit(&blamed_name(wait.blamed, now), names.1), cause_style),
        Span::raw(format!("{:>TIME$}{:>SHARE$}", millis(wait.time, now), Quantity::Share(wait.share))),
        Span::raw(if bar > 0 { " " } else { "" }),
        Span::styled(chart::bar(wait.share, bar.saturating_sub(1)), theme.bar()),
    ])
}

/// The paths, for which there is no room in the row.
fn note(wait: &Wait, now: &frame::Frame, cells: usize) -> String {
    const BEHIND: &str = " behind ";
    let path = |id| now.cgroup(id).map_or_else(String::new, |cgroup| display_name(&cgroup.path).into_owned());
    let victim = path(wait.victim);
    let Blamed::Cgroup(culprit) = wait.blamed else { return shorten(&victim, cells).into_owned() };
    let culprit = path(culprit);
    let room = cells.saturating_sub(BEHIND.len());
    // Each may take what the other one leaves.
    let first = room.saturating_sub(display::width(&culprit)).max(room / 2);
    let victim = shorten(&victim, first).into_owned();
    let culprit = shorten(&culprit, room.saturating_sub(display::width(&victim))).into_owned();
    victim + BEHIND + &culprit
}
