//! Keys and resizes, off the terminal.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ratatui::crossterm::event::{self, Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::keymap::Key;

/// How soon the thread notices that it should end.
const POLL: Duration = Duration::from_millis(100);

/// What the user did.
pub(super) enum Event {
    Key(Key),
    /// The terminal has another size: what is on it must be drawn anew.
    Resize,
}

/// A thread that reads the terminal while this lives.
pub(super) struct Input {
    events: mpsc::Receiver<io::Result<Event>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Input {
    pub(super) fn start() -> Self {
        let (sender, events) = mpsc::channel(16);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Some(event) = read().transpose() else { continue };
                let failed = event.is_err();
                if sender.blocking_send(event).is_err() || failed {
                    break;
                }
            }
        });
        Self { events, stop, thread: Some(thread) }
    }

    /// Waits for the next event. The thread's end is an error: a screen that hears no key could not be left.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        self.events.recv().await.unwrap_or_else(|| Err(io::Error::other("reading keys ended")))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread where it waits for room.
        self.events.close();
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been reported.
            let _ = thread.join();
        }
    }
}

/// One event that means something here, if one comes soon.
fn read() -> io::Result<Option<Event>> {
    if !event::poll(POLL)? {
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
