//! Intervals that come in pieces while somebody looks at the page. The page shows each piece; whoever follows gets whole intervals,
//! as if nobody looked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;

use crate::model::{Interval, Merger, Nanos, Session};

/// Length of a piece.
const PIECE: Duration = Duration::from_secs(1);
/// From the length of this many pieces on, an interval is cut into pieces.
const FEWEST: u32 = 2;
/// A piece is at least this many times as long as it took to get the last one.
const RESTRAINT: u32 = 10;

/// Says when to read a piece, and puts them together again.
#[derive(Debug)]
pub struct Pieces {
    /// Intended length of a whole interval.
    whole: Nanos,
    merger: Merger,
    /// Length of what is merged.
    merged: Nanos,
    /// Number of the whole interval that comes next.
    seq: u64,
    /// When the last piece was asked for. `None` if none of this interval was.
    asked: Option<Instant>,
    /// When the next piece may be asked for. `None` while one is on its way, while nothing is measured, and where intervals are
    /// short anyway.
    due: Option<Instant>,
    /// How long it took to get the last piece. Now and then programs are attached or detached meanwhile.
    took: Duration,
    /// How long the next piece will be.
    pace: Duration,
    /// Was a piece of the last interval asked for? The interval may have ended by itself just before that.
    may_be_left_over: bool,
}

impl Pieces {
    /// Of the intervals of `session`.
    pub fn of(session: &Session) -> Self {
        let mut pieces = Self {
            whole: session.interval_ns,
            merger: Merger::new(session.load_credit_time_ns),
            merged: Nanos::ZERO,
            seq: 0,
            asked: None,
            due: None,
            took: Duration::MAX,
            pace: PIECE,
            may_be_left_over: false,
        };
        pieces.resume();
        pieces
    }

    /// Waits until a piece may be asked for.
    pub async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Is a piece asked for? Yes if somebody looks, or if the interval comes in pieces already. If not, it is due again later.
    pub fn ask(&mut self, is_looked_at: bool) -> bool {
        let asks = is_looked_at || !self.merger.is_empty();
        let now = Instant::now();
        if asks {
            (self.asked, self.due) = (Some(now), None);
        } else {
            self.due = Some(now + PIECE);
        }
        asks
    }

    /// Adds what came: a piece, or a whole interval if no piece was asked for. Gives it, and the whole interval that it completes.
    pub fn add(&mut self, mut piece: Interval) -> (Arc<Interval>, Option<Arc<Interval>>) {
        if let (None, Some(asked)) = (self.due, self.asked) {
            let took = asked.elapsed();
            self.pace = PIECE.max(took.min(self.took).saturating_mul(RESTRAINT));
            self.took = took;
            self.due = Some(Instant::now() + self.pace);
        }
        piece.seq = self.seq;
        let piece = Arc::new(piece);
        self.merged = self.merged.saturating_add(piece.duration_ns);
        let is_left_over = self.may_be_left_over && Duration::from_nanos(piece.duration_ns.0) < PIECE / 2;
        // It is too short or too long by half a piece at most.
        let missing = Duration::from_nanos(self.whole.saturating_sub(self.merged).0);
        let is_whole = self.asked.is_none() && !is_left_over && self.merger.is_empty() || missing * 2 < self.pace;
        let whole = if is_whole && self.merger.is_empty() {
            self.begin_next();
            Some(Arc::clone(&piece))
        } else {
            self.merger.add(&piece);
            if is_whole { self.end() } else { None }
        };
        (piece, whole)
    }

    /// Nothing is measured for a while. Gives what there is of the interval that came in pieces.
    pub fn pause(&mut self) -> Option<Arc<Interval>> {
        let rest = self.end();
        (self.asked, self.due) = (None, None);
        rest
    }

    /// It is measured from now on, or still.
    pub fn resume(&mut self) {
        let is_cut = Duration::from_nanos(self.whole.0) >= PIECE * FEWEST;
        if is_cut && self.due.is_none() && self.asked.is_none() {
            self.due = Some(Instant::now() + PIECE);
        }
    }

    fn end(&mut self) -> Option<Arc<Interval>> {
        let whole = self.merger.take()?;
        self.begin_next();
        // It is as long as any, and hides no shorter changes than any.
        Some(Interval { merged: 0, ..whole }.into())
    }

    fn begin_next(&mut self) {
        self.seq += 1;
        self.may_be_left_over = self.asked.is_some();
        (self.merged, self.asked) = (Nanos::ZERO, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixture, merge};

    const SECOND: u64 = Nanos::SECOND.0;

    fn pieces(seconds: u64) -> Pieces {
        Pieces::of(&Session { interval_ns: Nanos(seconds * SECOND), ..fixture::session() })
    }

    /// Intervals that last so many milliseconds.
    fn lasting(milliseconds: &[u64]) -> Vec<Interval> {
        let intervals = fixture::overloaded(milliseconds.len() as u64);
        let last = |(mut interval, milliseconds): (Interval, &u64)| {
            interval.duration_ns = Nanos(milliseconds * 1_000_000);
            interval
        };
        intervals.into_iter().zip(milliseconds).map(last).collect()
    }

    fn is_due(pieces: &Pieces) -> bool {
        pieces.due.is_some_and(|due| due <= Instant::now())
    }

    #[test]
    fn intervals_are_passed_on_as_they_are_while_nobody_looks() {
        let mut pieces = pieces(5);
        // Late once, and on time again.
        for (seq, interval) in lasting(&[5_000, 6_800, 3_200]).into_iter().enumerate() {
            assert!(!pieces.ask(false) && !is_due(&pieces));
            let (piece, whole) = pieces.add(interval.clone());
            assert_eq!(whole, Some(Arc::clone(&piece)));
            assert_eq!(*piece, Interval { seq: seq as u64, ..interval });
        }
    }

    #[test]
    fn pieces_make_whole_intervals_for_whoever_does_not_look() {
        let mut pieces = pieces(5);
        let intervals = lasting(&[3_200, 1_000, 1_010, 1_000, 1_000, 1_000, 1_000, 1_000, 5_000]);
        let mut whole = Vec::new();
        for interval in &intervals[..8] {
            assert!(pieces.ask(true) && !is_due(&pieces));
            whole.extend(pieces.add(interval.clone()).1);
        }
        assert!(!pieces.ask(false));
        whole.extend(pieces.add(intervals[8].clone()).1);
        let time = fixture::session().load_credit_time_ns;
        let merged = |seq, of: &[Interval]| Interval { seq, merged: 0, ..merge(time, of).unwrap() };
        let whole: Vec<Interval> = whole.into_iter().map(Arc::unwrap_or_clone).collect();
        assert_eq!(whole[..2], [merged(0, &intervals[..3]), merged(1, &intervals[3..8])]);
        assert_eq!(whole[2..], [Interval { seq: 2, ..intervals[8].clone() }]);
    }

    #[test]
    fn an_interval_that_came_in_pieces_is_finished_when_nobody_looks_any_more() {
        let mut pieces = pieces(5);
        let intervals = lasting(&[1_000, 1_000, 1_000, 1_000, 1_000]);
        assert!(pieces.ask(true) && pieces.add(intervals[0].clone()).1.is_none());
        for interval in &intervals[1..4] {
            assert!(pieces.ask(false) && pieces.add(interval.clone()).1.is_none());
        }
        assert!(pieces.ask(false) && pieces.add(intervals[4].clone()).1.is_some());
        assert!(!pieces.ask(false));
    }

    #[test]
    fn what_there_is_before_a_calm_time_is_told() {
        let mut pieces = pieces(5);
        assert_eq!(pieces.pause(), None);
        pieces.resume();
        let interval = lasting(&[1_000]).remove(0);
        assert!(pieces.ask(true) && pieces.add(interval.clone()).1.is_none());
        assert_eq!(pieces.pause().unwrap().duration_ns, interval.duration_ns);
        assert_eq!(pieces.pause(), None);
    }

    #[test]
    fn after_a_calm_time_pieces_come_again_and_that_time_is_none_of_reading() {
        for asks_again in [false, true] {
            let mut pieces = pieces(5);
            let interval = lasting(&[1_000]).remove(0);
            assert!(pieces.ask(true));
            if asks_again {
                pieces.add(interval.clone());
                assert!(pieces.ask(true));
            }
            assert_eq!(pieces.pause().is_some(), asks_again);
            assert_eq!(pieces.due, None, "nothing is measured that could be asked for");
            pieces.resume();
            let soon = Instant::now() + PIECE * 2;
            assert!(pieces.due.unwrap() < soon);
            assert!(pieces.ask(true) && pieces.due.is_none());
            pieces.resume();
            assert_eq!(pieces.due, None, "it is on its way");
            pieces.add(interval);
            assert!(pieces.due.unwrap() < soon);
        }
    }

    #[test]
    fn what_is_left_over_of_a_piece_that_was_not_needed_is_part_of_the_next_interval() {
        let mut pieces = pieces(5);
        let [whole, rest, next, later] = lasting(&[5_000, 3, 4_997, 3]).try_into().unwrap();
        // The interval ended by itself while somebody asked.
        assert!(pieces.ask(true) && pieces.add(whole).1.is_some());
        assert!(pieces.add(rest.clone()).1.is_none());
        let (_, both) = pieces.add(next.clone());
        assert_eq!(both.unwrap().duration_ns, rest.duration_ns.saturating_add(next.duration_ns));
        assert!(pieces.add(later).1.is_some(), "nobody asked: it is as it is");
    }

    #[test]
    fn slow_readings_make_no_longer_intervals() {
        let mut pieces = pieces(5);
        let mut add = |interval: Interval| {
            assert!(pieces.ask(true));
            // As if reading took so long, every time.
            pieces.asked = Instant::now().checked_sub(Duration::from_millis(300));
            pieces.add(interval).1.map(|whole| whole.duration_ns.0 / 1_000_000)
        };
        let whole: Vec<_> = lasting(&[3_300, 3_300, 3_300]).into_iter().map(&mut add).collect();
        assert_eq!(whole, [None, Some(6_600), None]);
        let mut pieces = self::pieces(5);
        assert!(pieces.ask(true));
        pieces.asked = Instant::now().checked_sub(Duration::from_millis(400));
        assert!(pieces.add(lasting(&[4_400]).remove(0)).1.is_some(), "another would make it 8.8 s");
    }

    #[tokio::test]
    async fn short_intervals_are_not_cut() {
        let mut pieces = pieces(1);
        let (piece, whole) = pieces.add(lasting(&[1_000]).remove(0));
        assert_eq!(whole, Some(piece));
        pieces.resume();
        let waited = tokio::time::timeout(Duration::from_millis(20), pieces.due()).await;
        assert!(waited.is_err(), "no piece is ever asked for");
    }

    #[test]
    fn where_reading_takes_long_pieces_are_longer() {
        let mut pieces = pieces(60);
        let mut add = |took| {
            assert!(pieces.ask(true));
            pieces.asked = Instant::now().checked_sub(took);
            pieces.add(lasting(&[1_000]).remove(0));
            pieces.due.unwrap().saturating_duration_since(Instant::now())
        };
        let second = Duration::from_secs(1);
        assert!(add(second) > second * 9);
        assert!(add(second / 1_000) < second * 2, "once is no rule");
        assert!(add(second) < second * 2 && add(second) > second * 9);
    }
}
