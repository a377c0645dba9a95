//! Who asks a server: Prometheus, and those who mean it harm.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::Error;

const PATIENCE: Duration = Duration::from_secs(10);

/// What a scrape said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scrape {
    /// The kinds of `lagstop_lost_total` that are not 0, with how much.
    pub(super) lost: Vec<(String, f64)>,
    pub(super) series: usize,
}

/// Scrapes as Prometheus does.
pub(super) fn scrape(address: &str) -> Result<Scrape, Error> {
    let mut stream = connect(address).map_err(Error::file("the server"))?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: lagstop\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n"
    )
    .map_err(Error::file("the server"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(Error::file("the server"))?;
    read(&answer).ok_or_else(|| Error::Scrape(answer.lines().next().unwrap_or_default().to_owned()))
}

/// What an answer says. `None` where it is not a complete answer.
fn read(answer: &str) -> Option<Scrape> {
    let body = answer.strip_prefix("HTTP/1.1 200")?;
    body.trim_end().ends_with("# EOF").then_some(())?;
    let kind = |line: &str| {
        let (kind, value) = line.strip_prefix("lagstop_lost_total{kind=\"")?.split_once("\"} ")?;
        Some((kind.to_owned(), value.parse().ok()?))
    };
    let lost = body.lines().filter_map(kind).filter(|&(_, lost)| lost > 0.0).collect();
    let series = body.lines().filter(|line| line.starts_with("lagstop_")).count();
    Some(Scrape { lost, series })
}

/// Connections that are no scrapes. They are held open, and closed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Hostile(Vec<TcpStream>);

impl Hostile {
    /// More connections than the server admits at all.
    const MOST: usize = 200;

    /// One more of each kind; the oldest go.
    pub(super) fn harass(&mut self, address: &str) {
        const KINDS: [&[u8]; 5] = [
            b"",
            b"GET /metrics HTTP/1.1\r\nHost:",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
            // It is never read.
            b"GET /metrics HTTP/1.1\r\nHost: lagstop\r\n\r\n",
        ];
        for sent in KINDS {
            if let Ok(mut stream) = connect(address) {
                let _ = stream.write_all(sent);
                self.0.push(stream);
            }
        }
        let old = self.0.len().saturating_sub(Self::MOST);
        self.0.drain(..old);
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        let whole = "HTTP/1.1 200 OK\r\n\r\nlagstop_lost_total{kind=\"rows\"} 2\nlagstop_lost_total{kind=\"x\"} 0\n\
                     lagstop_intervals_total 7\n# EOF\n";
        assert_eq!(read(whole), Some(Scrape { lost: vec![("rows".to_owned(), 2.0)], series: 3 }));
        assert_eq!(read(&whole[..whole.len() - 6]), None);
        assert_eq!(read("HTTP/1.1 503 Service Unavailable\r\n\r\n# EOF\n"), None);
    }
}
