//! Those who follow the intervals, and stay.

use super::*;
use crate::{
    model::{Interval, Nanos},
    recording::{StreamReader, Streamed},
};

const PATH: &str = "/api/v1/intervals";

impl Served {
    fn measure(&mut self, seq: u64) {
        let start_ns = Nanos(seq * Nanos::SECOND.0);
        let interval = Interval { seq, start_ns, duration_ns: Nanos::SECOND, ..fixture::overloaded(1)[0].clone() };
        self.feeder.add(&interval).unwrap();
    }

    /// One who follows, and the head of the answer.
    fn follow(&self, more: &str) -> (String, TcpStream) {
        let mut stream = self.connect();
        write!(stream, "GET {PATH}{more} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let head = head(&mut stream);
        (head, stream)
    }
}

fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// What is inside of chunks of HTTP.
struct Unchunked<R> {
    inner: R,
    left: usize,
}

impl<R: Read> Read for Unchunked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut line = Vec::new();
            let mut byte = [0];
            while !line.ends_with(b"\r\n") || line == b"\r\n" {
                if line == b"\r\n" {
                    line.clear();
                }
                if self.inner.read(&mut byte)? == 0 {
                    return Ok(0);
                }
                line.push(byte[0]);
            }
            self.left = usize::from_str_radix(str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        }
        let room = self.left.min(buffer.len());
        let read = self.inner.read(&mut buffer[..room])?;
        self.left -= read;
        Ok(read)
    }
}

/// The numbers of the next intervals.
fn read<R: Read>(reader: &mut StreamReader<R>, count: usize) -> Vec<u64> {
    let mut all = Vec::new();
    while all.len() < count {
        match reader.read_next().unwrap() {
            Streamed::Interval(interval) => all.push(interval.seq),
            Streamed::Gap(_) => {}
            Streamed::Session(session) => assert_eq!(*session, fixture::session()),
            Streamed::Ended(why) => panic!("it ended: {why}"),
        }
    }
    all
}

fn reader(stream: TcpStream) -> StreamReader<Unchunked<TcpStream>> {
    StreamReader::new(Unchunked { inner: stream, left: 0 }, std::path::Path::new("server")).unwrap()
}

#[test]
fn whoever_follows_gets_each_interval_as_it_comes_and_may_stay() {
    let mut served = Served::plain();
    served.measure(0);
    let (head, stream) = served.follow("");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: application/zstd"), "{head}");
    assert!(head.contains("lagstop-now-ns: 1000000000") && head.contains("cache-control: no-store"), "{head}");
    let mut reader = reader(stream);
    assert_eq!(read(&mut reader, 1), [0]);
    // Longer than anybody else may.
    let began = Instant::now();
    for seq in 1.. {
        served.measure(seq);
        assert_eq!(read(&mut reader, 1), [seq]);
        if began.elapsed() > LIMITS.whole + Duration::from_secs(1) {
            break;
        }
        thread::sleep(Duration::from_millis(300));
    }
    let took = took(|| served.server.stop());
    assert!(took < LAST_MOMENT, "followers do not hold up the end: {took:?}");
}

/// What the server gives those who are in, and a little more.
const LAST_MOMENT: Duration = Duration::from_millis(900);

#[test]
fn followers_have_few_places_and_take_none_of_others() {
    let served = Served::start(Security::none(), ConnectionLimits { connections: 2, ..LIMITS });
    served.publish(1, 1);
    let (one, other) = (served.follow(""), served.follow("?back=5"));
    assert!(one.0.starts_with("HTTP/1.1 200") && other.0.starts_with("HTTP/1.1 200"));
    let (refused, _) = served.follow("");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"), "{refused}");
    for _ in 0..5 {
        assert_eq!(status(&served.get("/metrics")), 200);
    }
    drop(one);
    let is_free = (0..50).any(|_| {
        thread::sleep(Duration::from_millis(100));
        served.follow("").0.starts_with("HTTP/1.1 200")
    });
    assert!(is_free, "whoever goes gives its place back");
    let (wrong, _) = served.follow("?back=soon");
    assert!(wrong.starts_with("HTTP/1.1 400"), "{wrong}");
}

#[test]
fn whoever_takes_nothing_is_let_go() {
    let mut served = Served::plain();
    let (_, mut stuck) = served.follow("");
    let began = Instant::now();
    let mut seq = 0;
    // More than the system holds back for it.
    while began.elapsed() < LIMITS.stall + Duration::from_secs(4) {
        for _ in 0..20 {
            served.measure(seq);
            seq += 1;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let mut got = 0;
    while let Ok(read @ 1..) = stuck.read(&mut [0; 1 << 16]) {
        got += read;
    }
    assert!(got < 4 << 20, "what the system held back for it, and no more: {got} bytes");
    let (head, _) = served.follow("");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[test]
fn whoever_would_not_be_let_in_any_more_is_shown_out() {
    let keys = Keys::make();
    let user = |name: &str| format!("basic_auth_users:\n  {name}: {}\n", bcrypt::hash("secret", 4).unwrap());
    keys.write("web.yml", &user("ann"));
    let file = keys.home.path().join("web.yml");
    let served = Served::start(Security::read(&file, |_: &Reloaded| {}).unwrap(), LIMITS);
    let (refused, _) = served.follow("");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let mut stream = served.connect();
    let ann = BASE64.encode("ann:secret");
    write!(stream, "GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {ann}\r\n\r\n").unwrap();
    assert!(head(&mut stream).starts_with("HTTP/1.1 200"));
    // Nobody connects: it is looked all the same.
    keys.write("web.yml", &user("bob"));
    let began = Instant::now();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_page_of_somebody_elses_gets_nothing() {
    let served = Served::plain();
    let ask = |path: &str, more: &str| status(&served.ask(&format!("GET {path} HTTP/1.1\r\n{more}\r\n\r\n")));
    for path in ["/api/v1/moment", "/api/v1/history"] {
        for host in ["localhost", "127.0.0.1:9185", "[::1]:9185"] {
            let status = ask(path, &format!("Host: {host}"));
            assert!(status == 200 || status == 503, "{host}: {status}");
        }
        assert_eq!(ask(path, "Host: rebound.example:9185"), 421, "a name that means this host just now");
        for site in ["cross-site", "same-site"] {
            assert_eq!(ask(path, &format!("Host: localhost\r\nSec-Fetch-Site: {site}")), 403);
        }
        assert_ne!(ask(path, "Host: localhost\r\nSec-Fetch-Site: same-origin"), 403);
    }
    assert_eq!(ask(PATH, "Host: rebound.example:9185"), 421);
    assert_eq!(ask("/metrics", "Host: rebound.example:9185"), 200, "scraped by whatever name");
}
