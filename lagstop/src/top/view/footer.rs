//! The last lines: what lagstop itself costs, what it lost, and which keys there are.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
};

use super::whole_parts;
use crate::{
    diagnosis::Severity,
    display::{self, display_name},
    model::{Host, Interval, Lost},
    top::{
        keymap::{self, Command},
        quantity::Quantity,
        state::State,
        theme::Theme,
    },
    units::ending,
};

const GAP: &str = "  ";

/// The worst comes first: narrow terminals lose the end.
pub(super) fn draw_status(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    if let Some(notice) = state.notice() {
        return frame
            .render_widget(Span::styled(display::cut(&display_name(notice), area.width.into()), theme.alarm()), area);
    }
    let now = state.frame();
    let mut parts = now.map_or_else(Vec::new, |now| lost(&now.interval.host, theme));
    if let Some(now) = now.filter(|now| !now.alerts().is_empty()) {
        let count = now.alerts().len();
        let critical = now.alerts().iter().any(|active| active.alert.severity == Severity::Critical);
        let style = if critical { theme.alarm() } else { theme.warning() };
        let plural = ending(count);
        parts.push(Span::styled(format!("{count} alert{plural}: {}", keymap::key_of(Command::Alerts)), style));
    }
    let off = state.session().missing_hooks().count();
    if off > 0 {
        let key = keymap::key_of(Command::Hooks);
        parts.push(Span::styled(format!("{off} hook{} off: {key}", ending(off)), theme.warning()));
    }
    parts.extend(now.map(|now| own_cost(&now.interval, theme)));
    frame.render_widget(whole_parts(parts, area.width), area);
}

pub(super) fn draw_hints(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    if let Some(prompt) = state.prompt() {
        let error = prompt.error.as_ref().map_or(String::new(), |error| format!("  {}", display_name(error)));
        let line = Line::from(vec![
            Span::styled("filter: ", theme.key()),
            Span::raw(display_name(prompt.text()).into_owned()),
            Span::styled(" ", theme.selected()),
            Span::styled(error, theme.alarm()),
        ]);
        return frame.render_widget(line, area);
    }
    let mut left = usize::from(area.width);
    let mut spans = Vec::new();
    for (keys, hint) in keymap::hints() {
        let needed = display::width(&keys) + 1 + hint.len() + GAP.len();
        if needed > left + GAP.len() {
            break;
        }
        left = left.saturating_sub(needed);
        spans.extend([Span::styled(keys, theme.key()), Span::raw(format!(" {hint}{GAP}"))]);
    }
    frame.render_widget(Line::from(spans), area);
}

/// User space and the programs in the kernel together, as far as they are known.
fn own_cost(interval: &Interval, theme: &Theme) -> Span<'static> {
    let host = &interval.host;
    let cost = host.own_cost.self_cpu_ns.saturating_add(host.own_cost.self_probe_ns.unwrap_or_default());
    let cost = Quantity::Share(cost.cores(interval.duration_ns).0);
    let part = if host.own_cost.self_probe_ns.is_some() { "" } else { ", its hooks n/a" };
    Span::styled(format!("lagstop {cost} % CPU{part}"), theme.label())
}

/// What was lost, each kind by name. Some kernels never show a few of their switches: that alone is no alarm.
fn lost(host: &Host, theme: &Theme) -> Vec<Span<'static>> {
    if host.lost.total() == 0 {
        return vec![Span::styled("nothing lost", theme.label())];
    }
    // Some ways to see switches and waits miss a few: these are shares of all of them.
    let (switches, waits) = (host.totals.switches, host.totals.runq_waits.unwrap_or_default());
    let shares = [
        ("switches", host.lost.switches, switches, "switches"),
        ("entries", host.lost.entries, switches, "switches' entries"),
        ("exits", host.lost.exits, switches, "switches' exits"),
        ("wakeups", host.lost.wakeups, waits, "waits"),
    ];
    let is_share = |name: &str| shares.iter().any(|(known, ..)| *known == name);
    let counted = host.lost.kinds().filter(|(name, count)| *count > 0 && !is_share(name));
    let mut said: Vec<_> = counted
        .map(|(name, count)| Span::styled(format!("LOST {count} {}", name.replace('_', " ")), theme.alarm()))
        .collect();
    for (_, lost, all, what) in shares.into_iter().filter(|(_, lost, ..)| *lost > 0) {
        let share = lost as f64 / all.max(lost) as f64;
        let style = if share <= Lost::MATTERS { theme.warning() } else { theme.alarm() };
        let percent = if share < 1e-4 { "<0.01".to_owned() } else { Quantity::Share(share).to_string() };
        said.push(Span::styled(format!("lost {percent} % of {what}"), style));
    }
    said
}
