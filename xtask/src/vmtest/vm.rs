//! One guest in QEMU, from its start to its end.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{
    error::Error,
    matrix::Arch,
    results::{Event, GuestReport, Reader},
};
use crate::command::not_started;

/// How long a guest may take to switch itself off once it is done.
const OFF: Duration = Duration::from_secs(10);

/// What QEMU starts.
pub(super) struct Machine<'a> {
    pub(super) arch: Arch,
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
    /// Where the logs go.
    pub(super) dir: &'a Path,
    pub(super) cpus: u8,
    /// Is its time counted in instructions, and not the host's?
    pub(super) counted: bool,
}

impl Machine<'_> {
    fn console(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// The console goes to a file, results to standard output. Emulated, because stock kernels are to run wherever this
    /// does, and KVM is rare where tests run. All processors in one thread: while one writes to code that another runs, as
    /// the kernel does to attach programs, QEMU's threads may keep a translation of what was there in between, and a guest
    /// died of it (an int3 in schedule_idle() that was no longer there). It takes no longer, either.
    fn command(&self) -> Command {
        let mut qemu = Command::new(self.arch.qemu().0);
        qemu.args(self.arch.machine()).args(["-accel", "tcg,thread=single", "-m", "1G", "-no-reboot"]);
        qemu.arg("-smp").arg(self.cpus.to_string());
        if self.counted {
            qemu.args(["-icount", "shift=1,sleep=off"]);
        }
        qemu.args(["-nodefaults", "-display", "none", "-monitor", "none"]);
        qemu.arg("-serial").arg(format!("file:{}", self.console().display())).args(["-serial", "stdio"]);
        qemu.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initramfs);
        // Mitigations cost an emulated processor most, and there is no speculation on it to protect from.
        qemu.arg("-append").arg(format!("console={} panic=-1 quiet mitigations=off", self.arch.console()));
        qemu
    }

    /// Runs it until it is done or the time is over, and tells what happens.
    pub(super) fn run(&self, timeout: Duration, mut tell: impl FnMut(&Event)) -> Result<GuestReport, Error> {
        let mut command = self.command();
        let line: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
        write(&self.dir.join("qemu.txt"), format!("{line:?}\n").as_bytes())?;
        let results = self.dir.join("results.log");
        let mut log = File::create(&results).map_err(Error::file("made", &results))?;

        let start = Instant::now();
        let (qemu, lines) = Qemu::start(&mut command, &self.dir.join("qemu.log"))?;
        let mut reader = Reader::new();
        let timed_out = loop {
            match lines.recv_timeout(timeout.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    log.write_all(&line).map_err(Error::file("written", &results))?;
                    let event = reader.line(&String::from_utf8_lossy(&line), start.elapsed());
                    event.iter().for_each(&mut tell);
                    if event == Some(Event::Ended) {
                        break false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => break true,
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        if !timed_out {
            qemu.wait(OFF).map_err(Error::Watch)?;
        }
        Ok(reader.finish(timed_out, start.elapsed()))
    }

    /// The end of what the kernel said, for a guest that was not heard of again.
    pub(super) fn last_words(&self) -> String {
        let text = |name: &str| {
            fs::read(self.dir.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        let all = text("qemu.log") + &text("console.log");
        let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Arch {
    const fn machine(self) -> &'static [&'static str] {
        match self {
            Self::Amd64 => &["-machine", "pc"],
            Self::Arm64 => &["-machine", "virt", "-cpu", "neoverse-n1"],
        }
    }

    const fn console(self) -> &'static str {
        match self {
            Self::Amd64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }

    /// The guest's name of the second serial port.
    pub(super) const fn results_port(self) -> &'static str {
        match self {
            Self::Amd64 => "/dev/ttyS1",
            Self::Arm64 => "/dev/ttyAMA1",
        }
    }
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::file("written", path))
}

/// A QEMU that is killed and waited for when dropped.
struct Qemu(Child);

impl Qemu {
    /// Starts it. Its lines come with their ends.
    fn start(command: &mut Command, stderr: &Path) -> Result<(Self, Receiver<Vec<u8>>), Error> {
        let stderr = File::create(stderr).map_err(Error::file("made", stderr))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        // However xtask ends, QEMU is not left behind.
        // SAFETY: only a system call.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
        let mut child = command.spawn().map_err(|source| not_started(command, source))?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || forward(stdout, &sender));
        }
        Ok((Self(child), lines))
    }

    /// Waits for its end, for some time.
    fn wait(mut self, timeout: Duration) -> io::Result<()> {
        let start = Instant::now();
        while self.0.try_wait()?.is_none() && start.elapsed() < timeout {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Neither can fail for a child that is still there, and one that is gone needs neither.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn forward(stream: impl Read, sender: &mpsc::Sender<Vec<u8>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match stream.read_until(b'\n', &mut line) {
            Ok(1..) if sender.send(line).is_ok() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_is_dropped_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exec sleep 60"]);
        let (qemu, lines) = Qemu::start(&mut command, &dir.path().join("stderr")).unwrap();
        let pid = qemu.0.id();
        assert_eq!(lines.recv().unwrap(), b"one\n");
        assert_eq!(lines.recv().unwrap(), b"two\n");
        drop(qemu);
        assert!(lines.recv().is_err());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
