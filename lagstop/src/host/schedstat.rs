//! What the scheduler has booked to a thread: `/proc/<tid>/schedstat`.

use std::{fs, io};

use crate::model::Nanos;

/// A thread's figures since it began. What it does at the moment is not in them yet: CPU time is booked at the tick, and
/// a wait where it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedstat {
    pub cpu_ns: Nanos,
    /// Time it waited on run queues.
    pub runq_wait_ns: Nanos,
    /// How often it got a CPU. 0 for ever on a kernel that counts neither this nor waits.
    pub timeslices: u64,
}

pub(crate) fn read(tid: u32) -> io::Result<Schedstat> {
    parse(&fs::read_to_string(format!("/proc/{tid}/schedstat"))?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Does this kernel count waits?
pub(crate) fn counts_waits() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    read(own).is_ok_and(|own| own.timeslices > 0)
}

/// `<cpu> <wait> <timeslices>`, Documentation/scheduler/sched-stats.rst.
pub(super) fn parse(text: &str) -> Option<Schedstat> {
    let mut figures = text.split_whitespace().map(|figure| figure.parse().ok());
    let mut next = || figures.next().flatten();
    Some(Schedstat { cpu_ns: Nanos(next()?), runq_wait_ns: Nanos(next()?), timeslices: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_figures_are_read() {
        let expected = Schedstat { cpu_ns: Nanos(12), runq_wait_ns: Nanos(34), timeslices: 5 };
        assert_eq!(parse("12 34 5\n"), Some(expected));
        assert_eq!(parse("12 34\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_thread_that_is_there_is_read() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert!(read(own).is_ok());
        assert!(read(u32::MAX).is_err());
    }
}
