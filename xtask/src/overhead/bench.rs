//! Two processes that do nothing but switch to each other, on one CPU.

use std::{
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{error::Error, load::Child};
use crate::command::not_started;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs `perf bench sched pipe` on CPU 0.
pub(super) fn nanos_per_switch(loops: u32) -> Result<f64, Error> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "perf", "bench", "sched", "pipe", "-l"]).arg(loops.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Child::new("perf bench", command.spawn().map_err(|source| not_started(&command, source))?);
    let deadline = Instant::now() + TIMEOUT;
    while child.ended()?.is_none() {
        if Instant::now() > deadline {
            return Err(Error::BenchTimeout(TIMEOUT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // A few lines: they fit in the pipe, so that it need not be read before the end.
    let mut output = String::new();
    if let Some(mut stdout) = child.take_stdout() {
        stdout.read_to_string(&mut output).map_err(|source| Error::Process { load: "perf bench", source })?;
    }
    parse(&output).ok_or(Error::Bench(output))
}

/// One operation is a round trip: two switches.
fn parse(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("usecs/op"))?;
    let micros: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(micros * 1_000.0 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_two_switches() {
        let output = "# Running 'sched/pipe' benchmark:\n# Executed 100000 pipe operations between two processes\n\n     \
                      Total time: 0.548 [sec]\n\n       5.484140 usecs/op\n         182343 ops/sec\n";
        assert!((parse(output).unwrap() - 2_742.07).abs() < 1e-6);
        assert_eq!(parse("Total time: 0.548 [sec]"), None);
    }
}
