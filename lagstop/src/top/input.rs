//! Keys and resizes, off the terminal.

use std::{
    io::{self, stdin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crossterm::event::{self, Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::sync::mpsc;

use super::keymap::Key;

/// How soon the thread notices a resize, and that it should end.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long crossterm may wait for input. With no time at all it does not look, and the last millisecond of any time it spends
/// asking again and again.
const LOOK: Duration = Duration::from_micros(50);

/// What the user did.
pub(super) enum Event {
    Key(Key),
    /// The terminal has another size: everything must be drawn again.
    Resize,
}

/// A thread that reads the terminal while this lives.
pub(super) struct Input {
    events: mpsc::Receiver<io::Result<Event>>,
    stop: Arc<AtomicBool>,
}

impl Input {
    pub(super) fn start() -> Self {
        let (sender, events) = mpsc::channel(16);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Some(event) = read().transpose() else { continue };
                let failed = event.is_err();
                if sender.blocking_send(event).is_err() || failed {
                    break;
                }
            }
        });
        Self { events, stop }
    }

    /// Waits for the next event. The thread's end is an error: a screen that hears no key could not be left.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        self.events.recv().await.unwrap_or_else(|| Err(io::Error::other("the input was closed")))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread where it waits for room. It is not waited for: crossterm reads for ever from a terminal that
        // goes away while it does.
        self.events.close();
    }
}

/// One event that means something here, if one comes soon.
fn read() -> io::Result<Option<Event>> {
    let stdin = stdin();
    // Waits here, and not in crossterm, which does not notice that the terminal has gone and would be told of input for ever.
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut ready, Some(&POLL)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::other("it was closed"));
    }
    // Asks for keys and for resizes at once. By epoll, as crossterm does unless it is built with `use-dev-tty`, it forgets
    // keys that come with a resize until the next key.
    if !event::poll(LOOK)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        TerminalEvent::Key(event) if event.kind != KeyEventKind::Release => key(event).map(Event::Key),
        TerminalEvent::Resize(..) => Some(Event::Resize),
        _ => None,
    })
}

fn key(event: KeyEvent) -> Option<Key> {
    Some(match event.code {
        KeyCode::Char(char) if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Ctrl(char),
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Esc => Key::Esc,
        _ => return None,
    })
}
