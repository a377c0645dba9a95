//! A host on which nothing stays as it is: cgroups, threads, listeners, CPU sets and CPUs come and go.

use std::{
    collections::VecDeque,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Error;
use crate::{
    interrupt::Interrupt,
    tenants::{Tenants, quiet},
    work::{Kind, Work},
};

/// What the mark of its cgroups says.
const PURPOSE: &str = "soak";
/// Between two cgroups.
const STEP: Duration = Duration::from_millis(100);
/// Cgroups that are there at a time.
const ALIVE: usize = 50;
/// One in so many cgroups has its CPUs moved.
const NTH: usize = 10;

/// Churns until it is interrupted, and gives how many cgroups there were.
pub(super) fn churn(interrupt: &Interrupt) -> Result<usize, Error> {
    let mut alive: VecDeque<Tenants> = VecDeque::new();
    let mut listeners: VecDeque<TcpListener> = VecDeque::new();
    let mut count = 0;
    while !interrupt.has_come() {
        let mut tenants = Tenants::make(&format!("lagstop-soak-{count}"), PURPOSE)?;
        let kind = match count % 3 {
            0 => Kind::Nap { least_ms: 5, most_ms: 50 },
            1 => Kind::Burst { on_ms: 20, off_ms: 400 },
            _ => Kind::Loop { work_us: 200, think_us: 20_000 },
        };
        let work = Work { seed: count as u64, threads: 1 + count as u64 % 4, seconds: 60, kind };
        let mut command = quiet(work.command().map_err(Error::file("this program"))?);
        tenants.spawn("", &mut command)?;
        alive.push_back(tenants);
        if alive.len() > ALIVE {
            alive.pop_front();
        }
        listen(&mut listeners)?;
        if count % NTH == 0 {
            wander();
        }
        count += 1;
        interrupt.sleep(STEP);
    }
    Ok(count)
}

/// Opens one more listener with two connections, of which it accepts one; closes the oldest listener.
fn listen(listeners: &mut VecDeque<TcpListener>) -> Result<(), Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::file("a listener"))?;
    let address: SocketAddr = listener.local_addr().map_err(Error::file("a listener"))?;
    let connections = [0; 2].map(|_| TcpStream::connect(address));
    let _ = listener.accept();
    drop(connections);
    listeners.push_back(listener);
    if listeners.len() > 20 {
        listeners.pop_front();
    }
    Ok(())
}

/// Moves this thread to its first CPU, and lets it go everywhere again.
fn wander() {
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)) {
        one.set(first);
        let _ = sched_setaffinity(None, &one);
        thread::yield_now();
        let _ = sched_setaffinity(None, &all);
    }
}

/// The last CPU, which comes back when this is dropped.
pub(super) struct Offline(String);

impl Offline {
    /// `None` where this machine does not let its CPUs go.
    pub(super) fn last() -> Option<Self> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let last: u32 = online.trim().rsplit(['-', ',']).next()?.parse().ok()?;
        let switch = format!("/sys/devices/system/cpu/cpu{last}/online");
        (last > 0 && fs::write(&switch, "0").is_ok()).then_some(Self(switch))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // The kernel may be busy with another change for a moment.
        for _ in 0..100 {
            if fs::write(&self.0, "1").is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("A CPU stays offline: echo 1 > {}", self.0);
    }
}
