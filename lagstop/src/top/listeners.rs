//! The order of listeners.

use super::frame::Frame;
use crate::model::Listener;

/// The listeners of `frame`, the fullest backlog first; of those as full, the longest accept wait, then by address.
pub(super) fn sorted(frame: &Frame) -> Vec<&Listener> {
    let mut all: Vec<&Listener> = frame.interval.listeners.iter().collect();
    let wait = |listener: &Listener| listener.totals.and_then(|totals| totals.accept_wait_ns.mean(totals.accepts));
    all.sort_by(|a, b| {
        fullness(b)
            .total_cmp(&fullness(a))
            .then_with(|| wait(b).cmp(&wait(a)))
            .then_with(|| (a.netns, a.address).cmp(&(b.netns, b.address)))
    });
    all
}

/// Part of the backlog in use.
pub(super) fn fullness(listener: &Listener) -> f64 {
    match listener.backlog.zip(listener.backlog_capacity) {
        Some((backlog, capacity)) if capacity > 0 => backlog as f64 / capacity as f64,
        _ => 0.0,
    }
}
