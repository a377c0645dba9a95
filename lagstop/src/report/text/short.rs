//! The answer in a screenful: verdict, evidence, further causes, and what was looked at besides.

use super::{Report, figures, host_line};
use crate::{
    diagnosis::{Advice, Finding, Severity, Subject, VerdictCause},
    report::page::{Colour, Page},
    units,
};

/// The most figures, and caveats, of a cause.
const FIGURES: usize = 6;
const CAVEATS: usize = 2;
/// The most findings worth knowing that get a sentence each.
const WORTH_KNOWING: usize = 2;

pub(super) fn write(page: &mut Page, report: &Report) {
    let verdict = &report.verdict;
    page.text("", severity_colour(verdict.severity), &verdict.headline);
    next(page, verdict.next.as_ref(), usize::MAX);
    for cause in verdict.beneath() {
        page.blank();
        page.text("", severity_colour(cause.severity), &format!("Also: {}", cause.says));
        next(page, cause.next.as_ref(), 1);
    }
    page.blank();
    page.text("", Colour::Dim, &host_line(report));
    verdict.not_judged.iter().for_each(|what| page.hanging("Not judged: ", what));
    if let Some(worst) = verdict.causes.first() {
        evidence(page, report, worst);
    }
    page.blank();
    besides(page, report);
    page.text("", Colour::Dim, &format!("{} --verbose shows everything.", report.cost_and_losses()));
}

fn severity_colour(severity: Severity) -> Colour {
    match severity {
        Severity::Ok => Colour::Green,
        Severity::NotEnoughData | Severity::Info => Colour::Bold,
        Severity::Warning => Colour::Yellow,
        Severity::Critical => Colour::Red,
    }
}

/// What to do, in at most `sentences` sentences.
fn next(page: &mut Page, advice: Option<&Advice>, sentences: usize) {
    let Some(advice) = advice else { return };
    let said: Vec<&str> = advice.text.split_inclusive(". ").take(sentences).collect();
    page.text("", Colour::None, &format!("Next: {}", said.concat().trim_end()));
    advice.commands().for_each(|(mark, command)| page.short_command(mark, command));
}

/// What the headline rests on.
fn evidence(page: &mut Page, report: &Report, cause: &VerdictCause) {
    let Some(finding) = report.findings.iter().find(|finding| cause.is_of(finding)) else { return };
    page.blank();
    page.text("", Colour::None, &format!("Evidence ({}, {}):", finding.rule.title(), finding.subject));
    let shown: Vec<_> =
        finding.measured.iter().filter(|figure| figure.value.is_some()).take(FIGURES).cloned().collect();
    figures(page, "  ", &shown, &finding.subject);
    for caveat in finding.caveats.iter().take(CAVEATS) {
        page.hanging("  Caveat: ", caveat);
    }
}

/// Findings that are no cause of trouble: worth knowing, fine, or unknown.
fn besides(page: &mut Page, report: &Report) {
    let others: Vec<&Finding> = report.findings.iter().filter(|finding| !report.verdict.tells(finding)).collect();
    let of = |is: fn(Severity) -> bool| others.iter().copied().filter(move |finding| is(finding.severity));
    let mut more: Vec<&Finding> = of(|severity| severity >= Severity::Info).collect();
    // Only on hosts with trouble: on a healthy host they are no news.
    if report.verdict.severity >= Severity::Warning {
        let told = more.iter().filter(|finding| finding.subject != Subject::Host).take(WORTH_KNOWING);
        let told: Vec<&Finding> = told.copied().collect();
        told.iter().for_each(|finding| page.hanging("- ", &finding.verdict));
        more.retain(|finding| !told.contains(finding));
    }
    list(page, if report.verdict.severity == Severity::Ok { "More with --verbose" } else { "Notes" }, &more);
    let fine: Vec<&Finding> = of(|severity| severity == Severity::Ok).collect();
    match report.verdict.severity {
        // The headline says this already.
        Severity::Ok => page.text("", Colour::None, &format!("Fine: {}.", units::plural(fine.len() as u64, "check"))),
        _ => list(page, "Fine", &fine),
    }
    list(page, "Too little data to judge", &of(|severity| severity == Severity::NotEnoughData).collect::<Vec<_>>());
}

/// Names of what `findings` examine, each once and with their number.
fn list(page: &mut Page, label: &str, findings: &[&Finding]) {
    let mut rules: Vec<(&str, u64)> = Vec::new();
    for finding in findings {
        match rules.iter_mut().find(|(rule, _)| *rule == finding.rule.title()) {
            Some((_, count)) => *count += 1,
            None => rules.push((finding.rule.title(), 1)),
        }
    }
    let named: Vec<String> = rules
        .into_iter()
        .map(|(rule, count)| if count == 1 { rule.to_owned() } else { format!("{rule} ({})", units::count(count)) })
        .collect();
    if !named.is_empty() {
        page.hanging(&format!("{label}: "), &named.join(", "));
    }
}
