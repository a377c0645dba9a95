//! How a finding came about, for people.

use super::page::{Colour, Page, PageOptions};
use crate::diagnosis::Explanation;

/// Formulas, what went into them, and where both are from.
pub fn render(explanations: &[Explanation], options: PageOptions) -> String {
    let mut page = Page::new(options);
    for (n, explanation) in explanations.iter().enumerate() {
        if n > 0 {
            page.blank();
        }
        let finding = &explanation.finding;
        page.tagged(&format!("[{}]", finding.severity.word()), Colour::Bold, &finding.verdict);
        page.text("  ", Colour::Dim, &format!("{}, {}", finding.rule, finding.subject));
        for explained in &explanation.figures {
            let whose = explained.figure.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
            page.blank();
            page.text("  ", Colour::Bold, &format!("{}{whose} = {}", explained.figure.name, explained.figure.shown()));
            page.labelled("formula", explained.formula);
            page.labelled("source", explained.source);
            let remark = explained.figure.remark();
            if !remark.is_empty() {
                page.labelled("note", remark);
            }
        }
        if !explanation.inputs.is_empty() {
            page.blank();
            page.text("  ", Colour::None, "Measured inputs:");
            for input in &explanation.inputs {
                let exact = input.figure.value.map(|value| format!(" ({})", value.as_f64())).unwrap_or_default();
                page.labelled(input.figure.name, &format!("{}{exact}: {}", input.figure.shown(), input.source));
            }
        }
        for threshold in &finding.threshold {
            page.labelled(
                "threshold",
                &format!("{} {}: {}", threshold.name, threshold.unit.show(threshold.value), threshold.source),
            );
        }
        page.labelled("confidence", &format!("{}: {}", finding.confidence.level.word(), finding.confidence.why));
    }
    page.finish()
}
