//! What was seen, so that it can be looked at again: the last minutes of a live stream, or a recording.

mod columns;
mod distributions;
mod labels;
mod minifloat;
mod pack;
mod ring;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, io, sync::Arc};

use labels::Label;
pub(super) use pack::TrendPoint;
use pack::Unpacked;
pub(super) use ring::HistoryLimits;
use ring::Ring;

use super::{frame::Frame, text, watch::Watch};
use crate::{
    diagnosis::{Finding, Role, Span, Thresholds},
    model::{CgroupId, Interval, Session},
};

/// Intervals in their order, the newest and many before it.
#[derive(Debug)]
pub(super) struct Timeline {
    session: Session,
    thresholds: Thresholds,
    watch: Watch,
    ring: Ring,
    next: u64,
}

impl Timeline {
    pub(super) fn new(session: &Session, thresholds: &Thresholds, limits: HistoryLimits) -> Self {
        Self {
            session: session.clone(),
            thresholds: thresholds.clone(),
            watch: Watch::new(session, thresholds, 0),
            ring: Ring::new(limits),
            next: 0,
        }
    }

    /// Takes in the next interval, and gives the frame that shows it.
    ///
    /// # Errors
    /// When it cannot be kept: a fault of lagstop's own.
    pub(super) fn push(&mut self, interval: Interval) -> io::Result<Frame> {
        let n = self.next;
        self.next += 1;
        let roles = self.watch.advance(n, &interval);
        self.ring.push(n, &interval, &roles)?;
        self.watch.forget(self.ring.first().unwrap_or(n));
        Ok(self.frame_of(n, interval, roles))
    }

    /// The frame that shows `interval`, the `n`th, as if all began with it. It is not taken in.
    pub(super) fn glance(&self, n: u64, mut interval: Interval) -> Frame {
        interval.entitle(self.session.cgroup_mode());
        let mut watch = Watch::new(&self.session, &self.thresholds, n);
        let roles = watch.advance(n, &interval);
        let alerts = watch.alerts(n, &interval, |_| None);
        let overhead = interval.host.overhead().map(|overhead| overhead as f32);
        Frame::new(n, interval, roles, alerts, vec![overhead])
    }

    /// Forgets all intervals, and goes on with the `n`th: what is kept does not lead up to it.
    pub(super) fn restart(&mut self, n: u64) {
        self.watch = Watch::new(&self.session, &self.thresholds, n);
        self.ring.clear();
        self.next = n;
    }

    /// The `n`th interval again; `None` when it is not kept.
    ///
    /// # Errors
    /// When it cannot be read back: a fault of lagstop's own.
    pub(super) fn frame(&self, n: u64) -> io::Result<Option<Frame>> {
        let Some(kept) = self.ring.unpack(n) else { return Ok(None) };
        let Unpacked { interval, roles, has_shapes } = kept?;
        let mut frame = self.frame_of(n, interval, roles);
        frame.has_shapes = has_shapes;
        Ok(Some(frame))
    }

    fn frame_of(&self, n: u64, mut interval: Interval, roles: HashMap<CgroupId, Role>) -> Frame {
        interval.entitle(self.session.cgroup_mode());
        let alerts = self.watch.alerts(n, &interval, |n| self.ring.start_of(n));
        let mut frame = Frame::new(n, interval, roles, alerts, self.ring.overheads(n));
        frame.told = self.watch.told(n).cloned();
        frame
    }

    /// The first and the last that are kept.
    pub(super) fn kept(&self) -> Option<(u64, u64)> {
        self.ring.first().zip(self.ring.last())
    }

    /// What a cgroup was called when it was busy, and its path, if that is not too long ago.
    pub(super) fn label(&self, id: CgroupId) -> Option<(&str, &Arc<str>)> {
        let Label { name, path, .. } = self.ring.label(id)?;
        Some((text::called(id, name, path), path))
    }

    /// The history of one cgroup in at most `count` intervals up to the `n`th.
    ///
    /// # Errors
    /// When it cannot be read back: a fault of lagstop's own.
    pub(super) fn trend(&self, id: CgroupId, n: u64, count: usize) -> io::Result<Vec<TrendPoint>> {
        self.ring.trend(id, n, count)
    }

    /// What the rules find about one cgroup up to now, and over how much.
    pub(super) fn findings(&self, id: CgroupId) -> (Vec<Finding>, Span) {
        self.watch.findings(id)
    }
}
