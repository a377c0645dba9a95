//! What may take seconds on a busy host, beside a trial that has to say that it goes on.

use std::{
    io,
    panic::resume_unwind,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Time between two calls of `meanwhile`.
const STEP: Duration = Duration::from_millis(20);

/// Does `work` in a thread of its own, and calls `meanwhile` until it is done, but no longer than for `patience`: then the
/// watchdog may take it for stuck.
///
/// # Errors
/// When there can be no more threads.
pub(super) fn aside<T: Send>(
    patience: Duration,
    meanwhile: &mut dyn FnMut(),
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let (ends, ended) = channel::<()>();
        let until_it_ends = move || {
            let _ends = ends;
            work()
        };
        let worker = thread::Builder::new().name("switch".to_owned()).spawn_scoped(scope, until_it_ends)?;
        let began = Instant::now();
        while began.elapsed() < patience && ended.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
            meanwhile();
        }
        Ok(worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn others_go_on_until_it_is_done() {
        let has_gone_on = AtomicBool::new(false);
        let done = aside(Duration::from_mins(1), &mut || has_gone_on.store(true, Ordering::Relaxed), || {
            while !has_gone_on.load(Ordering::Relaxed) {
                thread::sleep(STEP / 10);
            }
            7
        });
        assert_eq!(done.unwrap(), 7);
    }

    #[test]
    fn what_takes_too_long_looks_stuck() {
        let mut calls = 0;
        aside(2 * STEP, &mut || calls += 1, || thread::sleep(20 * STEP)).unwrap();
        assert!(calls <= 2, "{calls}");
    }

    #[test]
    fn what_panics_there_panics_here() {
        let panics = || aside(STEP, &mut || {}, || panic!("as if it was done here"));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
