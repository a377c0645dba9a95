//! What there is to ask for.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{
        ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
        CONTENT_TYPE, HOST, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    },
};

use super::{
    Offered, Published,
    chunks::Chunks,
    live::{Answer, Live},
    names::is_of_this_host,
    negotiation::{Coding, negotiate},
    page::{self, Moments},
    passwords::{Passwords, Verdict},
    peer::Peer,
    places::Places,
    query::Query,
    response_cache::Bodies,
};
use crate::model::{CgroupId, Nanos};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const ZSTD: &str = "application/zstd";
/// Served at `/` where the page is switched off.
const ROOT: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>lagstop</title><h1>lagstop</h1>\
                    <p><a href=\"/metrics\">Metrics</a></p></html>\n";

/// Where the intervals are, and what the page asks for.
const INTERVALS: &str = "/api/v1/intervals";
const MOMENT: &str = "/api/v1/moment";
const HISTORY: &str = "/api/v1/history";
/// Header: intervals up to this moment, on the clock of the intervals, were there already when the request came.
pub(crate) const NOW: &str = "lagstop-now-ns";

/// What there is to ask for.
#[derive(Debug)]
pub(super) struct Site {
    offered: Offered,
    began: Instant,
    fresh_for: Duration,
    hangs_after: Duration,
    bodies: Bodies,
    places: Arc<Places>,
}

pub(super) struct Visitor {
    pub(super) peer: Peer,
    pub(super) passwords: Option<Arc<Passwords>>,
    /// Whether it may be a page of somebody else's, in a browser of this host, by a name that was made to mean this host.
    pub(super) may_be_rebound: bool,
    /// To be set where it follows the intervals: then it may stay.
    pub(super) follows: Arc<AtomicBool>,
}

/// A page, or why there is none.
struct Page {
    status: StatusCode,
    kind: &'static str,
    body: Answer,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Page {
    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::ok(TEXT, text.into()).status(status)
    }

    fn ok(kind: &'static str, body: impl Into<Chunks>) -> Self {
        Self { status: StatusCode::OK, kind, body: body.into().into(), headers: Vec::new() }
    }

    fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }
}

impl From<Page> for Response<Answer> {
    fn from(page: Page) -> Self {
        let mut response = Self::new(page.body);
        *response.status_mut() = page.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        for (name, value) in page.headers {
            headers.insert(name, value);
        }
        response
    }
}

impl Site {
    pub(super) fn new(offered: Offered, places: Places, fresh_for: Duration, hangs_after: Duration) -> Self {
        let (began, bodies, places) = (Instant::now(), Bodies::default(), Arc::new(places));
        Self { offered, began, fresh_for, hangs_after, bodies, places }
    }

    /// Answers a request of `visitor`, if its passwords let it.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Response<Answer>, Infallible> {
        Ok(self.page(&request, visitor).await.into())
    }

    async fn page(&self, request: &Request<Incoming>, visitor: &Visitor) -> Page {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Page::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET or HEAD\n")
                .with(ALLOW, "GET, HEAD");
        }
        // What probes ask, which have no password, and what tells nothing of the host.
        match request.uri().path() {
            "/-/healthy" => return self.healthy(),
            "/-/ready" => return self.ready(),
            _ => {}
        }
        if let Some(passwords) = &visitor.passwords {
            match passwords.check(request.headers().get(AUTHORIZATION), visitor.peer).await {
                Verdict::Right => {}
                Verdict::Wrong => {
                    let page = Page::text(StatusCode::UNAUTHORIZED, "user name or password missing or wrong\n");
                    return page.with(WWW_AUTHENTICATE, "Basic realm=\"lagstop\", charset=\"UTF-8\"");
                }
                Verdict::TooMany => {
                    let page = Page::text(StatusCode::SERVICE_UNAVAILABLE, "too many passwords are being tried\n");
                    return page.with(RETRY_AFTER, "10");
                }
            }
        }
        match request.uri().path() {
            "/metrics" => self.metrics(request).await,
            "/" => self.root(),
            path @ (INTERVALS | MOMENT | HISTORY) => match (refused(request, visitor), &self.offered.page) {
                (Some(refused), _) => refused,
                (None, _) if path == INTERVALS => self.intervals(request, visitor),
                (None, Some(watcher)) => match watcher.look().await {
                    Ok(moments) if path == MOMENT => moment(request, moments),
                    Ok(moments) => history(request, moments),
                    Err(error) => Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
                },
                (None, None) => Page::text(StatusCode::NOT_FOUND, "not found: the page is off (--no-page)\n"),
            },
            _ => Page::text(StatusCode::NOT_FOUND, "not found: use /, /metrics, /-/healthy or /-/ready\n"),
        }
    }

    /// Stays healthy where the last reading may only be late: whoever asks here ends what is not healthy.
    fn healthy(&self) -> Page {
        let last = self.offered.metrics.borrow().as_ref().map(|published| published.at);
        let age = last.unwrap_or(self.began).elapsed();
        if age > self.hangs_after {
            let text = format!("no measurement for {} s: lagstop hangs, restart it\n", age.as_secs());
            return Page::text(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        Page::text(StatusCode::OK, "healthy\n")
    }

    fn ready(&self) -> Page {
        let age = self.offered.metrics.borrow().as_ref().map(|published| published.at.elapsed());
        match age {
            None => Page::text(StatusCode::SERVICE_UNAVAILABLE, "no measurement yet\n"),
            Some(age) if age > self.fresh_for => {
                let seconds = age.as_secs();
                Page::text(StatusCode::SERVICE_UNAVAILABLE, format!("no measurement for {seconds} s\n"))
            }
            Some(_) => Page::text(StatusCode::OK, "ready\n"),
        }
    }

    async fn metrics(&self, request: &Request<Incoming>) -> Page {
        let Some(Published { snapshot, .. }) = self.offered.metrics.borrow().clone() else {
            let page = Page::text(StatusCode::SERVICE_UNAVAILABLE, "no measurement yet\n");
            return page.with(RETRY_AFTER, "5");
        };
        let header = |name| {
            let values = request.headers().get_all(name).iter();
            values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
        };
        let wanted = negotiate(&header(ACCEPT), &header(ACCEPT_ENCODING));
        let body = match self.bodies.get(wanted, snapshot).await {
            Ok(body) => body,
            Err(error) => return Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        };
        let page = Page::ok(wanted.format.content_type(), body).with(VARY, "accept, accept-encoding");
        match wanted.coding {
            Coding::Identity => page,
            Coding::Gzip => page.with(CONTENT_ENCODING, "gzip"),
        }
    }

    fn root(&self) -> Page {
        if self.offered.page.is_none() {
            return Page::ok(HTML, ROOT);
        }
        let page::Page { body, policy } = page::Page::get();
        let mut page = Page::ok(HTML, body.clone());
        page.headers.push((CONTENT_SECURITY_POLICY, policy.clone()));
        page.with(CACHE_CONTROL, "no-cache")
            .with(REFERRER_POLICY, "no-referrer")
            .with(HeaderName::from_static("cross-origin-opener-policy"), "same-origin")
            .with(HeaderName::from_static("cross-origin-resource-policy"), "same-origin")
    }

    /// The intervals, as they come.
    fn intervals(&self, request: &Request<Incoming>, visitor: &Visitor) -> Page {
        let Some(back) = Query::of(request).number("back") else {
            return Page::text(StatusCode::BAD_REQUEST, "back is a number of seconds, e.g. ?back=300\n");
        };
        let Some(place) = self.places.take(visitor.peer) else {
            let page = Page::text(StatusCode::SERVICE_UNAVAILABLE, "too many connections follow the intervals\n");
            return page.with(RETRY_AFTER, "10");
        };
        let followed = self.offered.intervals.follow(Nanos(back.unwrap_or(0).saturating_mul(Nanos::SECOND.0)));
        let now = HeaderValue::from(followed.now.0);
        if request.method() == Method::GET {
            visitor.follows.store(true, Ordering::Relaxed);
        }
        let body = Answer::Live(Live::new(followed, place));
        let mut page = Page { status: StatusCode::OK, kind: ZSTD, body, headers: Vec::new() };
        page.headers.push((HeaderName::from_static(NOW), now));
        page.with(CACHE_CONTROL, "no-store")
    }
}

/// The last moment, or the one that is asked for. Nothing where the last one is known already.
fn moment(request: &Request<Incoming>, moments: &Moments) -> Page {
    let query = Query::of(request);
    let (Some(n), Some(after)) = (query.number("n"), query.number("after")) else {
        return Page::text(StatusCode::BAD_REQUEST, "n and after are numbers of moments, e.g. ?after=12\n");
    };
    if let Some(n) = n {
        let gone = || Page::text(StatusCode::NOT_FOUND, "this moment is not kept any more, or has not come yet\n");
        return moments.at(n).map_or_else(gone, json);
    }
    let newest = moments.newest();
    // A page has nothing to wait for then, and says so.
    if moments.is_calm() && newest.as_ref().is_none_or(|(newest, _)| after == Some(*newest)) {
        return json(Bytes::new()).status(StatusCode::NO_CONTENT).with(STATE, "calm");
    }
    match newest {
        None => Page::text(StatusCode::SERVICE_UNAVAILABLE, "no measurement yet\n").with(RETRY_AFTER, "1"),
        // After a restart numbers begin with 0.
        Some((newest, _)) if after == Some(newest) => json(Bytes::new()).status(StatusCode::NO_CONTENT),
        Some((_, body)) => json(body),
    }
}

/// Says that nothing is measured, because all is calm.
const STATE: HeaderName = HeaderName::from_static("lagstop-state");

/// What was, moment by moment.
fn history(request: &Request<Incoming>, moments: &Moments) -> Page {
    let Some(id) = Query::of(request).number("cgroup") else {
        return Page::text(StatusCode::BAD_REQUEST, "cgroup is the id of a cgroup, e.g. ?cgroup=4711\n");
    };
    match serde_json::to_vec(&moments.history(id.map(CgroupId))) {
        Ok(body) => json(body.into()),
        Err(error) => Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn json(body: Bytes) -> Page {
    Page::ok(JSON, body)
        .with(CACHE_CONTROL, "no-store")
        .with(HeaderName::from_static("cross-origin-resource-policy"), "same-origin")
}

/// Why a browser of somebody who knows nothing of it is not answered: it asks for a page of somebody else's.
fn refused(request: &Request<Incoming>, visitor: &Visitor) -> Option<Page> {
    let is = |name: &str, value: &str| request.headers().get(name).is_some_and(|given| given == value);
    if is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site") {
        return Some(Page::text(StatusCode::FORBIDDEN, "another site asks for this: open it directly\n"));
    }
    let host = request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default());
    if visitor.may_be_rebound && host.is_some_and(|host| !is_of_this_host(host)) {
        let text = "this server has no password, so on this host it answers to localhost and to addresses only: use \
                    http://localhost, or --web-config with passwords\n";
        return Some(Page::text(StatusCode::MISDIRECTED_REQUEST, text));
    }
    None
}
