//! Findings as one page for a browser: with pictures, without scripts, and without anything from a network.

mod bars;
mod bench;
mod charts;
mod fleet;
mod style;

use std::fmt::Write as _;

pub use bench::render_bench;
pub use fleet::render_fleet;

use super::Report;
use crate::{
    diagnosis::{Advice, Figure, Finding, Hosts, Pictures, Severity, Subject},
    display::display_name,
    units::Unit,
};

/// The page. Names cannot be anything but text in it; what a browser would run it is told not to.
pub fn render(report: &Report, pictures: &Pictures) -> String {
    let mut page = Page(String::new());
    page.begin(&format!("{}: {}", report.session.hostname, report.verdict.headline));
    page.host(report, pictures);
    page.end()
}

/// The page on several hosts: the ranking, and each of them with its pictures, in their order.
pub fn render_hosts(all: &Hosts, pictures: &[Pictures]) -> String {
    let mut page = Page(String::new());
    let (verdict, rows) = super::hosts::table(all);
    page.begin(&verdict);
    page.element("h1", "", &verdict);
    page.table(rows.iter().map(<[String; 7]>::as_slice));
    for (host, pictures) in all.hosts.iter().zip(pictures) {
        page.host(&host.report, pictures);
    }
    page.end()
}

struct Page(String);

impl Page {
    fn begin(&mut self, title: &str) {
        self.add(&format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
            text(title),
            style::SHEET
        ));
    }

    fn host(&mut self, report: &Report, pictures: &Pictures) {
        let session = &report.session;
        self.element("h1", "", &session.hostname);
        self.verdict(report);
        self.victims(&pictures.victims);
        self.prediction(report);
        self.element(
            "p",
            "",
            &format!(
                "{}; {} intervals, {} from {}.",
                report.system(),
                report.span.intervals,
                Unit::Seconds.show(report.span.duration_ns.seconds()),
                session.started_at
            ),
        );
        report.verdict.not_judged.iter().for_each(|what| self.element("p", "note", &format!("Not judged: {what}")));
        self.figures(&report.summary, &Subject::Host);
        charts::all(pictures).iter().for_each(|(heading, says, picture)| self.picture(heading, says, picture));
        let worst = report.verdict.causes.first();
        for finding in &report.findings {
            self.finding(finding, worst.is_some_and(|cause| cause.is_of(finding)));
        }
        self.element("footer", "", &format!("lagstop {}. {}", session.lagstop_version, report.footer().join(" ")));
    }

    /// The verdict with advice, and the causes beneath.
    fn verdict(&mut self, report: &Report) {
        let verdict = &report.verdict;
        self.element("p", &format!("verdict {}", class(verdict.severity)), &verdict.headline);
        self.next(verdict.next.as_ref());
        for cause in verdict.beneath() {
            self.element("p", &format!("verdict {}", class(cause.severity)), &format!("Also: {}", cause.says));
            self.next(cause.next.as_ref());
        }
    }

    fn next(&mut self, advice: Option<&Advice>) {
        if let Some(advice) = advice {
            self.element("p", "", &format!("Next: {}", advice.text));
            advice.script().iter().for_each(|script| self.element("pre", "", script));
        }
    }

    fn picture(&mut self, heading: &str, says: &str, picture: &str) {
        self.add("<figure>\n");
        self.element("figcaption", "", heading);
        self.add(picture);
        self.element("p", "note", says);
        self.add("</figure>\n");
    }

    /// A table with words in the first column, and numbers in the others.
    fn table<'r>(&mut self, rows: impl IntoIterator<Item = &'r [String]>) {
        self.add("<table>\n");
        for row in rows {
            self.add("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let class = if column == 0 { "" } else { " class=\"value\"" };
                self.add(&format!("<td{class}>{}</td>", text(cell)));
            }
            self.add("</tr>\n");
        }
        self.add("</table>\n");
    }

    fn end(mut self) -> String {
        self.add("</body>\n</html>\n");
        self.0
    }

    fn add(&mut self, html: &str) {
        self.0 += html;
    }

    /// An element that contains only text.
    fn element(&mut self, name: &str, class: &str, content: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "<{name}{class}>{}</{name}>", text(content));
    }

    fn finding(&mut self, finding: &Finding, is_open: bool) {
        let open = if is_open { " open" } else { "" };
        let _ = write!(
            self.0,
            "<details class=\"finding {}\"{open}>\n<summary><b>{}</b> {}</summary>\n",
            class(finding.severity),
            finding.severity.word(),
            text(&finding.verdict)
        );
        let subject = finding.subject.exactly();
        let confidence = &finding.confidence;
        let about = format!("{}, {subject}. Confidence {}: {}.", finding.rule, confidence.level.word(), confidence.why);
        self.element("p", "note", &about);
        self.figures(&finding.measured, &finding.subject);
        if !finding.advice.is_empty() {
            self.element("h3", "", "What to do");
            for advice in &finding.advice {
                self.element("p", "", &advice.text);
                advice.script().iter().for_each(|script| self.element("pre", "", script));
            }
        }
        let threshold =
            |it: &crate::diagnosis::Threshold| format!("{} {}: {}", it.name, it.unit.show(it.value), it.source);
        self.list("Caveats", finding.caveats.iter().cloned());
        self.list("Thresholds", finding.threshold.iter().map(threshold));
        self.add("</details>\n");
    }

    fn list(&mut self, heading: &str, items: impl ExactSizeIterator<Item = String>) {
        if items.len() == 0 {
            return;
        }
        self.element("h3", "", heading);
        self.add("<ul>\n");
        items.for_each(|item| self.element("li", "", &item));
        self.add("</ul>\n");
    }

    fn figures(&mut self, figures: &[Figure], subject: &Subject) {
        if figures.is_empty() {
            return;
        }
        self.add("<table>\n");
        for figure in figures {
            let _ = writeln!(
                self.0,
                "<tr><td>{}</td><td class=\"value\">{}</td><td class=\"note\">{}</td></tr>",
                text(&figure.label_beside(subject)),
                text(&figure.shown()),
                text(figure.remark())
            );
        }
        self.add("</table>\n");
    }
}

const fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::NotEnoughData => "unknown",
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// Escapes `text` for elements and attributes.
fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in display_name(text).chars() {
        match c {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
