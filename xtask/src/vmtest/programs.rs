//! Programs of this machine that a guest gets, with the libraries that they load.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{error::Error, matrix::Arch};
use crate::command::stdout;

/// A file, as it is to be in the guest.
pub(super) struct Carried {
    /// Where, below the root, without a slash in front.
    pub(super) path: String,
    pub(super) content: Vec<u8>,
}

impl Carried {
    /// Those above it, from the top.
    pub(super) fn directories(&self) -> impl Iterator<Item = &str> {
        self.path.match_indices('/').map(|(end, _)| &self.path[..end])
    }
}

/// The programs, in `bin`, and where they look for them the libraries that they load.
pub(super) fn carried(programs: &[PathBuf], arch: Arch) -> Result<Vec<Carried>, Error> {
    let mut files = Vec::new();
    let mut libraries = BTreeSet::new();
    for program in programs {
        let no = |why| Error::NotCarried { path: program.clone(), why };
        if !arch.is_this_machines() {
            return Err(no("the guest has another architecture"));
        }
        let name = program.file_name().and_then(|name| name.to_str()).ok_or_else(|| no("it has no name"))?;
        files.push(Carried { path: format!("bin/{name}"), content: read(program)? });
        // Of a script or a program without libraries, ldd says so and fails.
        libraries.extend(stdout(Command::new("ldd").arg(program)).as_deref().map_or_else(|_| Vec::new(), loads));
    }
    for path in libraries {
        files.push(Carried { content: read(Path::new(&path))?, path: path.trim_start_matches('/').to_owned() });
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::file("read", path))
}

/// The libraries in what `ldd` says.
fn loads(said: &str) -> Vec<String> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    said.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_in_what_ldd_says() {
        let said =
            "\tlinux-vdso.so.1 (0x7ffc)\n\tlibz.so.1 => /lib/x86/libz.so.1 (0x7f01)\n\t/lib64/ld.so.2 (0x7f02)\n";
        assert_eq!(loads(said), ["/lib/x86/libz.so.1", "/lib64/ld.so.2"]);
    }

    #[test]
    fn directories_come_from_the_top() {
        let carried = Carried { path: "lib/x86/libz.so.1".to_owned(), content: Vec::new() };
        assert_eq!(carried.directories().collect::<Vec<_>>(), ["lib", "lib/x86"]);
    }
}
