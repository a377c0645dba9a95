//! Commands that only read files drop their privileges first, because the content of these files is not trusted.
//!
//! A user who has the privileges through file capabilities (setcap) could otherwise read any file. Root keeps the
//! privileges that are needed to open the named files: recordings in other users' homes, and output files beside them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, Command};
use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::Errno,
    process::getuid,
};

use super::{Failure, output::directory};
use crate::{
    display::plain,
    kernel::{Capabilities, Capability},
};

/// Commands that only read files.
const READERS: [&str; 6] = ["show", "cut", "merge", "export", "diff", "fleet"];
/// Value names of the arguments that name files.
const NAMES: [&str; 3] = ["FILE", "BEFORE", "AFTER"];
/// Name of the argument that is a file to write.
const WRITTEN: &str = "output";
/// Name of the global argument that is a file to read.
const CONFIG: &str = "config";

/// The files that a command was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    read: Vec<PathBuf>,
    written: Vec<PathBuf>,
}

impl Files {
    /// The files on this command line. `None` if the command does more than read files.
    pub(super) fn of(command: &Command, given: &ArgMatches) -> Option<Self> {
        let (name, given) = given.subcommand()?;
        let reads = |argument: &str| given.try_get_raw(argument).is_ok_and(|values| values.is_some());
        let only_reads = READERS.contains(&name) || (["diagnose", "mcp"].contains(&name) && reads("files"));
        if !only_reads {
            return None;
        }
        let mut files = Self::default();
        let names_files = |argument: &&Arg| {
            let names = argument.get_value_names().unwrap_or_default();
            names.iter().any(|name| NAMES.contains(&name.as_str()))
        };
        let arguments = command.find_subcommand(name)?.get_arguments().filter(names_files);
        for id in arguments.map(|argument| argument.get_id().as_str()).chain([CONFIG]) {
            let list = if id == WRITTEN { &mut files.written } else { &mut files.read };
            let values = given.try_get_raw(id).ok().flatten().into_iter().flatten();
            list.extend(values.filter(|value| *value != "-").map(PathBuf::from));
        }
        Some(files)
    }

    /// Permanently drops all privileges that are not needed to open these files.
    pub(super) fn give_up_the_rest(&self) -> Result<(), Failure> {
        let given_up = self.needed().and_then(Capabilities::keep_of_held);
        given_up.map_err(|error| format!("cannot drop privileges: {}. Please report it", plain(&error)).into())
    }

    fn needed(&self) -> io::Result<Capabilities> {
        if !getuid().is_root() {
            return Ok(Capabilities::NONE);
        }
        // Tried without any privileges: what can be opened then needs none.
        Capabilities::NONE.try_with(|| {
            let is_closed = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS) == Err(Errno::ACCESS);
            let is_kept_out =
                |path: &PathBuf| is_closed(path, Access::WRITE_OK) || is_closed(directory(path), Access::WRITE_OK);
            if self.written.iter().any(is_kept_out) {
                Capabilities::ANY_FILE
            } else if self
                .read
                .iter()
                .any(|path| is_closed(path, Access::READ_OK) || inside(path).any(|it| is_closed(&it, Access::READ_OK)))
            {
                Capabilities::NONE.with(Capability::DacReadSearch)
            } else {
                Capabilities::NONE
            }
        })
    }
}

/// The entries of a directory. Nothing for other files.
fn inside(path: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::*;

    fn files(line: &str) -> Option<Files> {
        let command = super::super::command();
        let given = command.clone().try_get_matches_from(line.split(' ')).unwrap();
        Files::of(&command, &given)
    }

    #[test]
    fn files_are_those_of_the_command_line() {
        let of = |read: &[&str], written: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
            Some(Files { read: paths(read), written: paths(written) })
        };
        assert_eq!(files("lagstop show a.jsonl"), of(&["a.jsonl"], &[]));
        assert_eq!(files("lagstop diff a b"), of(&["a", "b"], &[]));
        assert_eq!(files("lagstop merge a b -o c"), of(&["a", "b"], &["c"]));
        assert_eq!(files("lagstop cut a --output -"), of(&["a"], &[]));
        assert_eq!(files("lagstop fleet --prometheus http://p --token-file t"), of(&["t"], &[]));
        assert_eq!(files("lagstop diagnose a"), of(&["a"], &[]));
        assert_eq!(files("lagstop mcp a b"), of(&["a", "b"], &[]));
        assert_eq!(files("lagstop --config b diagnose a"), of(&["a", "b"], &[]));
        assert_eq!(files("lagstop diagnose a --config b"), of(&["a", "b"], &[]));
        for measures in
            ["lagstop diagnose", "lagstop record --output a", "lagstop serve", "lagstop check", "lagstop mcp"]
        {
            assert_eq!(files(measures), None, "{measures}");
        }
    }

    #[test]
    fn root_keeps_what_opening_takes_and_no_more() {
        if !getuid().is_root() || !Capabilities::held().has(Capability::DacReadSearch) {
            return;
        }
        let all = tempfile::tempdir().unwrap();
        let (own, others) = (all.path().join("own"), all.path().join("others"));
        for directory in [&own, &others] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("a"), "").unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        }
        chown(&others, Some(1_000), Some(1_000)).unwrap();
        let needed = |read: &[&PathBuf], written: &[&PathBuf]| {
            let paths = |paths: &[&PathBuf]| paths.iter().map(|path| path.join("a")).collect();
            Files { read: paths(read), written: paths(written) }.needed().unwrap()
        };
        assert_eq!(needed(&[&own], &[&own]), Capabilities::NONE);
        assert_eq!(needed(&[&own, &others], &[&own]), Capabilities::NONE.with(Capability::DacReadSearch));
        assert_eq!(needed(&[&own], &[&others]), Capabilities::ANY_FILE);
        assert_eq!(needed(&[&all.path().join("none")], &[&all.path().to_owned()]), Capabilities::NONE);
    }
}
