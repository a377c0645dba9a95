//! Commands that name a cgroup: its path may hold anything that a file name can.

use crate::model::{CgroupId, Session};

/// A command that writes `value` to a `file` of the cgroup, for a POSIX shell on the host of `session`. Where its path
/// holds what may not show as it is, or leads elsewhere, the directory is looked up by its inode number.
pub(super) fn write(session: &Session, id: CgroupId, path: &str, file: &str, value: &str) -> String {
    let mount = mount(session);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let inside = path.starts_with('/') && !path.split('/').any(|part| part == "." || part == "..");
    if plain(mount) && plain(path) && inside {
        let target = quote(&format!("{mount}{}/{file}", path.trim_end_matches('/')));
        format!("echo {} | sudo tee {target}", quote(value))
    } else {
        // Writes nowhere when it is gone.
        let write = format!("echo \"{value}\" > \"$1/{file}\"");
        format!("sudo find {} -xdev -type d -inum {} -exec sh -c '{write}' sh {{}} \\;", quote(mount), id.0)
    }
}

/// The file that a cgroup's weight is in, and what it is by default.
pub(super) const fn weight(session: &Session) -> (&'static str, u32) {
    match session.cgroup_version {
        1 => ("cpu.shares", 1_024),
        _ => ("cpu.weight", 100),
    }
}

/// The file that a cgroup's quota is in, and what to write for so many cores.
pub(super) fn quota(session: &Session, cores: f64) -> (&'static str, String) {
    let quota = (cores * 100_000.0).round().clamp(1_000.0, 1e12) as u64;
    match session.cgroup_version {
        1 => ("cpu.cfs_quota_us", quota.to_string()),
        _ => ("cpu.max", format!("{quota} 100000")),
    }
}

/// A command that gives the cgroup these CPUs. In version 1 they are in a hierarchy of their own, where the cgroup may have
/// to be made first.
pub(super) fn cpuset(session: &Session, id: CgroupId, path: &str, cpus: &str) -> String {
    let sibling = mount(session).rsplit_once('/').map(|(parent, _)| format!("{parent}/cpuset"));
    let (1, Some(cpusets)) = (session.cgroup_version, sibling) else {
        return write(session, id, path, "cpuset.cpus", cpus);
    };
    let steps = "mkdir -p \"$2\" && cat \"$1/cpuset.mems\" > \"$2/cpuset.mems\" && echo \"$4\" > \"$2/cpuset.cpus\" && \
                 while read -r task; do echo \"$task\" > \"$2/tasks\"; done < \"$3/tasks\"";
    let inside = path.trim_matches('/');
    let [root, to, from] =
        [&cpusets, &format!("{cpusets}/{inside}"), &format!("{}/{inside}", mount(session))].map(|it| quote(it));
    format!("sudo sh -c '{steps}' sh {root} {to} {from} {cpus}")
}

/// A command that lists the cgroups inside of which the scheduler groups once more.
pub(super) fn list_levels(session: &Session) -> String {
    let mount = quote(mount(session));
    match session.cgroup_version {
        1 => format!("find {mount} -mindepth 1 -type d -links +2"),
        _ => format!("find {mount} -name cgroup.subtree_control -exec grep -lw cpu {{}} +"),
    }
}

/// Where the hierarchy is, or where it is by convention in a recording that does not say.
fn mount(session: &Session) -> &str {
    if session.cgroup_mount.is_empty() { "/sys/fs/cgroup" } else { &session.cgroup_mount }
}

/// `text` as one word of the shell.
fn quote(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if text.chars().all(safe) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(mount: &str, version: u8) -> Session {
        Session { cgroup_mount: mount.to_owned(), cgroup_version: version, ..Session::default() }
    }

    #[test]
    fn a_hostile_path_stays_one_word() {
        let of = |path| write(&session("/sys/fs/cgroup", 2), CgroupId(77), path, "cpu.weight", "200");
        assert_eq!(of("/a.slice/b"), "echo 200 | sudo tee /sys/fs/cgroup/a.slice/b/cpu.weight");
        assert_eq!(of("/x';reboot;'"), r"echo 200 | sudo tee '/sys/fs/cgroup/x'\'';reboot;'\''/cpu.weight'");
        assert_eq!(of("/$(reboot)`id`"), "echo 200 | sudo tee '/sys/fs/cgroup/$(reboot)`id`/cpu.weight'");
        for hidden in ["/a\nb", "/a\u{1b}[2J", "/a\u{202e}b", "/\u{3164}", "/../../etc", "relative", ""] {
            assert!(of(hidden).contains("-inum 77") && !of(hidden).contains('\n'), "{hidden:?}");
        }
    }

    #[test]
    fn the_command_is_that_of_the_hosts_hierarchy() {
        let of = |mount, version| {
            let session = session(mount, version);
            let (file, default) = weight(&session);
            [write(&session, CgroupId(77), "/a", file, &default.to_string()), list_levels(&session)]
        };
        assert_eq!(
            of("/sys/fs/cgroup/cpu,cpuacct", 1),
            [
                "echo 1024 | sudo tee /sys/fs/cgroup/cpu,cpuacct/a/cpu.shares",
                "find /sys/fs/cgroup/cpu,cpuacct -mindepth 1 -type d -links +2"
            ]
        );
        assert_eq!(of("", 2)[0], "echo 100 | sudo tee /sys/fs/cgroup/a/cpu.weight", "of a recording that does not say");
        assert!(of("/mnt/c g", 2)[1].starts_with("find '/mnt/c g' -name cgroup.subtree_control"));
    }
}
