//! The formats, and which one a scraper gets.

use std::sync::Arc;

use super::{Snapshot, protobuf, text};

/// What metrics are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text of Prometheus, 0.0.4: what every program understands.
    Prometheus,
    /// OpenMetrics 1.0 text.
    OpenMetrics,
    /// Messages of Prometheus: native histograms.
    Protobuf,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Prometheus, Self::OpenMetrics, Self::Protobuf];

    /// As HTTP calls it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// All metrics in a snapshot; what [`encode_age`] gives comes after it. `expected` is about how long it gets.
///
/// # Errors
/// Never but by a fault of lagstop's own.
pub fn encode(format: Format, snapshot: &Arc<Snapshot>, expected: usize) -> Result<Vec<u8>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the metrics cannot be encoded: {error}");
    match format {
        Format::OpenMetrics => Ok(text::openmetrics(snapshot, expected).map_err(|error| failed(&error))?.into_bytes()),
        Format::Prometheus => {
            let text = text::openmetrics(snapshot, expected).map_err(|error| failed(&error))?;
            Ok(text::prometheus(&text).into_bytes())
        }
        Format::Protobuf => protobuf::messages(snapshot, expected).map_err(|error| failed(&error)),
    }
}

/// The rest of an exposition: how old it is, in seconds, which is another figure each time, and its end.
///
/// # Errors
/// Never but by a fault of lagstop's own.
pub fn encode_age(format: Format, seconds: f64) -> Result<Vec<u8>, String> {
    let text = || text::age(seconds).map_err(|error| format!("the metrics cannot be encoded: {error}"));
    match format {
        Format::Protobuf => Ok(protobuf::age(seconds)),
        Format::Prometheus => Ok(text::prometheus(&text()?).into_bytes()),
        Format::OpenMetrics => {
            let mut text = text()?;
            text::end(&mut text).map_err(|error| error.to_string())?;
            Ok(text.into_bytes())
        }
    }
}

/// What is given to whoever sends this `Accept`: what it wants most of what there is, else the text that all understand.
pub fn negotiate(accept: &str) -> Format {
    let mut best = (0.0, Format::Prometheus);
    for range in accept.split(',') {
        let mut parameters = range.split(';').map(str::trim);
        let kind = parameters.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(String, &str)> = parameters
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
            .collect();
        let of = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let Some(format) = format(&kind, of) else { continue };
        let weight =
            of("q").map_or(Some(1.0), |weight| weight.parse().ok()).filter(|weight| (0.0..=1.0).contains(weight));
        // Of those that are wanted as much the first.
        if let Some(weight) = weight.filter(|weight| *weight > best.0) {
            best = (weight, format);
        }
    }
    best.1
}

fn format<'p>(kind: &str, parameter: impl Fn(&str) -> Option<&'p str>) -> Option<Format> {
    let is = |name: &str, values: &[&str]| parameter(name).is_none_or(|value| values.contains(&value));
    match kind {
        "application/vnd.google.protobuf" => (parameter("proto") == Some("io.prometheus.client.MetricFamily")
            && parameter("encoding") == Some("delimited"))
        .then_some(Format::Protobuf),
        "application/openmetrics-text" => is("version", &["0.0.1", "1.0.0"]).then_some(Format::OpenMetrics),
        "text/plain" => is("version", &["0.0.4"]).then_some(Format::Prometheus),
        "*/*" | "text/*" => Some(Format::Prometheus),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scraper_gets_what_it_wants_most() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html,*/*;q=0.8", Format::Prometheus),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", Format::Prometheus),
            ("text/plain;version=1.0.0", Format::Prometheus),
            ("application/json", Format::Prometheus),
            ("text/plain;q=0.3,application/openmetrics-text;q=0.4", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text;q=7", Format::Prometheus),
            ("application/vnd.google.protobuf", Format::Prometheus),
            // Prometheus 3, with and without native histograms.
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                 application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Format::Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
        ] {
            assert_eq!(negotiate(accept), format, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_too_strange_to_be_asked_for(accept in "[ -~]{0,80}") {
            negotiate(&accept);
        }
    }
}
