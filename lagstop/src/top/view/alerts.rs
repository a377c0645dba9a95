//! Alerts: which thresholds are crossed, by whom, and since when. The worst of them below any view, or all of them as one.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{rule_line, waits::cgroup_name};
use crate::{
    diagnosis::{Alert, AlertKind, AlertSubject, Thresholds},
    display::{self, fit},
    model::Nanos,
    top::{
        frame::{self, ActiveAlert},
        keymap::{Command, View, key_of},
        quantity::Quantity,
        state::State,
        text::clock_time,
        theme::{Theme, severity_mark},
        waits::{self, WorstCulprit},
    },
    units::whole_percent,
};

/// From this width on there is room for how long an alert has lasted, beside since when.
const WIDE: usize = 100;
/// A culprit is named from this share of the wait on.
const MUCH: f64 = Thresholds::DEFAULT.neighbour_wait;
/// With less than this a culprit's name says nothing.
const NARROWEST_CULPRIT: usize = 8;
/// Names are cut down to this before the time of the alert is left out.
const NARROWEST_NAME: usize = 12;

/// Lines that the pane takes of a view of `body` lines: as many as there are alerts, and no more than a third.
pub(super) fn height(state: &State, body: u16) -> u16 {
    let alerts = state.frame().map_or(0, |now| now.alerts().len());
    (alerts.max(1) as u16).saturating_add(1).min((body / 3).max(3)).min(body.saturating_sub(5))
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let Some(now) = state.frame() else { return };
    let alerts = now.alerts();
    let room = usize::from(area.height.saturating_sub(1));
    let title = match alerts.len() {
        n if n > room => format!(" {}: {} has all ", counted(n, (0, room)), key_of(Command::View(View::Alerts))),
        n => format!(" {} ", counted(n, (0, n))),
    };
    frame.render_widget(rule_line(&title, area.width, theme), Rect { height: 1, ..area });
    for (y, active) in (1..).zip(alerts.iter().take(room)) {
        let line = line(active, now, state, area.width.into(), theme);
        frame.render_widget(line, Rect { y: area.y + y, height: 1, ..area });
    }
}

/// How many alerts the view has.
pub(super) fn len(state: &State) -> usize {
    state.frame().map_or(0, |now| now.alerts().len())
}

/// How many there are, and which of them are seen.
pub(super) fn title(state: &State) -> String {
    format!(" {}, the worst first ", counted(len(state), state.alerts.scroll.seen()))
}

/// `seen` are the first one that is seen and the one after the last.
fn counted(all: usize, (first, end): (usize, usize)) -> String {
    match all {
        0 => "no alert".to_owned(),
        1 => "1 alert".to_owned(),
        _ if end - first < all => format!("alerts {}–{end} of {all}", first + 1),
        _ => format!("{all} alerts"),
    }
}

pub(super) fn draw_all(frame: &mut Frame<'_>, area: Rect, state: &State, now: &frame::Frame, theme: &Theme) {
    if now.alerts().is_empty() {
        frame.render_widget(Line::from("No threshold is crossed.").centered(), Rect { height: 1, ..area });
    }
    let scroll = &state.alerts.scroll;
    for (y, (n, active)) in (0..area.height).zip(now.alerts().iter().enumerate().skip(scroll.top)) {
        let style = if n == scroll.selected { theme.selected() } else { Style::new() };
        let line = line(active, now, state, area.width.into(), theme).style(style);
        frame.render_widget(line, Rect { y: area.y + y, height: 1, ..area });
    }
}

fn line(active: &ActiveAlert, now: &frame::Frame, state: &State, cells: usize, theme: &Theme) -> Line<'static> {
    let Alert { subject, severity, .. } = active.alert;
    let (since, lasted) = if active.is_longer { ("since before", "for at least") } else { ("since", "for") };
    let since = clock_time(state.session(), active.since).map(|time| format!("{since} {time}"));
    let lasted = format!("{lasted} {}", now.end().saturating_sub(active.since));
    let when = match since {
        Some(since) if cells < WIDE => since,
        Some(since) => format!("{lasted} {since}"),
        None => lasted,
    };
    let name = subject_name(subject, now);
    let needed = display::width(&name).min(NARROWEST_NAME);
    let what = described(&active.alert, now, cells.saturating_sub(5 + needed));
    // Whose it is matters more than since when.
    let long = format!("{what}  {when}");
    let what = if 5 + needed + display::width(&long) <= cells { long } else { what };
    let room = cells.saturating_sub(5 + display::width(&what));
    Line::from(vec![
        Span::styled(severity_mark(severity), theme.severity(severity)),
        Span::raw(" "),
        Span::styled(fit(&name, display::width(&name).min(room)), theme.strong()),
        Span::raw(format!("  {what}")),
    ])
}

fn subject_name(subject: AlertSubject, now: &frame::Frame) -> String {
    match subject {
        AlertSubject::Host => "host".to_owned(),
        AlertSubject::Cgroup(id) => cgroup_name(id, now),
        AlertSubject::Listener(_, address) => address.to_string(),
    }
}

/// What `alert` says, in at most `cells` where the culprit can be shortened or left out for that.
pub(super) fn described(alert: &Alert, now: &frame::Frame, cells: usize) -> String {
    let what = figure(alert);
    let Some(culprit) = culprit(alert, now) else { return what };
    let behind = format!(", {} behind ", whole_percent(culprit.share));
    let room = cells.saturating_sub(display::width(&what) + display::width(&behind));
    if room < NARROWEST_CULPRIT {
        return what;
    }
    what + &behind + &display::shorten(&cgroup_name(culprit.id, now), room)
}

/// The cgroup behind which the alert's cgroup waits, if that is much of its wait.
fn culprit(alert: &Alert, now: &frame::Frame) -> Option<WorstCulprit> {
    let (AlertKind::WaitPerCpu, AlertSubject::Cgroup(id)) = (alert.kind, alert.subject) else { return None };
    waits::culprit(now.cgroup(id).into_iter()).filter(|culprit| culprit.share >= MUCH)
}

fn figure(alert: &Alert) -> String {
    let value = alert.value;
    let share = Quantity::Share(value);
    match (alert.kind, alert.subject) {
        (AlertKind::Overhead, _) => format!("overhead {share} % of all CPU time"),
        (AlertKind::CostOfCpu, AlertSubject::Host) => {
            format!("most cgroups: switch cost about {share} % of their CPU time")
        }
        (AlertKind::CostOfCpu, _) => format!("switch cost {share} % of its CPU time"),
        (AlertKind::MeanSwitchCost, _) => format!("a switch costs {}", Nanos(value as u64)),
        (AlertKind::WaitPerCpu, AlertSubject::Host) => {
            format!("most cgroups wait {} times as long as they run", Quantity::Amount(value))
        }
        (AlertKind::WaitPerCpu, _) if value.is_infinite() => "waits and does not run".to_owned(),
        (AlertKind::WaitPerCpu, _) => format!("waits {} times as long as it runs", Quantity::Amount(value)),
        (AlertKind::Migrations, _) => format!("{} migrations for each second of CPU time", Quantity::Rate(value)),
        (AlertKind::Backlog, _) => format!("backlog {share} % full"),
        (AlertKind::Throttled, _) => format!("throttled in {share} % of its periods"),
    }
}
