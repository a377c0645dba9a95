//! What another process is told about the one that schedules: a file that is written once a second.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::attached::SchedulerCounts;
use crate::{display::plain, host::started};

/// A cgroup under LAGS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Path from the root of its hierarchy.
    pub path: String,
    /// CPUs that it is entitled to among those that are active.
    pub share_cpus: f64,
    /// Its own tasks that run or wait, on average.
    pub tasks: f64,
    /// Turns that its tasks had.
    pub turns: u64,
    /// Times that one was preempted for a lighter one, a kernel thread or lagstop.
    pub preempted: u64,
    /// The paper's credit, in tasks, when one of its tasks last woke or slept; `None` where cgroups are not ranked by it.
    pub load_credit: Option<f64>,
}

/// What became of a start of LAGS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum ScheduleState {
    Schedules,
    /// Why it ended.
    Ended(String),
    /// Why it did not begin.
    Refused(String),
}

/// What one that schedules, or was started last, says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerStatus {
    pub pid: u32,
    /// When that process was started, in the unit of /proc: no other one with its number is taken for it.
    pub process_started: u64,
    /// For how long it has scheduled, or did, in seconds.
    pub seconds: f64,
    #[serde(flatten)]
    pub state: ScheduleState,
    pub counted: SchedulerCounts,
    /// Those that had the most turns.
    pub groups: Vec<GroupStatus>,
}

/// Why there is no status to show.
#[derive(Debug, Error)]
pub enum StatusError {
    #[error("`lagstop schedule` has not run since this host was booted")]
    Nothing,
    #[error("{} is not trusted: it belongs to another user than root. Remove it", SchedulerStatus::PATH)]
    NotTrusted,
    #[error("{path} is not what `lagstop schedule` writes: {0}. Remove it", path = SchedulerStatus::PATH)]
    Malformed(#[from] serde_json::Error),
    #[error("{path} cannot be read or written: {said}. Run lagstop as root", path = SchedulerStatus::PATH, said = plain(.0))]
    File(#[from] io::Error),
}

impl SchedulerStatus {
    /// Where it is.
    pub const PATH: &str = "/run/lagstop/schedule.json";
    /// A larger file is not lagstop's.
    const LARGEST: u64 = 1 << 20;

    /// Puts it in the place of what was there before.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self) -> Result<(), StatusError> {
        self.write_to(Path::new(Self::PATH))
    }

    fn write_to(&self, path: &Path) -> Result<(), StatusError> {
        let new = path.with_extension("new");
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        }
        let text = serde_json::to_vec(self)?;
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        // Nothing that somebody else has put there is written to.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(&text)?;
        Ok(fs::rename(new, path)?)
    }

    /// What was written last.
    ///
    /// # Errors
    /// When nothing was, or it cannot be read.
    pub fn read() -> Result<Self, StatusError> {
        Self::read_from(Path::new(Self::PATH))
    }

    fn read_from(path: &Path) -> Result<Self, StatusError> {
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
        let file = match open {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StatusError::Nothing),
            other => other?,
        };
        let metadata = file.metadata()?;
        if metadata.uid() != 0 || !metadata.is_file() {
            return Err(StatusError::NotTrusted);
        }
        let mut text = Vec::new();
        file.take(Self::LARGEST).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Is the process that wrote it still there?
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.process_started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/schedule.json");
        assert!(matches!(SchedulerStatus::read_from(&path), Err(StatusError::Nothing)));
        let status = SchedulerStatus {
            pid: std::process::id(),
            process_started: started(std::process::id()).unwrap(),
            seconds: 1.5,
            state: ScheduleState::Ended("asked to end".to_owned()),
            counted: SchedulerCounts { queued: 3, ..SchedulerCounts::default() },
            groups: Vec::new(),
        };
        status.write_to(&path).unwrap();
        status.write_to(&path).unwrap();
        assert!(status.is_alive());
        assert!(!SchedulerStatus { process_started: 1, ..status.clone() }.is_alive());
        match SchedulerStatus::read_from(&path) {
            Ok(read) => assert_eq!(read, status),
            // Unless tests run as root.
            Err(error) => assert!(matches!(error, StatusError::NotTrusted), "{error}"),
        }
        fs::write(&path, "{").unwrap();
        assert!(SchedulerStatus::read_from(&path).is_err());
    }
}
