//! A terminal for a program to draw on.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Action, Winsize, tcflow, tcgetattr, tcsetwinsize},
};

pub(crate) struct Terminal {
    keyboard: File,
    /// Kept open, so that the terminal outlives the program.
    screen: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let screen = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let keyboard = File::from(master);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut output, all) = (keyboard.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = output.read(&mut buffer) {
                all.lock().unwrap().extend_from_slice(&buffer[..len]);
            }
        });
        Self { keyboard, screen, written }
    }

    /// Starts `command` on it.
    pub(crate) fn run(&self, command: &mut Command) -> Child {
        let screen = || self.screen.try_clone().unwrap();
        command.stdin(screen()).stdout(screen()).stderr(screen()).env("TERM", "xterm-256color");
        // SAFETY: only a system call.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        command.spawn().unwrap()
    }

    /// Starts `command` on it, as what its keys are for.
    pub(crate) fn run_in_foreground(&self, command: &mut Command) -> Child {
        // SAFETY: only a system call, after the one that makes a session.
        let take = || match unsafe { libc::ioctl(0, libc::TIOCSCTTY as _, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        let screen = || self.screen.try_clone().unwrap();
        command.stdin(screen()).stdout(screen()).stderr(screen());
        // SAFETY: only system calls.
        unsafe { command.pre_exec(move || rustix::process::setsid().map_err(Into::into).and_then(|_| take())) };
        command.spawn().unwrap()
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    /// As Ctrl-S does: whoever writes to it waits.
    pub(crate) fn stop(&self) {
        tcflow(&self.screen, Action::OOff).unwrap();
    }

    /// As Ctrl-Q does.
    pub(crate) fn go_on(&self) {
        tcflow(&self.screen, Action::OOn).unwrap();
    }

    /// Has `text` been written to it?
    pub(crate) fn shows(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.written.lock().unwrap()).contains(text)
    }

    /// How often has `text` been written to it?
    pub(crate) fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.written.lock().unwrap()).matches(text).count()
    }

    /// The end of what has been written to it.
    pub(crate) fn last(&self) -> String {
        let written = self.written.lock().unwrap();
        String::from_utf8_lossy(&written[written.len().saturating_sub(400)..]).into_owned()
    }

    /// How it treats input and output.
    pub(crate) fn modes(&self) -> String {
        let modes = tcgetattr(&self.screen).unwrap();
        format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
    }
}
