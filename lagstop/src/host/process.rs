//! Processes by number.

use std::fs;

/// When a process started, in clock ticks since boot: with its number, which one it is. `None` where it is gone, also where
/// nobody has taken note of its end yet.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit(|byte| *byte == b')').next()?.trim_ascii_start().first()?;
    if b"ZXx".contains(state) { None } else { starttime(&stat) }
}

/// `<pid> (<name>) …`: the 22nd field, proc_pid_stat(5). The name can hold anything, brackets included.
pub(super) fn starttime(stat: &[u8]) -> Option<u64> {
    let after = stat.rsplit(|byte| *byte == b')').next()?;
    str::from_utf8(after).ok()?.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_of_who_is_there() {
        assert!(started(std::process::id()).is_some());
        assert_eq!(started(u32::MAX), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{}", child.id())).unwrap(), "it is a zombie");
        child.wait().unwrap();
        assert_eq!(starttime(b"7 (a) \xffb) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99"), Some(4_711));
        assert_eq!(starttime(b""), None);
    }
}
