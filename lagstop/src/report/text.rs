//! Findings for a terminal.

mod short;

pub use super::page::PageOptions;
use super::{
    Report,
    page::{Colour, Page},
};
use crate::{
    diagnosis::{Figure, Finding, Severity, Span, Subject},
    display::{self, pad, pad_left, short_name},
    units::{self, Unit},
};

/// How much to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The answer: what is wrong, why, and what to do, in a screenful.
    #[default]
    Short,
    /// All findings, with all figures, thresholds and caveats.
    Verbose,
}

/// The report for a terminal.
pub fn render(report: &Report, depth: Depth, options: PageOptions) -> String {
    let mut page = Page::new(options);
    match depth {
        Depth::Short => short::write(&mut page, report),
        Depth::Verbose => everything(&mut page, report),
    }
    page.finish()
}

fn everything(page: &mut Page, report: &Report) {
    page.text("", Colour::Bold, &report.verdict.headline);
    page.text("", Colour::None, &host_line(report));
    report.verdict.not_judged.iter().for_each(|what| page.hanging("Not judged: ", what));
    if !report.summary.is_empty() {
        page.blank();
        figures(page, "  ", &report.summary, &Subject::Host);
    }
    for finding in &report.findings {
        page.blank();
        write_finding(page, finding);
    }
    page.blank();
    footer(page, report);
}

/// Where, when and for how long it was measured.
fn host_line(report: &Report) -> String {
    let session = &report.session;
    format!(
        "{}, {}; {}, {} from {}",
        or_unknown(&session.hostname),
        report.system(),
        intervals(report.span),
        Unit::Seconds.show(report.span.duration_ns.seconds()),
        or_unknown(&session.started_at)
    )
}

/// The number of intervals. If they were merged, also into how many and of what length.
fn intervals(span: Span) -> String {
    let Span { intervals, merged_intervals, duration_ns, .. } = span;
    if merged_intervals == 0 {
        return format!("{intervals} interval{}", units::ending(intervals));
    }
    let each = duration_ns.seconds() / intervals.max(1) as f64;
    let all = intervals.saturating_add(merged_intervals);
    format!("{all} intervals merged into {intervals} of {} each", Unit::Seconds.show(each))
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "(unknown)" } else { text }
}

fn write_finding(page: &mut Page, finding: &Finding) {
    let colour = match finding.severity {
        Severity::Ok => Colour::Green,
        Severity::NotEnoughData => Colour::Dim,
        Severity::Info => Colour::Cyan,
        Severity::Warning => Colour::Yellow,
        Severity::Critical => Colour::Red,
    };
    page.tagged(&format!("[{}]", finding.severity.word()), colour, &finding.verdict);
    page.text("  ", Colour::Dim, &format!("{}, {}", finding.rule, finding.subject.exactly()));
    // For what is fine, or lacks data, the verdict is enough; --explain shows the rest.
    if finding.severity <= Severity::NotEnoughData {
        return;
    }
    figures(page, "    ", &finding.measured, &finding.subject);
    for threshold in &finding.threshold {
        let value = threshold.unit.show(threshold.value);
        let name = threshold.name;
        page.labelled("threshold", &format!("{name} {value}: {}", threshold.source));
    }
    page.labelled("confidence", &format!("{}: {}", finding.confidence.level.word(), finding.confidence.why));
    for caveat in &finding.caveats {
        page.labelled("caveat", caveat);
    }
    for advice in &finding.advice {
        page.labelled("advice", &advice.text);
        advice.commands().for_each(|(mark, command)| page.command(mark, command));
    }
}

/// Longer labels are broken, so that one long name does not push all figures aside.
const LONGEST_LABEL: usize = 34;

/// Label, value and note in columns.
fn figures(page: &mut Page, indent: &str, figures: &[Figure], subject: &Subject) {
    let mut said: Option<&String> = None;
    let rows: Vec<(String, String, String)> = figures
        .iter()
        .map(|figure| {
            let label = figure.label_beside(subject);
            let note = match &figure.missing {
                // The reason is given only once.
                Some(why) if said == Some(why) => "for the same reason".to_owned(),
                Some(why) => {
                    said = Some(why);
                    why.clone()
                }
                None => figure.note.clone().unwrap_or_default(),
            };
            (short_name(&label, LONGEST_LABEL).into_owned(), figure.shown(), note)
        })
        .collect();
    let width = |of: fn(&(String, String, String)) -> &str| rows.iter().map(|row| display::width(of(row))).max();
    let label_width = width(|row| &row.0).unwrap_or_default();
    let value_width = width(|row| &row.1).unwrap_or_default();
    for (label, value, note) in &rows {
        let first = format!("{indent}{}  {}  ", pad(label, label_width), pad_left(value, value_width));
        page.hanging(&first, note);
    }
}

fn footer(page: &mut Page, report: &Report) {
    report.footer().iter().for_each(|line| page.text("", Colour::Dim, line));
}

#[cfg(test)]
mod tests;
