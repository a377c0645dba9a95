//! Commands that name a cgroup: its path may hold anything that a file name can.

use crate::model::{CgroupId, Session};

/// A command that gives the cgroup twice the default weight, for a POSIX shell on the host of `session`. Where its path
/// holds what may not show as it is, or leads elsewhere, the directory is looked up by its inode number.
pub(super) fn double_weight(session: &Session, id: CgroupId, path: &str) -> String {
    let mount = if session.cgroup_mount.is_empty() { "/sys/fs/cgroup" } else { &session.cgroup_mount };
    let (file, value) = match session.cgroup_version {
        1 => ("cpu.shares", 2_048),
        _ => ("cpu.weight", 200),
    };
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let inside = path.starts_with('/') && !path.split('/').any(|part| part == "." || part == "..");
    if plain(mount) && plain(path) && inside {
        let target = quote(&format!("{mount}{}/{file}", path.trim_end_matches('/')));
        format!("echo {value} | sudo tee {target}")
    } else {
        // Writes nowhere when it is gone.
        let write = format!("echo {value} > \"$1/{file}\"");
        format!("sudo find {} -xdev -type d -inum {} -exec sh -c '{write}' sh {{}} \\;", quote(mount), id.0)
    }
}

/// What undoes it, where nothing else was set before.
pub(super) const fn default_weight(session: &Session) -> u32 {
    match session.cgroup_version {
        1 => 1_024,
        _ => 100,
    }
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
        let of = |path| double_weight(&session("/sys/fs/cgroup", 2), CgroupId(77), path);
        assert_eq!(of("/a.slice/b"), "echo 200 | sudo tee /sys/fs/cgroup/a.slice/b/cpu.weight");
        assert_eq!(of("/x';reboot;'"), r"echo 200 | sudo tee '/sys/fs/cgroup/x'\'';reboot;'\''/cpu.weight'");
        assert_eq!(of("/$(reboot)`id`"), "echo 200 | sudo tee '/sys/fs/cgroup/$(reboot)`id`/cpu.weight'");
        for hidden in ["/a\nb", "/a\u{1b}[2J", "/a\u{202e}b", "/\u{3164}", "/../../etc", "relative", ""] {
            assert!(of(hidden).contains("-inum 77") && !of(hidden).contains('\n'), "{hidden:?}");
        }
    }

    #[test]
    fn the_command_is_that_of_the_hosts_hierarchy() {
        let of = |mount, version| double_weight(&session(mount, version), CgroupId(77), "/a");
        assert_eq!(of("/sys/fs/cgroup/cpu,cpuacct", 1), "echo 2048 | sudo tee /sys/fs/cgroup/cpu,cpuacct/a/cpu.shares");
        assert_eq!(of("", 2), "echo 200 | sudo tee /sys/fs/cgroup/a/cpu.weight", "of a recording that does not say");
    }
}
