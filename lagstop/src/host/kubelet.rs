//! The kubelet's list of the pods on its node, which it serves to everybody where its read-only port is open
//! (`readOnlyPort`, 10255; closed unless it is asked for).

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    str::FromStr,
    time::{Duration, Instant},
};

use serde::Deserialize;
use thiserror::Error;

use super::Names;
use crate::plain::plain;

const PORT: u16 = 10255;
const PATH: &str = "/pods";
/// For one answer, from connecting to its last byte.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the answer's head.
const LONGEST_HEAD: u64 = 16 << 10;
/// Bytes of its body, which has hundreds of pods with all that is known of them.
const LONGEST_BODY: u64 = 64 << 20;

/// Where a kubelet serves its list of pods: `http://127.0.0.1:10255/pods`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    address: SocketAddr,
    path: String,
}

/// Why there is no list.
#[derive(Debug, Error)]
#[error("the kubelet's pods cannot be read from {kubelet}: {}. It serves them where its readOnlyPort is set", plain(.source))]
pub struct KubeletError {
    kubelet: Kubelet,
    source: io::Error,
}

impl FromStr for Kubelet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let rest = text.strip_prefix("http://")?;
            let (authority, path) = rest.find('/').map_or((rest, PATH), |at| rest.split_at(at));
            let ip = || authority.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
            let address = authority.parse().ok().or_else(|| Some(SocketAddr::new(ip()?, PORT)))?;
            path.bytes().all(|byte| byte.is_ascii_graphic()).then(|| Self { address, path: path.to_owned() })
        };
        parse().ok_or_else(|| "write it as http://127.0.0.1:10255/pods, with an address and not a name".to_owned())
    }
}

impl fmt::Display for Kubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

impl Kubelet {
    /// The names of the pods that it runs, and of their containers. Takes five seconds at most.
    ///
    /// # Errors
    /// When it does not answer in time, or with something else than such a list.
    pub fn names(&self) -> Result<Names, KubeletError> {
        self.body().and_then(|body| parse(&body)).map_err(|source| KubeletError { kubelet: self.clone(), source })
    }

    fn body(&self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + PATIENCE;
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
            self.path, self.address
        )?;
        answer(BufReader::new(Hurried { stream, until }))
    }
}

/// Reads until a moment, however slowly bytes come.
struct Hurried {
    stream: TcpStream,
    until: Instant,
}

impl Read for Hurried {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(wrong("it took too long to answer"));
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => wrong("it took too long to answer"),
            _ => error,
        })
    }
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

/// How long a body is.
enum Length {
    Known(u64),
    /// In chunks, each with its own length.
    Chunked,
    /// Up to where the connection ends.
    Unknown,
}

/// The body of an answer of HTTP/1.1 (RFC 9112).
pub(super) fn answer(mut from: impl BufRead) -> io::Result<Vec<u8>> {
    let length = head(&mut from.by_ref().take(LONGEST_HEAD))?;
    match length {
        Length::Known(length) if length > LONGEST_BODY => Err(too_long()),
        Length::Known(length) => {
            let mut body = Vec::new();
            from.take(length).read_to_end(&mut body)?;
            if (body.len() as u64) < length { Err(cut_off()) } else { Ok(body) }
        }
        Length::Chunked => chunks(from),
        Length::Unknown => {
            let mut body = Vec::new();
            from.take(LONGEST_BODY + 1).read_to_end(&mut body)?;
            if body.len() as u64 > LONGEST_BODY { Err(too_long()) } else { Ok(body) }
        }
    }
}

fn too_long() -> io::Error {
    wrong(format!("its answer is longer than {} MiB", LONGEST_BODY >> 20))
}

fn cut_off() -> io::Error {
    wrong("its answer was cut off")
}

/// Reads the status, which must be 200, and the fields.
fn head(from: &mut impl BufRead) -> io::Result<Length> {
    let status = line(from)?;
    let mut words = status.split(' ');
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let code = words.next().and_then(|code| code.parse::<u16>().ok()).filter(|_| is_http);
    match code {
        Some(200) => {}
        Some(code) => return Err(wrong(format!("it answered with status {code}"))),
        None => return Err(wrong("it does not speak HTTP/1.1")),
    }
    let mut length = Length::Unknown;
    loop {
        let field = line(from)?;
        if field.is_empty() {
            return Ok(length);
        }
        let Some((name, value)) = field.split_once(':') else { return Err(wrong("its answer has a broken head")) };
        let value = value.trim();
        if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(wrong("its answer is encoded in a way that was not asked for"));
            }
            length = Length::Chunked;
        } else if name.eq_ignore_ascii_case("content-length") && !matches!(length, Length::Chunked) {
            length = Length::Known(value.parse().map_err(|_| wrong("its answer has a broken length"))?);
        }
    }
}

/// A line without its end.
fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(wrong("its answer has no end of its head"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| wrong("its answer has a broken head"))
}

fn chunks(mut from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        // What may come behind the length is for who understands it.
        let size = line(&mut from.by_ref().take(LONGEST_HEAD))?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| wrong("its answer has a broken chunk"))?;
        if size == 0 {
            return Ok(body);
        }
        if size > LONGEST_BODY - body.len() as u64 {
            return Err(too_long());
        }
        let before = body.len() as u64;
        from.by_ref().take(size).read_to_end(&mut body)?;
        let has_end = line(&mut from.by_ref().take(2)).is_ok_and(|rest| rest.is_empty());
        if body.len() as u64 - before < size || !has_end {
            return Err(cut_off());
        }
    }
}

/// What is needed of a `v1.PodList`.
#[derive(Deserialize)]
struct PodList {
    items: Option<Vec<Pod>>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
    ephemeral_container_statuses: Option<Vec<Container>>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    /// `containerd://0123…`; missing before it is made.
    #[serde(default, rename = "containerID")]
    id: String,
}

pub(super) fn parse(body: &[u8]) -> io::Result<Names> {
    // What serde_json says has pieces of the text in it, which may be anything.
    let list: PodList = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("it is no list of pods: line {}, column {}", error.line(), error.column())))?;
    let mut names = Names::default();
    for Pod { metadata: Metadata { name, namespace, uid }, status } in list.items.into_iter().flatten() {
        let Status { container_statuses, init_container_statuses, ephemeral_container_statuses } = status;
        let lists = [container_statuses, init_container_statuses, ephemeral_container_statuses];
        let containers = lists.into_iter().flatten().flatten();
        let containers = containers.filter_map(|container| {
            let (_, id) = container.id.split_once("://")?;
            Some((id.to_owned(), container.name))
        });
        names.add(&namespace, &name, uid, containers);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "11111111-2222-3333-4444-555555555555";

    fn list() -> String {
        format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[
                {{"metadata":{{"name":"web-7d9","namespace":"shop","uid":"{UID}","labels":{{"a":"b"}}}},"spec":{{}},
                  "status":{{"phase":"Running","containerStatuses":[
                    {{"name":"nginx","containerID":"containerd://{ID}","state":{{}}}},{{"name":"not-yet"}}]}}}},
                {{"metadata":{{"name":"waits","namespace":"shop","uid":"u2"}}}}]}}"#
        )
    }

    /// Serves `answer` to one client, and gives what it asked.
    fn serve(answer: Vec<u8>) -> (Kubelet, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let kubelet = format!("http://{}/pods", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            for line in BufReader::new(&stream).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                asked += &(line + "\n");
            }
            // Who is sent too much does not read to the end.
            let _ = stream.write_all(&answer);
            asked
        });
        (kubelet, server)
    }

    fn check(names: &Names) {
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        assert_eq!(names.of(&format!("/kubepods.slice/{slice}/cri-containerd-{ID}.scope")), "shop/web-7d9/nginx");
        assert_eq!(names.of(&format!("/kubepods.slice/{slice}")), "shop/web-7d9");
    }

    #[test]
    fn pods_and_containers_get_their_names_whatever_way_the_list_is_sent() {
        let list = list();
        let (first, rest) = list.split_at(100);
        for answer in [
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}",
                list.len()
            ),
            format!("HTTP/1.0 200 OK\r\n\r\n{list}"),
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:X};x=y\r\n{rest}\r\n0\r\n\r\n",
                first.len(),
                rest.len()
            ),
        ] {
            let (kubelet, server) = serve(answer.into_bytes());
            check(&kubelet.names().unwrap());
            let asked = server.join().unwrap();
            assert!(asked.starts_with("GET /pods HTTP/1.1\n") && asked.contains("\nHost: 127.0.0.1:"), "{asked}");
        }
    }

    #[test]
    fn hostile_answers_are_errors() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (answer, said) in [
            (String::new(), "no end of its head"),
            ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), "does not speak HTTP"),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n".to_owned(), "status 401"),
            (format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n{{}}", "x".repeat(1 << 20)), "no end of its head"),
            ("HTTP/1.1 200 OK\r\nno field\r\n\r\n".to_owned(), "broken head"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_owned(), "longer than 64 MiB"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(), "broken length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}".to_owned(), "cut off"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), "not asked for"),
            (format!("{chunked}ffffffffffffffff\r\n"), "longer than 64 MiB"),
            (format!("{chunked}zz\r\n"), "broken chunk"),
            (format!("{chunked}5\r\n{{}}"), "cut off"),
            (format!("{chunked}2\r\n{{}}xx2\r\n"), "cut off"),
            ("HTTP/1.1 200 OK\r\n\r\n\u{1b}[31m".to_owned(), "no list of pods: line 1"),
            ("HTTP/1.1 200 OK\r\n\r\n{\"items\":[{\"metadata\":{}}]}".to_owned(), "no list of pods"),
            (format!("HTTP/1.1 200 OK\r\n\r\n{}", "[".repeat(100_000)), "no list of pods"),
        ] {
            let (kubelet, server) = serve(answer.into_bytes());
            let error = kubelet.names().unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
            server.join().unwrap();
        }
    }

    #[test]
    fn names_that_mean_nothing_do_no_harm() {
        assert_eq!(parse(br#"{"items":null}"#).unwrap(), Names::default());
        let odd = r#"{"items":[{"metadata":{"name":"","namespace":"","uid":""},
            "status":{"containerStatuses":[{"name":"x","containerID":"containerd://short"},{"name":"y","containerID":"none"}],
                      "initContainerStatuses":null}}]}"#;
        assert_eq!(parse(odd.as_bytes()).unwrap(), Names::default());
    }

    #[test]
    fn who_trickles_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"H").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let stream = TcpStream::connect(address).unwrap();
        let began = Instant::now();
        let until = began + Duration::from_millis(200);
        let error = answer(BufReader::new(Hurried { stream, until })).unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        server.join().unwrap();
    }

    #[test]
    fn it_has_an_address_and_no_name() {
        let shown = |text: &str| text.parse::<Kubelet>().map(|kubelet| kubelet.to_string());
        for (text, is) in [
            ("http://127.0.0.1:10255/pods", "http://127.0.0.1:10255/pods"),
            ("http://10.0.0.7", "http://10.0.0.7:10255/pods"),
            ("http://[::1]/x", "http://[::1]:10255/x"),
            ("http://[::1]:80", "http://[::1]:80/pods"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(is), "{text}");
        }
        for text in
            ["https://127.0.0.1/pods", "http://node/pods", "127.0.0.1", "http://1.2.3.4/a b", "http://1.2.3.4/\r\nX: y"]
        {
            assert!(shown(text).is_err(), "{text}");
        }
    }
}
