//! What takes time, and is not to be done too often.

use std::time::{Duration, Instant};

use tokio::{sync::Mutex, time::sleep_until};

/// Lets one through now and then. Those who wait have their turn in the order in which they came; who goes away meanwhile takes
/// nobody's.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    /// How far turns that nobody took may be behind.
    saved: Duration,
    /// From when on the next has its turn.
    due: Mutex<Instant>,
}

impl Pace {
    /// One in each `every`, and so many at once where there was none for long.
    pub(super) fn new(every: Duration, at_once: u32) -> Self {
        let saved = every * at_once.saturating_sub(1);
        let now = Instant::now();
        Self { every, saved, due: Mutex::new(now.checked_sub(saved).unwrap_or(now)) }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) {
        let mut due = self.due.lock().await;
        sleep_until((*due).into()).await;
        let oldest = Instant::now().checked_sub(self.saved).unwrap_or(*due);
        *due = (*due).max(oldest) + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn some_go_at_once_and_others_wait() {
        let pace = Pace::new(EVERY, 5);
        let began = Instant::now();
        for _ in 0..5 {
            pace.turn().await;
        }
        assert!(began.elapsed() < EVERY * 4, "{:?}", began.elapsed());
        for _ in 0..10 {
            pace.turn().await;
        }
        assert!(began.elapsed() >= EVERY * 9, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn who_goes_away_takes_nobodys_turn() {
        let pace = Pace::new(EVERY, 1);
        pace.turn().await;
        for _ in 0..100 {
            let _ = tokio::time::timeout(Duration::from_micros(10), pace.turn()).await;
        }
        let began = Instant::now();
        pace.turn().await;
        pace.turn().await;
        assert!(began.elapsed() < EVERY * 10, "{:?}", began.elapsed());
    }
}
