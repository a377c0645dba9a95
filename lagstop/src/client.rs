//! How lagstop reaches servers: whom it trusts, what it sends to whom, and what it says where that fails.
//!
//! Secrets are sent only to the given server, and encrypted where there is a network between: redirects are reported, and not
//! followed.

mod error;
mod headers;
mod tls;

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ureq::{
    Agent,
    config::ConfigBuilder,
    http,
    tls::TlsConfig,
    typestate::{AgentScope, WithoutBody},
};

pub use error::{CertificateError, ConnectionError};
use headers::{as_headers, is_here, is_secret};
pub use tls::TlsFiles;

/// How long to wait for a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// How to reach a server.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Its address, as in `https://prometheus.example:9090/prefix`.
    pub url: String,
    /// For `Authorization`.
    pub secret: Option<Secret>,
    /// More headers, as `X-Scope-OrgID` for Mimir.
    pub headers: Vec<(String, String)>,
    /// CA certificates and client certificate.
    pub tls: TlsFiles,
    /// Accept any certificate, and send secrets over unencrypted connections.
    pub insecure: bool,
}

/// What opens the door of a server. It is never shown.
#[derive(Clone)]
pub enum Secret {
    /// For `Authorization: Bearer`.
    Token(String),
    /// For `Authorization: Basic`: user and password, with a colon between.
    Password(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what())
    }
}

impl Secret {
    const fn what(&self) -> &'static str {
        match self {
            Self::Token(_) => "the token",
            Self::Password(_) => "the password",
        }
    }

    fn authorization(&self) -> String {
        match self {
            Self::Token(token) => format!("Bearer {token}"),
            Self::Password(password) => format!("Basic {}", BASE64.encode(password)),
        }
    }
}

/// A server that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    base: String,
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    tls: TlsConfig,
    is_here: bool,
}

impl Server {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When the address, a header or a certificate is invalid, or a secret would be sent where others can read it.
    pub(crate) fn new(connection: &Connection) -> Result<Self, ConnectionError> {
        let base = connection.url.trim_end_matches('/').to_owned();
        let uri: http::Uri =
            base.parse().map_err(|source| ConnectionError::Url { url: base.clone(), source: Some(source) })?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        if !matches!(scheme, "http" | "https") || host.is_empty() || uri.query().is_some() {
            return Err(ConnectionError::Url { url: base, source: None });
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(ConnectionError::Userinfo);
        }
        let is_here = is_here(host);
        if scheme == "http" && !is_here && !connection.insecure {
            let header = connection.headers.iter().find(|(name, _)| is_secret(name));
            let header = header.map(|(name, _)| format!("the header {name}"));
            if let Some(what) = connection.secret.as_ref().map(|secret| secret.what().to_owned()).or(header) {
                return Err(ConnectionError::Unencrypted { what, host: host.to_owned() });
            }
        }
        let mut headers = as_headers(&connection.headers)?;
        if let Some(secret) = &connection.secret {
            let mut value = http::HeaderValue::from_str(&secret.authorization()).map_err(ConnectionError::Token)?;
            value.set_sensitive(true);
            headers.push((http::header::AUTHORIZATION, value));
        }
        Ok(Self { base, headers, tls: connection.tls.config(connection.insecure)?, is_here })
    }

    /// Its address, without the slash at its end.
    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    /// Settings of the agent that sends requests. Of time they limit only connecting: the caller adds other limits.
    pub(crate) fn agent(&self) -> ConfigBuilder<AgentScope> {
        let builder = Agent::config_builder();
        // What goes to this host itself goes over no network, and to no proxy.
        let builder = if self.is_here { builder.proxy(None) } else { builder };
        builder
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECTING))
            .user_agent(concat!("lagstop/", env!("CARGO_PKG_VERSION")))
            .tls_config(self.tls.clone())
    }

    /// Adds the headers that all requests have.
    pub(crate) fn with_headers<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Asks for what is at `path`.
    pub(crate) fn get(&self, agent: &Agent, path: &str) -> ureq::RequestBuilder<WithoutBody> {
        self.with_headers(agent.get(format!("{}{path}", self.base)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(url: &str, header: &str, insecure: bool) -> Result<Server, ConnectionError> {
        Server::new(&Connection {
            url: url.to_owned(),
            headers: vec![(header.to_owned(), "Bearer hush".to_owned())],
            insecure,
            ..Connection::default()
        })
    }

    #[test]
    fn a_header_is_kept_as_a_token_is() {
        let refused = connect("http://prometheus:9090", "Authorization", false).err().unwrap().to_string();
        assert!(refused.starts_with("the header Authorization would be sent to prometheus unencrypted"), "{refused}");
        assert!(!refused.contains("hush"), "{refused}");
        assert!(connect("http://prometheus:9090", "Authorization", true).is_ok(), "who insists");
        assert!(connect("http://127.0.0.1:9090", "Authorization", false).is_ok());
        assert!(connect("http://prometheus:9090", "X-Scope-OrgID", false).is_ok(), "it opens no door");
    }

    #[test]
    fn a_password_is_sent_as_servers_know_it_and_never_shown() {
        let secret = Secret::Password("ann:hush".to_owned());
        assert_eq!(secret.authorization(), "Basic YW5uOmh1c2g=");
        let connection =
            Connection { url: "http://node:9185".to_owned(), secret: Some(secret), ..Connection::default() };
        let refused = Server::new(&connection).unwrap_err().to_string();
        assert!(refused.starts_with("the password would be sent to node unencrypted"), "{refused}");
        assert!(!format!("{connection:?}").contains("hush"));
    }
}
