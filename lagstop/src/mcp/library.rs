//! Recordings that the user has named, by files or by directories. A client has their names, and no paths.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use crate::display::{plain, short_name};

/// Entries of a directory that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// Cells of a name.
const LONGEST_NAME: usize = 200;
/// What recordings are called in a directory, which may have other files.
const ENDINGS: [&str; 2] = [".jsonl", ".jsonl.zst"];

/// Recordings that the user has named.
#[derive(Debug)]
pub struct Library(Vec<PathBuf>);

/// A recording that a client may ask about.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Keeps the recording alive if it is only in memory.
    pub(super) _open: Option<Arc<File>>,
}

/// Why there is no library.
#[derive(Debug, Error)]
#[error("{}: cannot open it: {}. Check the path and its permissions", path.display(), plain(source))]
pub struct LibraryError {
    path: PathBuf,
    source: io::Error,
}

impl Library {
    /// The recordings in these files, and in these directories, whenever one comes to be there.
    ///
    /// # Errors
    /// When one of these is not there, or may not be looked at.
    pub fn new(given: Vec<PathBuf>) -> Result<Self, LibraryError> {
        for path in &given {
            let look =
                fs::metadata(path).and_then(|it| if it.is_dir() { fs::read_dir(path).map(drop) } else { Ok(()) });
            look.map_err(|source| LibraryError { path: path.clone(), source })?;
        }
        Ok(Self(given))
    }

    /// Those that are there now, each by a name of its own.
    pub(super) fn list(&self) -> Vec<Listed> {
        let mut taken = BTreeSet::new();
        let name = |path: PathBuf| {
            let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let base = short_name(&file, LONGEST_NAME);
            let numbered = (2u64..).map(|n| format!("{base} ({n})"));
            let name = [base.to_string()].into_iter().chain(numbered).find(|name| taken.insert(name.clone()))?;
            Some(Listed { name, path, _open: None })
        };
        self.0
            .iter()
            .flat_map(|given| if given.is_dir() { inside(given) } else { vec![given.clone()] })
            .filter_map(name)
            .collect()
    }
}

/// The recordings in a directory, by name: with `record --rotate` that is by time. Links are left out: they may lead to what the
/// user did not mean.
fn inside(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_recording = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_called_so = ENDINGS.iter().any(|ending| name.to_string_lossy().ends_with(ending));
        is_called_so && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    let entries = entries.take(MOST_ENTRIES).flatten().filter(is_recording);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_have_names_of_their_own_and_links_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for directory in ["a", "b"] {
            fs::create_dir(at(directory)).unwrap();
            fs::write(at(directory).join("host.jsonl"), "").unwrap();
        }
        fs::write(at("a/x\u{1b}[2J.jsonl.zst"), "").unwrap();
        fs::write(at("a/secret.txt"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a/link.jsonl")).unwrap();
        let library = Library::new(vec![at("a"), at("b/host.jsonl")]).unwrap();
        let names = |library: &Library| library.list().into_iter().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names(&library), ["host.jsonl", "x\u{fffd}[2J.jsonl.zst", "host.jsonl (2)"]);
        fs::write(at("a/later.jsonl"), "").unwrap();
        assert_eq!(names(&library).len(), 4);
        assert!(Library::new(vec![at("none")]).unwrap_err().to_string().contains("No such file"));
    }
}
