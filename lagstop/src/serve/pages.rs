//! What there is to ask for.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue,
        RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    },
};
use tokio::sync::watch;

use super::{
    Published,
    chunks::Chunks,
    negotiation::{Coding, negotiate},
    passwords::{Passwords, Verdict},
    peer::Peer,
    response_cache::Bodies,
};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const ROOT: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>lagstop</title><h1>lagstop</h1>\
                    <p><a href=\"/metrics\">Metrics</a></p></html>\n";

/// What there is to ask for.
#[derive(Debug)]
pub(super) struct Site {
    published: watch::Receiver<Option<Published>>,
    began: Instant,
    fresh_for: Duration,
    hangs_after: Duration,
    bodies: Bodies,
}

/// A page, or why there is none.
struct Page {
    status: StatusCode,
    kind: &'static str,
    body: Chunks,
    headers: Vec<(HeaderName, &'static str)>,
}

impl Page {
    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, kind: TEXT, body: text.into().into(), headers: Vec::new() }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl From<Page> for Response<Chunks> {
    fn from(page: Page) -> Self {
        let mut response = Self::new(page.body);
        *response.status_mut() = page.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        for (name, value) in page.headers {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Site {
    pub(super) fn new(
        published: watch::Receiver<Option<Published>>,
        fresh_for: Duration,
        hangs_after: Duration,
    ) -> Self {
        Self { published, began: Instant::now(), fresh_for, hangs_after, bodies: Bodies::default() }
    }

    /// Answers a request of `peer`, if `passwords` let it.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        passwords: Option<Arc<Passwords>>,
        peer: Peer,
    ) -> Result<Response<Chunks>, Infallible> {
        Ok(self.page(&request, passwords, peer).await.into())
    }

    async fn page(&self, request: &Request<Incoming>, passwords: Option<Arc<Passwords>>, peer: Peer) -> Page {
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
        if let Some(passwords) = passwords {
            match passwords.check(request.headers().get(AUTHORIZATION), peer).await {
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
            "/" => Page { status: StatusCode::OK, kind: HTML, body: ROOT.into(), headers: Vec::new() },
            _ => Page::text(StatusCode::NOT_FOUND, "not found: use /metrics, /-/healthy or /-/ready\n"),
        }
    }

    /// Not where it may only be late: whoever asks here ends what is not healthy.
    fn healthy(&self) -> Page {
        let last = self.published.borrow().as_ref().map(|published| published.at);
        let age = last.unwrap_or(self.began).elapsed();
        if age > self.hangs_after {
            let text = format!("no measurement for {} s: lagstop hangs, restart it\n", age.as_secs());
            return Page::text(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        Page::text(StatusCode::OK, "healthy\n")
    }

    fn ready(&self) -> Page {
        let age = self.published.borrow().as_ref().map(|published| published.at.elapsed());
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
        let Some(Published { snapshot, .. }) = self.published.borrow().clone() else {
            let page = Page::text(StatusCode::SERVICE_UNAVAILABLE, "no measurement yet\n");
            return page.with(RETRY_AFTER, "5");
        };
        let header = |name| {
            let values = request.headers().get_all(name).iter();
            values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
        };
        let wanted = negotiate(&header(ACCEPT), &header(ACCEPT_ENCODING));
        let body = match self.bodies.get(wanted, snapshot).await {
            Ok(body) => body.into(),
            Err(error) => return Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        };
        let page = Page { status: StatusCode::OK, kind: wanted.format.content_type(), body, headers: Vec::new() };
        let page = page.with(VARY, "accept, accept-encoding");
        match wanted.coding {
            Coding::Identity => page,
            Coding::Gzip => page.with(CONTENT_ENCODING, "gzip"),
        }
    }
}
