//! Findings as JSON.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;

use super::Report;
use crate::display::is_hostile;

/// What the fields mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.report/3";

/// A report of `lagstop diagnose`.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// What the fields mean; the number goes up when one of them changes its meaning or goes away.
    schema: &'static str,
    /// How bad the worst of them is.
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
    document(&Document { schema: SCHEMA, severity: report.worst(), report })
}

/// The JSON Schema of a report. Published as `docs/report.schema.json`.
pub fn schema() -> serde_json::Value {
    schema_of::<Document<'_>>("A report of lagstop diagnose")
}

/// The JSON Schema of what is written as a `T`.
pub(super) fn schema_of<T: JsonSchema>(title: &str) -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// Anything as such a document.
///
/// # Errors
/// As [`render`].
pub fn document(of: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(escape(&serde_json::to_string_pretty(of)?) + "\n")
}

/// JSON escapes C0 controls by itself. Other hostile characters can only be in strings, where the escape has the same
/// meaning.
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
