//! The cgroup hierarchy whose groups are measured: where it is mounted, and which of its groups still exist.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use super::{HostError, read};
use crate::model::{CgroupId, GroupBy};

/// Version of the cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy a controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A mounted hierarchy.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub version: Version,
    pub mount: PathBuf,
    /// The part of it that is mounted: `/` but in a container.
    root: String,
    pub(super) group_by: GroupBy,
}

impl Hierarchy {
    /// Finds the hierarchy whose groups tasks are grouped by.
    ///
    /// # Errors
    /// When it is not mounted.
    pub fn find(group_by: GroupBy) -> Result<Self, HostError> {
        Ok(Self::choose(&read("/proc/self/mountinfo")?, group_by)?.seen_from_here())
    }

    /// The hierarchy with the `cpuset` controller, which in version 1 is one of its own. `None` where it is not mounted.
    pub(super) fn with_cpusets(&self) -> Option<Self> {
        match self.version {
            Version::V1 => Some(self.cpusets(&read("/proc/self/mountinfo").ok()?)?.seen_from_here()),
            Version::V2 => Some(self.clone()),
        }
    }

    fn cpusets(&self, mountinfo: &str) -> Option<Self> {
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let mount = first(mounts.iter().filter(|mount| mount.has("cpuset")))?;
        Some(mount.hierarchy(Version::V1, self.group_by))
    }

    fn seen_from_here(mut self) -> Self {
        if self.is_whole() {
            // From inside of a cgroup namespace the host's root is called `/../..`.
            self.root = "/".to_owned();
        }
        self
    }

    /// One in a directory of a test.
    #[cfg(test)]
    pub(crate) fn at(version: Version, mount: &Path, group_by: GroupBy) -> Self {
        Self { version, mount: mount.to_owned(), root: "/".to_owned(), group_by }
    }

    /// Is the root of the hierarchy mounted, and not a part of it? Only other cgroups can be frozen, or tell whether there
    /// is anybody in them; only the root has a release agent.
    pub fn is_whole(&self) -> bool {
        match self.version {
            Version::V1 => self.mount.join("release_agent").exists(),
            Version::V2 => !self.mount.join("cgroup.events").exists(),
        }
    }

    /// The scheduler groups by the hierarchy that has the `cpu` controller: a v1 one where there is one.
    pub(super) fn choose(mountinfo: &str, group_by: GroupBy) -> Result<Self, HostError> {
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let v1 = first(mounts.iter().filter(|mount| mount.has("cpu"))).map(|mount| (mount, Version::V1));
        let v2 = first(mounts.iter().filter(|mount| mount.fs == "cgroup2")).map(|mount| (mount, Version::V2));
        let (chosen, what) = match group_by {
            GroupBy::Scheduler => (v1.or(v2), "with the cpu controller"),
            GroupBy::Leaf => (v2, "of version 2"),
        };
        let (mount, version) = chosen.ok_or(HostError::NoCgroups(what))?;
        Ok(mount.hierarchy(version, group_by))
    }

    /// The directory of the cgroup with this path in the hierarchy; `None` where it is outside of what is mounted.
    pub fn directory(&self, path: &str) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.root.trim_end_matches('/'))?;
        Some(self.mount.join(inside.trim_start_matches('/')))
    }

    /// The path in the hierarchy of the cgroup in `directory`.
    pub fn path(&self, directory: &Path) -> String {
        let inside = directory.strip_prefix(&self.mount).unwrap_or(directory).to_string_lossy();
        match self.root.trim_end_matches('/') {
            root if inside.is_empty() && !root.is_empty() => root.to_owned(),
            root => format!("{root}/{inside}"),
        }
    }

    /// Has the scheduler a group for the cgroup in `directory`, which is not the root? Where version 2 does not hand the
    /// controller down to a cgroup, its tasks compete in the group of the next above it that has one.
    pub fn has_group(&self, directory: &Path) -> bool {
        match (self.version, self.group_by) {
            (Version::V2, GroupBy::Scheduler) => directory.join("cpu.weight").exists(),
            (Version::V1, _) | (_, GroupBy::Leaf) => true,
        }
    }

    /// Files of the `cpu` controller that cgroups below the root have, by name, in order. Empty where there is no such cgroup.
    pub fn cpu_files(&self) -> Vec<String> {
        let directories = fs::read_dir(&self.mount).into_iter().flatten().flatten().map(|entry| entry.path());
        let Some(group) = directories.into_iter().find(|path| path.join("cpu.stat").exists() && self.has_group(path))
        else {
            return Vec::new();
        };
        let names = fs::read_dir(group)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut files: Vec<String> = names.filter(|name| name.starts_with("cpu.")).collect();
        files.sort_unstable();
        files
    }

    /// Opens a cgroup's directory by its id alone. Needs CAP_DAC_READ_SEARCH.
    pub(super) fn open(&self, id: CgroupId) -> io::Result<OwnedFd> {
        open_by_id(&self.mount, id)
    }

    /// Does the cgroup exist? Only a clear no is a no.
    pub fn is_gone(&self, id: CgroupId, path: &str) -> bool {
        let found = self.directory(path).map(fs::metadata);
        if found.as_ref().is_some_and(|found| found.as_ref().is_ok_and(|found| found.ino() == id.0)) {
            return false;
        }
        // It may have been renamed, be outside of what is mounted, or have a path that was cut: ask by id.
        match self.open(id) {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => true,
            // Not permitted to ask: a path that is whole and leads nowhere is answer enough. Should it have been renamed
            // after all, it gets another row, and the two are added up.
            Err(_) => {
                let nowhere = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
                !path.contains('…') && found.is_some_and(|found| found.is_err_and(|error| nowhere(&error)))
            }
        }
    }
}

/// One line of `/proc/self/mountinfo`, proc_pid_mountinfo(5).
struct Mount<'l> {
    root: &'l str,
    point: &'l str,
    fs: &'l str,
    options: &'l str,
}

impl<'l> Mount<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Self { root: before.next()?, point: before.next()?, fs: after.next()?, options: after.nth(1)? })
    }

    /// Is it a hierarchy of version 1 with that controller?
    fn has(&self, controller: &str) -> bool {
        self.fs == "cgroup" && self.options.split(',').any(|option| option == controller)
    }

    fn hierarchy(&self, version: Version, group_by: GroupBy) -> Hierarchy {
        Hierarchy { version, mount: PathBuf::from(unescape(self.point)), root: unescape(self.root), group_by }
    }
}

/// The first one that is mounted as a whole, or else the first.
fn first<'m, 'l: 'm>(mut mounts: impl Iterator<Item = &'m Mount<'l>> + Clone) -> Option<&'m Mount<'l>> {
    mounts.clone().find(|mount| mount.root == "/").or_else(|| mounts.next())
}

/// Undoes the octal escapes of mountinfo: `\040` is a space.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        match after.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte.into());
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

/// Opens a cgroup's directory by its id, which is what kernfs makes file handles of (`fs/kernfs/mount.c`,
/// `FILEID_KERNFS`). Needs CAP_DAC_READ_SEARCH.
fn open_by_id(mount: &Path, id: CgroupId) -> io::Result<OwnedFd> {
    const FILEID_KERNFS: libc::c_int = 0xfe;
    #[repr(C)]
    struct Handle {
        header: libc::file_handle,
        id: u64,
    }
    let mount = File::open(mount)?;
    // SAFETY: plain integers.
    let mut handle: Handle = unsafe { std::mem::zeroed() };
    handle.header.handle_bytes = 8;
    handle.header.handle_type = FILEID_KERNFS;
    handle.id = id.0;
    // SAFETY: the handle is followed by as many bytes as it says.
    let fd =
        unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), libc::O_PATH | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_ONLY: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "\
        24 22 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        26 24 0:23 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const CONTAINER: &str = "40 39 0:26 /docker/abc /sys/fs/cgroup\\040host ro - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_the_schedulers() {
        let of = |mountinfo, group_by| Hierarchy::choose(mountinfo, group_by).map(|found| (found.version, found.mount));
        let unified = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(of(V2_ONLY, GroupBy::Scheduler).unwrap(), (Version::V2, unified));
        assert_eq!(
            of(HYBRID, GroupBy::Scheduler).unwrap(),
            (Version::V1, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")),
            "cpuset is another controller"
        );
        assert_eq!(of(HYBRID, GroupBy::Leaf).unwrap(), (Version::V2, PathBuf::from("/sys/fs/cgroup/unified")));
        let host = Hierarchy::choose(HYBRID, GroupBy::Scheduler).unwrap();
        assert_eq!(host.cpusets(HYBRID).map(|found| found.mount), Some("/sys/fs/cgroup/cpuset".into()));
        let error = of("1 0 0:1 / / rw - ext4 /dev/sda rw\n", GroupBy::Scheduler).unwrap_err().to_string();
        assert!(error.contains("mount -t cgroup2"), "{error}");
    }

    /// As every user can mount with fusermount, and as some USB sticks are called.
    #[test]
    fn a_mount_whose_name_is_no_text_is_in_nobodys_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut mountinfo = b"29 23 0:25 / /media/u\xffmnt rw - fuse x rw\n".to_vec();
        mountinfo.extend(V2_ONLY.as_bytes());
        fs::write(file.path(), mountinfo).unwrap();
        let text = read(file.path().to_str().unwrap()).unwrap();
        assert_eq!(Hierarchy::choose(&text, GroupBy::Leaf).unwrap().mount, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn of_several_mounts_the_whole_one_is_taken() {
        let both = format!("{CONTAINER}{V2_ONLY}");
        let host = Hierarchy::choose(&both, GroupBy::Leaf).unwrap();
        assert_eq!((host.mount.as_path(), host.root.as_str()), (Path::new("/sys/fs/cgroup"), "/"));
    }

    #[test]
    fn paths_are_taken_relative_to_what_is_mounted() {
        let host = Hierarchy::choose(HYBRID, GroupBy::Scheduler).unwrap();
        assert_eq!(host.directory("/a/b"), Some("/sys/fs/cgroup/cpu,cpuacct/a/b".into()));
        let container = Hierarchy::choose(CONTAINER, GroupBy::Scheduler).unwrap();
        assert_eq!(container.directory("/docker/abc/x"), Some("/sys/fs/cgroup host/x".into()));
        assert_eq!(container.directory("/other"), None);
        for path in ["/", "/a/b"] {
            assert_eq!(host.path(&host.directory(path).unwrap()), path);
        }
        for path in ["/docker/abc", "/docker/abc/x"] {
            assert_eq!(container.path(&container.directory(path).unwrap()), path);
        }
    }
}
