//! Looks at the threads of a command that runs: which CPUs they are allowed, and how fast those run that they use.

use std::{
    mem,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::host::{AllowedCpus, Frequencies, Frequency, Hierarchy, allowed_cpus};

/// Looks now and then: soon after the command has begun, then ever less often.
pub(super) struct Looks {
    directory: Option<PathBuf>,
    /// When its first thread was seen.
    began: Option<Instant>,
    /// When to look again.
    due: Instant,
    /// By the last look.
    now: Seen,
    /// By all looks since an interval began, and the one before.
    meanwhile: Seen,
    /// When somebody looked last, without a failure.
    looked: Instant,
    /// With when they were looked at last.
    frequencies: Option<(Frequencies, Instant)>,
    /// Further intervals that may end because what is allowed has changed.
    cuts: u32,
}

/// What looks have seen.
#[derive(Clone)]
enum Seen {
    /// None of its threads, so far.
    Nobody,
    Allowed(AllowedCpus),
    /// It could not be seen.
    Unknown,
}

impl Looks {
    /// A command that uses two CPUs is not judged before it has run for so long.
    const SOON: Duration = Duration::from_millis(5);
    /// Looks are no further apart than this, unless they are expensive.
    const LATE: Duration = Duration::from_millis(100);
    /// Looks are this many times as far apart as the CPU time that one takes.
    const RESTRAINT: u32 = 500;
    /// What was seen so long ago says nothing any more.
    const STALE: Duration = Duration::from_millis(1_500);
    const MOST_CUTS: u32 = 3;

    /// At the threads of the cgroup in `directory`, which are about to begin.
    pub(super) fn at(directory: Option<PathBuf>) -> Self {
        let now = Instant::now();
        Self {
            directory,
            began: None,
            due: now + Self::SOON,
            now: Seen::Nobody,
            meanwhile: Seen::Nobody,
            looked: now,
            frequencies: Frequencies::new().map(|frequencies| (frequencies, now)),
            cuts: Self::MOST_CUTS,
        }
    }

    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Looks if it is time. Gives whether the interval is to end, because what is allowed has changed: a command that pins itself
    /// does so when it has begun already.
    pub(super) fn look(&mut self, hierarchy: &Hierarchy) -> bool {
        let start = Instant::now();
        if start < self.due {
            return false;
        }
        let mut has_changed = false;
        let cost = cpu_time();
        match self.directory.as_ref().map(|directory| allowed_cpus(hierarchy, directory)) {
            Some(Ok(Some(allowed))) => {
                self.began.get_or_insert(start);
                has_changed = matches!(&self.now, Seen::Allowed(before) if *before != allowed) && self.cuts > 0;
                self.cuts -= u32::from(has_changed);
                self.meanwhile = match mem::replace(&mut self.meanwhile, Seen::Unknown) {
                    Seen::Nobody => Seen::Allowed(allowed.clone()),
                    Seen::Allowed(before) => Seen::Allowed(before.and(&allowed)),
                    Seen::Unknown => Seen::Unknown,
                };
                self.now = Seen::Allowed(allowed);
            }
            // Nobody is there yet, or any more.
            Some(Ok(None)) => {}
            Some(Err(_)) | None => (self.now, self.meanwhile) = (Seen::Unknown, Seen::Unknown),
        }
        if !matches!(self.now, Seen::Unknown) {
            self.looked = start;
        }
        if let (Some((frequencies, last)), Some(directory)) = (&mut self.frequencies, &self.directory)
            && start.saturating_duration_since(*last) >= Self::LATE
        {
            frequencies.look(hierarchy, directory);
            *last = start;
        }
        let age = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        let pause =
            age.clamp(Self::SOON, Self::LATE).max(cpu_time().saturating_sub(cost).saturating_mul(Self::RESTRAINT));
        self.due = Instant::now() + pause;
        has_changed
    }

    /// The mean frequency of the CPUs that its threads used. `None` where that is not known.
    pub(super) fn frequency(&self) -> Option<Frequency> {
        self.frequencies.as_ref()?.0.mean()
    }

    /// An interval ends: what was allowed in it. `None` if that is not known.
    pub(super) fn take(&mut self) -> Option<AllowedCpus> {
        match mem::replace(&mut self.meanwhile, self.now.clone()) {
            Seen::Allowed(allowed) if self.looked.elapsed() < Self::STALE => Some(allowed),
            Seen::Allowed(_) | Seen::Nobody | Seen::Unknown => None,
        }
    }
}

/// That this thread has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::{host::Version, model::GroupBy};

    #[test]
    fn what_was_allowed_for_a_part_of_an_interval_is_not_allowed_to_all() {
        let home = tempfile::tempdir().unwrap();
        let tasks = home.path().join("tasks");
        let own = gettid().as_raw_nonzero().get();
        let hierarchy = Hierarchy::at(Version::V1, home.path(), GroupBy::Scheduler);
        let mut looks = Looks::at(Some(home.path().to_owned()));
        let look = |looks: &mut Looks, text: Option<&str>| {
            text.map_or_else(|| fs::remove_file(&tasks), |text| fs::write(&tasks, text)).unwrap();
            let now = Instant::now();
            looks.due = now;
            let has_changed = looks.look(&hierarchy);
            assert!(looks.due() > now);
            has_changed
        };
        assert_eq!(looks.take(), None, "nobody has looked");
        look(&mut looks, Some(""));
        assert_eq!(looks.take(), None, "nobody was there");

        let before = sched_getaffinity(None).unwrap();
        let all: Vec<u32> = (0..CpuSet::MAX_CPU as u32).filter(|&cpu| before.is_set(cpu as usize)).collect();
        let [free, pinned] =
            [all.clone(), all[..1].to_vec()].map(|cpus| AllowedCpus { to_all: cpus.clone(), to_any: cpus });
        let both = free.clone().and(&pinned);
        let here = format!("{own}\n");
        assert!(!look(&mut looks, Some(&here)), "it begins");
        let mut first = CpuSet::new();
        first.set(all[0] as usize);
        sched_setaffinity(None, &first).unwrap();
        assert_eq!(look(&mut looks, Some(&here)), all.len() > 1, "an interval ends where it is pinned");
        assert!(!look(&mut looks, Some(&here)));
        assert_eq!(looks.take().as_ref(), Some(&both));
        sched_setaffinity(None, &before).unwrap();
        look(&mut looks, Some(&here));
        assert_eq!(looks.take(), Some(both), "it was pinned when this interval began");
        look(&mut looks, Some(&here));
        assert_eq!(looks.take().as_ref(), Some(&free));
        // It ends: what was seen last still holds.
        look(&mut looks, Some(""));
        assert_eq!(looks.take(), Some(free));
        look(&mut looks, None);
        assert_eq!(looks.take(), None, "it cannot be seen");
        look(&mut looks, Some(&here));
        assert_eq!(looks.take(), None, "nor was it when this interval began");
        look(&mut looks, Some(&here));
        assert!(looks.take().is_some());
        looks.looked = Instant::now().checked_sub(Looks::STALE).unwrap();
        assert_eq!(looks.take(), None, "nobody has looked for long");
    }

    #[test]
    fn nobody_looks_or_cuts_too_often() {
        let home = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(Version::V1, home.path(), GroupBy::Scheduler);
        fs::write(home.path().join("tasks"), format!("{}\n", gettid().as_raw_nonzero())).unwrap();
        let mut looks = Looks::at(Some(home.path().to_owned()));
        looks.due = Instant::now() + Duration::from_hours(1);
        looks.look(&hierarchy);
        assert!(matches!(looks.now, Seen::Nobody), "it is not time");
        let nothing = AllowedCpus { to_all: Vec::new(), to_any: Vec::new() };
        let cuts = (0..10).filter(|_| {
            (looks.now, looks.due) = (Seen::Allowed(nothing.clone()), Instant::now());
            looks.look(&hierarchy)
        });
        assert_eq!(cuts.count(), 3);
    }
}
