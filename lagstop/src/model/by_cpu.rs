//! A cgroup's time by CPU.

use std::sync::Arc;

use super::Nanos;

/// What was counted for a cgroup on each CPU, by its number; nothing on those beyond the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByCpu {
    pub cpu_ns: Arc<[Nanos]>,
    /// Run-queue wait that ended there. `None` where waits are not measured.
    pub runq_wait_ns: Option<Arc<[Nanos]>>,
}

impl ByCpu {
    /// Takes CPU time and run-queue wait out of what is known of each CPU, in order; `waits` says whether waits are
    /// measured.
    pub fn of<C>(cpus: &[C], figures: impl Fn(&C) -> (Nanos, Nanos), waits: bool) -> Self {
        Self {
            cpu_ns: trimmed(cpus, |cpu| figures(cpu).0),
            runq_wait_ns: waits.then(|| trimmed(cpus, |cpu| figures(cpu).1)),
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let no_wait = Arc::default();
        let waits = |now| since(now, earlier.runq_wait_ns.as_ref().unwrap_or(&no_wait));
        Self { cpu_ns: since(&self.cpu_ns, &earlier.cpu_ns), runq_wait_ns: self.runq_wait_ns.as_ref().map(waits) }
    }

    /// Adds `other`. What only one of the two measured is not measured in the sum.
    pub fn add(&mut self, other: &Self) {
        self.cpu_ns = sum(&self.cpu_ns, &other.cpu_ns);
        self.runq_wait_ns =
            self.runq_wait_ns.as_ref().zip(other.runq_wait_ns.as_ref()).map(|(mine, theirs)| sum(mine, theirs));
    }

    /// The number of the CPU from which on nothing was counted.
    pub fn end(&self) -> usize {
        self.cpu_ns.len().max(self.runq_wait_ns.as_ref().map_or(0, |waits| waits.len()))
    }

    /// What was added since `earlier` on the CPU with number `cpu`: CPU time and run-queue wait.
    pub fn since_on(&self, cpu: usize, earlier: Option<&Self>) -> (Nanos, Option<Nanos>) {
        let (now, then) = (self.on(cpu), earlier.map_or((Nanos::ZERO, None), |earlier| earlier.on(cpu)));
        (now.0.saturating_sub(then.0), now.1.map(|wait| wait.saturating_sub(then.1.unwrap_or_default())))
    }

    /// CPU time and run-queue wait on the CPU with number `cpu`.
    pub fn on(&self, cpu: usize) -> (Nanos, Option<Nanos>) {
        (at(&self.cpu_ns, cpu), self.runq_wait_ns.as_ref().map(|waits| at(waits, cpu)))
    }
}

fn at(figures: &[Nanos], cpu: usize) -> Nanos {
    figures.get(cpu).copied().unwrap_or_default()
}

/// Leaves out the CPUs at the end on which nothing was counted: far more CPUs may be possible than exist.
fn trimmed<C>(cpus: &[C], figure: impl Fn(&C) -> Nanos) -> Arc<[Nanos]> {
    let len = cpus.iter().rposition(|cpu| figure(cpu) != Nanos::ZERO).map_or(0, |last| last + 1);
    cpus.iter().take(len).map(figure).collect()
}

/// Needs no memory of its own if nothing was added, or if `earlier` is empty.
fn since(now: &Arc<[Nanos]>, earlier: &Arc<[Nanos]>) -> Arc<[Nanos]> {
    if Arc::ptr_eq(now, earlier) {
        return Arc::default();
    }
    if earlier.is_empty() {
        return Arc::clone(now);
    }
    let (both, new) = now.split_at(now.len().min(earlier.len()));
    both.iter().zip(&**earlier).map(|(now, earlier)| now.saturating_sub(*earlier)).chain(new.iter().copied()).collect()
}

fn sum(one: &Arc<[Nanos]>, other: &Arc<[Nanos]>) -> Arc<[Nanos]> {
    let (long, short) = if one.len() < other.len() { (other, one) } else { (one, other) };
    if short.is_empty() {
        return Arc::clone(long);
    }
    let (both, rest) = long.split_at(short.len());
    both.iter().zip(&**short).map(|(one, other)| one.saturating_add(*other)).chain(rest.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_cpu(figures: &[(u64, u64)], waits: bool) -> ByCpu {
        ByCpu::of(figures, |&(time, wait)| (Nanos(time), Nanos(wait)), waits)
    }

    #[test]
    fn cpus_at_the_end_take_no_room_and_may_come_later() {
        let before = by_cpu(&[(5, 0), (0, 0), (0, 0)], true);
        assert_eq!((before.cpu_ns.len(), before.end(), before.on(2)), (1, 1, (Nanos(0), Some(Nanos(0)))));
        let after = by_cpu(&[(7, 0), (0, 0), (3, 4)], true);
        let since = after.since(&before);
        assert_eq!((since.on(0), since.on(2)), ((Nanos(2), Some(Nanos(0))), (Nanos(3), Some(Nanos(4)))));
        assert_eq!(before.since(&before).end(), 0);
        assert!(Arc::ptr_eq(&after.since(&ByCpu::default()).cpu_ns, &after.cpu_ns), "new ones are whole, and shared");
    }

    #[test]
    fn two_rows_of_a_cgroup_add_up() {
        let mut sum = by_cpu(&[(1, 2)], true);
        sum.add(&by_cpu(&[(10, 0), (0, 30)], true));
        assert_eq!((sum.on(0), sum.on(1)), ((Nanos(11), Some(Nanos(2))), (Nanos(0), Some(Nanos(30)))));
    }

    #[test]
    fn waits_that_are_not_measured_stay_so() {
        let not = by_cpu(&[(1, 0)], false);
        assert_eq!(not.on(0), (Nanos(1), None));
        assert_eq!(not.since(&by_cpu(&[(1, 1)], true)).runq_wait_ns, None);
        let mut sum = by_cpu(&[(1, 1)], true);
        sum.add(&not);
        assert_eq!(sum.on(0), (Nanos(2), None));
    }
}
