//! The words that recordings consist of, for libFuzzer to put in.

use std::collections::BTreeSet;

use serde_json::Value;

/// What no schema says: numbers at the edge, and what distributions and lines begin with.
const MORE: [&str; 14] = [
    "null",
    "18446744073709551615",
    "9223372036854775808",
    "-9223372036854775808",
    "1e308",
    "-1",
    "0.5",
    "[]",
    "{}",
    "HISTEwAAA",
    "ZZZZj4294967295",
    "\\u0000",
    "{\"kind\":\"interval\",\"seq\":0,\"start_ns\":1,",
    "{\"kind\":\"packed\",\"seq\":0,\"start_ns\":1,",
];

/// As libFuzzer reads it, a word a line.
pub(super) fn text() -> String {
    let mut words = BTreeSet::new();
    collect(&lagstop::recording::schema(), &mut words);
    let lines = words.iter().map(String::as_str).chain(MORE).map(|word| {
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"\n")
    });
    let note = "# Written by `cargo xtask fuzz --seeds` from the schema of recordings.\n".to_owned();
    std::iter::once(note).chain(lines).collect()
}

/// The fields and fixed texts in a schema.
fn collect(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                words.extend(properties.keys().map(|name| format!("\"{name}\":")));
            }
            let texts = fields
                .get("const")
                .into_iter()
                .chain(fields.get("enum").and_then(Value::as_array).into_iter().flatten());
            words.extend(texts.filter_map(Value::as_str).map(|text| format!("\"{text}\"")));
            fields.values().for_each(|value| collect(value, words));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, words)),
        _ => {}
    }
}
