//! What lies over the view: the help, how everything is measured, and the choice of columns.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Padding, Paragraph},
};

use super::{host, verdict};
use crate::top::{
    column::Column,
    keymap,
    mark::Mark,
    state::{Overlay, State},
    theme::Theme,
};
use crate::{
    display::{display_name, fit, wrap},
    model::HookState,
};

/// Lines longer than this are hard to read.
const WIDEST: u16 = 96;
/// Borders and padding.
const FRAME: (u16, u16) = (4, 2);
/// Cells of what is explained, in the help.
const TERM: usize = 13;

/// A figure of the footer.
const OWN_COST: (&str, &str) =
    ("lagstop", "cost of lagstop itself, including its programs in the kernel, in % of one CPU");

/// Its lines, wrapped to the width that they will have.
pub(super) struct Content {
    title: &'static str,
    lines: Vec<Line<'static>>,
    area: Rect,
}

impl Content {
    pub(super) fn new(overlay: Overlay, state: &State, theme: &Theme, over: Rect) -> Self {
        let width = over.width.min(WIDEST);
        let cells = usize::from(width.saturating_sub(FRAME.0));
        let (title, lines) = match overlay {
            Overlay::Verdict => {
                let told = state.frame().and_then(|now| now.told.as_deref());
                (" Verdict ", verdict::evidence(told, cells, theme))
            }
            Overlay::Help => (" Help ", help(cells, theme)),
            Overlay::Hooks => (" How it is measured ", hooks(state, cells, theme)),
            Overlay::Columns => (" Columns ", picker(state, cells, theme)),
        };
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(FRAME.1).min(over.height);
        let area = Rect { x: over.x + (over.width - width) / 2, y: over.y + (over.height - height) / 2, width, height };
        Self { title, lines, area }
    }

    /// Lines that are seen at once.
    pub(super) fn in_sight(&self) -> usize {
        self.area.height.saturating_sub(FRAME.1).into()
    }

    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn draw(self, frame: &mut Frame<'_>, state: &State, theme: &Theme) {
        let top = state.overlay_scroll().top;
        let hidden = self.lines.len().saturating_sub(self.in_sight());
        let mut block = Block::bordered()
            .border_type(BorderType::Rounded)
            .border_style(theme.label())
            .padding(Padding::horizontal(1))
            .title(Span::styled(self.title, theme.title()));
        let below = hidden.saturating_sub(top);
        let more = match (top, below) {
            (0, 0) => None,
            (0, _) => Some(format!(" ↓ {below} more ")),
            (_, 0) => Some(format!(" ↑ {top} more ")),
            _ => Some(format!(" ↑ {top} ↓ {below} more ")),
        };
        if let Some(more) = more {
            block = block.title_bottom(Line::styled(more, theme.title()).right_aligned());
        }
        let in_sight = self.in_sight();
        let lines: Vec<_> = self.lines.into_iter().skip(top).take(in_sight).collect();
        frame.render_widget(Clear, self.area);
        frame.render_widget(Paragraph::new(lines).block(block), self.area);
    }
}

fn help(cells: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (title, keys) in keymap::parts() {
        lines.push(heading(title, theme));
        for (keys, help) in keys {
            lines.extend(explained(&keys, help, cells, theme));
        }
        lines.push(Line::default());
    }
    lines.push(heading("Marks", theme));
    for (mark, meaning) in Mark::explained() {
        lines.extend(explained(mark, meaning, cells, theme));
    }
    lines.extend([Line::default(), heading("Columns", theme)]);
    for column in Column::all() {
        lines.extend(explained(column.title(), column.meaning(), cells, theme));
    }
    lines.extend([Line::default(), heading("Host", theme)]);
    for (term, meaning) in host::terms().chain([OWN_COST]) {
        lines.extend(explained(term, meaning, cells, theme));
    }
    lines.push(Line::default());
    let blank = "n/a: this kernel does not support the measurement. Blank: no events to average.";
    lines.extend(wrap(blank, cells).into_iter().map(Line::from));
    lines
}

fn heading(text: &'static str, theme: &Theme) -> Line<'static> {
    Line::styled(text, theme.title())
}

/// A term at the left, what it means beside it.
fn explained(term: &str, meaning: &str, cells: usize, theme: &Theme) -> Vec<Line<'static>> {
    let beside = |(n, line): (usize, String)| {
        let term = if n == 0 { fit(term, TERM) } else { " ".repeat(TERM) };
        Line::from(vec![Span::styled(term, theme.strong()), Span::raw(" "), Span::raw(line)])
    };
    wrap(meaning, cells.saturating_sub(TERM + 1)).into_iter().enumerate().map(beside).collect()
}

/// All columns, and which of them are shown.
fn picker(state: &State, cells: usize, theme: &Theme) -> Vec<Line<'static>> {
    let line = |(n, &(column, shown)): (usize, &(Column, bool))| {
        let mark = if shown { "[x] " } else { "[ ] " };
        let text = fit(&format!("{mark}{:9} {}", column.title(), column.name()), cells);
        let style = if shown { theme.strong() } else { Style::new() };
        let selected = n == state.overlay_scroll().selected;
        Line::styled(text, if selected { style.patch(theme.selected()) } else { style })
    };
    state.picker().columns().iter().enumerate().map(line).collect()
}

/// What is not measured comes first.
fn hooks(state: &State, cells: usize, theme: &Theme) -> Vec<Line<'static>> {
    let session = state.session();
    let used = session.hooks.iter().filter(|hook| hook.state == HookState::On);
    let mut lines = Vec::new();
    if let Some(why) = &session.restricted {
        lines.extend(wrap(&display_name(why), cells).into_iter().map(|line| Line::styled(line, theme.warning())));
    }
    for hook in session.missing_hooks().chain(used) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let name = match &hook.way {
            Some(way) => format!("{}: {way}", hook.name),
            None => hook.name.clone(),
        };
        lines.extend(wrap(&display_name(&name), cells).into_iter().map(|line| Line::styled(line, theme.strong())));
        let (why, what) = match hook.state {
            HookState::On => ("  how", "  gives"),
            HookState::Off => ("  why", "  n/a without"),
        };
        lines.extend(explained(why, &display_name(&hook.detail), cells, theme));
        lines.extend(explained(what, &display_name(&hook.measures.join(", ")), cells, theme));
    }
    if lines.is_empty() {
        lines.push(Line::from("The methods of measurement are unknown."));
    }
    lines
}
