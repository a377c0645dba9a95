//! Files that are good at any time, up to where they were written.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{before, cannot, is_stdout, make, open};
use crate::{cli::Failure, recording::Writer};

/// The file of a recording in progress. It is opened before anything is measured, so that nothing is measured in vain.
/// Its old content stays until there is something to write. A new file that stays empty is removed.
pub(in crate::cli) enum GrowingFile {
    Stdout,
    File { file: File, path: PathBuf, is_new: bool },
}

impl GrowingFile {
    /// `-` is standard output. A file that exists is overwritten by `force` alone.
    pub(in crate::cli) fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Ok(Self::Stdout);
        }
        let before = before(path, force)?;
        let file = before.as_ref().map_or_else(|| make(path), |before| open(path, before));
        let file = file.map_err(|error| cannot(path, "written", &error))?;
        Ok(Self::File { file, path: path.to_owned(), is_new: before.is_none() })
    }

    /// A file that does not exist yet.
    pub(in crate::cli) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::File { file: make(path)?, path: path.to_owned(), is_new: true })
    }

    /// Begins a recording in it, which replaces the old content.
    pub(in crate::cli) fn recording(&self, compress: bool) -> Result<Writer, Failure> {
        let writer = match self {
            Self::Stdout => Writer::to_stdout(),
            Self::File { file, path, .. } => Writer::to_file(
                empty(file).and_then(|()| file.try_clone()).map_err(|error| cannot(path, "overwritten", &error))?,
            ),
        };
        Ok(if compress { writer.compressed() } else { writer })
    }

    /// Writes `parts` to it, all or nothing.
    pub(in crate::cli) fn fill<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let Self::File { file, .. } = self else { return Ok(()) };
        let written = parts.into_iter().try_for_each(|part| (&mut &*file).write_all(part));
        written.inspect_err(|_| drop(empty(file)))
    }
}

/// Only regular files can be emptied.
fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

impl Drop for GrowingFile {
    fn drop(&mut self) {
        let Self::File { file, path, is_new: true } = self else { return };
        if file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::recording::{Footer, Line};

    #[test]
    fn what_was_there_stays_until_there_is_something_to_write() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.jsonl");
        drop(GrowingFile::open(&path, false).unwrap());
        assert!(!path.exists(), "it stayed empty");
        fs::write(&path, "old").unwrap();
        assert!(GrowingFile::open(&path, false).err().unwrap().to_string().contains("--force"));
        drop(GrowingFile::open(&path, true).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let file = GrowingFile::open(&path, true).unwrap();
        file.recording(false).unwrap().write(&Line::Footer(Footer::default())).unwrap();
        drop(file);
        assert!(fs::read_to_string(&path).unwrap().starts_with("{\"kind\":\"footer\""));
    }

    /// The file names everybody who runs anything on the host.
    #[test]
    fn a_new_file_is_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let (made, opened) = (home.path().join("made"), home.path().join("opened"));
        let files = [GrowingFile::create(&made).unwrap(), GrowingFile::open(&opened, false).unwrap()];
        assert_eq!([&made, &opened].map(|path| mode(path)), [0o600; 2]);
        drop(files);
        fs::write(&opened, "").unwrap();
        fs::set_permissions(&opened, fs::Permissions::from_mode(0o640)).unwrap();
        let file = GrowingFile::open(&opened, false).unwrap();
        assert_eq!(mode(&opened), 0o640, "as somebody wanted it");
        drop(file);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (link, to) = (home.path().join("link"), home.path().join("to"));
        symlink(&to, &link).unwrap();
        let error = GrowingFile::open(&link, true).err().unwrap().to_string();
        assert!(error.contains("a dangling link") && !to.exists(), "{error}");
        fs::write(&to, "old").unwrap();
        assert!(GrowingFile::open(&link, true).is_ok(), "one that leads to a file is");
    }

    #[test]
    fn what_takes_the_place_of_a_file_is_not_written() {
        let home = tempfile::tempdir().unwrap();
        let (path, other) = (home.path().join("path"), home.path().join("other"));
        fs::write(&path, "").unwrap();
        fs::write(&other, "somebody's").unwrap();
        let before = fs::metadata(&path).unwrap();
        assert!(open(&path, &before).is_ok());
        fs::rename(&other, &path).unwrap();
        assert_eq!(open(&path, &before).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn it_is_filled_with_all_or_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ring.jsonl.zst");
        let file = GrowingFile::create(&path).unwrap();
        file.fill([&b"all "[..], b"of it"]).unwrap();
        assert!(GrowingFile::create(&path).is_err());
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "all of it");
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let error = |path: &Path| GrowingFile::open(path, false).err().unwrap().to_string();
        assert!(error(Path::new("/not/there")).contains("Create its directory first"));
        assert!(error(Path::new("/tmp")).contains("Name a file in it"));
        assert!(GrowingFile::open(Path::new("/dev/null"), false).unwrap().recording(true).is_ok());
    }
}
