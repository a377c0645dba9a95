//! The machine that figures were taken on, and whether they can be.

use std::{fs, path::Path};

use serde::Serialize;

use super::error::Error;

/// What figures depend on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
}

/// Tools, and the Debian packages that have them.
const TOOLS: &[(&str, &str)] =
    &[("perf", "linux-perf"), ("bpftrace", "bpftrace"), ("taskset", "util-linux"), ("unshare", "util-linux")];

pub(super) fn require_root_and_tools() -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let missing = TOOLS.iter().filter(|(tool, _)| !is_there(tool));
    let (tools, mut packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    packages.dedup();
    if tools.is_empty() { Ok(()) } else { Err(Error::Tools(tools, packages)) }
}

pub(super) fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu: model(&cpuinfo).unwrap_or("unknown").to_owned(),
        cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
    }
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_named_as_the_kernel_does() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n"), Some("A CPU @ 2 GHz"));
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
