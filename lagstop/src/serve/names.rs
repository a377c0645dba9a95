//! Names by which a browser of this host may call this host.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Is it a name that nobody can make mean another host? Anyone can have a name of their own that means this host from one moment
/// to the next (DNS rebinding), and then a page from there may read what is here.
pub(super) fn is_of_this_host(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    }
    let name = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_have_are_not_of_this_host() {
        for host in ["localhost", "LOCALHOST:9185", "a.localhost:1", "127.0.0.1:9185", "[::1]:9185", "[::1]"] {
            assert!(is_of_this_host(host), "{host}");
        }
        for host in ["", "lagstop", "evil.example:9185", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]"] {
            assert!(!is_of_this_host(host), "{host}");
        }
    }
}
