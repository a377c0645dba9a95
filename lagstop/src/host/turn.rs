//! When to read again what rarely changes.

/// When something is read again: soon while it is new, because most is set when a cgroup is made; then every now and then,
/// each in its turn, so that no reading reads everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// The reading in which it is due.
    due: u64,
    /// Readings from the last one to that. 0 of something new that was never read.
    pub(super) patience: u64,
}

impl Turn {
    /// Most readings between two turns.
    pub(super) const MOST_READINGS: u64 = 60;
    /// The first turn that long may be this much shorter, to spread different things.
    pub(super) const SPREAD: u64 = Self::MOST_READINGS / 2;

    /// The turn of something new: at once.
    pub(super) const fn first(now: u64) -> Self {
        Self { due: now, patience: 0 }
    }

    /// The turn of something that was there before lagstop: at once, and then seldom.
    pub(super) const fn of_old(now: u64) -> Self {
        Self { due: now, patience: Self::SPREAD }
    }

    /// Is it due in the reading `now`?
    pub(super) const fn has_come(self, now: u64) -> bool {
        self.due <= now
    }

    /// It was read in the reading `now`. `early` is below [`Self::SPREAD`], and differs from thing to thing.
    pub(super) fn was_taken(&mut self, now: u64, early: u64) {
        self.patience = match self.patience {
            seldom if seldom > Self::SPREAD => Self::MOST_READINGS,
            // The next is more than half of the most.
            often if often > Self::SPREAD / 2 => Self::MOST_READINGS - early,
            often => (often * 2).max(1),
        };
        self.due = now + self.patience;
    }
}
