//! The formats.

use std::{io, sync::Arc};

use super::{MetricsSnapshot, protobuf, text};

/// What metrics are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Text of Prometheus, 0.0.4: what every program understands.
    Prometheus,
    /// OpenMetrics 1.0 text.
    OpenMetrics,
    /// Messages of Prometheus: native histograms.
    Protobuf,
}

impl Exposition {
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

/// Writes all metrics in a snapshot, a piece at a time.
///
/// # Errors
/// When they cannot be written; else never but by a fault of lagstop's own.
pub fn encode(format: Exposition, snapshot: &Arc<MetricsSnapshot>, to: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Exposition::OpenMetrics => text::openmetrics(snapshot, to),
        Exposition::Prometheus => text::prometheus(snapshot, to),
        Exposition::Protobuf => protobuf::messages(snapshot, to),
    }
}
