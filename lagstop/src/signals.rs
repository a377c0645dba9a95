//! Signals that ask this program to end or to stop, and those that are meant for the command that it runs.

use std::{io, mem, os::unix::process::CommandExt, process::Command, ptr, sync::OnceLock, thread, time::Duration};

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Endings {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Endings {
    /// Listens for them from now on, instead of dying of them.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Has one of them come already?
    pub(crate) async fn have_come(&mut self) -> bool {
        // The runtime learns of a signal only when it polls the next time.
        tokio::time::timeout(Duration::from_millis(1), self.wait()).await.is_ok()
    }
}

/// SIGUSR1: asks for what is in memory.
pub(crate) struct Dumps(Signal);

impl Dumps {
    /// Listens for it from now on, instead of dying of it.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::user_defined1()).map(Self)
    }

    pub(crate) async fn wait(&mut self) {
        self.0.recv().await;
    }
}

/// SIGTSTP: what a shell's job control sends.
pub(crate) struct Stops(Signal);

impl Stops {
    /// Listens for it from now on, instead of stopping.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::from_raw(libc::SIGTSTP)).map(Self)
    }

    pub(crate) async fn wait(&mut self) {
        self.0.recv().await;
    }
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) signal: i32,
    /// A process has sent it, and not a terminal, which sends it to all processes in its foreground.
    pub(crate) is_sent: bool,
}

impl Caught {
    pub(crate) const fn asks_to_end(self) -> bool {
        matches!(self.signal, libc::SIGINT | libc::SIGQUIT | libc::SIGTERM | libc::SIGHUP)
    }
}

/// Signals on their way to a command that this process runs: taken one by one, with where they came from.
pub(crate) struct ForCommand(mpsc::UnboundedReceiver<Caught>);

impl ForCommand {
    /// As timeout(1) passes them on, and those that programs give a meaning of their own.
    const SIGNALS: [i32; 6] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

    /// Takes them from now on. Those that are ignored stay so, here and in the command: nohup(1) wants that. To be called while
    /// there is one thread.
    pub(crate) fn take() -> io::Result<Self> {
        let set = signal_set(Self::SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)));
        let mut before = signal_set([]);
        // SAFETY: two sets that were made above.
        let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        let _ = BEFORE.set(before);
        let (sender, receiver) = mpsc::unbounded_channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while !sender.is_closed() {
                // SAFETY: plain integers.
                let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
                // SAFETY: both are there as long as the call takes.
                let signal = unsafe { libc::sigwaitinfo(&raw const set, &raw mut info) };
                // What a process sends has no positive code: sigaction(2).
                if signal > 0 && sender.send(Caught { signal, is_sent: info.si_code <= 0 }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    pub(crate) async fn next(&mut self) -> Caught {
        match self.0.recv().await {
            Some(caught) => caught,
            None => std::future::pending().await,
        }
    }

    /// Blocks until the next one. `None` when there will be no more.
    pub(crate) fn blocking_next(&mut self) -> Option<Caught> {
        self.0.blocking_recv()
    }

    /// One that has come already.
    pub(crate) fn has_come(&mut self) -> Option<Caught> {
        self.0.try_recv().ok()
    }
}

/// The signals that were blocked before [`ForCommand`] was taken.
static BEFORE: OnceLock<libc::sigset_t> = OnceLock::new();

/// Makes `command` start with the signals blocked that were blocked when this process started: otherwise a child inherits what its
/// parent blocks.
pub(crate) fn blocked_as_before(command: &mut Command) -> &mut Command {
    let Some(before) = BEFORE.get().copied() else { return command };
    let restore = move || {
        // SAFETY: a set that the kernel has filled; only a system call.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    // SAFETY: it makes one system call.
    unsafe { command.pre_exec(restore) }
}

/// Ends this process by `signal`, as the command ended that it stands for: shells look at that. Leaves no core dump. Returns
/// if that signal does not end a process.
pub(crate) fn die_of(signal: i32) {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if setrlimit(Resource::Core, none).is_err() {
        return;
    }
    let set = signal_set([signal]);
    // SAFETY: the default action, a set that was made above, and this thread.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(signal);
    }
}

fn signal_set(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: plain integers, which are set up by the next call.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: it is this function's own.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: as above; a number that is no signal is refused.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain integers.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: it is asked for and not changed.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
