//! A command that is recorded while it runs.

use std::process::ExitCode;

use crate::{
    cli::{
        Failure,
        command::{Command, keeper::exit_code},
        say,
    },
    display::plain,
};

/// A running command.
pub(super) struct Running {
    command: Command,
    has_ended: bool,
}

impl Running {
    pub(super) fn start(command: Command) -> Result<Self, Failure> {
        if let Some(group) = command.place().cgroup.as_ref().ok().filter(|group| !group.has_group) {
            say(format_args!(
                "lagstop: the scheduler has no group for {}, because the cpu controller is not enabled there. The command is \
                 counted with the root. To track it separately, use --group-by leaf, or write +cpu to cgroup.subtree_control \
                 in the root\n",
                group.path
            ));
        }
        command.let_go(false)?;
        Ok(Self { command, has_ended: false })
    }

    /// Is it still running, as far as is known?
    pub(super) const fn goes_on(&self) -> bool {
        !self.has_ended
    }

    /// Waits for its end, and gives its exit status.
    pub(super) async fn end(mut self) -> Result<ExitCode, Failure> {
        if !self.has_ended {
            self.command.ended().await;
        }
        let status = self.command.finish();
        status
            .map(exit_code)
            .map_err(|error| format!("the exit status of the command is unknown: {}", plain(&error)).into())
    }
}

/// Waits until the command has ended, for ever where there is none.
pub(super) async fn ended(running: &mut Option<Running>) {
    let Some(running) = running.as_mut().filter(|running| running.goes_on()) else {
        return std::future::pending().await;
    };
    // If it could not run, its keeper has reported why.
    let _ = running.command.ended().await;
    running.has_ended = true;
}
