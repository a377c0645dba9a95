//! The page at `/`: what is compiled in, and the figures that it asks for.
//!
//! It is one file without anything from elsewhere. Its figures are made once for each interval, whoever asks, and only while
//! somebody does; names reach the browser as text, and are never made markup of.

mod kept;
mod maker;
mod moment;
mod watcher;

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hyper::{body::Bytes, header::HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub(super) use kept::Moments;
pub use moment::PageMoment;
pub use watcher::Watcher;

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page as it is sent.
static PAGE: LazyLock<Page> = LazyLock::new(Page::assemble);

/// The page, and what a browser may do with it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) body: Bytes,
    /// Its Content-Security-Policy.
    pub(super) policy: HeaderValue,
}

impl Page {
    pub(super) fn get() -> &'static Self {
        &PAGE
    }

    fn assemble() -> Self {
        // Each stands between two tags, as it is hashed.
        let body = HTML.replace("/* page.css */", STYLE).replace("/* page.js */", SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        // It has only letters, digits and punctuation, so it is a valid value.
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        Self { body: body.into(), policy }
    }
}

fn hash(text: &str) -> String {
    BASE64.encode(Sha256::digest(text))
}

/// Everything that is answered.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema is made of it")]
#[expect(clippy::large_enum_variant, reason = "there is none but in the schema")]
enum Answer {
    /// At `/api/v1/moment`
    Moment(PageMoment),
    /// At `/api/v1/history`
    History(kept::History),
}

/// The JSON Schema of what the page asks for. Published as `docs/moment.schema.json`.
pub fn schema() -> serde_json::Value {
    use schemars::generate::SchemaSettings;
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Answer>();
    schema.insert("title".to_owned(), "What lagstop serve answers at /api/v1/moment and /api/v1/history".into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_file_that_needs_nothing_else_and_makes_no_markup() {
        let page = Page::get();
        let html = str::from_utf8(&page.body).unwrap();
        assert_eq!((html.matches("<script>").count(), html.matches("<style>").count()), (1, 1));
        assert!(html.contains(STYLE) && html.contains(SCRIPT));
        for unwanted in
            ["http://", "https://", " src=", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("]
        {
            let found = html.replace("http://www.w3.org/", "").contains(unwanted);
            assert!(!found, "{unwanted}");
        }
        assert!(!html.contains(" style=") && !html.contains(" onclick"), "the policy forbids it");
    }

    #[test]
    fn the_policy_lets_this_script_and_this_sheet_run_and_nothing_else() {
        let policy = Page::get().policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(policy.contains(&hash(SCRIPT)) && policy.contains(&hash(STYLE)), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
