//! Threads that accept, and how long each connection keeps them from asking for the next one.

use bytemuck::{Pod, Zeroable};

use crate::ListenerKey;

/// What is kept about a thread that accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Acceptor {
    /// When it was born, which tells it from another one at the same address.
    pub born_ns: u64,
    /// When it had the last connection; 0 where its beginning was not seen.
    pub accepted_ns: u64,
    /// When it first asked for another one since; 0 where that was not seen.
    pub asked_ns: u64,
    /// [`ListenerTotals::made_ns`](crate::ListenerTotals::made_ns) of the totals that count it.
    pub counted_ns: u64,
    /// The address that counts it.
    pub listener: ListenerKey,
}

/// From one accepted connection until its thread asked for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// How long that was; until it *had* the next one, where its asking was not seen.
    pub ns: u64,
    /// The next connection waited throughout, so that the thread was busy throughout.
    pub kept_waiting: bool,
    /// There was none when it asked, so that it was free from then on.
    pub found_none: bool,
}

impl Acceptor {
    /// The service of the last connection, when at `now_ns` it has the next one, established at `since_ns`. `None` where
    /// the last one is not known.
    #[inline(always)]
    pub fn service(&self, since_ns: u64, now_ns: u64) -> Option<Service> {
        if self.accepted_ns == 0 {
            return None;
        }
        let was_seen_asking = self.asked_ns != 0;
        let end_ns = if was_seen_asking { self.asked_ns } else { now_ns };
        Some(Service {
            ns: end_ns.wrapping_sub(self.accepted_ns),
            kept_waiting: since_ns <= self.accepted_ns,
            found_none: was_seen_asking && since_ns > self.asked_ns,
        })
    }
}

/// How long things took, added up.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// How long all of them took.
    pub ns: u64,
    /// Σ of each one's square, in µs².
    pub squares_us2: u64,
}
