//! Servers, honest and not.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender},
};

use super::*;
use crate::{
    model::fixture,
    recording::{Chunks, Line, SCHEMA},
};

const SECOND: Duration = Duration::from_secs(1);
/// Nothing here takes so long.
const LONG: Duration = Duration::from_secs(20);

/// A server that answers each connection as a test says.
struct Server {
    url: String,
    /// What was asked for, in the order of connections.
    asked: Receiver<String>,
}

impl Server {
    /// Answers the first connection with the first of these, and so on.
    fn of(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asks, asked) = blocking::channel();
        thread::spawn(move || answers.into_iter().for_each(|answer| Self::answer(&listener, &answer, &asks)));
        Self { url, asked }
    }

    fn answer(listener: &TcpListener, answer: &[u8], asks: &Sender<String>) {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = asks.send(head(&mut stream));
        let _ = stream.write_all(answer);
    }

    fn options(&self, begin: Begin, duration: Option<Duration>) -> ConnectOptions {
        let connection = Connection { url: self.url.clone(), ..Connection::default() };
        ConnectOptions { connection, begin, duration }
    }

    fn connected(&self, begin: Begin) -> Stream {
        connected(self.options(begin, None)).unwrap()
    }

    fn refused(&self) -> String {
        connected(self.options(Begin::Last, None)).err().unwrap().to_string()
    }
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn session() -> Session {
    let started_at = "2026-01-01T00:00:00Z".to_owned();
    Session { started_at, interval_ns: Nanos::SECOND, ..fixture::session() }
}

fn interval(seq: u64) -> Interval {
    let start_ns = Nanos(seq * Nanos::SECOND.0);
    Interval { seq, start_ns, duration_ns: Nanos::SECOND, ..fixture::idle(1)[0].clone() }
}

/// An answer with these intervals, of which those before `now` were there already.
fn answer(session: &Session, now: u64, intervals: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut chunks = Chunks::new();
    let mut body = chunks.compress(&Line::Header { schema: SCHEMA, session: session.clone() }).unwrap();
    intervals.for_each(|seq| body.extend(chunks.compress_interval(&interval(seq)).unwrap()));
    let now = now * Nanos::SECOND.0;
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\nlagstop-now-ns: {now}\r\n\r\n");
    [head.into_bytes(), body].concat()
}

/// When intervals begin, in seconds, until there are `count`.
fn starts(stream: &mut Stream, count: usize) -> Vec<u64> {
    let mut next = || stream.intervals.blocking_recv().unwrap().unwrap().start_ns.0 / Nanos::SECOND.0;
    (0..count).map(|_| next()).collect()
}

#[test]
fn what_was_before_is_taken_as_far_as_it_is_wanted() {
    let of = |begin: Begin, count: usize| {
        let server = Server::of(vec![answer(&session(), 5, 0..8)]);
        let mut stream = server.connected(begin);
        let asked = server.asked.recv().unwrap();
        assert!(asked.starts_with("GET /api/v1/intervals?back="), "{asked}");
        (starts(&mut stream, count), stream.session.started_at.clone())
    };
    let began = |second: u64| format!("2026-01-01T00:00:{second:02}.000Z");
    assert_eq!(of(Begin::Oldest, 8), ((0..8).collect(), began(0)));
    assert_eq!(of(Begin::Last, 4), (vec![4, 5, 6, 7], began(0)));
    assert_eq!(of(Begin::Ago(Duration::ZERO), 3), (vec![0, 1, 2], began(5)), "the clock begins with it");
    assert_eq!(of(Begin::Ago(2 * SECOND), 5), ((0..5).collect(), began(3)));
}

#[test]
fn it_ends_when_the_time_is_up_however_little_was_kept() {
    let server = Server::of(vec![answer(&session(), 5, 0..100)]);
    let mut stream = connected(server.options(Begin::Ago(60 * SECOND), Some(3 * SECOND))).unwrap();
    assert_eq!(starts(&mut stream, 8), (0..8).collect::<Vec<_>>());
    assert!(stream.intervals.blocking_recv().is_none());
}

#[test]
fn it_ends_when_the_time_is_up() {
    let server = Server::of(vec![answer(&session(), 5, 0..100)]);
    let mut stream = connected(server.options(Begin::Ago(2 * SECOND), Some(3 * SECOND))).unwrap();
    assert_eq!(starts(&mut stream, 5), [0, 1, 2, 3, 4]);
    assert!(stream.intervals.blocking_recv().is_none());
}

#[test]
fn a_calm_server_is_waited_for_and_the_time_goes_on() {
    let seconds = |seconds: u64| Nanos(seconds * Nanos::SECOND.0);
    let mut sent = answer(&session(), 2, 0..0);
    let mut chunks = Chunks::new();
    (0..2).for_each(|seq| sent.extend(chunks.compress_interval(&interval(seq)).unwrap()));
    sent.extend(chunks.end_chunk().unwrap());
    for n in 2..7 {
        sent.extend(chunks.compress(&Line::Gap(Gap::calm(seconds(n), Nanos::SECOND))).unwrap());
        sent.extend(chunks.end_chunk().unwrap());
    }
    let server = Server::of(vec![sent]);
    let mut stream = connected(server.options(Begin::Oldest, Some(4 * SECOND))).unwrap();
    assert_eq!(starts(&mut stream, 2), [0, 1]);
    assert!(stream.intervals.blocking_recv().is_none(), "the time is up though nothing was measured");
    let link = stream.link.take().unwrap();
    assert!(link.borrow().is_calm && link.borrow().lost.is_none());
}

#[test]
fn a_connection_that_breaks_is_made_again_without_seeing_anything_twice() {
    let server = Server::of(vec![answer(&session(), 3, 0..5), answer(&session(), 9, 2..9)]);
    let mut stream = server.connected(Begin::Oldest);
    assert_eq!(starts(&mut stream, 9), (0..9).collect::<Vec<_>>());
    let mut link = stream.link.take().unwrap();
    let lost = link.wait_for(|link| link.lost.is_some());
    let lost = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lost).unwrap().clone();
    assert_eq!(
        (lost.server.as_str(), lost.lost.as_deref()),
        (&*server.url, Some("the server has closed the connection"))
    );
    let backs: Vec<String> = server.asked.iter().take(2).collect();
    assert!(
        backs[0].contains("back=0 ") && !backs[1].contains("back=0 "),
        "what was in between is asked for: {backs:?}"
    );
}

#[test]
fn a_server_that_was_started_again_goes_on_where_it_does() {
    let later = Session { started_at: "2026-01-01T00:01:00Z".to_owned(), ..session() };
    let server = Server::of(vec![answer(&session(), 0, 0..2), answer(&later, 1, 0..2)]);
    assert_eq!(starts(&mut server.connected(Begin::Oldest), 4), [0, 1, 60, 61]);
    // The wall's clock was set back in between.
    let earlier = Session { started_at: "2025-01-01T00:00:00Z".to_owned(), ..session() };
    let server = Server::of(vec![answer(&session(), 0, 0..2), answer(&earlier, 1, 0..2)]);
    assert_eq!(starts(&mut server.connected(Begin::Oldest), 4), [0, 1, 2, 3]);
}

#[test]
fn another_host_at_the_same_address_is_not_taken_for_this_one() {
    let other = Session { boot_id: "another".to_owned(), ..session() };
    let server = Server::of(vec![answer(&session(), 0, 0..1), answer(&other, 1, 0..1)]);
    let mut stream = server.connected(Begin::Oldest);
    starts(&mut stream, 1);
    let error = stream.intervals.blocking_recv().unwrap().unwrap_err().to_string();
    assert!(error.contains("another host or another boot"), "{error}");
    assert!(stream.intervals.blocking_recv().is_none());
}

#[test]
fn why_there_are_no_intervals_is_said() {
    let said = |answer: &str| Server::of(vec![answer.as_bytes().to_vec()]).refused();
    let refused = said("HTTP/1.1 401 Unauthorized\r\ncontent-length: 9\r\n\r\nwho\nis it");
    assert!(refused.contains("(HTTP 401): who is it.") && refused.contains("--password-file"), "{refused}");
    let moved = said("HTTP/1.1 302 Found\r\nlocation: http://elsewhere\r\ncontent-length: 0\r\n\r\n");
    assert!(moved.contains("It redirects"), "{moved}");
    let other = said("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    assert!(other.starts_with("cannot read what the server sends: http://127.0.0.1:"), "{other}");
    let gone = said("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    assert!(gone.contains("closed the connection"), "{gone}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = Connection { url: format!("http://{}", listener.local_addr().unwrap()), ..Connection::default() };
    drop(listener);
    let error = connected(ConnectOptions { connection, begin: Begin::Last, duration: None }).err().unwrap().to_string();
    assert!(error.starts_with("cannot reach http://127.0.0.1:"), "{error}");
}

#[test]
fn a_stop_is_not_held_up_by_a_server_that_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        head(&mut stream);
        stream.write_all(&answer(&session(), 0, 0..1)).unwrap();
        thread::sleep(LONG);
    });
    let connection = Connection { url, ..Connection::default() };
    let mut stream = connected(ConnectOptions { connection, begin: Begin::Oldest, duration: None }).unwrap();
    starts(&mut stream, 1);
    let began = Instant::now();
    stream.stop.stop();
    assert!(stream.intervals.blocking_recv().is_none() && began.elapsed() < LONG / 2);
}
