//! What came of each VM, kept in target/vmtest, so that results of several runs can be put together.

use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::Error,
    matrix::Run,
    results::{GuestReport, Outcome},
    vm,
};
use crate::workspace::Workspace;

/// What came of a VM in which every live test was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Debian's version of the kernel.
    pub(super) version: String,
    /// Which build of lagstop and its tests it was.
    pub(super) build: String,
    pub(super) report: GuestReport,
}

/// What `lagstop check` said in the last VM, whatever tests it ran.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Checked {
    /// Debian's version of the kernel.
    version: String,
    pub(super) check: Value,
}

/// The file for a run in which every test was to run.
const WHOLE: &str = "report.json";
/// The file for a run with some of the tests. It says nothing about the others.
const PART: &str = "part.json";
/// The file for both kinds of runs.
const CHECK: &str = "check.json";

impl Stored {
    /// Writes it; `is_whole` where every live test was to run.
    pub(super) fn write(&self, workspace: &Workspace, run: Run, is_whole: bool) -> Result<(), Error> {
        let dir = directory(workspace, &run.to_string())?;
        if let Some(check) = &self.report.check {
            let checked = Checked { version: self.version.clone(), check: check.clone() };
            vm::write(&dir.join(CHECK), &serde_json::to_vec_pretty(&checked)?)?;
        }
        vm::write(&dir.join(if is_whole { WHOLE } else { PART }), &serde_json::to_vec_pretty(self)?)
    }

    /// What came of the last run with all tests, if there was one with the kernel that is pinned now.
    pub(super) fn read(workspace: &Workspace, run: Run) -> Result<Option<Self>, Error> {
        let stored: Option<Self> = read(workspace, run, WHOLE)?;
        Ok(stored.filter(|stored| stored.version == run.kernel.version))
    }
}

impl Checked {
    /// What `lagstop check` said on the kernel that is pinned now, if it was run there.
    pub(super) fn read(workspace: &Workspace, run: Run) -> Result<Option<Self>, Error> {
        let checked: Option<Self> = read(workspace, run, CHECK)?;
        Ok(checked.filter(|checked| checked.version == run.kernel.version))
    }
}

/// `None` where there is no such file, or one that another version of this program has written in another form.
fn read<T: for<'de> Deserialize<'de>>(workspace: &Workspace, run: Run, name: &str) -> Result<Option<T>, Error> {
    let path = workspace.target().join("vmtest").join(run.to_string()).join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

impl GuestReport {
    pub(super) fn outcome(&self, test: &str) -> Option<Outcome> {
        self.tests.iter().find(|run| run.name == test).map(|run| run.outcome)
    }
}

/// A folder below target/vmtest.
pub(super) fn directory(workspace: &Workspace, name: &str) -> Result<PathBuf, Error> {
    let dir = workspace.target().join("vmtest").join(name);
    fs::create_dir_all(&dir).map_err(Error::file("made", &dir))?;
    Ok(dir)
}
