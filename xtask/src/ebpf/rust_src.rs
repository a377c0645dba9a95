//! Unpacks the standard library's source into the sysroot.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::Error;
use crate::command::run;

/// Levels of folders above `library/` in an archive: Debian's package has `usr/src/rustc-1.95.0/`.
const DEPTH: usize = 4;

/// Unpacks `file`, a Debian package or a tar archive that holds `library/`, to `library`.
pub(super) fn unpack(file: &Path, library: &Path, release: &str) -> Result<(), Error> {
    let absent = || Error::NoLibrary { path: file.to_owned(), release: release.to_owned() };
    fs::metadata(file).map_err(Error::file("read", file))?;
    let dir = tempfile::tempdir().map_err(Error::file("made", &std::env::temp_dir()))?;
    if file.extension().is_some_and(|extension| extension == "deb") {
        run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(dir.path()))?;
        let right_one = dir.path().join(format!("usr/src/rustc-{release}"));
        if !right_one.is_dir() {
            return Err(absent());
        }
    } else {
        run(Command::new("tar").arg("--extract").arg("--file").arg(file).arg("--directory").arg(dir.path()))?;
    }
    let found = find_library(dir.path(), DEPTH).ok_or_else(absent)?;
    fs::create_dir_all(library).map_err(Error::file("made", library))?;
    run(Command::new("cp").args(["--recursive", "--no-target-directory"]).arg(&found).arg(library))?;
    eprintln!("The standard library's source is in {} now.", library.display());
    Ok(())
}

fn find_library(dir: &Path, depth: usize) -> Option<PathBuf> {
    let here = dir.join("library");
    if here.join("Cargo.lock").is_file() && here.join("core").is_dir() {
        return Some(here);
    }
    if depth == 0 {
        return None;
    }
    let below = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).find_map(|path| find_library(&path, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_unpacked_wherever_its_library_lies() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("in/rustc-1.95.0/library");
        fs::create_dir_all(tree.join("core")).unwrap();
        fs::write(tree.join("Cargo.lock"), "locked").unwrap();
        let file = dir.path().join("source.tar.gz");
        run(Command::new("tar").arg("-C").arg(dir.path().join("in")).arg("-czf").arg(&file).arg(".")).unwrap();

        let library = dir.path().join("sysroot/library");
        unpack(&file, &library, "1.95.0").unwrap();
        assert_eq!(fs::read_to_string(library.join("Cargo.lock")).unwrap(), "locked");
        assert!(library.join("core").is_dir());
    }

    #[test]
    fn an_archive_without_library_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        let file = dir.path().join("source.tar.gz");
        run(Command::new("tar").arg("-C").arg(dir.path()).arg("-czf").arg(&file).arg("other")).unwrap();
        let error = unpack(&file, &dir.path().join("library"), "1.95.0").unwrap_err();
        assert!(error.to_string().contains("holds no `library/`"), "{error}");
    }
}
