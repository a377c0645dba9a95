//! A server that says what it is told to.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use super::{done, fleet, refused};

pub(super) const TESTS: [(&str, fn()); 13] = [
    ("a_workload_that_makes_others_wait_is_named", a_noisy_neighbour),
    ("a_query_that_is_refused_is_said", a_query_that_is_refused_is_said),
    ("one_refusal_is_no_end", one_refusal_is_no_end),
    ("a_busy_server_is_asked_again", a_busy_server_is_asked_again),
    ("too_much_is_asked_in_pieces", too_much_is_asked_in_pieces),
    ("an_answer_without_end_is_not_read", an_answer_without_end_is_not_read),
    ("a_slow_answer_is_not_waited_for", a_slow_answer_is_not_waited_for),
    ("nobody_is_sent_elsewhere", nobody_is_sent_elsewhere),
    ("a_token_goes_to_the_server_and_nowhere_else", a_token_goes_to_the_server_and_nowhere_else),
    ("what_a_server_says_beside_its_answers_is_shown", what_a_server_says_beside_its_answers_is_shown),
    ("hostile_names_are_nothing_but_text", hostile_names_are_nothing_but_text),
    ("what_is_no_prometheus_is_said", what_is_no_prometheus_is_said),
    ("mistakes_are_said_with_a_remedy", mistakes_are_said_with_a_remedy),
];

/// A moment, and a day before it.
pub(super) const AT: [&str; 4] = ["--at", "2023-11-14T22:00:00Z", "--window", "1d"];

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Request {
    path: String,
    pub(super) authorization: String,
    tenant: String,
    /// Everything after the headers, decoded.
    form: String,
}

impl Request {
    /// A parameter of it.
    fn get(&self, name: &str) -> String {
        let all = format!("&{}&{}", self.form, self.path.split_once('?').map_or("", |(_, query)| query));
        let mut pairs = all.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value)).unwrap_or_default()
    }

    fn is_names(&self) -> bool {
        self.path.starts_with("/api/v1/label/__name__/values")
    }
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

/// What is answered: status, more headers, body.
pub(super) type Answer = (u16, String, String);

/// The answer as HTTP.
pub(super) fn http((status, headers, body): &Answer) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
}

fn ok(data: &str) -> Answer {
    (200, String::new(), format!(r#"{{"status":"success","data":{data}}}"#))
}

struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers every request as `answer` says, until the test's process ends.
    fn start(answer: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::raw(move |stream, request, n| {
            let _ = stream.write_all(http(&answer(request, n)).as_bytes());
        })
    }

    fn raw(answer: impl Fn(&mut TcpStream, &Request, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                let n = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(request.clone());
                    kept.len()
                };
                answer(&mut stream, &request, n);
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// A connection is one request.
pub(super) fn read(stream: &mut impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization, mut tenant) = (0, String::new(), String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match &*name.to_lowercase() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => authorization = value.to_owned(),
            "x-scope-orgid" => tenant = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, authorization, tenant, form: String::from_utf8(body).unwrap() })
}

/// The series that the rules write.
const NAMES: &str = r#"["node:lagstop_cpus_online:avg5m","node:lagstop_cgroups_active:avg5m","node:lagstop_overhead:ratio5m",
    "node:lagstop_cpu_utilisation:ratio5m","node:lagstop_runqueue_wait:p99_5m","workload:lagstop_switch_cost:cores5m",
    "workload:lagstop_cpu:cores5m","workload:lagstop_wait_caused:cores5m"]"#;

/// Eight nodes with 2 to 9 cgroups per CPU, in each of the steps asked for.
pub(super) fn fleet_of_eight(request: &Request) -> Answer {
    if request.is_names() {
        return ok(NAMES);
    }
    let query = request.get("query");
    let [start, end, step] = ["start", "end", "step"].map(|name| request.get(name).parse::<u64>().unwrap());
    let values = |value: f64| {
        let moments = (start..=end).step_by(usize::try_from(step).unwrap());
        moments.map(|time| format!("[{time},\"{value}\"]")).collect::<Vec<_>>().join(",")
    };
    let series = |metric: String, value: f64| format!(r#"{{"metric":{{{metric}}},"values":[{}]}}"#, values(value));
    let of = |node: u32| {
        let density = f64::from(node) + 2.0;
        match () {
            () if query.starts_with("max by") => Some(12.0),
            () if query.contains("cpus_online") => Some(4.0),
            () if query.contains("cgroups_active") => Some(4.0 * density),
            () if query.contains("overhead") => Some(density / 100.0),
            () if query.contains("utilisation") => Some(density / 20.0),
            () if query.contains("p99") => Some(density / 1e3),
            () => None,
        }
    };
    let result = if query.starts_with("count(") {
        vec![series(String::new(), 8.0)]
    } else if query.contains("workload:") {
        let value = if query.contains("wait_caused") { 3.5 } else { 0.5 };
        vec![series(r#""namespace":"shop","workload":"web""#.to_owned(), value)]
    } else {
        (0..8).filter_map(|node| Some(series(format!(r#""instance":"node-{node}""#), of(node)?))).collect()
    };
    ok(&format!(r#"{{"resultType":"matrix","result":[{}]}}"#, result.join(",")))
}

fn json(url: &str, more: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(&fleet(url, &[&AT[..], &["--format", "json"], more].concat()))).unwrap()
}

fn a_noisy_neighbour() {
    let server = Server::start(|request, _| fleet_of_eight(request));
    let report = json(&server.url(), &[]);
    assert_eq!(
        (&report["workloads"][0]["wait_caused"], &report["workloads"][0]["workload"]),
        (&3.5.into(), &"web".into())
    );
    let said = "shop/web makes its neighbours wait 3.50 s per second, 100 % of the wait caused by all workloads.";
    assert!(report["verdict"].as_str().unwrap().ends_with(said), "{}", report["verdict"]);
    let text = done(&fleet(&server.url(), &AT));
    assert!(text.contains("wait caused per second"), "{text}");
}

fn a_query_that_is_refused_is_said() {
    let server = Server::start(|request, _| {
        if request.is_names() {
            return ok(NAMES);
        }
        (400, String::new(), r#"{"status":"error","errorType":"bad_data","error":"1:7: parse error: oops"}"#.to_owned())
    });
    let said = refused(&fleet(&server.url(), &AT));
    for part in [
        "HTTP 400, bad_data",
        "parse error: oops",
        "count(avg by (cluster, instance) (avg_over_time(node:lagstop_cpus_online:avg5m[3600s])))",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(server.requests().len(), 2, "what is wrong is not asked again");
}

fn one_refusal_is_no_end() {
    let server = Server::start(|request, _| {
        if request.get("query").contains("p99") {
            return (
                403,
                String::new(),
                r#"{"status":"error","errorType":"forbidden","error":"not for you"}"#.to_owned(),
            );
        }
        fleet_of_eight(request)
    });
    let report = json(&server.url(), &[]);
    assert_eq!(report["refused"][0]["why"], "not for you");
    assert!(report["refused"][0]["query"].as_str().unwrap().contains("node:lagstop_runqueue_wait:p99_5m"));
    assert_eq!(
        (&report["nodes"][0]["wait_p99"], &report["packing"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(report["nodes"][0]["node"], "node-7");
    let text = done(&fleet(&server.url(), &AT));
    assert!(text.contains("not for you") && text.contains("node:lagstop_runqueue_wait:p99_5m"), "{text}");
}

fn a_busy_server_is_asked_again() {
    let server = Server::start(|request, n| match n {
        2 => (503, "retry-after: 0\r\n".to_owned(), "no stores yet".to_owned()),
        4 => (429, "retry-after: 0\r\n".to_owned(), String::new()),
        _ => fleet_of_eight(request),
    });
    let report = json(&server.url(), &[]);
    assert_eq!((&report["totals"]["nodes"], report["refused"].as_array().unwrap().len()), (&8.into(), 0));
    let requests = server.requests();
    assert_eq!(requests[1].form, requests[2].form, "the same again");
    let server = Server::start(|_, _| (503, "retry-after: 0\r\n".to_owned(), "never".to_owned()));
    assert!(refused(&fleet(&server.url(), &AT)).contains("HTTP 503): never. Try again later"));
    assert_eq!(server.requests().len(), 4);
}

fn too_much_is_asked_in_pieces() {
    let server = Server::start(|request, _| {
        let steps = request.get("end").parse::<u64>().unwrap_or(0) - request.get("start").parse::<u64>().unwrap_or(0);
        if !request.is_names() && steps > 6 * 3_600 {
            let why = "query processing would load too many samples into memory in query execution";
            return (422, String::new(), format!(r#"{{"status":"error","errorType":"execution","error":"{why}"}}"#));
        }
        fleet_of_eight(request)
    });
    let report = json(&server.url(), &[]);
    assert_eq!((&report["gaps"]["steps_with_data"], &report["totals"]["nodes_at_a_time"]), (&24.into(), &8.0.into()));
    assert!(report["gaps"]["thin"].as_array().unwrap().is_empty(), "every piece is there");
    assert_eq!(report["density"]["bins"].as_array().unwrap().len(), 24);
}

fn an_answer_without_end_is_not_read() {
    let server = Server::raw(|stream, _, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"success\",\"data\":[");
        while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    let said = refused(&fleet(&server.url(), &AT));
    assert!(said.contains("longer than 64 MiB") && said.contains("lagstop_.+"), "{said}");
}

fn a_slow_answer_is_not_waited_for() {
    let server = Server::raw(|stream, _, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{");
        thread::sleep(Duration::from_secs(60));
    });
    let begun = Instant::now();
    let said = refused(&fleet(&server.url(), &[&AT[..], &["--timeout", "1s"]].concat()));
    assert!(said.contains("did not answer within 1 s") && said.contains("--timeout"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "a second, and five for the way");
}

fn nobody_is_sent_elsewhere() {
    let elsewhere = Server::start(|_, _| ok("[]"));
    let to = format!("{}/api/v1/label/__name__/values", elsewhere.url());
    let location = format!("location: {to}\r\n");
    for status in [301, 302, 307, 308] {
        let location = location.clone();
        let server = Server::start(move |_, _| (status, location.clone(), String::new()));
        let said = refused(&fleet(&server.url(), &AT));
        assert!(said.contains(&to) && said.contains("Use that address"), "{status}: {said}");
    }
    assert!(elsewhere.requests().is_empty());
}

fn a_token_goes_to_the_server_and_nowhere_else() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("token");
    std::fs::write(&file, "s3cr3t\n").unwrap();
    let file = file.to_str().unwrap();
    let server = Server::start(|request, _| fleet_of_eight(request));
    let output = fleet(
        &server.url(),
        &[&AT[..], &["--token-file", file, "--header", "X-Scope-OrgID: team", "--match", "cluster=a"]].concat(),
    );
    assert!(!done(&output).contains("s3cr3t"));
    for request in server.requests() {
        assert_eq!((&*request.authorization, &*request.tenant), ("Bearer s3cr3t", "team"));
        let asked = request.get("match[]") + &request.get("query");
        assert!(asked.contains(r#"cluster="a""#), "{asked}");
    }
    let said = refused(&fleet("http://prometheus.invalid:9090", &["--token-file", file]));
    assert!(said.contains("unencrypted") && !said.contains("s3cr3t"), "{said}");
    assert!(refused(&fleet("http://me:s3cr3t@localhost:9090", &[])).contains("--token-file"));
    assert!(refused(&fleet("http://localhost:9090", &["--token-file", "/not/there"])).contains("No such file"));
}

fn what_a_server_says_beside_its_answers_is_shown() {
    let server = Server::start(|request, _| {
        let (status, headers, body) = fleet_of_eight(request);
        let warned =
            body.replacen('{', r#"{"warnings":["store 10.0.0.7 is not there\u001b[2J: partial response"],"#, 1);
        (status, headers, warned)
    });
    let text = done(&fleet(&server.url(), &AT));
    assert_eq!(text.matches("is not there").count(), 1, "once: {text}");
    assert!(text.contains("Warning from the server: store 10.0.0.7") && !text.contains('\u{1b}'));
}

fn hostile_names_are_nothing_but_text() {
    let hostile = r#"<script>alert(1)</script>\u001b[2J\u202e"#;
    let server = Server::start(move |request, _| {
        let (status, headers, body) = fleet_of_eight(request);
        (status, headers, body.replace("node-3", hostile).replace("\"web\"", &format!("\"{hostile}\"")))
    });
    for (format, shown) in [("text", "<script>"), ("json", "<script>"), ("html", "&lt;script&gt;")] {
        let written = done(&fleet(&server.url(), &[&AT[..], &["--format", format]].concat()));
        assert!(written.contains(shown) && !written.contains(['\u{1b}', '\u{202e}']), "{format}");
        assert!(format != "html" || !written.contains("<script"), "{format}");
    }
}

fn what_is_no_prometheus_is_said() {
    let server = Server::start(|_, _| (200, String::new(), "<html>hello</html>".to_owned()));
    assert!(refused(&fleet(&server.url(), &AT)).contains("does not answer like Prometheus"));
    let server = Server::start(|_, _| (404, String::new(), "404 page not found".to_owned()));
    let said = refused(&fleet(&server.url(), &AT));
    assert!(said.contains("HTTP 404") && said.contains("Check the address"), "{said}");
    let server = Server::start(|_, _| ok("[]"));
    let said = refused(&fleet(&server.url(), &AT));
    assert!(said.contains("no series of lagstop") && said.contains("lagstop serve"), "{said}");
    let begun = Instant::now();
    assert!(refused(&fleet("http://127.0.0.1:9", &AT)).contains("Check that the server is running"));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

fn mistakes_are_said_with_a_remedy() {
    for url in ["prometheus", "ftp://prometheus", "http://", "http://a b", "http://host/?x=1", ""] {
        assert!(refused(&fleet(url, &AT)).contains("http://HOST:PORT"), "{url}");
    }
    assert!(refused(&fleet("http://localhost:9", &["--header", "a b:c"])).contains("not an HTTP header"));
    assert!(refused(&fleet("http://localhost:9", &["--match", "a"])).contains("LABEL=VALUE"));
    assert!(refused(&fleet("http://localhost:9", &["--step", "1m"])).contains("--step"));
    assert!(refused(&fleet("http://localhost:9", &["--ca-file", "/not/there"])).contains("No such file"));
    assert!(refused(&fleet("http://localhost:9", &["--client-cert", "/not/there"])).contains("--client-key"));
}
