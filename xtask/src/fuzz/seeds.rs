//! What fuzzing begins with: small recordings of every form, and each kind of fault; and what others write.
//!
//! They are cut out of a real recording, so that they say what recordings say. Files in the corpus that are not made here
//! are what was found, by the name of `found-…`.

mod dictionary;
mod faults;
mod sources;
mod texts;

use std::{collections::BTreeMap, fs, path::PathBuf};

use self::sources::Sources;
use super::{FuzzError, target::Target};
use crate::workspace::Workspace;

/// Where the words are that recordings consist of, below `fuzz`.
pub(super) const DICTIONARY: &str = "recording.dict";

/// Files by their names.
type Files = BTreeMap<String, Vec<u8>>;

pub(super) fn write(workspace: &Workspace) -> Result<(), FuzzError> {
    for (path, bytes) in all(workspace)? {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(FuzzError::file(folder))?;
        }
        fs::write(&path, bytes).map_err(FuzzError::file(&path))?;
    }
    Ok(())
}

/// All that is written, and where.
fn all(workspace: &Workspace) -> Result<Vec<(PathBuf, Vec<u8>)>, FuzzError> {
    let fuzz = workspace.root().join("fuzz");
    let sources = Sources::of(workspace)?;
    let mut all = vec![(fuzz.join(DICTIONARY), dictionary::text().into_bytes())];
    for (target, files) in [(Target::Recording, faults::files(&sources)), (Target::RoundTrip, sources.plain_files())] {
        let folder = fuzz.join("corpus").join(target.name());
        all.extend(files.into_iter().map(|(name, bytes)| (folder.join(name), bytes)));
    }
    let folder = |target: &Target| fuzz.join("corpus").join(target.name());
    all.extend(texts::ALL.iter().map(|(target, name, text)| (folder(target).join(name), text.as_bytes().to_vec())));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_corpus_is_what_would_be_written() {
        for (path, bytes) in all(&Workspace::here()).unwrap() {
            let found = fs::read(&path).unwrap_or_default();
            assert!(found == bytes, "{} is out of date: run `cargo xtask fuzz --seeds`", path.display());
        }
    }

    #[test]
    fn the_corpus_is_small() {
        let all = all(&Workspace::here()).unwrap();
        // Each counter of a cgroup makes it some kilobytes larger.
        assert!(all.len() < 100 && all.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 350_000);
    }
}
