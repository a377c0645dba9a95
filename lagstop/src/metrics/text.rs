//! OpenMetrics text, by the library of the Prometheus project; and from it the older text of Prometheus.

use std::{
    fmt::{self, Write as _},
    io,
    sync::Arc,
};

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
        text::{encode, encode_registry},
    },
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::{
    Family, Kind, Labels, MetricsSnapshot,
    families::{Part, Sample, Value, families},
};

/// Writes all metrics as OpenMetrics text.
pub(super) fn openmetrics(snapshot: &Arc<MetricsSnapshot>, to: &mut dyn io::Write) -> io::Result<()> {
    Lines::hand_on(|lines| to.write_all(lines.as_bytes()), |text| encode(text, &registry(snapshot)))
}

/// Writes all metrics as text of Prometheus, version 0.0.4. Samples are the same as in OpenMetrics. What is before them is not:
/// there names have their endings, kinds are fewer, and units are not told.
pub(super) fn prometheus(snapshot: &Arc<MetricsSnapshot>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut comments = Comments::default();
    let translate = |mut lines: &str| {
        while !lines.is_empty() {
            if let Some(rest) = lines.strip_prefix("# ") {
                let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                to.write_all(comments.translate(line).as_bytes())?;
                lines = after;
            } else {
                // No value of a label has a line of its own: the next comment begins the next family.
                let samples = lines.find("\n# ").map_or(lines.len(), |end| end + 1);
                to.write_all(&lines.as_bytes()[..samples])?;
                lines = &lines[samples..];
            }
        }
        Ok(())
    };
    Lines::hand_on(translate, |text| encode_registry(text, &registry(snapshot)))
}

/// Passes on the library's output in pieces of whole lines, because all of it is megabytes.
struct Lines<F> {
    text: String,
    take: F,
    error: Option<io::Error>,
}

/// The least number of bytes of a piece.
const PIECE: usize = 64 << 10;

impl<F: FnMut(&str) -> io::Result<()>> Lines<F> {
    /// Hands on to `take` what `write` writes.
    fn hand_on(take: F, write: impl FnOnce(&mut Self) -> fmt::Result) -> io::Result<()> {
        let mut lines = Self { text: String::with_capacity(2 * PIECE), take, error: None };
        match write(&mut lines).and_then(|()| lines.flush()) {
            Ok(()) => Ok(()),
            Err(error) => Err(lines.error.unwrap_or_else(|| io::Error::other(error))),
        }
    }

    fn flush(&mut self) -> fmt::Result {
        let end = self.text.rfind('\n').map_or(0, |last| last + 1);
        let taken = (self.take)(&self.text[..end]);
        self.text.drain(..end);
        taken.map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

impl<F: FnMut(&str) -> io::Result<()>> fmt::Write for Lines<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        if self.text.len() < PIECE { Ok(()) } else { self.flush() }
    }
}

/// Comments of a family before its samples.
#[derive(Default)]
struct Comments {
    help: String,
}

impl Comments {
    /// The help comes before the kind, which says how the name goes on.
    fn translate(&mut self, line: &str) -> String {
        if let Some((_, help)) = line.strip_prefix("HELP ").and_then(|line| line.split_once(' ')) {
            help.clone_into(&mut self.help);
        }
        let Some((name, kind)) = line.strip_prefix("TYPE ").and_then(|line| line.split_once(' ')) else {
            return String::new();
        };
        let (ending, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        format!("# HELP {name}{ending} {}\n# TYPE {name}{ending} {kind}\n", self.help)
    }
}

fn registry(snapshot: &Arc<MetricsSnapshot>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(Arc::clone(snapshot))));
    registry
}

#[derive(Debug)]
struct Metrics(Arc<MetricsSnapshot>);

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
        // Otherwise empty braces would be written.
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
        // The family has samples of another kind. A test finds this.
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
        // The library writes keys as they are: one holds all labels that come before it, which saves four fifths of its calls.
        // It escapes values since 0.25.2, which Cargo.toml asks for.
        for (keys, last) in self.labels.text().into_iter().chain(self.part) {
            let mut label = encoder.encode_label();
            let mut name = label.encode_label_key()?;
            name.write_str(keys)?;
            let mut value = name.encode_label_value()?;
            value.write_str(last)?;
            value.finish()?;
        }
        Ok(())
    }
}
