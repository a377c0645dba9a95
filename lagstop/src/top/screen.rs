//! The terminal while it is ours, and its way back.

use std::{
    io::{self, Stdout, stdout},
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};

use super::error::TopError;

/// Whether the terminal is ours. One for the process, as the terminal is.
static OURS: AtomicBool = AtomicBool::new(false);

type Hook = dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync;

/// The terminal in raw mode and on its alternate screen. Restored by [`Screen::leave`], on drop, and before a panic is
/// reported: the report would be lost with the alternate screen otherwise.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    previous_hook: Arc<Hook>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let previous_hook: Arc<Hook> = panic::take_hook().into();
        let next = Arc::clone(&previous_hook);
        panic::set_hook(Box::new(move |info| {
            // A failure to restore must not hide the panic.
            let _ = restore();
            next(info);
        }));
        match take().and_then(|()| Terminal::new(CrosstermBackend::new(stdout()))) {
            Ok(terminal) => Ok(Self { terminal, previous_hook }),
            Err(error) => {
                let _ = restore();
                bring_back(previous_hook);
                Err(error)
            }
        }
    }

    /// Fails once a panic anywhere in the process gave the terminal back: what is drawn now would stay on it.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), TopError> {
        if !OURS.load(Ordering::SeqCst) {
            return Err(TopError::Panicked);
        }
        self.terminal.draw(draw).map(drop).map_err(TopError::Terminal)
    }

    /// Gives the terminal back and stops the process, like Ctrl-Z in any other program, until somebody continues it.
    ///
    /// `with_group` stops all of its process group, as the terminal itself does for the key: the shell is told only when its
    /// whole job stops.
    pub(super) fn suspend(&mut self, with_group: bool) -> io::Result<()> {
        restore()?;
        if with_group { kill_current_process_group(Signal::STOP) } else { kill_process(getpid(), Signal::STOP) }?;
        take()?;
        // Everything is drawn again: whatever was written in between is not on the new screen.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }

    /// Gives the terminal back.
    pub(super) fn leave(self) -> io::Result<()> {
        restore()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = restore();
        // While panicking the hook cannot be changed, and need not be.
        if !std::thread::panicking() {
            bring_back(Arc::clone(&self.previous_hook));
        }
    }
}

/// Makes the terminal ours.
fn take() -> io::Result<()> {
    OURS.store(true, Ordering::SeqCst);
    enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen))
}

/// Restores the terminal once, however often it is called. Each step is tried even where the one before failed.
fn restore() -> io::Result<()> {
    if !OURS.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let screen = execute!(stdout(), LeaveAlternateScreen, Show);
    disable_raw_mode().and(screen)
}

fn bring_back(hook: Arc<Hook>) {
    panic::set_hook(Box::new(move |info| hook(info)));
}
