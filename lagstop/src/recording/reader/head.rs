//! What the beginning of a line tells: of what kind it is, and when its interval began.

use std::borrow::Cow;

use serde::Deserialize;

use crate::model::Nanos;

/// What is looked at to skim a line: longer than its fields up to `start_ns`.
pub(super) const LONGEST: usize = 128;

/// What is found out about every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Header,
    /// With when it began.
    Interval(Nanos),
    /// The same in columns.
    Packed(Nanos),
    Names,
    Merged,
    ChunkEnd,
    Gap,
    Footer,
    /// Of a kind that later ones may write.
    Other,
}

/// Reads the beginning of an interval's line as lagstop writes it. `None` for any other line, which may be just as valid.
pub(super) fn skim(line: &[u8]) -> Option<Head> {
    let rest = line.strip_prefix(br#"{"kind":""#)?;
    let (head, rest): (fn(Nanos) -> Head, _) = match rest.strip_prefix(b"packed") {
        Some(rest) => (Head::Packed, rest),
        None => (Head::Interval, rest.strip_prefix(b"interval")?),
    };
    let (_, rest) = number(rest.strip_prefix(br#"","seq":"#)?)?;
    let (start, rest) = number(rest.strip_prefix(br#","start_ns":"#)?)?;
    rest.starts_with(b",").then_some(head(Nanos(start)))
}

/// A number, and what comes behind it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at(end);
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// From the whole line, in whatever order its fields are.
pub(super) fn parse(line: &[u8]) -> Result<Head, serde_json::Error> {
    #[derive(Deserialize)]
    struct OfKind<'l> {
        #[serde(borrow)]
        kind: Cow<'l, str>,
    }
    #[derive(Deserialize)]
    struct Started {
        start_ns: Nanos,
    }
    let OfKind { kind } = serde_json::from_slice(line)?;
    Ok(match &*kind {
        "header" => Head::Header,
        "interval" => Head::Interval(serde_json::from_slice::<Started>(line)?.start_ns),
        "packed" => Head::Packed(serde_json::from_slice::<Started>(line)?.start_ns),
        "names" => Head::Names,
        "merged" => Head::Merged,
        "chunk_end" => Head::ChunkEnd,
        "gap" => Head::Gap,
        "footer" => Head::Footer,
        _ => Head::Other,
    })
}

/// The version of the format that a header tells.
pub(super) fn schema(header: &[u8]) -> Result<u64, serde_json::Error> {
    #[derive(Deserialize)]
    struct Fields {
        schema: u64,
    }
    serde_json::from_slice(header).map(|Fields { schema }| schema)
}

/// The version of lagstop that a header tells.
pub(super) fn version(header: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Fields {
        lagstop_version: String,
    }
    serde_json::from_slice(header).ok().map(|Fields { lagstop_version }| lagstop_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Interval, recording::Line};

    #[test]
    fn lines_are_skimmed_as_they_are_written() {
        let interval = Interval { seq: u64::MAX, start_ns: Nanos(u64::MAX), ..Interval::default() };
        let line = serde_json::to_vec(&Line::Interval(Box::new(interval))).unwrap();
        let head = skim(&line[..LONGEST]).unwrap();
        assert_eq!(head, Head::Interval(Nanos(u64::MAX)));
        assert_eq!(parse(&line).unwrap(), head);
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let line = br#" {"start_ns": 5, "future": [[{}]], "kind": "inter\u0076al"}"#;
        assert_eq!(skim(line), None);
        assert_eq!(parse(line).unwrap(), Head::Interval(Nanos(5)));
        for line in [r#"{"kind":"interval","seq":1,"start_ns":12"#, r#"{"kind":"interval","seq":1,"start_ns":1.5,"#] {
            assert_eq!(skim(line.as_bytes()), None, "{line}");
        }
    }
}
