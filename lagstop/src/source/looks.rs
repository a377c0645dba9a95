//! Closer looks at one cgroup of the running host, for whoever has opened it on a screen.
//!
//! They are taken on a thread of their own: thousands of threads take longer to read than a screen may wait.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, mpsc as blocking},
    thread,
};

use thiserror::Error;
use tokio::sync::mpsc;

use crate::{
    display::plain,
    host::{Hierarchy, Threads, ThreadsError, limits},
    model::{CgroupId, CgroupLimits, CloserLook},
};

/// Asks for closer looks, and gets them. Dropping it ends its thread.
#[derive(Debug)]
pub struct Looks {
    asked: blocking::Sender<Ask>,
    answers: mpsc::Receiver<CloserLook>,
}

type Ask = (CgroupId, Arc<str>);

impl Looks {
    /// Starts the thread, which has what capabilities this one has.
    pub(super) fn start(hierarchy: Hierarchy) -> Self {
        let (asked, asks) = blocking::channel();
        let (answer, answers) = mpsc::channel(1);
        thread::spawn(move || run(&hierarchy, &asks, &answer));
        Self { asked, answers }
    }

    /// Asks for a look at the cgroup `id` with this path. Does not wait. Of what is asked while a look is being taken only the
    /// last is answered.
    pub fn ask(&self, id: CgroupId, path: Arc<str>) {
        // When the thread has died `next` says so.
        let _ = self.asked.send((id, path));
    }

    /// Waits for the next look. The figures of its threads are those since the look before at the same cgroup, if no other
    /// was looked at in between. `None` when there will be none, by a fault of lagstop's own.
    pub async fn next(&mut self) -> Option<CloserLook> {
        self.answers.recv().await
    }
}

/// Answers until nobody asks or listens any more.
fn run(hierarchy: &Hierarchy, asks: &blocking::Receiver<Ask>, answer: &mpsc::Sender<CloserLook>) {
    let mut of = None;
    let mut threads = Threads::default();
    while let Ok(first) = asks.recv() {
        let (id, path) = asks.try_iter().last().unwrap_or(first);
        if of.replace(id) != Some(id) {
            threads = Threads::default();
        }
        if answer.blocking_send(look(hierarchy, id, &path, &mut threads)).is_err() {
            return;
        }
    }
}

/// Why a cgroup cannot be looked at.
#[derive(Debug, Error)]
enum LookError {
    #[error("this row sums all cgroups beyond --max-cgroups")]
    NoCgroup,
    #[error("its files are outside the mount at {}. Mount the host's cgroups there", .0.display())]
    Outside(PathBuf),
    #[error("cannot read {}: {}", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("the cgroup was removed")]
    Gone,
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

fn look(hierarchy: &Hierarchy, id: CgroupId, path: &str, threads: &mut Threads) -> CloserLook {
    let directory = directory(hierarchy, id, path);
    let limits = directory.as_ref().map_or_else(|_| CgroupLimits::default(), |_| limits(hierarchy, path));
    match directory.and_then(|directory| Ok(threads.read(hierarchy, &directory)?)) {
        Ok((threads, over_ns)) => CloserLook { id, limits, threads: Ok(threads), over_ns },
        Err(why) => CloserLook { id, limits, threads: Err(Arc::new(why)), over_ns: None },
    }
}

/// The directory of the cgroup, which is still its own; or why there is none.
fn directory(hierarchy: &Hierarchy, id: CgroupId, path: &str) -> Result<PathBuf, LookError> {
    if id == CgroupId::OTHER {
        return Err(LookError::NoCgroup);
    }
    let outside = || LookError::Outside(hierarchy.mount.clone());
    let directory = hierarchy.directory(path).ok_or_else(outside)?;
    match fs::metadata(&directory) {
        Ok(found) if found.ino() == id.0 => Ok(directory),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LookError::Read { path: directory, source: error }),
        Ok(_) | Err(_) => Err(LookError::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupBy;

    fn looks() -> Option<Looks> {
        // Where no cgroups are mounted there is nothing to look at.
        Hierarchy::find(GroupBy::Scheduler).ok().map(Looks::start)
    }

    async fn ask(looks: &mut Looks, id: u64, path: &str) -> CloserLook {
        looks.ask(CgroupId(id), path.into());
        looks.next().await.unwrap()
    }

    #[tokio::test]
    async fn what_cannot_be_looked_at_says_why() {
        let Some(mut looks) = looks() else { return };
        for (id, path, why) in
            [(0, "(other)", "--max-cgroups"), (77, "/lagstop-is-not-there", "removed"), (u64::MAX, "/", "removed")]
        {
            let look = ask(&mut looks, id, path).await;
            assert_eq!((look.id, look.over_ns, &look.limits), (CgroupId(id), None, &CgroupLimits::default()));
            assert!(look.threads.as_ref().unwrap_err().to_string().contains(why), "{look:?}");
        }
    }

    #[tokio::test]
    async fn only_the_last_of_many_asks_waits() {
        let Some(mut looks) = looks() else { return };
        for id in 1_000..2_000 {
            looks.ask(CgroupId(id), "/lagstop-is-not-there".into());
        }
        let mut answers = 0;
        while looks.next().await.unwrap().id != CgroupId(1_999) {
            answers += 1;
        }
        assert!(answers < 1_000, "{answers}");
    }

    #[test]
    fn nobody_asks_or_listens_and_it_ends() {
        let hierarchy = || Hierarchy::find(GroupBy::Scheduler).ok();
        let (Some(first), Some(second)) = (hierarchy(), hierarchy()) else { return };
        let (asked, asks) = blocking::channel::<Ask>();
        let (answer, answers) = mpsc::channel(1);
        drop(asked);
        run(&first, &asks, &answer);
        let (asked, asks) = blocking::channel();
        asked.send((CgroupId::OTHER, "(other)".into())).unwrap();
        drop(answers);
        run(&second, &asks, &answer);
    }
}
