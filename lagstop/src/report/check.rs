//! What `lagstop check` found, for a terminal.

use super::page::{Colour, Page, PageOptions};
use crate::check::{Check, CheckVerdict, RequirementState};

/// The answer for a terminal.
pub fn render(check: &Check, options: PageOptions) -> String {
    let mut page = Page::new(options);
    let (colour, verdict) = match check.verdict {
        CheckVerdict::Full => (Colour::Green, "lagstop measures everything here"),
        CheckVerdict::Degraded => (Colour::Yellow, "lagstop works here; not everything is measured"),
        CheckVerdict::Unusable => (Colour::Red, "lagstop cannot measure here"),
    };
    page.text("", colour, verdict);
    let Check { hostname, kernel, architecture, .. } = check;
    page.text("", Colour::None, &format!("{hostname}, Linux {kernel}, {architecture}"));

    page.blank();
    page.text("", Colour::Bold, "Requirements");
    for requirement in &check.requirements {
        let (tag, colour) = match requirement.state {
            RequirementState::Satisfied => ("ok    ", Colour::Green),
            RequirementState::Missed if requirement.is_essential => ("MISSED", Colour::Red),
            RequirementState::Missed => ("missed", Colour::Yellow),
            RequirementState::Unknown => ("?     ", Colour::Cyan),
        };
        page.row(tag, colour, requirement.name, &requirement.found);
        if let Some(lost) = requirement.lost.filter(|_| requirement.state == RequirementState::Missed) {
            page.beside(&format!("lost: {lost}"));
        }
        for remedy in &requirement.remedies {
            page.remedy(remedy);
        }
    }

    if !check.measures.is_empty() {
        page.blank();
        let how =
            if check.tried { "Measures (attached and verified to fire)" } else { "Measures (expected; not attached)" };
        page.text("", Colour::Bold, how);
        for measure in &check.measures {
            match &measure.way {
                Some(way) => {
                    let (tag, colour) = if check.tried { ("ok    ", Colour::Green) } else { ("?     ", Colour::Cyan) };
                    page.row(tag, colour, &measure.measure, &format!("{way}: {}", measure.detail));
                }
                None => {
                    page.row("n/a   ", Colour::Yellow, &measure.measure, &measure.detail);
                    page.beside(&format!("lost: {}", measure.figures));
                }
            }
        }
    }
    page.blank();
    let held = if check.capabilities.is_empty() { "none".to_owned() } else { check.capabilities.join(", ") };
    page.text(
        "",
        Colour::Dim,
        &format!("Capabilities held: {held}. After attaching, lagstop drops those that only attaching needs."),
    );
    if !check.tried {
        page.text("", Colour::Dim, "Nothing was attached. Run with the privileges above for a definite answer.");
    }
    page.finish()
}
