//! Findings as JSON.

use serde::Serialize;

use super::{Report, sanitise::is_hostile};

/// What the fields mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.report/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: String,
    severity: crate::diagnosis::Severity,
    #[serde(flatten)]
    report: &'a Report,
}

/// The report as JSON, readable, one document, ending in a newline. Names are as they are on the host, each character
/// that a terminal would obey escaped.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    let document = Document { schema: SCHEMA, verdict: report.verdict(), severity: report.worst(), report };
    Ok(escape(&serde_json::to_string_pretty(&document)?) + "\n")
}

/// JSON escapes C0 itself. Other hostile characters can only be inside of strings, where the escape means the same.
pub(super) fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_hostile(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
