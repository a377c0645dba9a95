//! The cgroups that group tasks, found by walking their hierarchy.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{HostError, hierarchy::Hierarchy};
use crate::model::CgroupId;

/// A cgroup that groups tasks, and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDirectory {
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: String,
    pub directory: PathBuf,
    /// Directories below it that are no groups of their own to the scheduler: their tasks are in this one.
    pub also: Vec<PathBuf>,
    /// The group that it is in: its place in the list.
    pub parent: Option<usize>,
}

impl Hierarchy {
    /// All of them, each behind the one that it is in.
    ///
    /// # Errors
    /// When the hierarchy's root cannot be read.
    pub fn groups(&self) -> Result<Vec<GroupDirectory>, HostError> {
        let mut groups: Vec<GroupDirectory> = Vec::new();
        let mut open: Vec<(PathBuf, Option<usize>)> = vec![(self.mount.clone(), None)];
        while let Some((directory, parent)) = open.pop() {
            let metadata = match fs::metadata(&directory) {
                Ok(metadata) => metadata,
                // Gone since it was listed.
                Err(_) if parent.is_some() => continue,
                Err(source) => return Err(unreadable(&directory, source)),
            };
            let index = match parent {
                Some(parent) if !self.has_group(&directory) => {
                    groups[parent].also.push(directory.clone());
                    parent
                }
                parent => {
                    let (id, path) = (CgroupId(metadata.ino()), self.path(&directory));
                    groups.push(GroupDirectory { id, path, directory: directory.clone(), also: Vec::new(), parent });
                    groups.len() - 1
                }
            };
            // A directory has a link from itself, from the one it is in, and from each that is in it (`fs/kernfs/inode.c`,
            // `kernfs_refresh_inode`): most cgroups need not be listed.
            if metadata.nlink() == 2 {
                continue;
            }
            match fs::read_dir(&directory) {
                Ok(entries) => {
                    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                    let below = entries.flatten().filter(is_directory);
                    open.extend(below.map(|entry| (entry.path(), Some(index))));
                }
                Err(_) if parent.is_some() => {}
                Err(source) => return Err(unreadable(&directory, source)),
            }
        }
        Ok(groups)
    }
}

fn unreadable(directory: &Path, source: io::Error) -> HostError {
    HostError::Read { path: directory.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupBy;

    const V1: &str = "cgroup none rw,cpu";
    const V2: &str = "cgroup2 none rw";

    fn hierarchy(fs: &str, home: &Path, group_by: GroupBy) -> Hierarchy {
        Hierarchy::choose(&format!("30 23 0:26 / {} rw - {fs}\n", home.display()), group_by).unwrap()
    }

    /// Paths of the groups, each with that of its parent and the number of directories below that are no groups.
    fn found(hierarchy: &Hierarchy) -> Vec<(String, Option<String>, usize)> {
        let groups = hierarchy.groups().unwrap();
        for (index, group) in groups.iter().enumerate() {
            assert!(group.parent.is_none_or(|parent| parent < index));
            assert_eq!(group.id.0, fs::metadata(&group.directory).unwrap().ino());
        }
        let parent = |group: &GroupDirectory| group.parent.map(|parent| groups[parent].path.clone());
        let mut found: Vec<_> =
            groups.iter().map(|group| (group.path.clone(), parent(group), group.also.len())).collect();
        found.sort();
        found
    }

    #[test]
    fn without_the_controller_tasks_are_in_the_next_group_above() {
        let home = tempfile::tempdir().unwrap();
        for directory in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        for group in ["a", "a/d"] {
            fs::write(home.path().join(group).join("cpu.weight"), "100\n").unwrap();
        }
        let of = |path: &str, parent: Option<&str>, also| (path.to_owned(), parent.map(str::to_owned), also);
        let expected = [of("/", None, 1), of("/a", Some("/"), 2), of("/a/d", Some("/a"), 0)];
        assert_eq!(found(&hierarchy(V2, home.path(), GroupBy::Scheduler)), expected);
        let all = [
            of("/", None, 0),
            of("/a", Some("/"), 0),
            of("/a/b", Some("/a"), 0),
            of("/a/b/c", Some("/a/b"), 0),
            of("/a/d", Some("/a"), 0),
            of("/e", Some("/"), 0),
        ];
        assert_eq!(found(&hierarchy(V2, home.path(), GroupBy::Leaf)), all);
        assert_eq!(found(&hierarchy(V1, home.path(), GroupBy::Scheduler)), all);
    }

    #[test]
    fn a_hierarchy_that_is_not_there_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let gone = hierarchy(V2, &home.path().join("gone"), GroupBy::Leaf);
        assert!(gone.groups().unwrap_err().to_string().contains("gone"));
    }
}
