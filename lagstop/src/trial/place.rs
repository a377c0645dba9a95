//! Whether what a trial changes can be put back from here, whatever becomes of it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::display::plain;

const OWN_PIDS: &str = "/proc/self/ns/pid";
/// `PROC_PID_INIT_INO`, include/linux/proc_ns.h: the host's PID namespace.
const HOSTS_PIDS: &str = "pid:[4026531836]";
/// What process 1 sees. It is the host's where the PID namespace is.
const HOSTS_ROOT: &str = "/proc/1/root";

/// Where this process runs, as far as it matters to who puts things back.
#[derive(Debug)]
pub struct TrialPlace {
    /// Is it in the host's PID namespace? When the first process of another one ends, all in it are killed.
    pids: Result<bool, Unseen>,
    /// Is the directory of the journal the host's? What is in a container's own is gone with it.
    journals: Result<bool, Unseen>,
    /// That directory, or the nearest above it that is there.
    directory: PathBuf,
}

/// What may not be looked at.
#[derive(Debug, Error)]
#[error("{path}: {}", plain(source))]
struct Unseen {
    path: &'static str,
    source: io::Error,
}

impl TrialPlace {
    /// Looks around; the journal would be at `journal`.
    pub fn look(journal: &Path) -> Self {
        let unseen = |path| move |source| Unseen { path, source };
        let pids = fs::read_link(OWN_PIDS).map(|namespace| namespace == Path::new(HOSTS_PIDS));
        let directory = journal.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
        let directory = directory.unwrap_or_else(|| PathBuf::from("/"));
        let journals = is_same(&directory, Path::new(HOSTS_ROOT));
        Self { pids: pids.map_err(unseen(OWN_PIDS)), journals: journals.map_err(unseen(HOSTS_ROOT)), directory }
    }

    /// A container, for tests.
    #[cfg(test)]
    pub(crate) fn elsewhere() -> Self {
        Self { pids: Ok(false), journals: Ok(false), directory: PathBuf::from("/run") }
    }

    /// Why nothing is to be changed from here.
    pub fn refusal(&self) -> Option<String> {
        let what = match (&self.pids, &self.journals) {
            (Ok(false), _) => {
                "this is not the host's PID namespace, as in a container: the watchdog, which undoes changes, ends with it"
                    .to_owned()
            }
            (Err(why), _) => format!("cannot check whether this is the host's PID namespace ({why})"),
            (_, Ok(false)) => format!(
                "{} is not the host's, as in a container: the journal of the changes would be lost with the container",
                self.directory.display()
            ),
            (Ok(true), _) => return None,
        };
        Some(format!(
            "{what}. Run it on the host, or use --force. With --force undo is not guaranteed: if the container ends, the \
             changes stay on the host"
        ))
    }

    /// What could not be told, where that is no reason to refuse.
    pub fn doubt(&self) -> Option<String> {
        let why = self.journals.as_ref().err()?;
        Some(format!(
            "cannot check whether {} is the host's ({why}). If this is a container and it ends before the trial, changes \
             may stay on the host",
            self.directory.display()
        ))
    }
}

/// Is `directory`, which no link leads to, the same below `root`?
fn is_same(directory: &Path, root: &Path) -> io::Result<bool> {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let here = fs::metadata(directory).map(id)?;
    match fs::metadata(root.join(directory.strip_prefix("/").unwrap_or(directory))) {
        Ok(there) => Ok(id(there) == here),
        Err(error) if error.kind() == io::ErrorKind::NotFound && root.exists() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_the_hosts_processes_or_files_nothing_is_changed() {
        let place = |pids, journals| TrialPlace { pids, journals, directory: "/run".into() };
        let unseen = || Err(Unseen { path: "/proc", source: io::Error::from_raw_os_error(libc::EACCES) });
        assert_eq!(place(Ok(true), Ok(true)).refusal(), None);
        for (refused, why) in [
            (place(Ok(false), Ok(true)), "not the host's PID namespace"),
            (place(unseen(), Ok(true)), "(/proc: Permission denied)"),
            (place(Ok(true), Ok(false)), "/run is not the host's"),
        ] {
            let refusal = refused.refusal().unwrap();
            assert!([why, "--force", "not guaranteed"].iter().all(|said| refusal.contains(said)), "{refusal}");
        }
        // As where process 1 may not be looked at.
        let unknown = place(Ok(true), unseen());
        assert_eq!((unknown.refusal(), place(Ok(true), Ok(true)).doubt()), (None, None));
        assert!(unknown.doubt().unwrap().contains("Permission denied"));
    }

    #[test]
    fn directories_are_told_apart_by_more_than_their_names() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(home.path().join("run")).unwrap();
        let run = home.path().join("run").canonicalize().unwrap();
        assert!(is_same(&run, Path::new("/")).unwrap());
        assert!(!is_same(&run, other.path()).unwrap(), "it is not there");
        let same_name = other.path().join(run.strip_prefix("/").unwrap());
        fs::create_dir_all(same_name).unwrap();
        assert!(!is_same(&run, other.path()).unwrap());
        assert!(is_same(&run, &home.path().join("nowhere")).is_err());
    }
}
