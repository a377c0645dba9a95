//! The server, and those who mean it no good.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};

use super::*;
use crate::{
    diagnosis::Thresholds,
    metrics::Accumulator,
    model::{Session, fixture},
};

mod following;
mod page;

/// Long enough for a slow machine, short enough to wait for.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 256,
    handshake: Duration::from_millis(700),
    head: Duration::from_millis(700),
    whole: Duration::from_secs(3),
    followers: 3,
    followers_of_one: 2,
    stall: Duration::from_secs(2),
};

/// A server with a snapshot to serve.
struct Served {
    server: Server,
    publisher: Publisher,
    feeder: Feeder,
    page: Option<Arc<Watcher>>,
}

/// What a server offers, and how it is told more.
fn offered() -> (Offered, Publisher, Feeder) {
    let (publisher, metrics) = watch::channel(None);
    let feeder = Feeder::new(&fixture::session()).unwrap();
    let page = Some(Watcher::new(feeder.feed(), &Thresholds::default()));
    (Offered { metrics, intervals: feeder.feed(), page }, publisher, feeder)
}

impl Served {
    fn start(security: Security, limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (offered, publisher, feeder) = offered();
        let options =
            ServeOptions { limits, fresh_for: Duration::from_secs(60), hangs_after: Duration::from_secs(120) };
        let page = offered.page.clone();
        let server = Server::start(listener, security, offered, options).unwrap();
        Self { server, publisher, feeder, page }
    }

    fn plain() -> Self {
        let served = Self::start(Security::none(), LIMITS);
        served.publish(1, 1);
        served
    }

    /// The `intervals`th, of some size.
    fn publish(&self, intervals: u64, hooks: usize) {
        let snapshot = snapshot(intervals, hooks);
        self.publisher.send_replace(Some(Published { snapshot, at: Instant::now() }));
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// What is answered to a request.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        answer(stream)
    }

    fn get(&self, path: &str) -> String {
        self.ask(&get(path))
    }
}

fn snapshot(intervals: u64, hooks: usize) -> Arc<MetricsSnapshot> {
    let hook = |n| crate::model::Hook {
        name: format!("hook-{n}"),
        state: crate::model::HookState::On,
        way: None,
        detail: "made up".repeat(20),
        measures: vec!["nothing".to_owned()],
    };
    let session = Session { hooks: (0..hooks).map(hook).collect(), ..Session::default() };
    let settings =
        crate::metrics::MetricsSettings { is_wanted: Box::new(|_| true), top: 1, expiry: crate::model::Nanos::SECOND };
    let snapshot = Accumulator::new(&session, settings).snapshot();
    Arc::new(MetricsSnapshot { intervals, ..snapshot })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: lagstop\r\n\r\n")
}

/// Everything until the other side hangs up, if it says anything.
fn answer(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

fn took(task: impl FnOnce()) -> Duration {
    let began = Instant::now();
    task();
    began.elapsed()
}

#[test]
fn metrics_are_served_in_the_format_that_is_asked_for() {
    let served = Served::plain();
    let text = served.get("/metrics");
    assert_eq!(status(&text), 200, "{text}");
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("\nlagstop_intervals_total 1\n"));
    let accept = |accept: &str| served.ask(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"));
    let openmetrics = accept("application/openmetrics-text;version=1.0.0");
    assert!(openmetrics.contains("content-type: application/openmetrics-text"), "{openmetrics}");
    assert!(openmetrics.ends_with("# EOF\n"), "{openmetrics}");
    let kind = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    assert!(accept(kind).contains("content-type: application/vnd.google.protobuf"));
    served.publish(2, 1);
    assert!(served.get("/metrics").contains("\nlagstop_intervals_total 2\n"));
}

#[test]
fn there_are_few_pages_and_two_methods() {
    let served = Served::plain();
    assert_eq!(status(&served.get("/")), 200);
    assert_eq!(status(&served.get("/etc/passwd")), 404);
    let head = served.ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    let post = served.ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert!(status(&post) == 405 && post.contains("allow: GET, HEAD"), "{post}");
}

#[test]
fn it_is_ready_once_something_was_measured() {
    let served = Served::start(Security::none(), LIMITS);
    assert_eq!(status(&served.get("/-/healthy")), 200);
    assert_eq!(status(&served.get("/-/ready")), 503);
    assert_eq!(status(&served.get("/metrics")), 503);
    served.publish(1, 1);
    assert_eq!(status(&served.get("/-/ready")), 200);
    let Some(at) = Instant::now().checked_sub(Duration::from_secs(61)) else { return };
    served.publisher.send_replace(Some(Published { snapshot: snapshot(1, 1), at }));
    assert_eq!(status(&served.get("/-/ready")), 503, "no measurement for long");
    assert_eq!(status(&served.get("/-/healthy")), 200, "it may only be late");
}

/// Whoever asks starts it anew then.
#[test]
fn it_is_not_healthy_where_reading_hangs() {
    let served = Served::plain();
    let Some(at) = Instant::now().checked_sub(Duration::from_secs(121)) else { return };
    served.publisher.send_replace(Some(Published { snapshot: snapshot(1, 1), at }));
    let said = served.get("/-/healthy");
    assert!(status(&said) == 503 && said.contains("lagstop hangs"), "{said}");
    served.publish(2, 1);
    assert_eq!(status(&served.get("/-/healthy")), 200);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (offered, _publisher, _feeder) = offered();
    let options = ServeOptions { limits: LIMITS, fresh_for: Duration::ZERO, hangs_after: Duration::from_millis(300) };
    let server = Server::start(listener, Security::none(), offered, options).unwrap();
    thread::sleep(Duration::from_millis(400));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(get("/-/healthy").as_bytes()).unwrap();
    assert_eq!(status(&answer(stream)), 503, "not even once");
}

/// Threads with the server's name, also those of other tests, and of each whether it has what it should have.
fn confined() -> Vec<bool> {
    let mut confined = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path()) {
        // They come and go.
        let Ok(status) = std::fs::read_to_string(thread.join("status")) else { continue };
        let Ok(stat) = std::fs::read_to_string(thread.join("stat")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        if field("Name:") == "serve" {
            // CAP_DAC_READ_SEARCH is for those with files to read again.
            let held = u64::from_str_radix(field("CapPrm:"), 16).unwrap() & !(1 << 2);
            let niceness = stat.rsplit(") ").next().unwrap().split(' ').nth(16).unwrap();
            confined.push(held == 0 && field("NoNewPrivs:") == "1" && niceness == "10");
        }
    }
    confined
}

#[test]
fn whoever_talks_to_strangers_may_do_nothing_else() {
    let served = Served::plain();
    assert_eq!(status(&served.get("/metrics")), 200);
    // One that has just been started has not got so far.
    let is_so = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        let confined = confined();
        !confined.is_empty() && !confined.contains(&false)
    });
    assert!(is_so, "{:?}", confined());
}

#[test]
fn whoever_takes_it_compressed_gets_the_same() {
    let served = Served::plain();
    // Some 2 MB, which are handed on in pieces.
    served.publish(1, 8_000);
    for accept in ["text/plain", "application/openmetrics-text"] {
        let plain = served.ask(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"));
        let (head, plain) = plain.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("vary: accept, accept-encoding") && !head.contains("content-encoding"), "{head}");
        assert!(plain.matches("lagstop_hook_info{").count() == 8_000);
        let mut stream = served.connect();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nAccept-Encoding: gzip\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let (head, compressed) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
        assert!(head.contains("content-encoding: gzip") && compressed.len() < plain.len() / 5, "{head}");
        let mut text = String::new();
        flate2::read::GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
        assert!(text == plain, "{accept}");
    }
}

/// Some send nothing, some half a request, some do not read what they asked for.
#[test]
fn two_hundred_stuck_connections_are_no_matter() {
    let served = Served::plain();
    // Some 2 MB: more than is held back for a reader.
    served.publish(1, 8_000);
    let requests = [String::new(), "GET /metr".to_owned(), get("/metrics")];
    let stuck: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = served.connect();
            stream.write_all(requests[n % 3].as_bytes()).unwrap();
            stream
        })
        .collect();
    let took = took(|| assert!(served.get("/metrics").contains("\nlagstop_intervals_total 1\n")));
    assert!(took < Duration::from_secs(2), "{took:?}");
    // A reading of theirs is held by nobody but them.
    for intervals in 2..8 {
        served.publish(intervals, 8_000);
        assert_eq!(status(&served.get("/metrics")), 200);
    }
    thread::sleep(LIMITS.whole + Duration::from_millis(500));
    for (n, stream) in stuck.into_iter().enumerate() {
        let answer = answer(stream);
        // What the system had taken is there, and no more comes.
        assert!(!answer.contains("lagstop_intervals_total") && answer.len() < 1 << 20, "{n}: {} bytes", answer.len());
    }
    served.publish(9, 1);
    assert!(served.get("/metrics").contains("\nlagstop_intervals_total 9\n"));
}

#[test]
fn the_oldest_makes_room() {
    let served = Served::start(Security::none(), ConnectionLimits { connections: 5, ..LIMITS });
    served.publish(1, 1);
    let stuck: Vec<TcpStream> = (0..50).map(|_| served.connect()).collect();
    assert_eq!(status(&served.get("/metrics")), 200);
    let began = Instant::now();
    assert_eq!(answer(&stuck[0]), "");
    assert!(began.elapsed() < LIMITS.head, "it was let go to make room");
}

#[test]
fn too_much_is_refused() {
    let served = Served::plain();
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000));
    let wide = format!("GET / HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(100_000));
    for request in [long, many, wide] {
        let mut stream = served.connect();
        // It may hang up before everything is said.
        let _ = stream.write_all(request.as_bytes());
        let answer = answer(stream);
        assert!(answer.is_empty() || [414, 431].contains(&status(&answer)), "{answer}");
    }
    for nonsense in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let answer = served.ask(nonsense);
        assert!(answer.is_empty() || (400..=505).contains(&status(&answer)), "{answer}");
    }
    let mut endless = served.connect();
    endless.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let began = Instant::now();
    while began.elapsed() < LIMITS.whole * 2 && endless.write_all(b"1000\r\n").is_ok() {
        let _ = endless.write_all(&[b'x'; 0x1000]);
    }
    assert!(began.elapsed() < LIMITS.whole * 2, "an endless body is not read for ever");
    assert_eq!(status(&served.get("/metrics")), 200);
}

#[test]
fn a_request_that_does_not_come_is_not_waited_for() {
    let served = Served::plain();
    let mut slow = served.connect();
    slow.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let took = took(|| assert!(!answer(slow).contains("lagstop_intervals_total")));
    assert!(took < LIMITS.whole, "{took:?}");
}

#[test]
fn it_ends_with_those_who_are_in() {
    let served = Served::plain();
    let stuck: Vec<TcpStream> = (0..3).map(|_| served.connect()).collect();
    let address = served.server.address();
    let took = took(|| served.server.stop());
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(TcpStream::connect(address).is_err());
    drop(stuck);
}

/// Keys and certificates, made for a test.
struct Keys {
    home: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Keys {
    fn make() -> Self {
        let keys = Self { home: tempfile::tempdir().unwrap(), authority: authority() };
        keys.write("ca.crt", &keys.authority.pem());
        keys.renew();
        keys
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    /// The server's key and certificate.
    fn renew(&self) {
        let (certificate, key) = self.signed(ExtendedKeyUsagePurpose::ServerAuth);
        self.write("server.crt", &certificate);
        self.write("server.key", &key);
    }

    fn signed(&self, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        signed(&self.authority, usage)
    }

    fn security(&self, web_config: &str) -> Security {
        self.write("web.yml", web_config);
        Security::read(&self.home.path().join("web.yml"), |error| panic!("{error}"))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn serve(&self, more: &str) -> Served {
        let tls = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
        let served = Served::start(self.security(&format!("{tls}{more}")), LIMITS);
        served.publish(1, 1);
        served
    }

    /// A client that trusts the authority, and has a certificate if one is given.
    fn client(&self, identity: Option<(String, String)>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .unwrap()
            .with_root_certificates(roots);
        match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key.
fn signed(authority: &CertifiedIssuer<'static, KeyPair>, usage: ExtendedKeyUsagePurpose) -> (String, String) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.extended_key_usages.push(usage);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

impl Served {
    /// What is answered over TLS; nothing where that does not come about.
    fn ask_tls(&self, client: ClientConfig, request: &str) -> String {
        self.shown(client, request).0
    }

    /// The same, and the certificate that was shown.
    fn shown(&self, client: ClientConfig, request: &str) -> (String, Option<CertificateDer<'static>>) {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut stream = StreamOwned::new(connection, self.connect());
        let _ = stream.write_all(request.as_bytes());
        let answer = answer(&mut stream);
        (answer, stream.conn.peer_certificates().map(|shown| shown[0].clone().into_owned()))
    }
}

#[test]
fn tls_is_spoken_and_nothing_else() {
    let keys = Keys::make();
    let served = keys.serve("");
    assert_eq!(status(&served.ask_tls(keys.client(None), &get("/metrics"))), 200);
    assert!(!served.get("/metrics").contains("lagstop_intervals_total"), "not without TLS");
    // As browsers and Go's clients do.
    let mut choosy = keys.client(None);
    choosy.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    assert_eq!(status(&served.ask_tls(choosy, &get("/metrics"))), 200);
}

#[test]
fn half_open_tls_is_dropped() {
    let keys = Keys::make();
    let served = keys.serve("");
    // The beginning of a ClientHello that says it is longer.
    let stuck: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&served.ask_tls(keys.client(None), &get("/metrics"))), 200);
    let took = took(|| stuck.into_iter().for_each(|stream| assert_eq!(answer(stream), "")));
    assert!(took < LIMITS.whole, "{took:?}");
    assert_eq!(status(&served.ask_tls(keys.client(None), &get("/metrics"))), 200);
}

/// More than have theirs at once: they are slowed down, and all have it.
#[test]
fn handshakes_take_turns() {
    let keys = Keys::make();
    let served = keys.serve("");
    let began = Instant::now();
    for _ in 0..40 {
        assert_eq!(status(&served.ask_tls(keys.client(None), &get("/-/healthy"))), 200);
    }
    assert!(began.elapsed() > Duration::from_millis(200), "{:?}", began.elapsed());
}

#[test]
fn a_client_without_a_certificate_stays_out() {
    let keys = Keys::make();
    let served = keys.serve("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n");
    let own = keys.signed(ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(status(&served.ask_tls(keys.client(Some(own)), &get("/metrics"))), 200);
    assert_eq!(served.ask_tls(keys.client(None), &get("/metrics")), "");
    let strange = signed(&authority(), ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(served.ask_tls(keys.client(Some(strange)), &get("/metrics")), "", "signed by another authority");
}

#[test]
fn a_version_that_is_too_old_is_refused() {
    let keys = Keys::make();
    let served = keys.serve("  min_version: TLS13\n");
    assert_eq!(status(&served.ask_tls(keys.client(None), &get("/metrics"))), 200);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(keys.authority.pem().as_bytes()).unwrap()).unwrap();
    let old = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    assert_eq!(served.ask_tls(old, &get("/metrics")), "");
}

#[test]
fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let keys = Keys::make();
    keys.write("web.yml", "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n");
    let (complaint, complaints) = std::sync::mpsc::channel();
    let tell = move |told: &Reloaded| complaint.send(told.to_string()).unwrap();
    let served = Served::start(Security::read(&keys.home.path().join("web.yml"), tell).unwrap(), LIMITS);
    served.publish(1, 1);
    let ask = || {
        let (answer, certificate) = served.shown(keys.client(None), &get("/metrics"));
        (status(&answer), certificate.unwrap())
    };
    let first = ask();
    assert_eq!(first.0, 200);
    keys.write("server.crt", "nonsense");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(ask(), first, "the one it has is still good");
    let complaint = complaints.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(complaint.contains("server.crt: the file contains no certificate"), "{complaint}");
    keys.renew();
    thread::sleep(Duration::from_millis(1_100));
    let renewed = ask();
    assert!(renewed.0 == 200 && renewed.1 != first.1);
    let told = complaints.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(told.ends_with("web.yml was reloaded: TLS, no passwords"), "{told}");
    assert!(complaints.try_recv().is_err());
}

#[test]
fn a_change_that_lowers_protection_is_refused_and_the_old_one_stays() {
    let keys = Keys::make();
    let hash = bcrypt::hash("secret", 4).unwrap();
    let tls = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
    let all = format!(
        "{tls}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n  min_version: TLS13\n\
         basic_auth_users:\n  prometheus: {hash}\n"
    );
    keys.write("web.yml", &all);
    let file = keys.home.path().join("web.yml");
    let (tell, told) = std::sync::mpsc::channel();
    let mut security =
        Security::read(&file, move |reloaded: &Reloaded| tell.send(reloaded.to_string()).unwrap()).unwrap();
    let mut change = |text: &str| {
        keys.write("web.yml", text);
        thread::sleep(Duration::from_millis(1_100));
        let access = security.access();
        (told.try_recv().unwrap(), access.tls.is_some() && access.passwords.is_some() && !security.is_open())
    };
    for (text, why) in [
        (String::new(), "the file is empty"),
        (all[..all.find("  prometheus").unwrap()].to_owned(), "basic_auth_users is empty"),
        (format!("basic_auth_users:\n  prometheus: {hash}\n"), "it lowers protection (no TLS)"),
        (all[..all.find("basic_auth_users").unwrap()].to_owned(), "it lowers protection (no passwords)"),
        (all.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"), "weaker checks of client certificates"),
        (all.replace("  min_version: TLS13\n", ""), "(TLS 1.2 allowed)"),
        (all.replace("min_version: TLS13", "max_version: TLS12"), "(no TLS 1.3)"),
    ] {
        let (said, is_closed) = change(&text);
        assert!(
            said.contains(why) && said.ends_with("The previous configuration stays in force") && is_closed,
            "{said}"
        );
    }
    let (said, is_closed) = change(&format!("{all}  second: {hash}\n"));
    assert!(said.ends_with(": TLS 1.3 only, client certificates required, passwords") && is_closed, "{said}");
}

/// The configuration comes first, and the certificate that it names a little later.
#[test]
fn what_a_refused_configuration_names_is_watched() {
    let keys = Keys::make();
    let tls = |name: &str| format!("tls_server_config:\n  cert_file: {name}.crt\n  key_file: {name}.key\n");
    keys.write("web.yml", &tls("server"));
    let (tell, told) = std::sync::mpsc::channel();
    let file = keys.home.path().join("web.yml");
    let mut security =
        Security::read(&file, move |reloaded: &Reloaded| tell.send(reloaded.to_string()).unwrap()).unwrap();
    let mut look = || {
        thread::sleep(Duration::from_millis(1_100));
        drop(security.access());
        told.try_recv().ok()
    };
    keys.write("web.yml", &tls("next"));
    assert!(look().unwrap().contains("next.crt"));
    assert_eq!(look(), None, "nothing is said twice");
    let (certificate, key) = keys.signed(ExtendedKeyUsagePurpose::ServerAuth);
    keys.write("next.crt", &certificate);
    keys.write("next.key", &key);
    assert!(look().unwrap().contains("was reloaded: TLS"));
}

#[test]
fn a_password_is_asked_for_but_not_of_probes() {
    let keys = Keys::make();
    let hash = bcrypt::hash("secret", 4).unwrap();
    let served = Served::start(keys.security(&format!("basic_auth_users:\n  prometheus: {hash}\n")), LIMITS);
    served.publish(1, 1);
    let with = |user_and_password: &str| {
        let encoded = BASE64.encode(user_and_password);
        served.ask(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {encoded}\r\n\r\n"))
    };
    assert_eq!(status(&with("prometheus:secret")), 200);
    let wrong = with("prometheus:guess");
    assert!(status(&wrong) == 401 && wrong.contains("www-authenticate: Basic"), "{wrong}");
    assert!(!wrong.contains("lagstop_intervals_total"), "{wrong}");
    for path in ["/metrics", "/", "/nothing"] {
        assert_eq!(status(&served.get(path)), 401, "{path}");
    }
    for path in ["/-/healthy", "/-/ready"] {
        assert_eq!(status(&served.get(path)), 200, "{path}");
    }
}
