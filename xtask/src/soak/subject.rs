//! lagstop at work, looked at from outside, killed and started again.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{Error, judge::Look};

/// How long it may take until it says that it has begun.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command of lagstop's, and the process that it is now.
pub(super) struct Subject {
    pub(super) name: &'static str,
    lagstop: PathBuf,
    arguments: Vec<OsString>,
    /// What it says once it has begun.
    ready: &'static str,
    child: Child,
    started: Instant,
    /// The line in which it said that it has begun.
    pub(super) began: String,
    said: Arc<Mutex<Vec<String>>>,
    /// What it took, since it was started.
    pub(super) looks: Vec<Look>,
}

impl Subject {
    pub(super) fn start(
        name: &'static str,
        lagstop: &Path,
        arguments: &[&str],
        ready: &'static str,
    ) -> Result<Self, Error> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let said = Arc::default();
        let (child, began) = begin(name, lagstop, &arguments, ready, &said)?;
        Ok(Self {
            name,
            lagstop: lagstop.to_owned(),
            arguments,
            ready,
            child,
            started: Instant::now(),
            began,
            said,
            looks: Vec::new(),
        })
    }

    /// Kills it, as a crash or the kernel would, and starts it again.
    pub(super) fn kill_and_start(&mut self) -> Result<(), Error> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(Error::file(self.name))?;
        self.start_again()
    }

    /// Starts it again once it has ended.
    pub(super) fn start_again(&mut self) -> Result<(), Error> {
        let (child, began) = begin(self.name, &self.lagstop, &self.arguments, self.ready, &self.said)?;
        (self.child, self.began, self.started) = (child, began, Instant::now());
        self.looks.clear();
        Ok(())
    }

    /// Time since it was started.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.child), signal).map_err(|error| Error::file(self.name)(error.into()))
    }

    /// Looks at what it takes. Fails where it has ended.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        if let Some(status) = self.child.try_wait().map_err(Error::file(self.name))? {
            return Err(Error::Ended { name: self.name, status, said: self.last_words() });
        }
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(proc.join("status")).map_err(Error::file("its status"))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().trim_end_matches(" kB").parse().ok()
        };
        let (Some(memory_kib), Some(threads)) = (field("RssAnon:"), field("Threads:")) else {
            return Err(Error::NotTold(self.name));
        };
        let mut look = Look { age: self.age(), memory_kib, threads, ..Look::default() };
        for entry in fs::read_dir(proc.join("fd")).map_err(Error::file("its descriptors"))?.flatten() {
            // Each may be closed by now.
            let is_socket = fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
            *if is_socket { &mut look.sockets } else { &mut look.descriptors } += 1;
            let info = fs::read_to_string(proc.join("fdinfo").join(entry.file_name())).unwrap_or_default();
            look.maps_kib += map_bytes(&info) >> 10;
        }
        self.looks.push(look);
        Ok(())
    }

    /// Ends it as Ctrl-C does. Fails where it does not end well.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.signal(Signal::INT)?;
        self.wait(true)
    }

    /// Waits until it has ended by itself: with success where `expected`, else with a failure.
    pub(super) fn wait(&mut self, expected: bool) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().map_err(Error::file(self.name))? {
                Some(status) if status.success() == expected => return Ok(()),
                Some(status) => return Err(Error::Ended { name: self.name, status, said: self.last_words() }),
                None if Instant::now() > deadline => return Err(Error::Hangs(self.name)),
                None => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn last_words(&self) -> String {
        self.said
            .lock()
            .map(|said| said.iter().rev().take(5).rev().cloned().collect::<Vec<_>>().join("\n"))
            .unwrap_or_default()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a BPF map takes in the kernel, by what `/proc` says of its descriptor: 0 where that is no map.
fn map_bytes(fdinfo: &str) -> u64 {
    let field = |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name));
    field("map_type:").and(field("memlock:")).and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default()
}

/// Starts it, and waits until it says that it has begun: the process, and that line.
fn begin(
    name: &'static str,
    lagstop: &Path,
    arguments: &[OsString],
    ready: &str,
    said: &Arc<Mutex<Vec<String>>>,
) -> Result<(Child, String), Error> {
    let mut command = Command::new(lagstop);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::file(name))?;
    let lines = listen(&mut child, said);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) if line.contains(ready) => return Ok((child, line)),
            Ok(_) => {}
            Err(_) => {
                let (_, _) = (child.kill(), child.wait());
                return Err(Error::NotBegun(name));
            }
        }
    }
}

/// Reads what it says in a thread that ends with it, and keeps the last of it.
fn listen(child: &mut Child, said: &Arc<Mutex<Vec<String>>>) -> Receiver<String> {
    const KEPT: usize = 100;
    let (sender, lines) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        let said = Arc::clone(said);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Ok(mut said) = said.lock() {
                    said.push(line.clone());
                    let old = said.len().saturating_sub(KEPT);
                    said.drain(..old);
                }
                let _ = sender.send(line);
            }
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_maps_take_what_maps_take() {
        assert_eq!(map_bytes("pos:\t0\nmap_type:\t1\nmax_entries:\t9\nmemlock:\t8192\n"), 8_192);
        assert_eq!(map_bytes("pos:\t0\nprog_type:\t17\nmemlock:\t4096\n"), 0);
    }
}
