//! Files with the start time in their names: `host.jsonl.zst` becomes `host.2026-11-21T15-04-05.123Z.jsonl.zst`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{Access, access};

use crate::{
    cli::{
        Failure,
        output::{GrowingFile, cannot},
    },
    display::plain,
    recording::time,
};

/// Creates files with the time in their names, and removes the oldest.
pub(in crate::cli::record) struct Files {
    directory: PathBuf,
    stem: String,
    /// With the leading dot.
    extension: String,
    keep: Option<usize>,
    /// Names of the files that were created so far, in order.
    made: Vec<String>,
}

/// A new file.
pub(in crate::cli::record) struct Made {
    pub(in crate::cli::record) path: PathBuf,
    pub(in crate::cli::record) file: GrowingFile,
    /// Start time of its content.
    pub(in crate::cli::record) began: String,
}

impl Files {
    /// Files named like `base`, with a time. `keep` is the maximum number of files.
    pub(in crate::cli::record) fn new(base: &Path, keep: Option<usize>) -> Result<Self, Failure> {
        let directory = match base.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = base.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("{} is not a file name: name a file with --output", base.display()))?;
        if !directory.is_dir() {
            return Err(format!("{} is not a directory. Create it first", directory.display()).into());
        }
        let dot = name.get(1..).and_then(|rest| rest.find('.')).map_or(name.len(), |dot| dot + 1);
        let (stem, extension) = name.split_at(dot);
        Ok(Self { directory, stem: stem.to_owned(), extension: extension.to_owned(), keep, made: Vec::new() })
    }

    /// Can new files be created? Must be called with the privileges that remain for creating them.
    pub(in crate::cli::record) fn check(&self) -> Result<(), Failure> {
        access(&self.directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let (directory, error) = (self.directory.display(), plain(&error.into()));
            format!(
                "cannot write to {directory}: {error}. lagstop drops its privileges while it measures: name a directory that \
                 its user can write to without them"
            )
            .into()
        })
    }

    /// A new file whose content began `ago`.
    pub(in crate::cli::record) fn make(&mut self, ago: Duration) -> Result<Made, Failure> {
        // An existing file is never overwritten: the clock may have been set back.
        let mut began = SystemTime::now() - ago;
        loop {
            let text = time(began);
            let name = format!("{}.{}{}", self.stem, text.replace(':', "-"), self.extension);
            let path = self.directory.join(&name);
            match GrowingFile::create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => began += Duration::from_millis(1),
                Err(error) => return Err(cannot(&path, "created", &error)),
                Ok(file) => {
                    self.made.push(name);
                    return Ok(Made { path, file, began: text });
                }
            }
        }
    }

    /// Removes the oldest files, so that no more than the maximum remain. Called once the new file has content: if the
    /// disk is full, the old files are all there is.
    pub(in crate::cli::record) fn prune(&mut self) -> Result<(), Failure> {
        let Some(keep) = self.keep else { return Ok(()) };
        let entries = fs::read_dir(&self.directory).map_err(|error| cannot(&self.directory, "listed", &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ours: Vec<String> = names.filter(|name| self.is_ours(name)).collect();
        self.made.retain(|made| ours.contains(made));
        // Files of earlier recordings are sorted by the times in their names. Own files are sorted by creation, because
        // the clock may have been set back.
        ours.sort_by_key(|name| (self.made.iter().position(|made| made == name), name.clone()));
        for name in ours.iter().take(ours.len().saturating_sub(keep)) {
            let path = self.directory.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(&path, "removed", &error)),
                // A new file may get the same name.
                _ => self.made.retain(|made| made != name),
            }
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        let inner = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_suffix(&self.extension));
        inner.and_then(|inner| inner.strip_prefix('.')).is_some_and(is_time)
    }
}

/// Is it a time as [`Files`] writes it?
fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00-00-00.000Z";
    let fits = |(form, byte): (&u8, u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form };
    text.len() == FORM.len() && FORM.iter().zip(text.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_may_be_set_back() {
        let home = tempfile::tempdir().unwrap();
        let mut files = Files::new(&home.path().join("a.jsonl"), Some(2)).unwrap();
        for later in ["2090-01-01T00-00-00.000Z", "2091-01-01T00-00-00.000Z"] {
            fs::write(home.path().join(format!("a.{later}.jsonl")), "of an earlier recording").unwrap();
        }
        let mut made = |ago| {
            let made = files.make(Duration::from_secs(ago)).unwrap();
            // An empty one would not stay.
            made.file.fill([&b"something"[..]]).unwrap();
            files.prune().unwrap();
            made.path
        };
        let names = || {
            let mut names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.sort();
            names
        };
        let first = made(0);
        assert_eq!(names().len(), 2);
        assert!(first.exists());
        let second = made(3_600);
        assert_eq!(names(), [second.clone(), first]);
        let third = made(7_200);
        assert_eq!(names(), [third, second]);
        // Within a millisecond names come back.
        for _ in 0..9 {
            let last = made(10_000);
            assert!(last.exists());
        }
    }

    #[test]
    fn only_what_it_made_is_its_own() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(&home.path().join("a.b.jsonl.zst"), None).unwrap();
        assert!(files.is_ours("a.2026-11-21T15-04-05.123Z.b.jsonl.zst"));
        for name in
            ["a.b.jsonl.zst", "a.2026-11-21.b.jsonl.zst", "x.2026-11-21T15-04-05.123Z.b.jsonl.zst", "a..b.jsonl.zst"]
        {
            assert!(!files.is_ours(name), "{name}");
        }
    }
}
