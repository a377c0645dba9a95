//! Where a collector is, and how to get there.

use std::{fmt, str::FromStr, time::Duration};

use ureq::{
    Agent,
    http::{HeaderName, HeaderValue, Uri},
    tls::TlsConfig,
};

use crate::fleet::{TlsFiles, as_headers, is_here, is_secret};

/// For a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where collectors listen for metrics.
const PATH: &str = "/v1/metrics";

/// Where metrics are pushed to: `http://host:4318`, with a path where that is not `/v1/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    url: String,
    host: String,
    is_encrypted: bool,
}

impl Collector {
    /// Can others read on the way what goes there?
    pub fn is_exposed(&self) -> bool {
        !self.is_encrypted && !is_here(&self.host)
    }

    /// Is it HTTPS that is spoken there?
    pub const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str = "write it as http://127.0.0.1:4318 or https://otel.example:4318";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {HOW}"))?;
        let (scheme, is_encrypted) = match uri.scheme_str() {
            Some("http") => ("http", false),
            Some("https") => ("https", true),
            _ => return Err(format!("it begins with neither http:// nor https://; {HOW}")),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| format!("the host is missing; {HOW}"))?;
        if authority.as_str().contains('@') {
            return Err(
                "everybody on this host can read a password in the URL: write it as a header to a file, and name \
                        that with --otlp-header-file"
                    .to_owned(),
            );
        }
        let port = if authority.port().is_none() { ":4318" } else { "" };
        let path = uri.path_and_query().map(|path| path.as_str()).filter(|path| *path != "/").unwrap_or(PATH);
        let url = format!("{scheme}://{authority}{port}{path}");
        Ok(Self { url, host: authority.host().to_owned(), is_encrypted })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// A collector, with what it takes to be let in there.
pub struct Route {
    pub(super) collector: Collector,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) agent: Agent,
}

/// Without the headers, which are secrets.
impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("collector", &self.collector).finish_non_exhaustive()
    }
}

impl Route {
    /// To `collector`, with these headers, and trusting those in `tls`. Nobody is connected to yet.
    ///
    /// # Errors
    /// When a header is none or would be sent where others can read it, or a file has no certificates.
    pub fn new(collector: Collector, headers: &[(String, String)], tls: &TlsFiles) -> Result<Self, String> {
        let secret = headers.iter().find(|(name, _)| is_secret(name));
        if let Some((name, _)) = secret.filter(|_| collector.is_exposed()) {
            return Err(format!("the header {name} would go to {} unencrypted: use https", collector.host));
        }
        let headers = as_headers(headers).map_err(|error| error.to_string())?;
        // Whom this host trusts is read only where somebody is to be trusted.
        let tls = if collector.is_encrypted { tls.config(false) } else { Ok(TlsConfig::default()) };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("lagstop/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.map_err(|error| error.to_string())?)
            .build()
            .new_agent();
        Ok(Self { collector, headers, agent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(url: &str) -> Collector {
        url.parse().unwrap()
    }

    #[test]
    fn a_collector_is_found_by_its_url() {
        assert_eq!(collector("http://127.0.0.1:4318").url(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(collector("https://otel/").url(), "https://otel:4318/v1/metrics");
        assert_eq!(collector("http://[::1]:9/otlp?x=1").url(), "http://[::1]:9/otlp?x=1");
        for wrong in ["ftp://otel", "otel", "otel:4318", "", "http://", "http://me:secret@otel"] {
            assert!(wrong.parse::<Collector>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_others_can_read_is_known() {
        assert!(collector("http://otel").is_exposed() && collector("http://10.0.0.1:4318").is_exposed());
        for url in ["https://otel", "http://127.0.0.1", "http://[::1]:4318", "http://localhost"] {
            assert!(!collector(url).is_exposed(), "{url}");
        }
    }

    #[test]
    fn a_secret_is_not_sent_where_others_can_read_it() {
        let to = |url: &str, name: &str| {
            let headers = [(name.to_owned(), "Bearer hush".to_owned())];
            Route::new(collector(url), &headers, &TlsFiles::default()).map(|route| route.headers.len())
        };
        let refused = to("http://otel", "Authorization").unwrap_err();
        assert!(refused.contains("the header Authorization would go to otel unencrypted"), "{refused}");
        assert!(!refused.contains("hush"), "{refused}");
        assert_eq!(to("http://127.0.0.1:4318", "Authorization"), Ok(1));
        assert_eq!(to("http://otel", "X-Scope-OrgID"), Ok(1));
        let none = TlsFiles { ca: Some("/nonexistent".into()), client: None };
        assert!(Route::new(collector("https://otel"), &[], &none).unwrap_err().contains("/nonexistent"));
    }
}
