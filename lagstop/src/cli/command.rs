//! A command that is measured while it runs, in a cgroup of its own.
//!
//! A second process of lagstop [keeps it](keeper). It is started before anything is measured, and waits. So lagstop can
//! give up privileges for measuring, above all capabilities, while the keeper and the command still have them. The
//! keeper goes on after the first reading.

mod began;
pub(super) mod keeper;
mod message;
mod sampler;

use std::{
    ffi::OsString,
    io,
    net::Shutdown,
    os::{fd::AsRawFd, unix::net::UnixStream},
    process::{Child, Command as Process, ExitStatus},
    thread,
};

use clap::ValueEnum;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::sync::mpsc;

pub(super) use self::message::{CommandGroup, Ended, Place};
use self::{
    keeper::KEEP,
    message::{Lines, Said, Told, send},
};
use super::{Failure, values::Grouping};
use crate::{display::plain, signals::blocked_as_before};

/// A command that is ready to run, or runs. If it is never started, nothing is left of it.
pub(super) struct Command {
    keeper: Child,
    /// The keeper listens at the other end. `None` after hanging up.
    socket: Option<UnixStream>,
    said: mpsc::UnboundedReceiver<Said>,
    place: Place,
}

/// What to run if no cgroup can be created for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    Nothing,
    /// The command, in the same cgroup as lagstop.
    Anywhere,
}

impl Command {
    /// Starts the keeper, which creates a cgroup in the hierarchy by which tasks are grouped.
    pub(super) fn prepare(command: &[OsString], group_by: Grouping, otherwise: Otherwise) -> Result<Self, Failure> {
        let myself = std::env::current_exe()
            .map_err(|error| format!("cannot find the executable of lagstop: {}", plain(&error)))?;
        let cannot = |error: io::Error| format!("cannot start the command: {}", plain(&error));
        let (socket, its) = UnixStream::pair().map_err(cannot)?;
        fcntl_setfd(&its, FdFlags::empty()).map_err(|error| cannot(error.into()))?;
        let mut lines = Lines::of(&socket).map_err(cannot)?;
        let mut keeper = Process::new(myself);
        keeper.arg(KEEP).arg("--socket").arg(its.as_raw_fd().to_string());
        if otherwise == Otherwise::Anywhere {
            keeper.arg("--anywhere");
        }
        let value = group_by.to_possible_value();
        keeper.args(value.iter().flat_map(|value| ["--group-by", value.get_name()])).arg("--").args(command);
        let mut keeper = blocked_as_before(&mut keeper).spawn().map_err(cannot)?;
        // Otherwise the end of the keeper would not be noticed.
        drop(its);
        let Some(Said::Ready(place)) = lines.next() else {
            let _ = socket.shutdown(Shutdown::Both);
            let _ = keeper.wait();
            return Err("the command was not run: its cgroup could not be created (see the message above)".into());
        };
        let (sender, said) = mpsc::unbounded_channel();
        // Ends with the keeper.
        thread::spawn(move || {
            while let Some(said) = lines.next() {
                let _ = sender.send(said);
            }
        });
        Ok(Self { keeper, socket: Some(socket), said, place })
    }

    /// Where it will run, or runs.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Lets it run. With `sample`, the keeper also samples the command's threads.
    pub(super) fn let_go(&self, sample: bool) -> Result<(), Failure> {
        self.tell(Told::Go { sample }).map_err(|error| {
            format!("cannot start the command: its helper process has exited: {}", plain(&error)).into()
        })
    }

    /// Sends it a signal. Where it has ended, nobody gets it.
    pub(super) fn pass_on(&self, signal: i32) {
        let _ = self.tell(Told::Signal(signal));
    }

    fn tell(&self, told: Told) -> io::Result<()> {
        self.socket.as_ref().map_or(Err(io::ErrorKind::NotConnected.into()), |socket| send(socket, &told))
    }

    /// Waits until it has ended. `None` if it could not run (the keeper has reported why), or if its keeper is gone.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        match self.said.recv().await {
            Some(Said::Ended(ended)) => Some(ended),
            Some(Said::Ready(_)) | None => None,
        }
    }

    /// Gets it ready once more, in another cgroup.
    pub(super) async fn again(&mut self) -> Result<(), Failure> {
        let told = self.tell(Told::Again);
        match (told, self.said.recv().await) {
            (Ok(()), Some(Said::Ready(place))) => {
                self.place = place;
                Ok(())
            }
            _ => Err("cannot run the command again: its helper process has exited (see the message above)".into()),
        }
    }

    /// Waits until the command has ended and its cgroup is gone. Returns the exit status of the keeper, which is that
    /// of the command.
    pub(super) fn finish(mut self) -> io::Result<ExitStatus> {
        self.hang_up();
        self.keeper.wait()
    }

    /// Tells the keeper that nobody is there any more. Returns whether the connection was still open.
    fn hang_up(&mut self) -> bool {
        // The reading thread has the socket open too, so closing it here would not be enough.
        self.socket.take().is_some_and(|socket| socket.shutdown(Shutdown::Both).is_ok())
    }
}

/// A command that was not started leaves nothing behind; one that runs is waited for.
impl Drop for Command {
    fn drop(&mut self) {
        if self.hang_up() {
            let _ = self.keeper.wait();
        }
    }
}
