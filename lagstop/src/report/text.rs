//! Findings for a terminal.

pub use super::page::Options;
use super::{
    Report,
    page::{Colour, Page},
};
use crate::{
    diagnosis::{Figure, Finding, Severity, Span, Subject},
    display::{self, pad, pad_left, short_name},
    units::Unit,
};

/// The report for a terminal.
pub fn render(report: &Report, options: Options) -> String {
    let mut page = Page::new(options);
    heading(&mut page, report);
    for finding in &report.findings {
        page.blank();
        write_finding(&mut page, finding);
    }
    page.blank();
    footer(&mut page, report);
    page.finish()
}

fn heading(page: &mut Page, report: &Report) {
    let session = &report.session;
    page.text("", Colour::Bold, &report.verdict());
    page.text(
        "",
        Colour::None,
        &format!(
            "{}, Linux {}, {} CPUs; {}, {} from {}",
            or_unknown(&session.hostname),
            or_unknown(&session.kernel),
            session.cpus_online,
            intervals(report.span),
            Unit::Seconds.show(report.span.duration_ns.seconds()),
            or_unknown(&session.started_at)
        ),
    );
    if !report.summary.is_empty() {
        page.blank();
        figures(page, "  ", &report.summary, &Subject::Host);
    }
}

/// How many there are, and how finely they were looked at.
fn intervals(span: Span) -> String {
    let Span { intervals, merged_intervals, duration_ns, .. } = span;
    if merged_intervals == 0 {
        return format!("{intervals} intervals");
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
    // What is fine is said in a line; --explain says the rest.
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
    for against in &finding.against {
        page.labelled("against", against);
    }
    for advice in &finding.advice {
        page.labelled("advice", &advice.text);
        if let Some(command) = &advice.command {
            page.command(command);
        }
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
                // Once is enough.
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
