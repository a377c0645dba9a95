//! Metrics for those who do not scrape: pushed to a collector of OpenTelemetry.

mod answer;
mod collector;

use std::{
    fmt,
    io::{self, Read, Write},
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use tokio::sync::watch;
use ureq::http::header::RETRY_AFTER;

pub use collector::{Collector, Route};

use self::answer::Outcome;
use super::Published;
use crate::{
    exporter::{OtlpHost, Snapshot, export},
    kernel::Capabilities,
    plain::plain,
};

/// Between two pushes, where intervals are not longer.
const EVERY: Duration = Duration::from_secs(15);
/// Before the first, once there is something: whoever started it hears soon whether it works.
const FIRST: Duration = Duration::from_secs(1);
/// A collector that asks to be left alone for longer is asked again all the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes of an answer that are read.
const LONGEST_ANSWER: u64 = 64 << 10;

/// What is pushed, where to, and who hears of it when that fails, and when it works again.
pub struct Push {
    /// Where to, and how.
    pub route: Route,
    /// Where it is measured.
    pub host: OtlpHost,
    /// Hears of what goes wrong.
    pub complain: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("route", &self.route).field("host", &self.host).finish_non_exhaustive()
    }
}

/// A thread that pushes. It ends with this, but for a request that is under way.
#[derive(Debug)]
pub struct Pushing(#[expect(dead_code, reason = "dropped, it ends the thread")] Sender<()>);

impl Push {
    /// Pushes what is published, on a thread of its own and without capabilities. What a collector does not take is not kept: the
    /// next push has all of it, for counters only grow.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(self, published: watch::Receiver<Option<Published>>) -> io::Result<Pushing> {
        self.start_every(EVERY, published)
    }

    fn start_every(self, pause: Duration, published: watch::Receiver<Option<Published>>) -> io::Result<Pushing> {
        let (sender, stopped) = channel();
        thread::Builder::new().name("push".to_owned()).spawn(move || {
            // What a collector answers is read here: nothing is to be had by it.
            if let Err(error) = Capabilities::NONE.keep_only() {
                (self.complain)(&format!("nothing is pushed: privileges cannot be given up: {}", plain(&error)));
                return;
            }
            let (mut pushed, mut before, mut wait) = (0, Outcome::Taken, FIRST.min(pause));
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let last = published.borrow().as_ref().map(|last| Arc::clone(&last.snapshot));
                let Some(snapshot) = last.filter(|last| last.intervals > pushed) else { continue };
                let outcome = self.push(&snapshot);
                wait = outcome.retry_after().map_or(pause, |after| after.min(LONGEST_PAUSE).max(pause));
                if let Some(said) = outcome.said_after(&before, self.route.collector.url()) {
                    (self.complain)(&said);
                }
                if !outcome.is_failed() {
                    pushed = snapshot.intervals;
                }
                before = outcome;
            }
        })?;
        Ok(Pushing(sender))
    }

    /// Pushes all of it; the first request that fails is the last.
    fn push(&self, snapshot: &Snapshot) -> Outcome {
        let mut so_far = Outcome::Taken;
        let sent = export(snapshot, &self.host, |request| {
            so_far = so_far.clone().and(self.post(&request));
            if so_far.is_failed() { Err(()) } else { Ok(()) }
        });
        debug_assert_eq!(sent.is_err(), so_far.is_failed());
        so_far
    }

    fn post(&self, request: &[u8]) -> Outcome {
        let failed = |why: String| Outcome::Failed { why, after: None };
        let compressed = match gzip(request) {
            Ok(compressed) => compressed,
            Err(error) => return failed(plain(&error)),
        };
        let Route { collector, headers, agent } = &self.route;
        let mut post = agent
            .post(collector.url())
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "gzip");
        for (name, value) in headers {
            post = post.header(name, value);
        }
        let mut answer = match post.send(&compressed[..]) {
            Ok(answer) => answer,
            Err(error) => return failed(error.to_string()),
        };
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        // An answer that breaks off has said what matters with its status.
        let _ = answer.body_mut().as_reader().take(LONGEST_ANSWER).read_to_end(&mut body);
        Outcome::of(status, retry_after.as_deref(), &body)
    }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes)?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Instant};

    use super::*;
    use crate::fleet::TlsFiles;

    /// Takes pushes, each answered in turn with one of these, a status and a body, and gives their heads.
    fn take(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let mut request = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut request).unwrap();
            assert!(String::from_utf8_lossy(&request).contains("lagstop_intervals"));
            let (head_line, body) = answer.split_once('|').unwrap_or((*answer, ""));
            let length = body.len();
            write!(stream, "HTTP/1.1 {head_line}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
                .unwrap();
            heads.push(head);
        }
        heads
    }

    #[test]
    fn what_is_published_is_pushed_once_and_failures_are_told_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector: Collector = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let headers = [("X-Scope-OrgID".to_owned(), "team".to_owned())];
        let route = Route::new(collector, &headers, &TlsFiles::default()).unwrap();
        let (publisher, published) = watch::channel(None);
        let (complaint, complaints) = channel();
        let complain = Box::new(move |text: &str| complaint.send(text.to_owned()).unwrap());
        let host = OtlpHost { hostname: "here".to_owned(), version: "1".to_owned() };
        let publish = |intervals| {
            let snapshot = Arc::new(Snapshot { intervals, ..Snapshot::default() });
            publisher.send_replace(Some(Published { snapshot, at: Instant::now() }));
        };
        let pushing = Push { route, host, complain }.start_every(Duration::from_millis(20), published).unwrap();
        publish(1);
        let mut heads = take(&listener, &["200 OK"]);
        thread::sleep(Duration::from_millis(200));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "it was pushed already");
        listener.set_nonblocking(false).unwrap();
        publish(2);
        heads.extend(take(&listener, &["503 No", "503 No", "200 OK"]));
        for head in heads {
            assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf"), "{head}");
            assert!(head.contains("x-scope-orgid: team"), "{head}");
        }
        let told: Vec<String> = complaints.iter().take(2).collect();
        assert!(told[0].contains("503") && told[1].ends_with("again"), "{told:?}");
        publish(3);
        // As protocol buffers: { 1: { 1: 7, 2: "old" } }.
        take(&listener, &["200 OK|\n\x07\x08\x07\x12\x03old"]);
        let told = complaints.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(told.ends_with("rejected 7 data points of a push and took the rest: old"), "{told}");
        publish(4);
        take(&listener, &["429 Later\r\nretry-after: 1"]);
        let (began, told) = (Instant::now(), complaints.recv_timeout(Duration::from_secs(5)).unwrap());
        assert!(told.contains("429"), "{told}");
        take(&listener, &["200 OK"]);
        assert!(began.elapsed() > Duration::from_millis(900), "it was asked to wait a second");
        assert!(complaints.recv_timeout(Duration::from_secs(5)).unwrap().ends_with("again"));
        drop(pushing);
        assert!(complaints.recv_timeout(Duration::from_secs(10)).is_err(), "nothing more, and the thread ends");
    }
}
