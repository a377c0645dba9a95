//! Which `sched_ext` scheduler was in force, and when.

use std::sync::Arc;

use crate::{
    diagnosis::LoadedSchedExt,
    model::{Interval, Session},
};

/// Under which schedulers a recording was made.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct Schedulers {
    /// As of the last interval; empty for the kernel's own.
    at_end: Option<Arc<str>>,
    /// Those that were loaded.
    loaded: Option<LoadedSchedExt>,
}

impl Schedulers {
    pub(super) fn add(&mut self, session: &Session, interval: &Interval) {
        let Some(name) = session.loaded_scheduler(interval) else { return };
        if self.at_end.as_deref() != Some(name) {
            self.at_end = Some(Arc::from(name));
        }
        if name.is_empty() {
            return;
        }
        match &mut self.loaded {
            Some(loaded) => {
                loaded.intervals += 1;
                if loaded.name != name {
                    (loaded.name, loaded.has_changed) = (name.to_owned(), true);
                }
            }
            None => self.loaded = Some(LoadedSchedExt { name: name.to_owned(), has_changed: false, intervals: 1 }),
        }
    }

    /// The one at the end, empty for the kernel's own; `None` where the kernel has no `sched_ext`, or it was not recorded.
    pub(in crate::diagnosis) fn at_end(&self) -> Option<&str> {
        self.at_end.as_deref()
    }

    /// Those that were loaded, if any was.
    pub(in crate::diagnosis) const fn loaded(&self) -> Option<&LoadedSchedExt> {
        self.loaded.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(names: &[&str]) -> Schedulers {
        let session = Session { sched_ext: Some("of the start".to_owned()), ..Session::default() };
        let mut schedulers = Schedulers::default();
        for name in names {
            let interval = Interval { sched_ext: Some((*name).into()), ..Interval::default() };
            schedulers.add(&session, &interval);
        }
        schedulers
    }

    #[test]
    fn what_was_loaded_is_said_with_how_often() {
        let said = |names: &[&str]| after(names).loaded().map(|loaded| loaded.in_words(names.len() as u64));
        assert_eq!(said(&["", ""]), None);
        assert_eq!(said(&["a", "a"]).unwrap(), "sched_ext scheduler “a”");
        assert_eq!(
            said(&["", "a", "b", ""]).unwrap(),
            "several sched_ext schedulers (last: “b”) in 2 of 4 intervals, else the kernel's own"
        );
    }

    #[test]
    fn what_holds_is_what_was_loaded_last() {
        assert_eq!(after(&["", "a"]).at_end(), Some("a"));
        assert_eq!(after(&["a", ""]).at_end(), Some(""));
        let mut old = after(&[]);
        assert_eq!(old.at_end(), None);
        let session = Session { sched_ext: Some("old".to_owned()), ..Session::default() };
        old.add(&session, &Interval::default());
        assert_eq!(old.at_end(), Some("old"));
    }
}
