//! Draws a state.

mod alerts;
mod ascii;
mod chart;
mod cpus;
mod detail;
mod footer;
mod host;
mod listeners;
mod overlay;
mod table;
mod verdict;
mod waits;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::{
    keymap::View,
    state::{Room, State},
    theme::Theme,
};
use crate::display::{self, display_name};

/// Smaller than this it would mislead more than show.
const SMALLEST: (u16, u16) = (60, 15);
/// Lines of the banner at most.
const LONGEST_BANNER: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) theme: Theme,
    /// With ASCII characters alone.
    pub(super) ascii: bool,
}

/// What looks most like `char` in ASCII.
pub(super) fn ascii_of(char: char) -> &'static str {
    ascii::likeness(char.encode_utf8(&mut [0; 4]))
}

/// Draws `state` over all of `frame`, and tells it how much there is room for.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, look: Look) {
    draw_all(frame, state, &look.theme);
    if look.ascii {
        ascii::simplify(frame.buffer_mut());
    }
}

fn draw_all(frame: &mut Frame<'_>, state: &mut State, theme: &Theme) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return too_small(frame, area);
    }
    let banner = banner(state, area.width);
    let [strip, verdict, warning, rule, body, status, hints] = Layout::vertical([
        Constraint::Length(host::HEIGHT),
        Constraint::Length(verdict::height(state, area)),
        Constraint::Length(banner.len() as u16),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let alerts_height = if state.shows_alerts_below() { alerts::height(state, body.height) } else { 0 };
    let [body, pane] = Layout::vertical([Constraint::Fill(1), Constraint::Length(alerts_height)]).areas(body);

    let detail = detail::Content::new(state, body.width, theme);
    let is_of_cpus = detail.is_none() && state.view() == View::Cpus;
    let cpus = is_of_cpus.then(|| cpus::Content::new(state, body.width, theme));
    let over = state.overlay().map(|overlay| overlay::Content::new(overlay, state, theme, body));
    let view = match (&detail, state.view()) {
        (Some(detail), _) => (body.height.into(), detail.len()),
        (None, View::Cgroups) => (table::rows(body), 0),
        (None, View::Cpus) => (cpus::rows(body), cpus.as_ref().map_or(0, cpus::Content::len)),
        (None, View::Listeners) => (listeners::rows(body), listeners::len(state)),
        (None, View::Alerts) => (body.height.into(), alerts::len(state)),
        (None, View::Waits) => (waits::rows(body), 0),
    };
    state.fit(Room { view, overlay: over.as_ref().map_or((0, 0), |over| (over.in_sight(), over.len())) });

    host::draw(frame, strip, state, theme);
    verdict::draw(frame, verdict, state, theme);
    frame.render_widget(Paragraph::new(banner).style(theme.warning()), warning);
    draw_rule(frame, rule, state, theme);
    match (state.frame(), detail, state.view()) {
        (None, ..) => measuring(frame, body, state),
        (Some(_), Some(detail), _) => detail.draw(frame, body, state),
        (Some(now), None, View::Cgroups) => table::draw(frame, body, state, now, theme),
        (Some(_), None, View::Cpus) => {
            if let Some(cpus) = cpus {
                cpus.draw(frame, body, state);
            }
        }
        (Some(now), None, View::Listeners) => listeners::draw(frame, body, state, now, theme),
        (Some(now), None, View::Alerts) => alerts::draw_all(frame, body, state, now, theme),
        (Some(now), None, View::Waits) => waits::draw(frame, body, state, now, theme),
    }
    if alerts_height > 0 {
        alerts::draw(frame, pane, state, theme);
    }
    footer::draw_status(frame, status, state, theme);
    footer::draw_hints(frame, hints, state, theme);
    if let Some(over) = over {
        over.draw(frame, state, theme);
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

/// Why not everything is measured, where nothing is measured in the kernel.
fn banner(state: &State, width: u16) -> Vec<Line<'static>> {
    let Some(why) = &state.session().restricted else { return Vec::new() };
    let said = format!("Restricted to /proc and cgroup files, without switch cost: {}", display_name(why));
    let mut lines = display::wrap(&said, width.into());
    if lines.len() > LONGEST_BANNER {
        lines.truncate(LONGEST_BANNER);
        if let Some(last) = lines.last_mut() {
            let more = format!("… ({} says more)", super::keymap::key_of(super::keymap::Command::Hooks));
            *last = display::cut(last, usize::from(width).saturating_sub(display::width(&more) + 1))
                .trim_end_matches('…')
                .to_owned()
                + " "
                + &more;
        }
    }
    lines.into_iter().map(Line::from).collect()
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

/// `title` in a line across the screen.
fn rule_line(title: &str, width: u16, theme: &Theme) -> Line<'static> {
    let title = display::cut(title, usize::from(width).saturating_sub(4));
    let rest = usize::from(width).saturating_sub(2 + display::width(&title));
    Line::from(vec![
        Span::styled("──", theme.label()),
        Span::styled(title, theme.strong()),
        Span::styled("─".repeat(rest), theme.label()),
    ])
}

/// Parts the host from the view, and says what the view shows.
fn draw_rule(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let title = match (state.detail(), state.view()) {
        (Some(detail), _) => format!(" {} ", display_name(&detail.name)),
        (None, View::Cgroups) => table::title(state, area.width),
        (None, View::Cpus) => " CPUs ".to_owned(),
        (None, View::Listeners) => listeners::title(state),
        (None, View::Alerts) => alerts::title(state),
        (None, View::Waits) => waits::title(state),
    };
    frame.render_widget(rule_line(&title, area.width, theme), area);
}

fn measuring(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let said = if state.ended() {
        "The recording has no intervals.".to_owned()
    } else {
        format!("measuring… the first results come after {}", state.session().interval_ns)
    };
    let [_, line] = Layout::vertical([Constraint::Length(area.height / 2), Constraint::Length(1)]).areas(area);
    frame.render_widget(Line::from(said).centered(), line);
}
