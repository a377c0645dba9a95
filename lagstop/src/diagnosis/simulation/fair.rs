//! A run queue of the fair scheduler: EEVDF, as in Linux 6.6 and later (`kernel/sched/fair.c`).
//!
//! Times are in seconds, weights in units of the usual one (1 is `cpu.weight` 100, `cpu.shares` 1024, nice 0), virtual times
//! in seconds at weight 1.

/// Who competes in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Task(usize),
    /// The cgroup with this number, for all that compete inside of it.
    Group(usize),
}

/// A competing entity (`struct sched_entity`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) who: Who,
    pub(super) weight: f64,
    pub(super) is_idle: bool,
    /// CPU time that it asks for per turn.
    pub(super) slice: f64,
    pub(super) vruntime: f64,
    deadline: f64,
    /// Until this virtual time, no earlier deadline can take the CPU from it (`vprot`).
    protected: f64,
    /// It sleeps, but had more than its share, so it competes until it is owed nothing (`sched_delayed`).
    pub(super) is_leaving: bool,
}

/// State that is kept of an entity while it does not compete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Virtual time by which it was behind its share (`vlag`).
    pub(super) lag: f64,
    /// Virtual time left to its deadline, where it was moved and did not sleep.
    pub(super) deadline: Option<f64>,
}

/// A queue (`struct cfs_rq`).
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    entities: Vec<Entity>,
    /// The entity that runs, or that contains the running one.
    pub(super) current: Option<Who>,
    /// Its virtual time when it was last empty.
    vtime: f64,
    /// State of the queue's own entity while it does not compete in the queue above.
    pub(super) rest: Rest,
    /// Its load: an average over some tens of milliseconds of the weights in it (`load_avg`), when that was, and what it was
    /// told the others of (`tg_load_avg_contrib`).
    load: f64,
    load_at: f64,
}

/// Time constant of loads, in seconds: they halve in 32 ms (`LOAD_AVG_PERIOD`, kernel/sched/sched-pelt.h).
pub(super) const LOAD_TIME: f64 = 0.032 / std::f64::consts::LN_2;

/// What is left after `time` of what decays with a time constant. Often no time has passed.
pub(super) fn decay(time: f64, constant: f64) -> f64 {
    if time == 0.0 { 1.0 } else { (-time / constant).exp() }
}

impl Entity {
    pub(super) const fn new(who: Who, weight: f64, slice: f64, is_idle: bool) -> Self {
        Self { who, weight, is_idle, slice, vruntime: 0.0, deadline: 0.0, protected: 0.0, is_leaving: false }
    }
}

impl Queue {
    pub(super) const fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.entities.len()
    }

    pub(super) fn weight(&self) -> f64 {
        self.entities.iter().map(|it| it.weight).sum()
    }

    pub(super) fn entities(&self) -> &[Entity] {
        &self.entities
    }

    pub(super) fn find(&self, who: Who) -> Option<&Entity> {
        self.entities.iter().find(|it| it.who == who)
    }

    pub(super) fn find_mut(&mut self, who: Who) -> Option<&mut Entity> {
        self.entities.iter_mut().find(|it| it.who == who)
    }

    /// The shortest slice of all entities in it (`cfs_rq_min_slice`).
    pub(super) fn slice(&self) -> Option<f64> {
        self.entities.iter().map(|it| it.slice).reduce(f64::min)
    }

    /// Its virtual time: that of an entity which had exactly its share (`avg_vruntime`).
    fn now(&self) -> f64 {
        let weight = self.weight();
        if weight > 0.0 {
            self.entities.iter().map(|it| it.weight * it.vruntime).sum::<f64>() / weight
        } else {
            self.vtime
        }
    }

    /// Limit of the lag in either direction: of what an entity is owed, or owes (`update_entity_lag`).
    fn most_lag(entity: &Entity, tick: f64) -> f64 {
        (2.0 * entity.slice).max(tick) / entity.weight
    }

    /// An entity begins to compete (`place_entity`).
    pub(super) fn push(&mut self, mut entity: Entity, rest: Rest) {
        let weight = self.weight();
        // Adding the entity moves the average, so the lag is scaled up to be right afterwards.
        let lag = if weight > 0.0 { rest.lag * (weight + entity.weight) / weight } else { 0.0 };
        entity.vruntime = self.now() - lag;
        entity.deadline = entity.vruntime + rest.deadline.unwrap_or(entity.slice / entity.weight);
        entity.protected = entity.vruntime;
        entity.is_leaving = false;
        self.entities.push(entity);
    }

    /// A delayed entity competes again (`requeue_delayed_entity`).
    pub(super) fn stay(&mut self, who: Who) {
        let Some(index) = self.entities.iter().position(|it| it.who == who && it.is_leaving) else { return };
        // The time that it slept does not count as lag.
        if self.now() > self.entities[index].vruntime {
            let entity = self.entities.swap_remove(index);
            self.push(entity, Rest::default());
        } else {
            self.entities[index].is_leaving = false;
        }
    }

    /// Removes an entity, and returns the state that is kept of it.
    pub(super) fn remove(&mut self, who: Who, tick: f64, is_moved: bool) -> Rest {
        let Some(index) = self.entities.iter().position(|it| it.who == who) else { return Rest::default() };
        let now = self.now();
        let entity = self.entities.swap_remove(index);
        if self.entities.is_empty() {
            self.vtime = now;
        }
        let most = Self::most_lag(&entity, tick);
        let lag = (now - entity.vruntime).clamp(-most, most);
        // It was only kept until it was owed nothing.
        let lag = if entity.is_leaving { lag.min(0.0) } else { lag };
        Rest { lag, deadline: is_moved.then_some(entity.deadline - entity.vruntime) }
    }

    /// Did it have its share, or more?
    pub(super) fn is_ahead(&self, who: Who) -> bool {
        let now = self.now();
        self.find(who).is_some_and(|it| it.vruntime > now + 1e-12)
    }

    /// Changes the weight of an entity (`reweight_entity`).
    pub(super) fn reweigh(&mut self, who: Who, weight: f64, slice: f64, is_idle: bool) {
        let now = self.now();
        let Some(entity) = self.entities.iter_mut().find(|it| it.who == who) else { return };
        (entity.slice, entity.is_idle) = (slice, is_idle);
        if entity.weight != weight {
            let scale = entity.weight / weight;
            let deadline = (entity.deadline - entity.vruntime) * scale;
            let protected = (entity.protected - entity.vruntime) * scale;
            entity.vruntime = now - (now - entity.vruntime) * scale;
            entity.deadline = entity.vruntime + deadline;
            entity.protected = entity.vruntime + protected;
            entity.weight = weight;
        }
    }

    /// Accounts CPU time to the running entity. Returns whether the next one must be picked (`update_curr`).
    pub(super) fn run(&mut self, time: f64) -> bool {
        let others = self.entities.len() > 1;
        let Some(current) = self.current else { return false };
        let Some(entity) = self.entities.iter_mut().find(|it| it.who == current) else { return false };
        entity.vruntime += time / entity.weight;
        let is_over = entity.vruntime >= entity.deadline;
        if is_over {
            entity.deadline = entity.vruntime + entity.slice / entity.weight;
        }
        others && (is_over || entity.vruntime >= entity.protected)
    }

    /// The entity with the earliest deadline of those that had at most their share (`pick_eevdf`). The running one
    /// stays while it is protected.
    pub(super) fn pick(&self, protects: bool) -> Option<Who> {
        if let [only] = self.entities.as_slice() {
            return Some(only.who);
        }
        let now = self.now() + 1e-12;
        let current = self.current.and_then(|who| self.find(who)).filter(|it| it.vruntime <= now && !it.is_leaving);
        if let Some(current) = current
            && protects
            && current.vruntime < current.protected
        {
            return Some(current.who);
        }
        let eligible = self.entities.iter().filter(|it| it.vruntime <= now);
        let first = eligible.min_by(|a, b| a.deadline.total_cmp(&b.deadline));
        // Rounding errors may leave no eligible entity.
        first.or_else(|| self.entities.iter().min_by(|a, b| a.vruntime.total_cmp(&b.vruntime))).map(|it| it.who)
    }

    /// An entity starts its turn. It is protected for the shortest slice in the queue (`set_protect_slice`).
    pub(super) fn begin(&mut self, who: Who) {
        let slice = self.slice().unwrap_or_default();
        self.current = Some(who);
        if let Some(entity) = self.find_mut(who) {
            entity.protected = entity.deadline;
            if slice < entity.slice {
                entity.protected = entity.protected.min(entity.vruntime + slice / entity.weight);
            }
        }
    }

    /// Swaps the turns of two entities: the one that loses its turn gets that of the other later.
    pub(super) fn swap_turns(&mut self, a: Who, b: Who) {
        let place = |who| self.entities.iter().position(|it| it.who == who);
        if let Some((a, b)) = place(a).zip(place(b)) {
            let (of_a, of_b) = (self.entities[a], self.entities[b]);
            (self.entities[a].vruntime, self.entities[a].deadline) = (of_b.vruntime, of_b.deadline);
            (self.entities[b].vruntime, self.entities[b].deadline) = (of_a.vruntime, of_a.deadline);
        }
    }

    /// Ends the protection of the running entity (`cancel_protect_slice`).
    pub(super) fn unprotect(&mut self) {
        let Some(current) = self.current else { return };
        if let Some(entity) = self.find_mut(current) {
            entity.protected = entity.protected.min(entity.vruntime);
        }
    }

    /// Updates the average of the weights in it. Returns its change since the last call.
    pub(super) fn update_load(&mut self, now: f64) -> f64 {
        let before = self.load;
        let weight = self.weight();
        self.load = weight + (self.load - weight) * decay(now - self.load_at, LOAD_TIME);
        self.load_at = now;
        self.load - before
    }

    pub(super) const fn load(&self) -> f64 {
        self.load
    }
}
