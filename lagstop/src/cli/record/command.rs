//! A command that is recorded while it runs, in a cgroup of its own.
//!
//! A second process of lagstop's [keeps it](super::keeper). That is started before anything is measured, and waits: what
//! measuring gives up, capabilities above all, the keeper and the command do not. It goes on when the first reading was made.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    process::{Child, Command as Process, ExitCode, ExitStatus},
    thread,
};

use clap::ValueEnum;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::sync::oneshot;

use super::keeper::{KEEP, exit_code};
use crate::{
    cli::{Failure, values::Grouping},
    display::plain,
};

/// A command that is ready to run. Where it is never started, nothing is left of it.
pub(super) struct Command {
    keeper: Child,
    /// The keeper waits at the other end. `None` once it was let go.
    socket: Option<UnixStream>,
}

impl Command {
    /// Starts the keeper, which makes a cgroup among those that are told apart.
    pub(super) fn prepare(command: &[OsString], group_by: Grouping) -> Result<Self, Failure> {
        let myself = std::env::current_exe()
            .map_err(|error| format!("cannot find the executable of lagstop: {}", plain(&error)))?;
        let cannot = |error: io::Error| format!("cannot start the command: {}", plain(&error));
        let (mut socket, its) = UnixStream::pair().map_err(cannot)?;
        fcntl_setfd(&its, FdFlags::empty()).map_err(|error| cannot(error.into()))?;
        let mut keeper = Process::new(myself);
        keeper.arg(KEEP).arg("--socket").arg(its.as_raw_fd().to_string());
        let value = group_by.to_possible_value();
        keeper.args(value.iter().flat_map(|value| ["--group-by", value.get_name()])).arg("--").args(command);
        let keeper = keeper.spawn().map_err(cannot)?;
        // Else its end would not be seen.
        drop(its);
        let is_ready = socket.read_exact(&mut [0]).is_ok();
        // Dropped where it is not, it is waited for.
        let command = Self { keeper, socket: Some(socket) };
        if is_ready {
            Ok(command)
        } else {
            Err("the command was not run: its cgroup could not be created (see the message above)".into())
        }
    }

    /// Lets it run.
    pub(super) fn start(mut self) -> Result<Running, Failure> {
        if let Some(mut socket) = self.socket.take() {
            let told = socket.write_all(&[0]);
            told.map_err(|error| {
                format!("cannot start the command: its helper process has exited: {}", plain(&error))
            })?;
        }
        let (sender, ended) = oneshot::channel();
        // Of no use when nobody listens any more.
        thread::spawn(move || sender.send(self.keeper.wait()));
        Ok(Running { ended: Some(ended), status: None })
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.socket.take().is_some() {
            let _ = self.keeper.wait();
        }
    }
}

/// A command that runs.
pub(super) struct Running {
    ended: Option<oneshot::Receiver<io::Result<ExitStatus>>>,
    status: Option<ExitStatus>,
}

impl Running {
    /// Has it not ended yet, as far as is known?
    pub(super) const fn goes_on(&self) -> bool {
        self.ended.is_some()
    }

    /// Its exit status.
    pub(super) async fn end(mut self) -> Result<ExitCode, Failure> {
        if let Some(ended) = self.ended.take() {
            self.status = ended.await.ok().and_then(Result::ok);
        }
        Ok(exit_code(self.status.ok_or("the exit status of the command is unknown")?))
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
