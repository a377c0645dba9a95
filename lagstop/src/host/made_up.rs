//! Runs everything that reads what the kernel says, in files and of sockets, on made-up input, for fuzzing.

use std::path::Path;

use super::{
    Hierarchy, bandwidth, busy, cpu_time, figures, limits, netstat, pressure, process, schedstat, sock_diag, threads,
};
use crate::model::{GroupBy, Nanos};

/// Reads `text` as a `/proc/self/mountinfo`, and looks for a cgroup there and back.
#[doc(hidden)]
pub fn read_mountinfo(text: &str) {
    for group_by in [GroupBy::Scheduler, GroupBy::Leaf] {
        let Ok(hierarchy) = Hierarchy::choose(text, group_by) else { continue };
        let directory = hierarchy.directory("/a/b");
        let _ = hierarchy.path(directory.as_deref().unwrap_or(Path::new("/a/b")));
    }
}

/// Reads `bytes` as each file of the kernel that has figures in it, and as what it says of sockets.
#[doc(hidden)]
pub fn read_kernel_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let tick = Nanos(10_000_000);
    let _ = bandwidth::parse(text);
    let _ = busy::parse(text, tick);
    let _ = (cpu_time::parse("cpu.stat", text), cpu_time::parse("cpuacct.usage", text));
    let _ = crate::units::parse_cpus(text);
    let _ = (figures::steal(text, &[0], tick), pressure::parse(text));
    let _ = limits::quota_v2(text);
    let (quota, period) = text.split_once('\n').unwrap_or((text, "100000"));
    let _ = limits::quota_v1(quota, period);
    let _ = netstat::parse(text, "ListenOverflows");
    let _ = (process::state(bytes), process::starttime(bytes));
    let _ = schedstat::parse(text);
    let _ = threads::parse(text);
    let _ = sock_diag::parse(bytes, &mut Vec::new());
}
