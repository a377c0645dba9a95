//! The process that keeps a command: makes a cgroup, waits to be let go, runs the command in it, and cleans up behind it.
//!
//! It waits at a socket, whose other end is closed with the recorder, however that ends. A keeper that was not let go by then
//! leaves neither process nor cgroup; one that was needs nobody any more, and stays until its command has ended.

use std::{
    ffi::OsString,
    fs,
    io::{Read, Write},
    os::{
        fd::{FromRawFd, RawFd},
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    process::{Command, ExitCode, ExitStatus},
    thread,
};

use clap::Args as ClapArgs;
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{Pid, Signal, kill_process},
};
use tokio::sync::oneshot;

use crate::{
    cli::{Failure, block_on, listen, say, values::Grouping},
    display::plain,
    host::{Hierarchy, OwnCgroup, Version},
    model::GroupBy,
};

/// The subcommand.
pub(in crate::cli) const KEEP: &str = "keep-command";

/// What is to be kept.
#[derive(Clone, Debug, ClapArgs)]
pub(in crate::cli) struct Args {
    /// How tasks are grouped
    #[arg(long)]
    group_by: Grouping,

    /// File descriptor of the socket
    #[arg(long)]
    socket: RawFd,

    #[arg(last = true)]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = args.command.split_first() else { return Err("no command given".into()) };
    let recorder = socket(args.socket)?;
    let cgroup = Cgroup::make(args.group_by.into())?;
    block_on(async {
        // Ctrl-C is for the command: its keeper is there for what comes after.
        let mut endings = listen()?;
        if !is_let_go(recorder) {
            return Ok(ExitCode::FAILURE);
        }
        let mut child = match cgroup.0.spawn(Command::new(program).args(arguments)) {
            Ok(child) => child,
            Err(error) => {
                let (program, directory) = (program.display(), cgroup.0.directory().display());
                say(format_args!("lagstop: cannot run {program} in {directory}: {}\n", plain(&error)));
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

/// As a shell would give it.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The socket with this number, kept from the command.
fn socket(number: RawFd) -> Result<UnixStream, Failure> {
    let link = fs::read_link(format!("/proc/self/fd/{number}"));
    if number <= 2 || !link.is_ok_and(|link| link.to_string_lossy().starts_with("socket:")) {
        return Err("no recorder is connected. Run lagstop record --attach-cmd instead".into());
    }
    // SAFETY: it is open, as just seen, and nothing else in this process knows of it.
    let socket = unsafe { UnixStream::from_raw_fd(number) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)
        .map_err(|error| format!("cannot use the connection to the recorder: {}", plain(&error.into())))?;
    Ok(socket)
}

/// Says that everything is ready, and waits. `false`: the recorder has given up, or is gone.
fn is_let_go(mut recorder: UnixStream) -> bool {
    let mut byte = [0];
    recorder.write_all(&byte).and_then(|()| recorder.read_exact(&mut byte)).is_ok()
}

/// What commands' cgroups are marked with.
const PURPOSE: &str = "command";

/// The command's cgroup, which is gone with this.
struct Cgroup(OwnCgroup);

impl Cgroup {
    fn make(group_by: GroupBy) -> Result<Self, Failure> {
        let hierarchy = Hierarchy::find(group_by)?;
        // What keepers that were killed left behind, once nothing runs in it: nobody else removes it. Where that fails, the
        // next one tries again.
        let _ = OwnCgroup::sweep_empty(&hierarchy, PURPOSE);
        let Hierarchy { mount, version, .. } = hierarchy;
        let directory = mount.join(format!("lagstop-command-{}", std::process::id()));
        let path = directory.display();
        let cgroup = OwnCgroup::make(directory.clone(), PURPOSE).map_err(|error| {
            format!("cannot create the cgroup {path}: {}. Run as root, with writable cgroups", plain(&error))
        })?;
        if (group_by, version) == (GroupBy::Scheduler, Version::V2) && !directory.join("cpu.weight").exists() {
            say(format_args!(
                "lagstop: the scheduler has no group for {path}, because the cpu controller is not enabled there. The command \
                 is counted with the root. To track it separately, use --group-by leaf or write +cpu to {}\n",
                mount.join("cgroup.subtree_control").display()
            ));
        }
        Ok(Self(cgroup))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.0.remove() {
            let path = self.0.directory().display();
            say(format_args!(
                "lagstop: {path} was kept: processes of the command still run in it. Remove it after they exit\n"
            ));
        }
    }
}
