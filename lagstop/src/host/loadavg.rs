//! How many threads there are, from `/proc/loadavg` (proc_loadavg(5)).

use std::fs;

/// Threads of all PID namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Those that run or wait for a CPU at this moment.
    pub runnable: u64,
    pub all: u64,
}

impl ThreadCounts {
    /// `None` if they cannot be read.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/loadavg").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (runnable, all) = text.split_whitespace().nth(3)?.split_once('/')?;
        Some(Self { runnable: runnable.parse().ok()?, all: all.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_the_fourth_field() {
        let counts = ThreadCounts::parse("0.20 0.18 0.12 3/80 11206\n");
        assert_eq!(counts, Some(ThreadCounts { runnable: 3, all: 80 }));
        assert_eq!(ThreadCounts::parse("0.20 0.18 0.12"), None);
        assert!(ThreadCounts::now().is_some_and(|counts| counts.runnable > 0 && counts.all > counts.runnable));
    }
}
