//! A command that is recorded while it runs, in a cgroup of its own.
//!
//! A second process of lagstop's keeps it. That is started before anything is measured, and waits: what measuring gives up,
//! capabilities above all, the keeper and the command do not. It goes on when the first reading was made.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command as Process, ExitCode, ExitStatus},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tokio::sync::oneshot;

use crate::{
    cli::{Failure, block_on, listen, say},
    host::Hierarchy,
    model::GroupBy,
    plain::plain,
};

/// The subcommand of the keeper.
pub(in crate::cli) const KEEP: &str = "keep-command";

/// A command that is ready to run. Where it is never started, nothing is left of it.
pub(super) struct Command(Option<Child>);

impl Command {
    /// Starts the keeper, which makes the cgroup.
    pub(super) fn prepare(command: &[OsString]) -> Result<Self, Failure> {
        let myself =
            std::env::current_exe().map_err(|error| format!("lagstop cannot find itself: {}", plain(&error)))?;
        let keeper = Process::new(myself).arg(KEEP).args(command).spawn();
        let keeper = keeper.map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        match waitpid(Some(Pid::from_child(&keeper)), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => Ok(Self(Some(keeper))),
            _ => Err("the command has no cgroup, as said above, and was not run".into()),
        }
    }

    /// Lets it run.
    pub(super) fn start(mut self) -> Result<Running, Failure> {
        let Some(mut keeper) = self.0.take() else { return Err("the command was started already".into()) };
        kill_process(Pid::from_child(&keeper), Signal::CONT)
            .map_err(|error| format!("the command cannot be started: {}", plain(&error.into())))?;
        let (sender, ended) = oneshot::channel();
        // Of no use when nobody listens any more.
        thread::spawn(move || sender.send(keeper.wait()));
        Ok(Running { ended: Some(ended), status: None })
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let Some(mut keeper) = self.0.take() else { return };
        let pid = Pid::from_child(&keeper);
        // It is stopped, and cannot clean up itself.
        let _ = keeper.kill().and_then(|()| keeper.wait());
        if let Ok(Hierarchy { mount, .. }) = Hierarchy::find(GroupBy::Scheduler) {
            let _ = fs::remove_dir(directory(&mount, pid));
        }
    }
}

/// Where the cgroup of a keeper's command is.
fn directory(mount: &Path, keeper: Pid) -> PathBuf {
    mount.join(format!("lagstop-command-{}", keeper.as_raw_nonzero()))
}

/// A command that runs.
pub(super) struct Running {
    ended: Option<oneshot::Receiver<std::io::Result<ExitStatus>>>,
    status: Option<ExitStatus>,
}

impl Running {
    /// Its exit status.
    pub(super) async fn end(mut self) -> Result<ExitCode, Failure> {
        if let Some(ended) = self.ended.take() {
            self.status = ended.await.ok().and_then(Result::ok);
        }
        Ok(exit_code(self.status.ok_or("it is not known how the command ended")?))
    }
}

/// Waits until the command has ended, for ever where there is none.
pub(super) async fn ended(running: &mut Option<Running>) {
    let ended = running.as_mut().and_then(|running| running.ended.as_mut());
    let Some(ended) = ended else { return std::future::pending().await };
    let status = ended.await.ok().and_then(Result::ok);
    if let Some(running) = running {
        (running.ended, running.status) = (None, status);
    }
}

/// As a shell would give it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Makes a cgroup, waits to be continued, runs `command` in it, and removes it. Ends with the command's status.
pub(in crate::cli) fn keep_command(command: &[OsString]) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Err("there is no command".into()) };
    let cgroup = Cgroup::make()?;
    block_on(async {
        // Ctrl-C is for the command: its keeper is there for what comes after.
        let mut endings = listen()?;
        kill_process(getpid(), Signal::STOP).map_err(|error| format!("cannot wait: {}", plain(&error.into())))?;
        cgroup.join()?;
        let started = Process::new(program).args(arguments).spawn();
        cgroup.leave()?;
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                say(format_args!("lagstop: {} cannot be run: {}\n", program.display(), plain(&error)));
                // As shells have it.
                return Ok(ExitCode::from(127));
            }
        };
        let pid = Pid::from_child(&child);
        let (sender, mut ended) = oneshot::channel();
        thread::spawn(move || sender.send(child.wait()));
        loop {
            tokio::select! {
                status = &mut ended => return Ok(exit_code(status??)),
                // A terminal sends it to the command as well; kill(1) does not.
                () = endings.wait() => drop(kill_process(pid, Signal::TERM)),
            }
        }
    })
}

/// A cgroup that is gone with this.
struct Cgroup {
    mount: PathBuf,
    directory: PathBuf,
}

impl Cgroup {
    fn make() -> Result<Self, Failure> {
        let mount = Hierarchy::find(GroupBy::Scheduler)?.mount;
        let directory = directory(&mount, getpid());
        fs::create_dir(&directory).map_err(|error| {
            let path = directory.display();
            format!("the cgroup {path} cannot be made: {}. Run as root, where cgroups may be written", plain(&error))
        })?;
        Ok(Self { mount, directory })
    }

    /// Moves this process into it.
    fn join(&self) -> Result<(), Failure> {
        let joined = fs::write(self.directory.join("cgroup.procs"), "0");
        joined.map_err(|error| format!("{} cannot be joined: {}", self.directory.display(), plain(&error)).into())
    }

    /// Moves this process out of it again: it would keep it from going.
    fn leave(&self) -> Result<(), Failure> {
        let left = fs::write(self.mount.join("cgroup.procs"), "0");
        left.map_err(|error| format!("{} cannot be left: {}", self.directory.display(), plain(&error)).into())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        const STEP: Duration = Duration::from_millis(20);
        const STEPS: u32 = 100;
        let is_gone = (0..STEPS).any(|_| {
            fs::remove_dir(&self.directory).is_ok() || {
                thread::sleep(STEP);
                false
            }
        });
        if !is_gone {
            let path = self.directory.display();
            say(format_args!(
                "lagstop: {path} stays: the command left processes in it. Remove it when they have ended\n"
            ));
        }
    }
}
