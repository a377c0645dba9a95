//! OpenMetrics text, by the library of the Prometheus project; and from it the older text of Prometheus.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::{
    Family, Kind, Labels, Snapshot,
    families::{AGE, Part, Sample, Value, families},
};

/// What ends an exposition in OpenMetrics.
pub(super) fn end(text: &mut String) -> fmt::Result {
    encode_eof(text)
}

/// All metrics as OpenMetrics text, without its end. `expected` is about how long it gets.
pub(super) fn openmetrics(snapshot: &Arc<Snapshot>, expected: usize) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(expected);
    encode_registry(&mut text, &registry(Metrics(Arc::clone(snapshot))))?;
    Ok(text)
}

/// How old the last interval is.
pub(super) fn age(seconds: f64) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode_registry(&mut text, &registry(Age(seconds)))?;
    Ok(text)
}

/// OpenMetrics text without its end as text of Prometheus, version 0.0.4. Samples are the same. What is before them is not:
/// there names have their endings, kinds are fewer, and units are not told.
pub(super) fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 1024);
    let mut rest = openmetrics;
    let mut family = Comments::default();
    while !rest.is_empty() {
        if let Some((line, after)) = rest.strip_prefix("# ").map(|rest| rest.split_once('\n').unwrap_or((rest, ""))) {
            family.add(line, &mut text);
            rest = after;
        } else {
            // No value of a label has a line of its own: the next comment begins the next family.
            let samples = rest.find("\n# ").map_or(rest.len(), |end| end + 1);
            text.push_str(&rest[..samples]);
            rest = &rest[samples..];
        }
    }
    text
}

/// What is said of a family before its samples.
#[derive(Default)]
struct Comments<'t> {
    help: &'t str,
}

impl<'t> Comments<'t> {
    /// The help comes before the kind, which says how the name goes on.
    fn add(&mut self, line: &'t str, text: &mut String) {
        if let Some(help) = line.strip_prefix("HELP ") {
            self.help = help;
        } else if let Some((name, kind)) = line.strip_prefix("TYPE ").and_then(|line| line.split_once(' ')) {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let help = self.help.split_once(' ').map_or("", |(_, help)| help);
            for part in ["# HELP ", name, ending, " ", help, "\n# TYPE ", name, ending, " ", kind, "\n"] {
                text.push_str(part);
            }
        }
    }
}

fn registry(collector: impl Collector) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    registry
}

#[derive(Debug)]
struct Metrics(Arc<Snapshot>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in families() {
            let mut samples = family.samples(&self.0).peekable();
            if samples.peek().is_none() {
                continue;
            }
            let (stem, is_seconds) = family.stem();
            let unit = is_seconds.then_some(Unit::Seconds);
            let mut metric = encoder.encode_descriptor(stem, family.help, unit.as_ref(), metric_type(family))?;
            for sample in samples {
                write(&mut metric, family.kind, &sample)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Age(f64);

impl Collector for Age {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = AGE;
        let stem = name.trim_end_matches("_seconds");
        encoder.encode_descriptor(stem, help, Some(&Unit::Seconds), MetricType::Gauge)?.encode_gauge(&self.0)
    }
}

const fn metric_type(family: &Family) -> MetricType {
    match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, sample: &Sample<'_>) -> fmt::Result {
    let labels = AllLabels { labels: sample.labels, part: sample.part };
    if let Value::Is = sample.value {
        return metric.encode_info(&labels);
    }
    if labels.are_none() {
        // Else there would be empty braces.
        return value(metric, kind, sample.value);
    }
    value(&mut metric.encode_family(&labels)?, kind, sample.value)
}

fn value(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => metric.encode_counter::<NoLabelSet, u64, f64>(&count, None),
        (Kind::Counter, Value::Real(real)) => metric.encode_counter::<NoLabelSet, f64, f64>(&real, None),
        (Kind::Gauge, Value::Count(count)) => metric.encode_gauge(&(count as f64)),
        (Kind::Gauge, Value::Real(real)) => metric.encode_gauge(&real),
        (Kind::Histogram, Value::Histogram(histogram)) => {
            metric.encode_histogram::<NoLabelSet>(histogram.sum(), histogram.count(), &histogram.classic(), None)
        }
        // A family whose samples are of another kind: that a test finds.
        _ => Err(fmt::Error),
    }
}

#[derive(Debug)]
struct AllLabels<'s> {
    labels: &'s Labels,
    part: Option<Part>,
}

impl AllLabels<'_> {
    fn are_none(&self) -> bool {
        self.labels.is_empty() && self.part.is_none()
    }
}

impl EncodeLabelSet for AllLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (key, text) in self.labels.text().into_iter().chain(self.part) {
            let mut label = encoder.encode_label();
            let mut name = label.encode_label_key()?;
            name.write_str(key)?;
            // The library writes values as they are, so one can hold all labels that come after it: one call, not two dozen.
            let mut value = name.encode_label_value()?;
            value.write_str(text)?;
            value.finish()?;
        }
        Ok(())
    }
}
