//! The cgroup that is looked at closely.

use std::sync::Arc;

use super::Scroll;
use crate::{
    diagnosis::{Finding, Span},
    model::{CgroupId, CloserLook},
    top::{frame::Frame, text, timeline::TrendPoint},
};

#[derive(Clone, Debug, Default)]
pub(in crate::top) struct Detail {
    pub(in crate::top) id: CgroupId,
    /// What it was called when it was last busy.
    pub(in crate::top) name: String,
    /// `None` while it has been idle for as long as anything is known.
    pub(in crate::top) path: Option<Arc<str>>,
    /// Its limits and threads, once they have been read.
    pub(in crate::top) look: Option<CloserLook>,
    pub(in crate::top) trend: Vec<TrendPoint>,
    pub(in crate::top) findings: Vec<Finding>,
    pub(in crate::top) found_over: Option<Span>,
    pub(in crate::top) scroll: Scroll,
}

impl Detail {
    /// Of the cgroup `id`, which may be idle in `frame`.
    pub(super) fn new(id: CgroupId, frame: &Frame) -> Self {
        let mut detail = Self { id, name: format!("cgroup {}", id.0), ..Self::default() };
        detail.see(frame);
        detail
    }

    /// Learns what it is called, if it is busy in `frame`.
    pub(super) fn see(&mut self, frame: &Frame) {
        if let Some(cgroup) = frame.cgroup(self.id).filter(|_| self.path.is_none()) {
            self.learn(text::name(cgroup), &cgroup.path);
        }
    }

    pub(super) fn learn(&mut self, name: &str, path: &Arc<str>) {
        (self.name, self.path) = (name.to_owned(), Some(Arc::clone(path)));
    }
}
