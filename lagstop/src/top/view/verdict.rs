//! The verdict: a line below the host, and what it rests on.

use ratatui::{Frame, layout::Rect, style::Style, text::Line};

use crate::{
    diagnosis::{Advice, Severity, Told},
    display::{cut, display_name, wrap},
    top::{
        keymap::{Command, key_of},
        state::State,
        theme::{Theme, severity_mark},
    },
};

/// From this height on a long verdict has two lines.
const ROOMY: u16 = 24;
/// Figures and caveats of the worst cause that are shown.
const FIGURES: usize = 6;
const CAVEATS: usize = 2;

/// Lines that it takes.
pub(super) fn height(state: &State, area: Rect) -> u16 {
    let most = if area.height < ROOMY { 1 } else { 2 };
    lines(state, area.width.into()).len().clamp(1, most) as u16
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let told = state.frame().and_then(|now| now.told.as_deref());
    let severity = told.map_or(Severity::NotEnoughData, |told| told.verdict.severity);
    let style = match severity {
        Severity::Ok => theme.good(),
        Severity::NotEnoughData | Severity::Info => theme.strong(),
        _ => theme.severity(severity),
    };
    let style = if state.is_on_verdict() { style.patch(theme.selected()) } else { style };
    let all = lines(state, area.width.into());
    for (y, line) in (0..area.height).zip(&all) {
        let is_last = y + 1 == area.height && all.len() > usize::from(area.height);
        let text = if is_last { cut(&format!("{line} …"), area.width.into()) } else { line.clone() };
        frame.render_widget(Line::styled(text, style), Rect { y: area.y + y, height: 1, ..area });
    }
}

fn lines(state: &State, width: usize) -> Vec<String> {
    let Some(now) = state.frame() else { return Vec::new() };
    let told = now.told.as_deref();
    let text = match told {
        None => "Measuring: a verdict comes after a few intervals.".to_owned(),
        Some(Told { verdict, .. }) => {
            let mark = severity_mark(verdict.severity).trim_end();
            let mark = if mark.is_empty() { String::new() } else { format!("{mark} ") };
            let key = key_of(Command::Verdict);
            format!("{mark}{} [{key}]", display_name(&verdict.headline))
        }
    };
    wrap(&text, width)
}

/// The verdict, its causes and what the worst rests on, in lines of `cells`.
pub(super) fn evidence(told: Option<&Told>, cells: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(Told { verdict, findings }) = told else { return vec![Line::from("There is no verdict yet.")] };
    let mut lines = paragraph(&verdict.headline, cells, theme.severity(verdict.severity));
    next(&mut lines, verdict.next.as_ref(), cells, theme);
    if let Some(finding) = verdict.causes.first().and_then(|cause| findings.iter().find(|it| cause.is_of(it))) {
        lines.push(Line::default());
        for figure in finding.measured.iter().filter(|figure| figure.value.is_some()).take(FIGURES) {
            let text = format!("{:>12}  {}", figure.shown(), display_name(&figure.label_beside(&finding.subject)));
            lines.push(Line::from(cut(&text, cells)));
        }
        for caveat in finding.caveats.iter().take(CAVEATS) {
            lines.extend(paragraph(&format!("Caveat: {caveat}"), cells, theme.label()));
        }
    }
    for cause in verdict.beneath() {
        lines.push(Line::default());
        lines.extend(paragraph(&format!("Also: {}", cause.says), cells, theme.severity(cause.severity)));
        next(&mut lines, cause.next.as_ref(), cells, theme);
    }
    lines.push(Line::default());
    lines.extend(paragraph(
        "`lagstop diagnose --verbose` shows every finding with its evidence.",
        cells,
        theme.label(),
    ));
    lines
}

fn next(lines: &mut Vec<Line<'static>>, advice: Option<&Advice>, cells: usize, theme: &Theme) {
    let Some(advice) = advice else { return };
    lines.extend(paragraph(&format!("Next: {}", advice.text), cells, Style::new()));
    for (mark, command) in advice.commands() {
        lines.extend(paragraph(&format!("{mark} {command}"), cells, theme.strong()));
    }
}

fn paragraph(text: &str, cells: usize, style: Style) -> Vec<Line<'static>> {
    wrap(&display_name(text), cells).into_iter().map(|line| Line::styled(line, style)).collect()
}
