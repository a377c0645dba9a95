//! Undoes changes that are still as the trial made them. Later changes by other programs stay.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::Path,
};

use thiserror::Error;

use super::{
    Attr, PolicyChange,
    cgroup_file::{BUDGET, Directory, IDLE, gone_is_fine, is_gone, usual_weight},
    journal_checks::Disbelief,
};
use crate::{display::plain, host::started};

/// Changes that were undone, left, or could not be undone.
#[derive(Debug, Default)]
pub struct Restored {
    pub undone: usize,
    /// Settings that other programs changed since, with their current values.
    pub left: Vec<String>,
    pub failed: Vec<NotUndone>,
    /// Why there was nothing to undo despite the journal.
    pub discarded: Option<&'static str>,
}

/// A change that could not be undone, and why.
#[derive(Debug, Error)]
pub enum NotUndone {
    #[error("{change}: cannot be undone: {}", plain(source))]
    Failed { change: PolicyChange, source: io::Error },
    #[error("{0}: cannot be undone: its cpu.idle must be undone first")]
    Idle(PolicyChange),
    #[error("{change}: is not trusted: {source}")]
    NotBelieved { change: PolicyChange, source: Disbelief },
    /// A line of the journal that names no change.
    #[error("cannot read a line of the journal: {0}")]
    Unread(String),
}

impl Restored {
    /// Adds what was undone elsewhere.
    pub(super) fn add(&mut self, more: Self) {
        self.undone += more.undone;
        self.left.extend(more.left);
        self.failed.extend(more.failed);
        self.discarded = self.discarded.or(more.discarded);
    }
}

/// What a trial changes: one thing may be changed more than once.
#[derive(PartialEq, Eq, Hash)]
enum Key<'c> {
    File(&'c Path, u64, &'c str),
    Thread(u32, u64),
}

impl<'c> From<&'c PolicyChange> for Key<'c> {
    fn from(change: &'c PolicyChange) -> Self {
        match change {
            PolicyChange::File { directory, inode, file, .. } => Key::File(directory, *inode, file),
            PolicyChange::Thread { tid, started, .. } => Key::Thread(*tid, *started),
        }
    }
}

/// Result for one setting.
#[derive(Debug, PartialEq, Eq)]
enum Undone {
    /// It is restored, or gone.
    Back,
    /// It is restored, except for this, which another program changed.
    But(String),
    /// Another program changed it to this value.
    Left(String),
    /// It is still needed, for this reason.
    Needed(String),
}

fn by_somebody(now: &str) -> String {
    format!("changed by another program to {now}")
}

/// Undoes changes: what was changed first goes last. Each thing is put back at once, however often it was changed. `beat` is
/// called for each change. Gives the numbers of those that could not be undone, too.
pub(super) fn undo(changes: &[PolicyChange], beat: &mut dyn FnMut()) -> (Restored, Vec<usize>) {
    let mut targets: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Key<'_>, usize> = HashMap::new();
    for (number, change) in changes.iter().enumerate() {
        let target = *known.entry(Key::from(change)).or_insert_with(|| {
            targets.push(Vec::new());
            targets.len() - 1
        });
        targets[target].push(number);
    }
    let is_idle = |change: &PolicyChange| matches!(change, PolicyChange::File { file, .. } if file == IDLE);
    let idle: HashSet<&Path> = changes.iter().filter(|it| is_idle(it)).filter_map(PolicyChange::directory).collect();
    // Those that are idle still, and should not be: their weights cannot be written.
    let mut stuck: HashSet<&Path> = HashSet::new();
    let (mut restored, mut not_undone) = (Restored::default(), Vec::new());
    for target in targets.iter().rev() {
        let all: Vec<&PolicyChange> = target.iter().map(|&number| &changes[number]).collect();
        let Some((original, last)) = original(&all, &idle).zip(all.last().copied()) else { continue };
        let directory = last.directory();
        let done = if directory.is_some_and(|directory| stuck.contains(directory)) {
            Err(NotUndone::Idle(last.clone()))
        } else {
            put_back(original, last, directory.is_some_and(|directory| idle.contains(directory)))
                .map_err(|source| NotUndone::Failed { change: last.clone(), source })
        };
        let left = |why: &str| format!("{}: {why}: left as it is", last.what());
        match done {
            Ok(Undone::Back) => restored.undone += target.len(),
            Ok(Undone::But(now)) => {
                restored.undone += target.len();
                restored.left.push(left(&by_somebody(&now)));
            }
            Ok(Undone::Left(now)) => restored.left.push(left(&by_somebody(&now))),
            Ok(Undone::Needed(why)) => restored.left.push(left(&why)),
            Err(error) => {
                restored.failed.push(error);
                stuck.extend(directory.filter(|_| is_idle(last)));
                not_undone.extend(target);
            }
        }
        target.iter().for_each(|_| beat());
    }
    not_undone.sort_unstable();
    (restored, not_undone)
}

/// The change whose `before` value is to be restored. If a change does not start from the result of the previous one,
/// another program changed the setting in between, and the trial continued from that value.
fn original<'c>(all: &[&'c PolicyChange], idle: &HashSet<&Path>) -> Option<&'c PolicyChange> {
    let goes_on = |earlier: &PolicyChange, later: &PolicyChange| match (earlier, later) {
        (PolicyChange::File { after, .. }, PolicyChange::File { directory, file, before, .. }) => {
            let is_reset = idle.contains(directory.as_path()) && usual_weight(file) == Some(before.as_str());
            before == after || is_reset
        }
        (PolicyChange::Thread { after, .. }, PolicyChange::Thread { before, .. }) => before.is_like(*after),
        _ => false,
    };
    let anew = all.windows(2).rposition(|pair| !goes_on(pair[0], pair[1]));
    all.get(anew.map_or(0, |before| before + 1)).copied()
}

/// Puts one thing back to what `original` found it at, if it is what `last` left. Whether that one was made is not known:
/// it may be what that one found, too.
fn put_back(original: &PolicyChange, last: &PolicyChange, was_idle: bool) -> io::Result<Undone> {
    match (original, last) {
        (PolicyChange::File { before, .. }, PolicyChange::File { directory, inode, file, before: previous, after }) => {
            let Some(open) = Directory::open(directory, *inode)? else { return Ok(Undone::Back) };
            put_file_back(&open, file, before, [previous, after], was_idle)
        }
        (PolicyChange::Thread { before, .. }, PolicyChange::Thread { tid, started: when, before: previous, after }) => {
            if started(*tid) != Some(*when) {
                return Ok(Undone::Back);
            }
            let done = put_thread_back(*tid, *before, *previous, *after);
            done.or_else(|error| if is_gone(&error) { Ok(Undone::Back) } else { Err(error) })
        }
        _ => Ok(Undone::Back),
    }
}

fn put_file_back(
    directory: &Directory,
    file: &str,
    before: &str,
    ours: [&String; 2],
    was_idle: bool,
) -> io::Result<Undone> {
    let Some(now) = directory.read(file)? else { return Ok(Undone::Back) };
    if now == before {
        return Ok(Undone::Back);
    }
    let usual = usual_weight(file);
    if usual.is_some() && directory.read(IDLE)?.is_some_and(|idle| idle == "1") {
        // It has no weight, and takes none.
        return Ok(Undone::Left("idle (cpu.idle)".to_owned()));
    }
    // A cgroup that stops being idle gets the default weight. This is not a change by another program.
    let is_reset = was_idle && usual == Some(&*now);
    if !is_reset && !ours.contains(&&now) {
        return Ok(Undone::Left(now));
    }
    match directory.write(file, before) {
        Err(error) if file == BUDGET && is_in_use(&error) => {
            Ok(Undone::Needed(format!("{now} is still needed by other real-time threads or cgroups in it")))
        }
        written => written.map(|()| Undone::Back),
    }
}

/// Does the kernel say that a real-time budget is used? A cgroup with real-time threads has one, and no less than all those in
/// it together (`tg_rt_schedulable`, kernel/sched/rt.c).
fn is_in_use(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINVAL))
}

fn put_thread_back(tid: u32, before: Attr, previous: Attr, after: Attr) -> io::Result<Undone> {
    let now = Attr::of(tid)?;
    let is_ours = |ours: Attr| (now.policy, now.priority) == (ours.policy, ours.priority);
    if !is_ours(after) && !is_ours(previous) {
        return Ok(if now.is_like(before) { Undone::Back } else { Undone::Left(now.to_string()) });
    }
    let mut back = before;
    let mut theirs = Vec::new();
    // A real-time thread keeps its nice value, and somebody may have given it another one.
    let nice = if now.is_real_time() { Attr::nice_of(tid)? } else { now.nice };
    let nice_left = if after.is_real_time() { before.nice } else { after.nice };
    if nice != nice_left && nice != before.nice {
        back.nice = nice;
        theirs.push(format!("nice {nice}"));
    }
    let is_slice_ours = [before, previous, after].iter().any(|ours| ours.slice() == now.slice());
    if !now.is_real_time() && !is_slice_ours {
        back.runtime = now.runtime;
        theirs.push(format!("slice {}", crate::model::Nanos(now.runtime)));
    }
    if !now.is_like(back) || now.flags != back.flags {
        gone_is_fine(back.set(tid))?;
    }
    Ok(if theirs.is_empty() { Undone::Back } else { Undone::But(theirs.join(", ")) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::trial::Made;

    /// A cgroup of so much weight, that is not idle.
    fn cgroup(weight: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("cpu.weight"), weight).unwrap();
        fs::write(home.path().join("cpu.idle"), "0").unwrap();
        home
    }

    fn made(home: &tempfile::TempDir, file: &str, after: &str) -> PolicyChange {
        let change = PolicyChange::file(home.path(), file, after).unwrap();
        assert_eq!(change.make().unwrap(), Made::Yes);
        change
    }

    fn says(home: &tempfile::TempDir, file: &str) -> String {
        fs::read_to_string(home.path().join(file)).unwrap()
    }

    fn set(home: &tempfile::TempDir, file: &str, text: &str) {
        fs::write(home.path().join(file), text).unwrap();
    }

    #[test]
    fn what_is_as_the_trial_left_it_is_put_back_and_what_is_not_stays() {
        let (ours, theirs) = (cgroup("100"), cgroup("100"));
        let changes = [made(&ours, "cpu.weight", "250"), made(&theirs, "cpu.weight", "250")];
        set(&theirs, "cpu.weight", "700");
        let (restored, not_undone) = undo(&changes, &mut || {});
        assert_eq!((says(&ours, "cpu.weight"), says(&theirs, "cpu.weight")), ("100".into(), "700".into()));
        assert_eq!((restored.undone, restored.left.len(), not_undone.len()), (1, 1, 0), "{restored:?}");
        assert!(restored.left[0].ends_with("cpu.weight: changed by another program to 700: left as it is"));
        assert!(restored.failed.is_empty(), "that is no error");
    }

    #[test]
    fn what_was_not_made_is_no_ones_decision() {
        let home = cgroup("100");
        let first = made(&home, "cpu.weight", "250");
        let second = PolicyChange::file(home.path(), "cpu.weight", "300").unwrap();
        let (restored, _) = undo(&[first, second], &mut || {});
        assert_eq!((says(&home, "cpu.weight"), restored.undone), ("100".into(), 2), "it was killed before the second");
    }

    /// The weight goes when it becomes idle, and is the usual one when it is not any more.
    #[test]
    fn a_cgroup_that_was_idle_gets_its_weight_back() {
        let home = cgroup("250");
        let kept = PolicyChange::file(home.path(), "cpu.weight", "250").unwrap();
        let changes = [kept, made(&home, "cpu.idle", "1")];
        set(&home, "cpu.weight", "100");
        let (restored, _) = undo(&changes, &mut || {});
        assert_eq!((says(&home, "cpu.idle"), says(&home, "cpu.weight")), ("0".into(), "250".into()));
        assert_eq!((restored.undone, restored.left), (2, Vec::new()));
    }

    #[test]
    fn who_was_taken_out_of_idle_and_given_a_weight_keeps_it() {
        let home = cgroup("250");
        let kept = PolicyChange::file(home.path(), "cpu.weight", "250").unwrap();
        let changes = [kept, made(&home, "cpu.idle", "1")];
        set(&home, "cpu.idle", "0");
        set(&home, "cpu.weight", "700");
        let (restored, _) = undo(&changes, &mut || {});
        assert_eq!((says(&home, "cpu.idle"), says(&home, "cpu.weight")), ("0".into(), "700".into()));
        assert!(restored.left.len() == 1 && restored.left[0].contains("to 700"), "{restored:?}");
    }

    /// Its weight could not be written: it is no error that would bar every further trial.
    #[test]
    fn who_was_made_idle_meanwhile_stays_idle() {
        let home = cgroup("100");
        let changes = [made(&home, "cpu.weight", "250")];
        set(&home, "cpu.idle", "1");
        set(&home, "cpu.weight", "0");
        let (restored, not_undone) = undo(&changes, &mut || {});
        assert_eq!((says(&home, "cpu.weight"), not_undone.len()), ("0".into(), 0));
        assert!(restored.left[0].contains("idle (cpu.idle)") && restored.failed.is_empty(), "{restored:?}");
    }

    #[test]
    fn what_the_trial_began_anew_with_is_what_it_is_put_back_to() {
        let home = cgroup("100");
        let first = made(&home, "cpu.weight", "250");
        set(&home, "cpu.weight", "700");
        let second = made(&home, "cpu.weight", "300");
        undo(&[first, second], &mut || {});
        assert_eq!(says(&home, "cpu.weight"), "700");
    }

    #[test]
    fn a_weight_waits_for_its_idle() {
        let home = cgroup("250");
        let kept = PolicyChange::file(home.path(), "cpu.weight", "250").unwrap();
        let changes = [kept, made(&home, "cpu.idle", "1")];
        fs::remove_file(home.path().join("cpu.idle")).unwrap();
        fs::create_dir(home.path().join("cpu.idle")).unwrap();
        let (restored, not_undone) = undo(&changes, &mut || {});
        assert_eq!(not_undone, [0, 1]);
        let [NotUndone::Failed { source, .. }, NotUndone::Idle(_)] = &restored.failed[..] else {
            panic!("{:?}", restored.failed)
        };
        assert_eq!(source.raw_os_error(), Some(libc::EISDIR));
    }

    /// What a user may do without privileges: a nice value may only rise.
    #[test]
    fn a_thread_keeps_what_somebody_else_made_of_it() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = Attr::of(tid).unwrap();
            let after = Attr { nice: before.nice + 1, ..before };
            let change = PolicyChange::Thread { tid, started: started(tid).unwrap(), before, after };
            assert_eq!(change.make().unwrap(), Made::Yes);
            Attr { nice: before.nice + 5, ..before }.set(tid).unwrap();
            let (restored, _) = undo(&[change], &mut || {});
            assert_eq!(Attr::of(tid).unwrap().nice, before.nice + 5);
            assert!(restored.left[0].contains(&format!("nice {}", before.nice + 5)), "{restored:?}");
        })
        .join()
        .unwrap();
    }
}
