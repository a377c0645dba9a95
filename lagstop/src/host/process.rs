//! Processes by number.

use std::{fs, str::FromStr};

/// When a process started, in clock ticks since boot: with its number, which one it is. `None` where it is gone, also where
/// nobody has taken note of its end yet.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    if b"ZXx".contains(&state(&stat)?) { None } else { starttime(&stat) }
}

/// Is it stopped, by a signal or by a debugger?
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    state(&stat).is_some_and(|state| b"Tt".contains(&state))
}

/// Is a thread running, or ready to?
pub fn is_runnable(tid: u32) -> bool {
    let stat = fs::read(format!("/proc/{tid}/stat")).unwrap_or_default();
    state(&stat) == Some(b'R')
}

/// `<pid> (<name>) <state> …`, proc_pid_stat(5).
pub(super) fn state(stat: &[u8]) -> Option<u8> {
    stat.rsplit(|byte| *byte == b')').next()?.trim_ascii_start().first().copied()
}

/// `<pid> (<name>) …`: the 22nd field, proc_pid_stat(5). The name can hold anything, brackets included.
pub(super) fn starttime(stat: &[u8]) -> Option<u64> {
    field(stat, 22)
}

/// The CPU on which it runs, or ran last: the 39th field.
pub(super) fn last_cpu(stat: &[u8]) -> Option<u32> {
    field(stat, 39)
}

/// A field behind the name, which is the second. The first is 1.
pub(super) fn field<T: FromStr>(stat: &[u8], number: usize) -> Option<T> {
    let after = stat.rsplit(|byte| *byte == b')').next()?;
    str::from_utf8(after).ok()?.split_whitespace().nth(number - 3)?.parse().ok()
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

    #[test]
    fn where_it_runs_is_known() {
        let stat: Vec<String> = (1..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) R {}", stat[3..].join(" "));
        assert_eq!((starttime(stat.as_bytes()), last_cpu(stat.as_bytes())), (Some(22), Some(39)));
        assert_eq!(last_cpu(b"7 (a) R 1"), None);
    }

    #[test]
    fn what_it_does_is_known() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert!(is_runnable(own) && !is_stopped(own), "this very thread runs");
        assert!(!is_runnable(u32::MAX) && !is_stopped(u32::MAX));
        assert_eq!((state(b"7 (a) R) T 1 7"), state(b"")), (Some(b'T'), None));
    }
}
