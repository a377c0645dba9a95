//! What measuring takes.

use super::error::Error;

/// Tools, and the Debian packages that have them.
const TOOLS: &[(&str, &str)] = &[("bpftrace", "bpftrace"), ("taskset", "util-linux"), ("unshare", "util-linux")];

pub(super) fn require_root_and_tools(is_bpftrace_wanted: bool) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let wanted = TOOLS.iter().filter(|(tool, _)| is_bpftrace_wanted || *tool != "bpftrace");
    let missing = wanted.filter(|(tool, _)| !is_there(tool));
    let (tools, mut packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    packages.dedup();
    if tools.is_empty() { Ok(()) } else { Err(Error::Tools(tools, packages)) }
}
