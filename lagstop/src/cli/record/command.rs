//! A command that is recorded while it runs, in a cgroup of its own.
//!
//! It is started before anything is measured, and stopped at once: what measuring gives up, capabilities above all, the
//! command keeps. It goes on when the first reading was made.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ExitCode, ExitStatus},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tokio::sync::oneshot;

use crate::{cli::Failure, host::Hierarchy, model::GroupBy, plain::plain};

/// The subcommand that joins a cgroup and then becomes the command.
pub(in crate::cli) const JOIN: &str = "join-and-run";

/// How long to wait for what is left in the cgroup.
const PATIENCE: Duration = Duration::from_secs(2);

/// A command that is ready to run.
pub(super) struct Command {
    child: Child,
    cgroup: Cgroup,
}

impl Command {
    /// Makes a cgroup and a process in it that waits.
    pub(super) fn prepare(command: &[OsString]) -> Result<Self, Failure> {
        let cgroup = Cgroup::make()?;
        let myself =
            std::env::current_exe().map_err(|error| format!("lagstop cannot find itself: {}", plain(&error)))?;
        let mut join = std::process::Command::new(myself);
        join.arg(JOIN).arg(&cgroup.0).args(command);
        let child = join.spawn().map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        let pid = Pid::from_child(&child);
        match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => Ok(Self { child, cgroup }),
            _ => Err("the command could not be put into a cgroup: see above".into()),
        }
    }

    /// Lets it run.
    pub(super) fn start(mut self) -> Result<Running, Failure> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::CONT)
            .map_err(|error| format!("the command cannot be started: {}", plain(&error.into())))?;
        let (sender, ended) = oneshot::channel();
        // Of no use when nobody listens any more.
        thread::spawn(move || sender.send(self.child.wait()));
        Ok(Running { ended: Some(ended), status: None, _cgroup: self.cgroup })
    }
}

/// A command that runs.
pub(super) struct Running {
    ended: Option<oneshot::Receiver<std::io::Result<ExitStatus>>>,
    status: Option<ExitStatus>,
    _cgroup: Cgroup,
}

impl Running {
    /// Its exit status, as a shell would give it.
    pub(super) fn end(mut self) -> Result<ExitCode, Failure> {
        if let Some(ended) = self.ended.take() {
            self.status = ended.blocking_recv().ok().and_then(Result::ok);
        }
        let status = self.status.ok_or("it is not known how the command ended")?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
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

/// A cgroup that is gone with this.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make() -> Result<Self, Failure> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler)?;
        let path = hierarchy.mount.join(format!("lagstop-command-{}", getpid().as_raw_nonzero()));
        fs::create_dir(&path).map_err(|error| {
            format!("the cgroup {} cannot be made: {}. Run as root, on the host", path.display(), plain(&error))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        const STEP: Duration = Duration::from_millis(20);
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(STEP);
        }
        let path = self.0.display();
        crate::cli::say(format_args!(
            "lagstop: {path} is left: the command left processes in it. Remove it when they are gone\n"
        ));
    }
}

/// Joins the cgroup in `directory`, waits to be continued, and becomes `command`. Comes back only with an error.
pub(in crate::cli) fn join_and_run(directory: &Path, command: &[OsString]) -> Failure {
    if let Err(error) = fs::write(directory.join("cgroup.procs"), "0") {
        return format!("{} cannot be joined: {}", directory.display(), plain(&error)).into();
    }
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        return format!("cannot wait: {}", plain(&error.into())).into();
    }
    let Some((program, arguments)) = command.split_first() else { return "there is no command".into() };
    let error = std::process::Command::new(program).args(arguments).exec();
    format!("{} cannot be run: {}", program.display(), plain(&error)).into()
}
