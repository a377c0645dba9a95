//! Files that are written in turn: `host.jsonl.zst` becomes `host.2026-11-21T15-04-05.123Z.jsonl.zst`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::cannot;
use crate::{cli::Failure, recording::time};

/// Makes files with the time in their names, and takes the oldest away.
pub(in crate::cli::record) struct Files {
    directory: PathBuf,
    stem: String,
    /// With the dot.
    extension: String,
    keep: Option<usize>,
}

impl Files {
    /// Those that are called as `base`, with a time. `keep`: how many there are at most.
    pub(in crate::cli::record) fn new(base: &Path, keep: Option<usize>) -> Result<Self, Failure> {
        let directory = match base.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = base.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("{} is no name of a file", base.display()))?;
        if !directory.is_dir() {
            return Err(format!("{} is no directory: make it first", directory.display()).into());
        }
        let dot = name.get(1..).and_then(|rest| rest.find('.')).map_or(name.len(), |dot| dot + 1);
        let (stem, extension) = name.split_at(dot);
        Ok(Self { directory, stem: stem.to_owned(), extension: extension.to_owned(), keep })
    }

    /// A new file for what began `ago`, and when that was.
    pub(in crate::cli::record) fn create(&mut self, ago: Duration) -> Result<(File, String), Failure> {
        let (_, file, began) = self.create_named(ago)?;
        Ok((file, began))
    }

    /// The same, with its path.
    pub(in crate::cli::record) fn create_named(&mut self, ago: Duration) -> Result<(PathBuf, File, String), Failure> {
        // What is there already is somebody's: the clock may have been set back.
        let mut began = SystemTime::now() - ago;
        loop {
            let text = time(began);
            let path = self.directory.join(format!("{}.{}{}", self.stem, text.replace(':', "-"), self.extension));
            match File::options().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => began += Duration::from_millis(1),
                Err(error) => return Err(cannot(&path, "made", &error)),
                Ok(file) => {
                    self.prune()?;
                    return Ok((path, file, text));
                }
            }
        }
    }

    /// Takes the oldest away, so that there are no more than are to be kept.
    fn prune(&self) -> Result<(), Failure> {
        let Some(keep) = self.keep else { return Ok(()) };
        let entries = fs::read_dir(&self.directory).map_err(|error| cannot(&self.directory, "listed", &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ours: Vec<String> = names.filter(|name| self.is_ours(name)).collect();
        // As the times in them.
        ours.sort_unstable();
        for name in ours.iter().take(ours.len().saturating_sub(keep)) {
            let path = self.directory.join(name);
            fs::remove_file(&path).map_err(|error| cannot(&path, "removed", &error))?;
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
