//! Intervals of a recording.

use std::thread;

use tokio::sync::mpsc;

use super::{Order, Stop, Stream};
use crate::recording::Reader;

/// Intervals that are read ahead.
const AHEAD: usize = 4;

/// All intervals of `recording`, as fast as they are taken.
pub fn recorded(mut recording: Reader) -> Stream {
    let (sender, intervals) = mpsc::channel(AHEAD);
    let (stop, stopped) = Stop::new();
    let session = recording.session().clone();
    thread::spawn(move || {
        for n in 0..recording.len() {
            let interval = recording.interval(n).map_err(Into::into);
            let failed = interval.is_err();
            if stopped.try_recv() == Ok(Order::Stop) || sender.blocking_send(interval).is_err() || failed {
                break;
            }
        }
    });
    Stream { session, intervals, stop, looks: None, watched: None, link: None }
}
