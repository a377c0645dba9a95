//! The last lines: what lagstop itself costs, what it lost, and which keys there are.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
};

use super::whole_parts;
use crate::{
    model::{Host, Interval, Lost},
    top::{
        figure::Figure,
        keymap::{self, Command},
        state::State,
        text,
        theme::Theme,
    },
};

/// Above this share of the switches the host's figures are no longer to be trusted.
const MANY_SWITCHES: f64 = 0.01;

const GAP: &str = "  ";

/// The worst comes first: narrow terminals lose the end.
pub(super) fn draw_status(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let mut parts = state.interval().map_or_else(Vec::new, |interval| lost(&interval.host, theme));
    let off = state.session().missing_hooks().count();
    if off > 0 {
        let key = keymap::KEYS.iter().find(|binding| binding.command == Command::Hooks);
        let key = key.and_then(|binding| binding.keys.first()).map_or_else(String::new, |key| format!(": {key}"));
        parts.push(Span::styled(format!("{off} hook{} off{key}", if off == 1 { "" } else { "s" }), theme.warning()));
    }
    parts.extend(state.interval().map(|interval| own_cost(interval, theme)));
    frame.render_widget(whole_parts(parts, area.width), area);
}

pub(super) fn draw_hints(frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
    let mut left = usize::from(area.width);
    let mut spans = Vec::new();
    for (keys, hint) in keymap::hints() {
        let needed = text::width(&keys) + 1 + hint.len() + GAP.len();
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
    let cost = host.self_cpu_ns + host.self_probe_ns.unwrap_or_default();
    let cost = Figure::Share(cost.cores(interval.duration_ns).0);
    let part = if host.self_probe_ns.is_some() { "" } else { ", its hooks n/a" };
    Span::styled(format!("lagstop {cost} % CPU{part}"), theme.label())
}

/// What was lost, each kind by name. Some kernels never show a few of their switches: that alone is no alarm.
fn lost(host: &Host, theme: &Theme) -> Vec<Span<'static>> {
    let Lost { entries, switches, task_states, cgroup_overflows, connections, listener_overflows } = host.lost;
    if host.lost.total() == 0 {
        return vec![Span::styled("nothing lost", theme.label())];
    }
    let named = [
        (entries, "entries"),
        (task_states, "task states"),
        (cgroup_overflows, "cgroup overflows"),
        (connections, "connections"),
        (listener_overflows, "listener overflows"),
    ];
    let counted = named.iter().filter(|(count, _)| *count > 0);
    let mut said: Vec<_> =
        counted.map(|(count, name)| Span::styled(format!("LOST {count} {name}"), theme.alarm())).collect();
    if switches > 0 {
        let share = switches as f64 / host.totals.switches.max(switches) as f64;
        let style = if share < MANY_SWITCHES { theme.warning() } else { theme.alarm() };
        let percent = if share < 1e-4 { "<0.01".to_owned() } else { Figure::Share(share).to_string() };
        said.push(Span::styled(format!("lost {percent} % of switches"), style));
    }
    said
}
