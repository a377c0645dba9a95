//! Metrics for those who do not scrape: pushed to a collector of OpenTelemetry.

use std::{
    fmt,
    io::{self, Write},
    str::FromStr,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use tokio::sync::watch;
use ureq::{Agent, http::Uri};

use super::Published;
use crate::{
    exporter::{OtlpHost, Snapshot, export},
    plain::plain,
};

/// Between two pushes, where intervals are not longer.
const EVERY: Duration = Duration::from_secs(15);
/// Before the first, once there is something: whoever started it hears soon whether it works.
const FIRST: Duration = Duration::from_secs(1);
/// For a request of one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where collectors listen for metrics.
const PATH: &str = "/v1/metrics";

/// Where metrics are pushed to: `http://host:4318`, with a path where that is not `/v1/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector(String);

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write it as http://127.0.0.1:4318";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {HOW}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err("lagstop does not encrypt what it pushes: write http, for a collector on this host that passes it on encrypted".to_owned());
            }
            _ => return Err(format!("the scheme is missing; {HOW}")),
        }
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| format!("the host is missing; {HOW}"))?;
        if authority.as_str().contains('@') {
            return Err("lagstop pushes without a password".to_owned());
        }
        let port = if authority.port().is_none() { ":4318" } else { "" };
        let path = uri.path_and_query().map(|path| path.as_str()).filter(|path| *path != "/").unwrap_or(PATH);
        Ok(Self(format!("http://{authority}{port}{path}")))
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is pushed, where to, and who hears of it when that fails, and when it works again.
pub struct Push {
    /// Where to.
    pub collector: Collector,
    /// Where it is measured.
    pub host: OtlpHost,
    /// Hears of what goes wrong.
    pub complain: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("collector", &self.collector).field("host", &self.host).finish_non_exhaustive()
    }
}

/// A thread that pushes. It ends with this, but for a request that is under way.
#[derive(Debug)]
pub struct Pushing(#[expect(dead_code, reason = "dropped, it ends the thread")] Sender<()>);

impl Push {
    /// Pushes what is published, on a thread of its own. What a collector does not take is not kept: the next push has all of it,
    /// for counters only grow.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(self, published: watch::Receiver<Option<Published>>) -> io::Result<Pushing> {
        self.start_every(EVERY, published)
    }

    fn start_every(self, pause: Duration, published: watch::Receiver<Option<Published>>) -> io::Result<Pushing> {
        let (sender, stopped) = channel();
        thread::Builder::new().name("push".to_owned()).spawn(move || {
            let agent = Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_global(Some(PATIENCE))
                .user_agent(concat!("lagstop/", env!("CARGO_PKG_VERSION")))
                .build()
                .new_agent();
            let (mut pushed, mut fails, mut wait) = (0, false, FIRST.min(pause));
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let last = published.borrow().as_ref().map(|last| Arc::clone(&last.snapshot));
                let Some(snapshot) = last.filter(|last| last.intervals > pushed) else { continue };
                wait = pause;
                let outcome = self.push(&agent, &snapshot);
                // Once, not every time.
                match &outcome {
                    Ok(()) if fails => (self.complain)(&format!("metrics are pushed to {} again", self.collector)),
                    Err(error) if !fails => (self.complain)(&format!(
                        "metrics cannot be pushed to {}: {error}. It goes on trying",
                        self.collector
                    )),
                    _ => {}
                }
                fails = outcome.is_err();
                if !fails {
                    pushed = snapshot.intervals;
                }
            }
        })?;
        Ok(Pushing(sender))
    }

    fn push(&self, agent: &Agent, snapshot: &Snapshot) -> Result<(), String> {
        export(snapshot, &self.host, |request| {
            let compressed = gzip(&request).map_err(|error| plain(&error))?;
            drop(request);
            let answer = agent
                .post(&self.collector.0)
                .header("content-type", "application/x-protobuf")
                .header("content-encoding", "gzip")
                .send(&compressed[..])
                .map_err(|error| error.to_string())?;
            match answer.status() {
                status if status.is_success() => Ok(()),
                status => Err(format!("it answers {status}")),
            }
        })
    }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes)?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener, time::Instant};

    use super::*;

    #[test]
    fn a_collector_is_found_by_its_url() {
        let collector = |text: &str| text.parse::<Collector>().map(|it| it.to_string());
        assert_eq!(collector("http://127.0.0.1:4318").as_deref(), Ok("http://127.0.0.1:4318/v1/metrics"));
        assert_eq!(collector("http://otel/").as_deref(), Ok("http://otel:4318/v1/metrics"));
        assert_eq!(collector("http://[::1]:9/otlp?x=1").as_deref(), Ok("http://[::1]:9/otlp?x=1"));
        for wrong in ["https://otel", "otel", "otel:4318", "", "http://", "http://me:secret@otel"] {
            assert!(collector(wrong).is_err(), "{wrong}");
        }
    }

    /// Takes pushes, each answered in turn with one of these, and gives their heads.
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
            write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            heads.push(head);
        }
        heads
    }

    #[test]
    fn what_is_published_is_pushed_once_and_failures_are_told_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector: Collector = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (publisher, published) = watch::channel(None);
        let (complaint, complaints) = channel();
        let complain = Box::new(move |text: &str| complaint.send(text.to_owned()).unwrap());
        let host = OtlpHost { hostname: "here".to_owned(), version: "1".to_owned() };
        let publish = |intervals| {
            let snapshot = Arc::new(Snapshot { intervals, ..Snapshot::default() });
            publisher.send_replace(Some(Published { snapshot, at: Instant::now() }));
        };
        let pushing = Push { collector, host, complain }.start_every(Duration::from_millis(20), published).unwrap();
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
        }
        let told: Vec<String> = complaints.iter().take(2).collect();
        assert!(told[0].contains("503") && told[1].ends_with("again"), "{told:?}");
        drop(pushing);
        assert!(complaints.recv_timeout(Duration::from_secs(10)).is_err(), "nothing more, and the thread ends");
    }
}
