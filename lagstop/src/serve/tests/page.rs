//! The page, and what it asks for.

use super::*;
use crate::model::Interval;

fn json(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn until(is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(10));
    }
}

impl Served {
    fn api(&self, path: &str) -> String {
        self.ask(&format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Feeds them, until the page has the last one.
    fn feed(&mut self, intervals: &[Interval]) {
        for interval in intervals {
            self.feeder.add(interval).unwrap();
            self.page.iter().for_each(|page| page.show(&interval.clone().into()));
        }
        let last = intervals.last().unwrap().seq;
        until(|| status(&self.api(&format!("moment?n={last}"))) == 200);
    }
}

#[test]
fn the_page_comes_with_its_policy() {
    let served = Served::plain();
    let page = served.get("/");
    assert!(status(&page) == 200 && page.contains("\r\ncontent-type: text/html; charset=utf-8\r\n"), "{page}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(page.contains(header), "{header}");
    }
    assert!(page.contains("href=\"/metrics\""));
}

#[test]
fn moments_are_there_from_the_first_interval_on() {
    let mut served = Served::plain();
    let none = served.api("moment");
    assert!(status(&none) == 503 && none.contains("retry-after: 1"), "{none}");
    served.feed(&fixture::overloaded(8));
    let newest = served.api("moment");
    assert!(
        newest.contains("content-type: application/json") && newest.contains("cache-control: no-store"),
        "{newest}"
    );
    assert_eq!(json(&newest)["n"], 7);
    assert_eq!(status(&served.api("moment?after=7")), 204, "it is known already");
    assert_eq!(json(&served.api("moment?after=6"))["n"], 7);
    assert_eq!(json(&served.api("moment?after=70"))["n"], 7, "the server was started again");
    assert_eq!(json(&served.api("moment?n=2"))["n"], 2);
    for path in ["moment?n=8", "moment?n=18446744073709551615", "nothing"] {
        assert_eq!(status(&served.api(path)), 404, "{path}");
    }
    for path in ["moment?n=x", "moment?after=-1", "history?cgroup=%2F"] {
        assert_eq!(status(&served.api(path)), 400, "{path}");
    }
    let id = json(&newest)["cgroups"][0]["id"].as_str().unwrap().to_owned();
    let history = json(&served.api(&format!("history?cgroup={id}")));
    assert_eq!(history["points"].as_array().unwrap().len(), 8);
    assert!(history["points"][3]["cgroup"]["cpu"].is_number(), "{history}");
    assert!(json(&served.api("history"))["points"][3]["cgroup"].is_null());
}

#[test]
fn while_all_is_calm_the_page_is_told() {
    let mut served = Served::plain();
    let is_told = |answer: &str| status(answer) == 204 && answer.contains("\r\nlagstop-state: calm\r\n");
    served.feeder.calm().unwrap();
    assert!(is_told(&served.api("moment")), "before the first");
    served.feed(&fixture::overloaded(2));
    let known = served.api("moment?after=1");
    assert!(status(&known) == 204 && !is_told(&known), "{known}");
    served.feeder.calm().unwrap();
    served.page.iter().for_each(|page| page.calm());
    until(|| is_told(&served.api("moment?after=1")));
    assert_eq!(json(&served.api("moment"))["n"], 1, "what was last is there still");
}

#[test]
fn where_figures_cannot_be_made_the_page_is_told_why_and_metrics_go_on() {
    let mut served = Served::plain();
    let intervals = fixture::overloaded(2);
    // No clock does that, and no reader takes it.
    intervals.iter().rev().for_each(|interval| served.feeder.add(interval).unwrap());
    until(|| status(&served.api("moment")) == 500);
    for path in ["moment", "history"] {
        let answer = served.api(path);
        assert!(
            status(&answer) == 500 && answer.contains("Please report it: the intervals of this server"),
            "{answer}"
        );
    }
    assert_eq!([served.get("/"), served.get("/metrics")].map(|answer| status(&answer)), [200, 200]);
}

#[test]
fn where_the_page_is_off_there_are_metrics_and_intervals() {
    let (offered, publisher, feeder) = offered();
    let offered = Offered { page: None, ..offered };
    let options = ServeOptions { limits: LIMITS, fresh_for: LIMITS.whole, hangs_after: LIMITS.whole };
    let server = Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), Security::none(), offered, options).unwrap();
    let served = Served { server, publisher, feeder, page: None };
    let root = served.get("/");
    assert!(status(&root) == 200 && root.contains("/metrics") && !root.contains("<script"), "{root}");
    assert_eq!([served.api("moment"), served.api("history")].map(|answer| status(&answer)), [404, 404]);
}
