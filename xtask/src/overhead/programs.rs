//! How long the kernel says that eBPF programs run (`kernel.bpf_stats_enabled`), beside what they are measured to add. It is more
//! than they take when nobody times them.

use std::{fs, path::PathBuf, thread, time::Duration};

use super::error::Error;

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The kernel times all programs. Dropping it restores what was set before.
pub(super) struct Timed {
    before: String,
}

impl Timed {
    pub(super) fn start() -> Result<Self, Error> {
        let error = |source| Error::File { path: PathBuf::from(SWITCH), source };
        let before = fs::read_to_string(SWITCH).map_err(error)?;
        fs::write(SWITCH, "1").map_err(error)?;
        Ok(Self { before })
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        // There is nobody left to report an error to.
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// Nanoseconds that the programs of a process take for each run of the program that takes most; with a scheduler, for
/// each switch. `None` where no program ran.
pub(super) fn ns_per_switch(pid: u32, time: Duration) -> Result<Option<f64>, Error> {
    let before = read(pid)?;
    thread::sleep(time);
    let after = read(pid)?;
    let passed = |(tag, (ns, runs)): (String, (u64, u64))| {
        let (ns_before, runs_before) = before.get(&tag).copied().unwrap_or_default();
        (ns.saturating_sub(ns_before), runs.saturating_sub(runs_before))
    };
    let programs: Vec<(u64, u64)> = after.into_iter().map(passed).collect();
    let sum: u64 = programs.iter().map(|(ns, _)| ns).sum();
    let runs = programs.into_iter().max().map_or(0, |(_, runs)| runs);
    Ok((runs > 0).then(|| sum as f64 / runs as f64))
}

/// Time and runs of each program by its tag.
fn read(pid: u32) -> Result<std::collections::BTreeMap<String, (u64, u64)>, Error> {
    let path = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let files = fs::read_dir(&path).map_err(|source| Error::File { path, source })?;
    // Files that are closed meanwhile do not belong to programs.
    let texts = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    Ok(texts.filter_map(|text| program(&text)).collect())
}

fn program(text: &str) -> Option<(String, (u64, u64))> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    Some((field("prog_tag")?.to_owned(), (field("run_time_ns")?.parse().ok()?, field("run_cnt")?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_other_files() {
        let text = "pos:\t0\nflags:\t02000002\nprog_type:\t26\nprog_jited:\t1\nprog_tag:\tc1a2\nrun_time_ns:\t900\nrun_cnt:\t3\n";
        assert_eq!(program(text), Some(("c1a2".to_owned(), (900, 3))));
        assert_eq!(program("pos:\t0\nmap_type:\t1\n"), None);
    }
}
