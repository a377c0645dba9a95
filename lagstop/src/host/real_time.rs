//! What real-time tasks use of the CPUs.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::{
    figures::clock_tick,
    process::{field, starttime},
};
use crate::model::Nanos;

/// Follows the threads of SCHED_FIFO and SCHED_RR that this process can see, from look to look. Kernel threads are left out.
#[derive(Debug)]
pub struct RealTime {
    at: Instant,
    threads: HashMap<u32, Looked>,
}

/// CPU time used by real-time threads.
#[derive(Clone, Debug, PartialEq)]
pub struct RealTimeUse {
    /// Of all of them, in CPUs.
    pub cpus: f64,
    /// The name and the id of the one that used most.
    pub name: String,
    pub tid: u32,
}

/// A real-time thread at a look. Times are in clock ticks: when it began since boot, and what it has used.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Looked {
    began: u64,
    used: u64,
}

impl RealTime {
    /// The shortest time that says something: CPU time is counted in ticks.
    pub const SHORTEST: Duration = Duration::from_secs(1);

    /// Takes the first look.
    pub fn begin() -> Self {
        Self { at: Instant::now(), threads: threads() }
    }

    /// What they used since the look before. `None` where there is none, or that look was less than [`Self::SHORTEST`] ago.
    pub fn used(&mut self) -> Option<RealTimeUse> {
        let time = self.at.elapsed();
        if time < Self::SHORTEST {
            return None;
        }
        let before = std::mem::replace(self, Self::begin());
        let up = clock_gettime(ClockId::Boottime).tv_sec.unsigned_abs() * ticks(Nanos::SECOND);
        let since = up.saturating_sub(ticks(Nanos::from(time)));
        let (all, tid) = most(&before.threads, &self.threads, since)?;
        let name = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
        Some(RealTimeUse {
            cpus: all as f64 * clock_tick().seconds() / time.as_secs_f64(),
            name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
            tid,
        })
    }
}

fn ticks(time: Nanos) -> u64 {
    time.0 / clock_tick().0.max(1)
}

/// What real-time threads used in between, and the one that used most. One that was not real-time before counts only if it began
/// `since` then: what else it used, it used as another kind.
fn most(before: &HashMap<u32, Looked>, now: &HashMap<u32, Looked>, since: u64) -> Option<(u64, u32)> {
    let used = |(tid, now): (&u32, &Looked)| match before.get(tid) {
        Some(before) if before.began == now.began => (now.used.saturating_sub(before.used), *tid),
        _ if now.began >= since => (now.used, *tid),
        _ => (0, *tid),
    };
    let all = || now.iter().map(used);
    let (_, tid) = all().max()?;
    Some((all().map(|(used, _)| used).sum(), tid))
}

fn threads() -> HashMap<u32, Looked> {
    let numbers = |directory: &str| {
        let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let of = |pid: u32| {
        let tids = numbers(&format!("/proc/{pid}/task")).into_iter().filter(|tid| is_real_time(*tid));
        tids.filter_map(move |tid| Some((tid, parse(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)?)))
    };
    numbers("/proc").into_iter().flat_map(of).collect()
}

/// A call of the kernel for each thread, which takes a fraction of the time that reading its file takes.
fn is_real_time(tid: u32) -> bool {
    /// Says what a child of it is to be.
    const RESET_ON_FORK: i64 = 0x4000_0000;
    // SAFETY: takes no pointers.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) };
    policy >= 0 && [libc::SCHED_FIFO, libc::SCHED_RR].map(i64::from).contains(&(policy & !RESET_ON_FORK))
}

/// proc_pid_stat(5): flags, utime, stime and starttime. `None` of a kernel thread.
fn parse(stat: &[u8]) -> Option<Looked> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let number = |place| field::<u64>(stat, place);
    let looked = Looked { began: starttime(stat)?, used: number(14)? + number(15)? };
    (number(9)? & PF_KTHREAD == 0).then_some(looked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn looked(began: u64, used: u64) -> Looked {
        Looked { began, used }
    }

    #[test]
    fn only_what_a_thread_used_in_real_time_in_between_is_counted() {
        let before = [(2, looked(7, 50)), (3, looked(8, 900))].into();
        let now = [
            // It was of another kind before.
            (1, looked(7, 130)),
            (2, looked(7, 55)),
            // Another thread of the same id, and a new one.
            (3, looked(9, 4)),
            (4, looked(9, 1)),
        ]
        .into();
        assert_eq!(most(&before, &now, 9), Some((10, 2)));
        assert_eq!(most(&before, &HashMap::new(), 9), None);
    }

    #[test]
    fn a_line_of_the_kernels_is_read() {
        let stat = |flags: u64| {
            let mut fields: Vec<String> = (1..=52).map(|field| field.to_string()).collect();
            fields[8] = flags.to_string();
            format!("7 (a) b) {}", fields[2..].join(" ")).into_bytes()
        };
        assert_eq!(parse(&stat(0x0040_0140)), Some(looked(22, 29)));
        assert_eq!(parse(&stat(0x0020_8040)), None, "a kernel thread");
        assert_eq!(parse(b"7 (a) R 1"), None);
    }

    #[test]
    fn a_short_time_is_not_judged() {
        let mut real_time = RealTime::begin();
        let at = real_time.at;
        assert_eq!(real_time.used(), None);
        assert_eq!(real_time.at, at, "the first look still stands");
    }
}
