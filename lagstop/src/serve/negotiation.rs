//! What a scraper gets of what it takes.

use crate::metrics::Exposition;

/// How metrics are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Representation {
    pub(super) format: Exposition,
    pub(super) coding: Coding,
}

/// What is done to bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    /// They are compressed, to a twentieth or so.
    Gzip,
}

/// What is given to whoever sends this `Accept` and `Accept-Encoding`.
pub(super) fn negotiate(accept: &str, accept_encoding: &str) -> Representation {
    Representation { format: format(accept), coding: coding(accept_encoding) }
}

/// What it wants most of what there is, else the text that all understand.
fn format(accept: &str) -> Exposition {
    let mut best = (0.0, Exposition::Prometheus);
    for choice in choices(accept) {
        let Some(format) = choice.format() else { continue };
        // Of those that are wanted as much the first.
        if choice.weight > best.0 {
            best = (choice.weight, format);
        }
    }
    best.1
}

/// Compressed for whoever takes it so: that costs less than to send all of it.
fn coding(accept_encoding: &str) -> Coding {
    let weight = |name: &str| choices(accept_encoding).find(|choice| choice.name == name).map(|choice| choice.weight);
    if weight("gzip").or_else(|| weight("*")) > Some(0.0) { Coding::Gzip } else { Coding::Identity }
}

/// One of those in a header.
struct Choice<'h> {
    name: String,
    parameters: Vec<(String, &'h str)>,
    weight: f64,
}

/// What a header names; what has no weight that makes sense is left out.
fn choices(header: &str) -> impl Iterator<Item = Choice<'_>> {
    header.split(',').filter_map(|choice| {
        let mut parts = choice.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters = parts
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')));
        let mut choice = Choice { name, parameters: parameters.collect(), weight: 1.0 };
        if let Some(weight) = choice.parameter("q") {
            choice.weight = weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
        }
        Some(choice)
    })
}

impl Coding {
    pub(super) const ALL: [Self; 2] = [Self::Identity, Self::Gzip];
}

impl Choice<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn format(&self) -> Option<Exposition> {
        let is = |name: &str, values: &[&str]| self.parameter(name).is_none_or(|value| values.contains(&value));
        match self.name.as_str() {
            "application/vnd.google.protobuf" => (self.parameter("proto") == Some("io.prometheus.client.MetricFamily")
                && self.parameter("encoding") == Some("delimited"))
            .then_some(Exposition::Protobuf),
            "application/openmetrics-text" => is("version", &["0.0.1", "1.0.0"]).then_some(Exposition::OpenMetrics),
            "text/plain" => is("version", &["0.0.4"]).then_some(Exposition::Prometheus),
            "*/*" | "text/*" => Some(Exposition::Prometheus),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scraper_gets_what_it_wants_most() {
        for (accept, format) in [
            ("", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("text/html,*/*;q=0.8", Exposition::Prometheus),
            ("application/openmetrics-text; version=1.0.0", Exposition::OpenMetrics),
            ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", Exposition::Prometheus),
            ("text/plain;version=1.0.0", Exposition::Prometheus),
            ("application/json", Exposition::Prometheus),
            ("text/plain;q=0.3,application/openmetrics-text;q=0.4", Exposition::OpenMetrics),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("application/openmetrics-text;q=7", Exposition::Prometheus),
            ("application/vnd.google.protobuf", Exposition::Prometheus),
            // Prometheus 3, with and without native histograms.
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                 application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Exposition::Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Exposition::OpenMetrics,
            ),
        ] {
            assert_eq!(super::format(accept), format, "{accept}");
        }
    }

    #[test]
    fn who_takes_it_compressed_gets_it_so() {
        for (accept, is_compressed) in [
            ("", false),
            ("identity", false),
            ("gzip", true),
            ("deflate, GZip;q=0.5, br", true),
            ("gzip;q=0", false),
            ("gzip;q=0, *", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=yes", false),
            ("zstd", false),
        ] {
            assert_eq!(coding(accept) == Coding::Gzip, is_compressed, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_too_strange_to_be_asked_for(accept in "[ -~]{0,80}") {
            negotiate(&accept, &accept);
        }
    }
}
