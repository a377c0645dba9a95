//! What changed, as JSON.

use serde::Serialize;

use crate::{diff::Diff, report::json::escape};

/// What the fields mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.diff/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: String,
    is_worse: bool,
    #[serde(flatten)]
    comparison: &'a Diff,
}

/// The comparison as JSON, readable, one document, ending in a newline. Names are as they are on the host, each character
/// that a terminal would obey escaped.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn render(comparison: &Diff) -> Result<String, serde_json::Error> {
    let (verdict, is_worse) = (comparison.verdict(), comparison.is_worse());
    let document = Document { schema: SCHEMA, verdict, is_worse, comparison };
    Ok(escape(&serde_json::to_string_pretty(&document)?) + "\n")
}
