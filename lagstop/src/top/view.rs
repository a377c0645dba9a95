//! Draws a state.

mod footer;
mod host;
mod overlay;
mod table;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::{
    state::{Room, State},
    text,
    theme::Theme,
};

/// Smaller than this it would mislead more than show.
const SMALLEST: (u16, u16) = (60, 15);

/// Draws `state` over all of `frame`, and tells it how much there is room for.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, theme: &Theme) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return too_small(frame, area);
    }
    let [strip, rule, body, status, hints] = Layout::vertical([
        Constraint::Length(host::HEIGHT),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let over = state.overlay().map(|overlay| overlay::Content::new(overlay, state, theme, body));
    state.fit(Room {
        rows: table::rows(body),
        overlay: over.as_ref().map_or(0, overlay::Content::in_sight),
        overlay_hidden: over.as_ref().map_or(0, overlay::Content::hidden),
    });
    host::draw(frame, strip, state, theme);
    draw_rule(frame, rule, state, theme);
    match state.interval() {
        Some(interval) => table::draw(frame, body, state, interval, theme),
        None => measuring(frame, body, state),
    }
    footer::draw_status(frame, status, state, theme);
    footer::draw_hints(frame, hints, theme);
    if let Some(over) = over {
        over.draw(frame, state.overlay_top(), theme);
    }
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = SMALLEST;
    let text = format!(
        "lagstop top needs {width}×{height} cells; this terminal has {}×{}. Make it larger, or q to quit.",
        area.width, area.height
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

/// `parts` in one line of `cells`. Those at the end that do not fit are left out whole, as half a figure would be another
/// figure, and `…` says so.
fn whole_parts(parts: Vec<Span<'static>>, cells: u16) -> Line<'static> {
    const GAP: &str = "  ";
    let mut left = usize::from(cells);
    let mut line = Line::default();
    let last = parts.len().saturating_sub(1);
    for (n, part) in parts.into_iter().enumerate() {
        let gap = if n == 0 { 0 } else { GAP.len() };
        let reserved = if n == last { 0 } else { GAP.len() + 1 };
        if gap + part.width() + reserved > left {
            line.push_span(Span::raw(if n == 0 { "…" } else { "  …" }));
            break;
        }
        left -= gap + part.width();
        if n > 0 {
            line.push_span(Span::raw(GAP));
        }
        line.push_span(part);
    }
    line
}

/// Parts the host from the cgroups, and says how many these are and how they are sorted.
fn draw_rule(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let sort = state.sort();
    let mut title = format!(" by {} {} ", sort.by.name(), table::arrow(sort));
    if state.interval().is_some() {
        let plural = if state.row_count() == 1 { "" } else { "s" };
        title = format!(" {} active cgroup{plural},{title}", state.row_count());
    }
    let rest = usize::from(area.width).saturating_sub(2 + text::width(&title));
    let line = Line::from(vec![
        Span::styled("──", theme.label()),
        Span::styled(title, theme.strong()),
        Span::styled("─".repeat(rest), theme.label()),
    ]);
    frame.render_widget(line, area);
}

fn measuring(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let said = if state.ended() {
        "The stream ended before its first interval.".to_owned()
    } else {
        format!("measuring… the first figures come after {}", state.session().interval_ns)
    };
    let [_, line] = Layout::vertical([Constraint::Length(area.height / 2), Constraint::Length(1)]).areas(area);
    frame.render_widget(Line::from(said).centered(), line);
}
