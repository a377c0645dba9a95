//! Runs a target, and takes in what it says of itself.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::command::{CommandError, line, not_started};

/// What a target has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) executions: u64,
    /// The most memory that it had.
    pub(super) peak_mib: u64,
}

impl Done {
    /// Takes in a line of libFuzzer's, as `-print_final_stats=1` has it write.
    fn hear(&mut self, said: &str) {
        let figure = |name: &str| said.trim().strip_prefix("stat::")?.strip_prefix(name)?.trim().parse().ok();
        self.executions = figure("number_of_executed_units:").unwrap_or(self.executions);
        self.peak_mib = figure("peak_rss_mb:").unwrap_or(self.peak_mib);
    }
}

/// Runs it with its output shown, each line behind its `name`: others run beside it.
pub(super) fn run(name: &str, command: &mut Command) -> Result<Done, CommandError> {
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|source| not_started(command, source))?;
    let mut done = Done::default();
    // The output may contain pieces of made-up files, which need not be UTF-8.
    for said in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n')) {
        let Ok(said) = said else { break };
        let said = String::from_utf8_lossy(&said);
        eprintln!("{name}: {said}");
        done.hear(&said);
    }
    let status = child.wait().map_err(|source| not_started(command, source))?;
    if status.success() {
        return Ok(done);
    }
    Err(CommandError::Failed { line: line(command), status, stderr: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_of_itself_is_taken_in() {
        let mut done = Done::default();
        let said = ["#2 INITED cov: 5", "stat::number_of_executed_units: 1234", "stat::peak_rss_mb:            56"];
        said.into_iter().for_each(|said| done.hear(said));
        assert_eq!(done, Done { executions: 1_234, peak_mib: 56 });
        let script = "echo 'stat::number_of_executed_units: 7' >&2; printf '\\377\\n' >&2; exit $0";
        let of = |status: &str| run("sh", Command::new("sh").args(["-c", script, status]));
        assert_eq!(of("0").unwrap().executions, 7);
        assert!(matches!(of("3"), Err(CommandError::Failed { .. })));
    }
}
