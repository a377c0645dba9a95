//! Files that are replaced as a whole, or left as they were.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::{MODE, before, cannot, is_compressed, is_stdout, make, open};
use crate::{
    cli::{Failure, terminal_options},
    recording::Writer,
    report::text::PageOptions,
};

/// An output file. The old content stays until [`Self::finish`].
pub(in crate::cli) struct WholeFile {
    path: PathBuf,
    place: Place,
}

enum Place {
    Stdout,
    /// A device or a pipe: what is written to it cannot be taken back.
    Direct(File),
    /// A file without a name: it disappears by itself, whatever happens.
    Nameless(File),
    /// A file with a temporary name, on file systems that have no files without a name.
    Beside {
        file: File,
        path: PathBuf,
    },
}

impl WholeFile {
    /// `-` is standard output. A file that exists is overwritten by `force` alone.
    pub(in crate::cli) fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Ok(Self { path: path.to_owned(), place: Place::Stdout });
        }
        // A link stays; the file behind it is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = before(&path, force)?;
        let place = match before.filter(|before| !before.is_file()) {
            Some(before) => open(&path, &before).map(Place::Direct),
            None => beside(&path),
        };
        let place = place.map_err(|error| cannot(&path, "written", &error))?;
        Ok(Self { path, place })
    }

    /// Writes a recording to it, compressed where the name says so.
    pub(in crate::cli) fn recording(&self) -> Result<Writer, Failure> {
        let writer = match self.file() {
            None => Writer::to_stdout(),
            Some(file) => Writer::to_file(self.again(file)?),
        };
        Ok(if is_compressed(&self.path) { writer.compressed() } else { writer })
    }

    /// Writes anything else to it.
    pub(in crate::cli) fn writer(&self) -> Result<Box<dyn Write + Send>, Failure> {
        Ok(match self.file() {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(self.again(file)?),
        })
    }

    /// How text is laid out there.
    pub(in crate::cli) fn options(&self) -> PageOptions {
        if self.file().is_none() { terminal_options() } else { PageOptions::default() }
    }

    /// Writes `text` to it, and puts it into its place. A reader that closes standard output early is no error.
    pub(in crate::cli) fn write(self, text: &str) -> Result<(), Failure> {
        match self.writer()?.write_all(text.as_bytes()) {
            Err(error) if self.file().is_none() && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(cannot(&self.path, "written", &error)),
            Ok(()) => self.finish(),
        }
    }

    fn again(&self, file: &File) -> Result<File, Failure> {
        file.try_clone().map_err(|error| cannot(&self.path, "written", &error))
    }

    /// The file; `None` is standard output.
    const fn file(&self) -> Option<&File> {
        match &self.place {
            Place::Stdout => None,
            Place::Direct(file) | Place::Nameless(file) | Place::Beside { file, .. } => Some(file),
        }
    }

    /// Puts what was written into its place.
    pub(in crate::cli) fn finish(mut self) -> Result<(), Failure> {
        let moved = match &self.place {
            Place::Stdout | Place::Direct(_) => Ok(()),
            // Synced before it gets its name: after a crash there is either the old content or all of the new.
            Place::Nameless(file) => file.sync_all().and_then(|()| name(file, &self.path)),
            Place::Beside { file, path } => file.sync_all().and_then(|()| fs::rename(path, &self.path)),
        };
        moved.map_err(|error| cannot(&self.path, "put in its place", &error))?;
        self.place = Place::Stdout;
        Ok(())
    }
}

/// Removes what was not finished.
impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Place::Beside { path, .. } = &self.place {
            let _ = fs::remove_file(path);
        }
    }
}

/// A file in the same directory.
fn beside(path: &Path) -> io::Result<Place> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(MODE)) {
        Ok(file) => Ok(Place::Nameless(file.into())),
        // Not every file system has them.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            let path = hidden(path);
            Ok(Place::Beside { file: make(&path)?, path })
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives a file without a name its final name, and replaces the file that has it.
fn name(file: &File, path: &Path) -> io::Result<()> {
    let name = hidden(path);
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, from, CWD, &name, AtFlags::SYMLINK_FOLLOW)?;
    fs::rename(&name, path).inspect_err(|_| drop(fs::remove_file(&name)))
}

/// A name beside `path` that no other file has.
fn hidden(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_was_there_stays_until_all_is_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("out");
        let written = |force| -> Result<WholeFile, Failure> {
            let output = WholeFile::create(&path, force)?;
            output.file().unwrap().write_all(b"new").unwrap();
            Ok(output)
        };
        drop(written(false).unwrap());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        assert!(written(false).err().unwrap().to_string().contains("--force"));
        drop(written(true).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        written(true).unwrap().finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "its owner's alone");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let error = |path: &str| WholeFile::create(Path::new(path), false).err().unwrap().to_string();
        assert!(error("/not/there").contains("Create its directory first"));
        assert!(error("/").contains("Name a file in it"), "{}", error("/"));
        assert!(WholeFile::create(Path::new("/dev/null"), false).unwrap().finish().is_ok());
    }
}
