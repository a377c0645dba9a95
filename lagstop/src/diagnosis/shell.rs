//! Commands that name a cgroup: its path may hold anything that a file name can.

use crate::model::CgroupId;

/// A command that writes `value` to `file` of the cgroup, for a POSIX shell on a cgroup v2 host. Where its path holds
/// what may not show as it is, or leads elsewhere, the directory is looked up by its inode number.
pub(super) fn write(id: CgroupId, path: &str, file: &str, value: &str) -> String {
    let plain = path.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let inside = path.starts_with('/') && !path.split('/').any(|part| part == "." || part == "..");
    if plain && inside {
        let target = quote(&format!("/sys/fs/cgroup{}/{file}", path.trim_end_matches('/')));
        format!("echo {value} | sudo tee {target}")
    } else {
        // Writes nowhere when it is gone.
        let write = format!("echo {value} > \"$1/{file}\"");
        format!("sudo find /sys/fs/cgroup -xdev -type d -inum {} -exec sh -c '{write}' sh {{}} \\;", id.0)
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

    #[test]
    fn a_hostile_path_stays_one_word() {
        let of = |path| write(CgroupId(77), path, "cpu.weight", "200");
        assert_eq!(of("/a.slice/b"), "echo 200 | sudo tee /sys/fs/cgroup/a.slice/b/cpu.weight");
        assert_eq!(of("/x';reboot;'"), r"echo 200 | sudo tee '/sys/fs/cgroup/x'\'';reboot;'\''/cpu.weight'");
        assert_eq!(of("/$(reboot)`id`"), "echo 200 | sudo tee '/sys/fs/cgroup/$(reboot)`id`/cpu.weight'");
        for hidden in ["/a\nb", "/a\u{1b}[2J", "/a\u{202e}b", "/\u{3164}", "/../../etc", "relative", ""] {
            assert!(of(hidden).contains("-inum 77") && !of(hidden).contains('\n'), "{hidden:?}");
        }
    }
}
