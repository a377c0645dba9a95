//! Findings for a ticket or a wiki: GitHub's Markdown, which others read too.

use std::fmt::Write as _;

use super::Report;
use crate::{
    diagnosis::{Advice, Figure, Finding, Severity, Subject},
    display::display_name,
    units::Unit,
};

/// The report. Names cannot be anything but text in it.
pub fn render(report: &Report) -> String {
    let mut page = Page(String::new());
    let session = &report.session;
    let verdict = &report.verdict;
    page.line(&format!("# {}: {}", text(&session.hostname), text(&verdict.headline)));
    page.next(verdict.next.as_ref());
    for cause in verdict.beneath() {
        page.line(&format!("**Also ({}):** {}", cause.severity.word(), text(&cause.says)));
        page.next(cause.next.as_ref());
    }
    page.line(&format!(
        "{}; {} intervals, {} from {}.",
        text(&report.system()),
        report.span.intervals,
        Unit::Seconds.show(report.span.duration_ns.seconds()),
        text(&session.started_at)
    ));
    verdict.not_judged.iter().for_each(|what| page.line(&format!("Not judged: {}", text(what))));
    if !report.summary.is_empty() {
        page.figures(&report.summary, &Subject::Host);
    }
    let (bad, fine): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| finding.severity >= Severity::Info);
    bad.into_iter().for_each(|finding| page.finding(finding));
    if !fine.is_empty() {
        page.line("## No problem, or not enough data");
        let lines: Vec<String> = fine
            .into_iter()
            .map(|finding| format!("- **{}**, `{}`: {}", finding.severity.word(), finding.rule, text(&finding.verdict)))
            .collect();
        page.line(&lines.join("\n"));
    }
    let footer: Vec<String> = report.footer().iter().map(|line| text(line).to_string()).collect();
    page.line(&format!("---\n\nlagstop {}. {}", text(&session.lagstop_version), footer.join(" ")));
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0 += text;
        self.0.push('\n');
    }

    fn next(&mut self, advice: Option<&Advice>) {
        if let Some(advice) = advice {
            self.line(&format!("- Next: {}", text(&advice.text)));
            advice.script().iter().for_each(|script| self.block(script));
        }
    }

    fn finding(&mut self, finding: &Finding) {
        self.line(&format!("## {}: {}", finding.severity.word(), text(&finding.verdict)));
        let subject = text(&finding.subject.exactly());
        self.line(&format!(
            "`{}`, {subject}. Confidence {}: {}.",
            finding.rule,
            finding.confidence.level.word(),
            text(&finding.confidence.why)
        ));
        self.figures(&finding.measured, &finding.subject);
        let item = |what: String| format!("- {what}");
        let thresholds: Vec<String> = finding
            .threshold
            .iter()
            .map(|it| item(format!("`{}` {}: {}", it.name, it.unit.show(it.value), text(&it.source))))
            .collect();
        let caveats: Vec<String> = finding.caveats.iter().map(|caveat| item(text(caveat))).collect();
        for (heading, items) in [("Thresholds", thresholds), ("Caveats", caveats)] {
            if !items.is_empty() {
                self.line(&format!("<details><summary>{heading}</summary>\n\n{}\n\n</details>", items.join("\n")));
            }
        }
        if !finding.advice.is_empty() {
            self.line("**What to do**");
            for advice in &finding.advice {
                self.line(&item(text(&advice.text)));
                advice.script().iter().for_each(|script| self.block(script));
            }
        }
    }

    /// Commands, inside of an item. The fence is longer than any in them.
    fn block(&mut self, script: &str) {
        let longest = script.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let lines: Vec<String> = script.lines().map(|line| format!("  {}\n", display_name(line))).collect();
        self.line(&format!("  {fence}sh\n{}  {fence}", lines.concat()));
    }

    fn figures(&mut self, figures: &[Figure], subject: &Subject) {
        if figures.is_empty() {
            return;
        }
        let mut table = "| | | |\n| --- | ---: | --- |".to_owned();
        for figure in figures {
            let (label, remark) = (text(&figure.label_beside(subject)), text(figure.remark()));
            // Writing to a string cannot fail.
            let _ = write!(table, "\n| {label} | {} | {remark} |", figure.shown());
        }
        self.line(&table);
    }
}

/// Escapes `text` for Markdown and HTML.
pub(super) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in display_name(text).chars() {
        match c {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            // All other characters only have a meaning at the beginning of a line, or in pairs that these begin.
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '@' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
