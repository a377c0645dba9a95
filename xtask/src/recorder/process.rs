//! The process that measures, and what the kernel says it took.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use lagstop::recording::Reader;
use rustix::process::{Pid, Signal, kill_process};

use super::error::Error;

/// lagstop at work. It is ended on every way out.
pub(crate) struct Process(Child);

impl Process {
    /// A recorder.
    pub(super) fn record(lagstop: &Path, output: &Path) -> Result<Self, Error> {
        let mut command = Command::new(lagstop);
        command.args(["record", "--interval", "1s", "--duration", "10m", "--force", "--output"]).arg(output);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Self).map_err(Error::file(lagstop.display().to_string()))
    }

    /// A server of metrics of at most `top` cgroups, and where it listens.
    pub(crate) fn serve(lagstop: &Path, top: usize) -> Result<(Self, String), Error> {
        let mut command = Command::new(lagstop);
        command.args(["serve", "--listen", "127.0.0.1:0", "--top", &top.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = child.map(Self).map_err(Error::file(lagstop.display().to_string()))?;
        let mut said = String::new();
        if let Some(stderr) = process.0.stderr.take() {
            BufReader::new(stderr).read_line(&mut said).map_err(Error::file("what the server says"))?;
        }
        let address = said.split("serving http://").nth(1).and_then(|rest| rest.split("/metrics").next());
        match address {
            Some(address) => Ok((process, address.to_owned())),
            None => Err(Error::Server(said)),
        }
    }

    fn read(&self, file: &str) -> Result<(String, String), Error> {
        let path = format!("/proc/{}/{file}", self.0.id());
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        Ok((path, text))
    }

    /// CPU time that all of its threads have used, `utime` and `stime` of proc_pid_stat(5).
    pub(crate) fn cpu_time(&self) -> Result<Duration, Error> {
        let (path, text) = self.read("stat")?;
        ticks(&text)
            .map(|ticks| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
            .ok_or(Error::Proc(path))
    }

    /// CPU time that its present threads have used, to the nanosecond.
    pub(crate) fn cpu_time_of_threads(&self) -> Result<Duration, Error> {
        let tasks = format!("/proc/{}/task", self.0.id());
        let mut sum = Duration::ZERO;
        for task in fs::read_dir(&tasks).map_err(Error::file(&tasks))?.flatten() {
            // One may end meanwhile.
            let schedstat = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let ns = schedstat.split(' ').next().and_then(|ns| ns.parse().ok());
            sum += ns.map(Duration::from_nanos).unwrap_or_default();
        }
        Ok(sum)
    }

    /// The most memory that it ever had, in KiB.
    pub(crate) fn most_memory(&self) -> Result<u64, Error> {
        let (path, text) = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).ok_or(Error::Proc(path))
    }

    /// Asks it to end, and waits until it has finished its work.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.0), Signal::INT).map_err(|error| Error::file("lagstop")(error.into()))?;
        let status = self.0.wait().map_err(Error::file("lagstop"))?;
        if status.success() { Ok(()) } else { Err(Error::Failed(status)) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// The two figures after the eleven that follow the program's name, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut figures = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(figures.next()?.ok()? + figures.next()?.ok()?)
}

/// The average number of cgroups in an interval of the recording, without the first `skipped` intervals.
pub(super) fn running(recording: &Path, skipped: usize) -> Result<usize, Error> {
    let mut reader = Reader::open(recording)?;
    let (mut all, mut intervals) = (0, 0);
    for n in skipped..reader.len() {
        all += reader.interval(n)?.cgroups.len();
        intervals += 1;
    }
    Ok(all / intervals.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_called_anything() {
        assert_eq!(ticks("7 (a) 1 2) S 1 2 3 4 5 6 7 8 9 10 30 12 13\n"), Some(42));
        assert_eq!(ticks("7 (a) S 1 2\n"), None);
    }
}
