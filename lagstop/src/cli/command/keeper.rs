//! The process that keeps a command: makes a cgroup, waits to be let go, runs the command in it, and cleans up behind it.
//!
//! It waits at a socket. The other end closes when the process that started it ends, for whatever reason. A keeper that
//! was not let go by then leaves neither process nor cgroup. One that was stays until its command has ended.

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{FromRawFd, RawFd},
        unix::{fs::MetadataExt, net::UnixStream, process::ExitStatusExt},
    },
    process::{Command, ExitCode, ExitStatus},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use clap::Args as ClapArgs;
use rustix::{
    io::{Errno, FdFlags, fcntl_setfd},
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid},
};

use super::{
    began::Began,
    message::{CommandGroup, Ended, Lines, Place, Said, Told, send},
    sampler::Sampler,
};
use crate::{
    cli::{Failure, say, values::Grouping},
    display::plain,
    host::{CgroupMoment, Hierarchy, HostMoment, OwnCgroup, Version},
    model::{CgroupId, GroupBy, Nanos},
    signals::{Caught, ForCommand, blocked_as_before},
    units::KernelTime,
};

/// The subcommand.
pub(in crate::cli) const KEEP: &str = "keep-command";

/// What is to be kept.
#[derive(Clone, Debug, ClapArgs)]
pub(in crate::cli) struct Args {
    /// How tasks are grouped
    #[arg(long)]
    group_by: Grouping,

    /// Run the command also where no cgroup can be created for it
    #[arg(long)]
    anywhere: bool,

    /// File descriptor of the socket
    #[arg(long)]
    socket: RawFd,

    #[arg(last = true)]
    command: Vec<OsString>,
}

/// What a keeper waits for.
enum Event {
    Told(Told),
    /// The other end of the socket is closed.
    Alone,
    Caught(Caught),
    /// The command has ended, and nobody has taken note of it yet.
    Ended(Nanos),
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = args.command.split_first() else { return Err("no command given".into()) };
    let socket = socket(args.socket)?;
    let cannot = |error: io::Error| format!("cannot keep the command: {}", plain(&error));
    let signals = ForCommand::take().map_err(cannot)?;
    let mut keeper = Keeper::start(socket, signals).map_err(cannot)?;
    let mut number = 1;
    loop {
        // Removed when the turn ends.
        let cgroup = match Cgroup::make(args.group_by.into(), number) {
            Ok(cgroup) => Ok(cgroup),
            Err(error) if args.anywhere => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        keeper.say(&Said::Ready(Place { cgroup: cgroup.as_ref().map(Cgroup::group).map_err(String::clone) }));
        let Some(sample) = keeper.is_let_go() else { return Ok(ExitCode::FAILURE) };
        let mut command = Command::new(program);
        let code = match keeper.keep(command.args(arguments), cgroup.as_ref().ok(), sample) {
            Ok(status) => exit_code(status),
            Err(error) => {
                let program = program.display();
                // In the words and with the exit codes of shells.
                if error.kind() == io::ErrorKind::NotFound {
                    say(format_args!("lagstop: {program}: command not found\n"));
                    return Ok(ExitCode::from(127));
                }
                let place =
                    cgroup.as_ref().map_or(String::new(), |cgroup| format!(" in {}", cgroup.own.directory().display()));
                say(format_args!("lagstop: cannot run {program}{place}: {}\n", plain(&error)));
                return Ok(ExitCode::from(126));
            }
        };
        if !keeper.is_wanted_again() {
            return Ok(code);
        }
        number += 1;
    }
}

/// As a shell would return it.
pub(in crate::cli) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The socket with this number. The command does not inherit it.
fn socket(number: RawFd) -> Result<UnixStream, Failure> {
    let link = fs::read_link(format!("/proc/self/fd/{number}"));
    if number <= 2 || !link.is_ok_and(|link| link.to_string_lossy().starts_with("socket:")) {
        return Err("nothing is connected. Use lagstop run instead".into());
    }
    // SAFETY: it is open, as just seen, and nothing else in this process knows of it.
    let socket = unsafe { UnixStream::from_raw_fd(number) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)
        .map_err(|error| format!("cannot use the connection: {}", plain(&error.into())))?;
    Ok(socket)
}

struct Keeper {
    socket: UnixStream,
    events: Sender<Event>,
    happened: Receiver<Event>,
    /// Nobody is at the other end.
    is_alone: bool,
}

impl Keeper {
    fn start(socket: UnixStream, mut signals: ForCommand) -> io::Result<Self> {
        let (events, happened) = channel();
        let mut lines = Lines::of(&socket)?;
        let of_socket = events.clone();
        // Both end with the process.
        thread::Builder::new().spawn(move || {
            while let Some(told) = lines.next() {
                let _ = of_socket.send(Event::Told(told));
            }
            let _ = of_socket.send(Event::Alone);
        })?;
        let of_signals = events.clone();
        thread::Builder::new().spawn(move || {
            while let Some(caught) = signals.blocking_next() {
                let _ = of_signals.send(Event::Caught(caught));
            }
        })?;
        Ok(Self { socket, events, happened, is_alone: false })
    }

    /// Nobody may listen any more.
    fn say(&self, said: &Said) {
        let _ = send(&self.socket, said);
    }

    fn next(&mut self) -> Event {
        let event = self.happened.recv().unwrap_or(Event::Alone);
        self.is_alone |= matches!(event, Event::Alone);
        event
    }

    /// Waits. Gives whether the command's threads are to be looked at. `None`: it is not to run any more.
    fn is_let_go(&mut self) -> Option<bool> {
        while !self.is_alone {
            // Signals are for the process that started the keeper: it ends, and that closes the socket.
            if let Event::Told(Told::Go { sample }) = self.next() {
                return Some(sample);
            }
        }
        None
    }

    /// Waits until its cgroup is not needed any more. Is it to run once more?
    fn is_wanted_again(&mut self) -> bool {
        while !self.is_alone {
            if matches!(self.next(), Event::Told(Told::Again)) {
                return true;
            }
        }
        false
    }

    /// Runs the command until it ends, and says how it did.
    fn keep(&mut self, command: &mut Command, cgroup: Option<&Cgroup>, sample: bool) -> io::Result<ExitStatus> {
        blocked_as_before(command);
        let host = HostMoment::read();
        cgroup.map_or(Ok(()), |cgroup| cgroup.own.take_in(command))?;
        let began = Began::of(command)?;
        let child = command.spawn()?;
        let began = began.read();
        let pid = Pid::from_child(&child);
        let sampler = sample.then(|| {
            Sampler::start(
                cgroup.map(|cgroup| (cgroup.hierarchy.clone(), cgroup.own.directory().to_owned())),
                child.id(),
            )
        });
        let events = self.events.clone();
        thread::Builder::new().spawn(move || {
            // The command stays a zombie for now, so that its figures can still be read.
            let wait = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            while wait().is_err_and(|error| error == Errno::INTR) {}
            let _ = events.send(Event::Ended(KernelTime::now().0));
        })?;
        let held = pidfd_open(pid, PidfdFlags::empty()).ok();
        let pass_on = |signal: i32| {
            // One that is gone meanwhile is as good.
            if let (Some(held), Some(signal)) = (&held, Signal::from_named_raw(signal)) {
                let _ = pidfd_send_signal(held, signal);
            }
        };
        let ended_ns = loop {
            match self.next() {
                Event::Ended(at) => break at,
                Event::Told(Told::Signal(signal)) => pass_on(signal),
                // Otherwise the process that started the keeper passes it on.
                Event::Caught(caught) if self.is_alone && caught.is_sent => pass_on(caught.signal),
                Event::Told(_) | Event::Alone | Event::Caught(_) => {}
            }
        };
        let seen = sampler.map(Sampler::finish);
        let (status, cpu_ns) = reap(pid)?;
        self.say(&Said::Ended(Ended {
            status,
            began_ns: began.0,
            ended_ns,
            cpu_ns,
            host: HostMoment::read().since(&host),
            cgroup: cgroup.map(|cgroup| CgroupMoment::read(cgroup.own.directory())),
            seen,
        }));
        Ok(ExitStatus::from_raw(status))
    }
}

/// Reaps a child. Returns its status, and the CPU time of it and of all that it has waited for.
fn reap(pid: Pid) -> io::Result<(i32, Nanos)> {
    let mut status = 0;
    // SAFETY: plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are there as long as the call takes; nobody else waits for this child.
    while unsafe { libc::wait4(pid.as_raw_pid(), &raw mut status, 0, &raw mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let nanos =
        |time: libc::timeval| Nanos(time.tv_sec.unsigned_abs() * Nanos::SECOND.0 + time.tv_usec.unsigned_abs() * 1_000);
    Ok((status, nanos(usage.ru_utime).saturating_add(nanos(usage.ru_stime))))
}

/// Marks the cgroups of commands.
const PURPOSE: &str = "command";

/// The command's cgroup. Removed on drop.
struct Cgroup {
    own: OwnCgroup,
    hierarchy: Hierarchy,
    id: CgroupId,
}

impl Cgroup {
    /// Creates the cgroup of the run `number`.
    fn make(group_by: GroupBy, number: u32) -> Result<Self, Failure> {
        let hierarchy = Hierarchy::find(group_by)?;
        // Removes empty cgroups of killed keepers: nobody else does. If that fails, the next keeper tries again.
        let _ = OwnCgroup::sweep_empty(&hierarchy, PURPOSE);
        let again = if number > 1 { format!("-{number}") } else { String::new() };
        let directory = hierarchy.mount.join(format!("lagstop-command-{}{again}", std::process::id()));
        let path = directory.display();
        let cannot = |error: io::Error| {
            format!("cannot create the cgroup {path}: {}. Run as root, with writable cgroups", plain(&error))
        };
        let own = OwnCgroup::make(directory.clone(), PURPOSE).map_err(cannot)?;
        let id = fs::metadata(own.directory()).map(|found| CgroupId(found.ino()));
        match id {
            Ok(id) => Ok(Self { own, hierarchy, id }),
            Err(error) => {
                own.remove();
                Err(cannot(error).into())
            }
        }
    }

    fn group(&self) -> CommandGroup {
        let (hierarchy, directory) = (&self.hierarchy, self.own.directory());
        let is_seen = hierarchy.version == Version::V1 || hierarchy.has_group(directory);
        CommandGroup { id: self.id, path: hierarchy.path(directory), has_group: is_seen }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.own.remove() {
            let path = self.own.directory().display();
            say(format_args!(
                "lagstop: {path} was kept: processes of the command still run in it. Remove it after they exit\n"
            ));
        }
    }
}
