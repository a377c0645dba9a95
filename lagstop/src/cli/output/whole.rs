//! Files that are replaced as a whole, or left as they were.

use std::{
    fs::{self, File, Metadata, Permissions},
    io::{self, Seek as _, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, Mode, OFlags, accessat},
    io::Errno,
};

use super::{MODE, before, cannot, is_compressed, is_stdout, make, open};
use crate::{
    cli::{Failure, terminal_options},
    kernel::Capabilities,
    recording::Writer,
    report::text::PageOptions,
};

/// An output file. The old content stays until [`Self::finish`].
pub(in crate::cli) struct WholeFile {
    path: PathBuf,
    place: Place,
    /// The file itself, where only a privilege lets this process put another one into its place: privileges may be dropped until
    /// then.
    itself: Option<Itself>,
}

struct Itself {
    file: File,
    /// Was it made for this?
    is_new: bool,
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
            return Ok(Self { path: path.to_owned(), place: Place::Stdout, itself: None });
        }
        // A link stays; the file behind it is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = before(&path, force)?;
        let place = match before.as_ref().filter(|before| !before.is_file()) {
            Some(before) => open(&path, before).map(Place::Direct),
            None => beside(&path),
        };
        let place = place.map_err(|error| cannot(&path, "written", &error))?;
        let itself = match &place {
            Place::Nameless(_) | Place::Beside { .. } if takes_privileges(directory(&path)) => {
                let itself = Itself::open(&path, before.as_ref());
                Some(itself.map_err(|error| cannot(&path, "written", &error))?)
            }
            _ => None,
        };
        Ok(Self { path, place, itself })
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
        let moved = match (moved, self.file(), &self.itself) {
            (Err(error), Some(file), Some(itself)) if error.kind() == io::ErrorKind::PermissionDenied => {
                itself.take(file)
            }
            (moved, ..) => moved,
        };
        moved.map_err(|error| cannot(&self.path, "put in its place", &error))?;
        self.place = Place::Stdout;
        self.itself = None;
        Ok(())
    }
}

impl Itself {
    /// Opens the file at `path`, which was as `before`, or makes it.
    fn open(path: &Path, before: Option<&Metadata>) -> io::Result<Self> {
        match before {
            Some(before) => Ok(Self { file: open_in_place(path, before)?, is_new: false }),
            None => Ok(Self { file: make(path)?, is_new: true }),
        }
    }

    /// Writes what is in `from` to it.
    fn take(&self, mut from: &File) -> io::Result<()> {
        from.rewind()?;
        self.file.set_len(0)?;
        io::copy(&mut from, &mut &self.file)?;
        self.file.sync_all()
    }
}

/// Opens an existing file of a directory that is somebody else's, who may exchange it at any time: no link to another file, which
/// root would overwrite. It becomes its owner's alone, as a new one would be.
fn open_in_place(path: &Path, before: &Metadata) -> io::Result<File> {
    let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let now = file.metadata()?;
    if (now.dev(), now.ino(), now.nlink()) != (before.dev(), before.ino(), 1) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    file.set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Can only a privilege make files in this directory?
fn takes_privileges(directory: &Path) -> bool {
    let is_closed = || accessat(CWD, directory, Access::WRITE_OK, AtFlags::EACCESS) == Err(Errno::ACCESS);
    Capabilities::NONE.try_with(is_closed).unwrap_or(false)
}

/// Removes what was not finished.
impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Place::Beside { path, .. } = &self.place {
            let _ = fs::remove_file(path);
        }
        // Where that takes a privilege that is gone, an empty file stays.
        if self.itself.as_ref().is_some_and(|itself| itself.is_new) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The directory that a file is in.
pub(in crate::cli) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file in the same directory.
fn beside(path: &Path) -> io::Result<Place> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = directory(path);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(MODE)) {
        Ok(file) => Ok(Place::Nameless(file.into())),
        // Not every file system has them.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
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
    use std::os::unix::fs::{chown, symlink};

    use rustix::process::getuid;

    use super::*;
    use crate::kernel::Capability;

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
    fn what_took_a_privilege_to_open_is_written_without_it() {
        if !getuid().is_root() || !Capabilities::held().has(Capability::DacReadSearch) {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        chown(home.path(), Some(1_000), Some(1_000)).unwrap();
        let (new, old) = (home.path().join("new"), home.path().join("old"));
        fs::write(&old, "what was there before").unwrap();
        let outputs = [&new, &old].map(|path| WholeFile::create(path, true).unwrap());
        let without_privileges = || outputs.map(|output| output.write("report").map_err(|error| error.to_string()));
        assert_eq!(Capabilities::NONE.try_with(without_privileges).unwrap(), [Ok(()), Ok(())]);
        for path in [&new, &old] {
            assert_eq!(fs::read_to_string(path).unwrap(), "report");
        }
        assert_eq!(fs::metadata(&old).unwrap().mode() & 0o777, 0o600, "its owner's alone");
        let (linked, link) = (home.path().join("linked"), home.path().join("link"));
        fs::write(&linked, "somebody's").unwrap();
        symlink(&linked, &link).unwrap();
        let before = fs::metadata(&link).unwrap();
        assert!(open_in_place(&link, &before).is_err(), "a link that was put there");
        fs::remove_file(&link).unwrap();
        fs::hard_link(&linked, &link).unwrap();
        assert!(open_in_place(&link, &before).is_err(), "another name of a file");
        [&linked, &link].into_iter().for_each(|path| fs::remove_file(path).unwrap());
        let other = home.path().join("other");
        drop(WholeFile::create(&other, false).unwrap());
        assert!(!other.exists(), "nothing was written");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let error = |path: &str| WholeFile::create(Path::new(path), false).err().unwrap().to_string();
        assert!(error("/not/there").contains("Create its directory first"));
        assert!(error("/").contains("Name a file in it"), "{}", error("/"));
        assert!(WholeFile::create(Path::new("/dev/null"), false).unwrap().finish().is_ok());
    }
}
