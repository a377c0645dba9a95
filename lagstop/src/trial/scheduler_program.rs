//! The name of a program that loads a sched_ext scheduler, and where it is.

use std::{
    borrow::Cow,
    env,
    ffi::OsStr,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use thiserror::Error;

use crate::display::{plain, short_name};

/// A program that loads a scheduler, as it is named: `scx:` and a path, or a name in PATH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SchedulerProgram {
    /// Named on the command line, so it is kept for as long as this process runs.
    text: &'static str,
}

/// Why there is no such program.
#[derive(Debug, Error)]
pub enum NoProgram {
    #[error("write scx: and a program, such as scx:scx_lavd or scx:/usr/bin/scx_lavd")]
    Name,
    #[error("{0} is not in PATH. Give its path, as in scx:/usr/bin/{0}")]
    NotFound(String),
    #[error("{} cannot be run: {}", short_name(.path, 200), plain(.source))]
    NotRun { path: String, source: io::Error },
}

impl SchedulerProgram {
    /// Before a program, where a policy is named.
    pub const PREFIX: &str = "scx:";
    /// Longer paths are invalid.
    const LONGEST: usize = 4_096;

    /// The program at a path, or with a name in PATH.
    ///
    /// # Errors
    /// When no program can be called that.
    pub fn named(program: &str) -> Result<Self, NoProgram> {
        let is_one = !program.is_empty() && program.len() < Self::LONGEST && !program.chars().any(char::is_control);
        if is_one && !program.ends_with('/') {
            Ok(Self { text: format!("{}{program}", Self::PREFIX).leak() })
        } else {
            Err(NoProgram::Name)
        }
    }

    /// With [`Self::PREFIX`].
    pub(in crate::trial) const fn text(self) -> &'static str {
        self.text
    }

    fn program(self) -> &'static str {
        self.text.strip_prefix(Self::PREFIX).unwrap_or(self.text)
    }

    /// Where it is. No shell looks for it.
    pub(in crate::trial) fn find(self) -> Result<PathBuf, NoProgram> {
        self.find_in(env::var_os("PATH").as_deref())
    }

    fn find_in(self, path: Option<&OsStr>) -> Result<PathBuf, NoProgram> {
        let program = self.program();
        if program.contains('/') {
            let not_run = |source| NoProgram::NotRun { path: program.to_owned(), source };
            let found = Path::new(program).canonicalize().map_err(not_run)?;
            return if is_executable(&found) {
                Ok(found)
            } else {
                Err(not_run(io::Error::from_raw_os_error(libc::EACCES)))
            };
        }
        // A relative directory in PATH is wherever lagstop was started.
        let mut places = path.into_iter().flat_map(env::split_paths).filter(|place| place.is_absolute());
        let found = places.find_map(|place| Some(place.join(program)).filter(|path| is_executable(path)));
        found.ok_or_else(|| NoProgram::NotFound(program.to_owned()))
    }
}

impl<'de> Deserialize<'de> for SchedulerProgram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let program = text.strip_prefix(Self::PREFIX).ok_or_else(|| D::Error::custom("no policy"))?;
        Self::named(program).map_err(D::Error::custom)
    }
}

/// In the schema, beside the names of the policies.
impl JsonSchema for SchedulerProgram {
    fn schema_name() -> Cow<'static, str> {
        "SchedulerProgram".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^scx:." })
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn script(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_program_is_a_path_or_a_name_in_path() {
        let home = tempfile::tempdir().unwrap();
        let path = script(home.path(), "scx_one");
        fs::write(home.path().join("scx_text"), "").unwrap();
        let find = |program: &str| SchedulerProgram::named(program).unwrap().find_in(Some(home.path().as_os_str()));
        assert_eq!(find("scx_one").unwrap(), path);
        assert_eq!(find(path.to_str().unwrap()).unwrap(), path.canonicalize().unwrap());
        for missing in ["scx_text", "scx_none", "scx_one; id", "$(id)"] {
            assert!(find(missing).unwrap_err().to_string().contains("is not in PATH"), "{missing}");
        }
        let text = home.path().join("scx_text").display().to_string();
        assert!(find(&text).unwrap_err().to_string().contains("Permission denied"));
        assert!(find("/nowhere/scx_one").unwrap_err().to_string().contains("cannot be run"));
        symlink(&path, home.path().join("scx_link")).unwrap();
        assert!(find("scx_link").is_ok());
        for wrong in ["", "/usr/bin/", "a\nb", "a\0b"] {
            assert!(SchedulerProgram::named(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn relative_directories_in_path_are_left_out() {
        let program = SchedulerProgram::named("sh").unwrap();
        assert!(program.find_in(Some(OsStr::new(".:bin"))).is_err() && program.find_in(None).is_err());
    }
}
