//! Headers of the user's own, and who may see them.

use std::net::IpAddr;

use ureq::http::{HeaderName, HeaderValue};

use super::ConnectionError;

/// Words in the names of headers with secret values.
const SECRET: [&str; 8] = ["auth", "cookie", "token", "secret", "password", "credential", "api-key", "apikey"];

/// Whether the value of a header with this name is secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// Whether it is this host itself, so that nothing is sent over a network.
pub(super) fn is_here(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Names and values as they are sent. None of them is ever shown.
///
/// # Errors
/// When one cannot be a header.
pub(super) fn as_headers(given: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, ConnectionError> {
    let header = |(name, value): &(String, String)| {
        let wrong = |source| ConnectionError::Header { name: name.clone(), source };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(error.into()))?;
        let mut value = HeaderValue::from_str(value).map_err(|error| wrong(error.into()))?;
        value.set_sensitive(true);
        Ok::<_, ConnectionError>((header, value))
    };
    given.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_doors_is_told_by_its_name() {
        for name in ["Authorization", "proxy-authorization", "Cookie", "X-Api-Key", "PRIVATE-TOKEN", "X-Auth"] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("X-Scope-OrgID") && !is_secret("THANOS-TENANT"));
    }

    #[test]
    fn this_host_is_known() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.0.1", "[::1]"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "[::2]", "", "127.0.0.1.example"] {
            assert!(!is_here(host), "{host}");
        }
    }

    #[test]
    fn what_is_no_header_is_said_and_its_value_is_not() {
        let of = |name: &str, value: &str| as_headers(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(of("X-Scope-OrgID", "team").unwrap().len(), 1);
        for (name, value) in [("", "hush"), ("a b", "hush"), ("a", "hush\nb: c")] {
            let said = of(name, value).unwrap_err().to_string();
            assert!(!said.contains("hush"), "{said}");
        }
    }
}
