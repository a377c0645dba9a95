//! The file that says who may scrape: the one that exporters of Prometheus share (github.com/prometheus/exporter-toolkit,
//! docs/web-configuration.md). What of it lagstop cannot do is an error and no silence: it is about security.

mod error;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::IgnoredAny};

pub use error::{Mistake, WebConfigError};

/// Trying a password of this cost takes a second, after a wrong one nothing is tried for nineteen, and each step doubles that.
const MOST_COST: u32 = 14;

/// What the file says, with paths that can be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WebConfig {
    /// `None`: without TLS.
    pub(super) tls: Option<TlsConfig>,
    /// Users with the bcrypt hashes of their passwords; none: everybody.
    pub(super) users: HashMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsConfig {
    pub(super) cert_file: PathBuf,
    pub(super) key_file: PathBuf,
    pub(super) clients: Clients,
    /// Refuse TLS 1.2.
    pub(super) only_tls13: bool,
    /// Refuse TLS 1.3.
    pub(super) only_tls12: bool,
}

/// Certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    /// They need none.
    Any,
    /// One that is shown is verified against these authorities.
    VerifyIfGiven(PathBuf),
    /// They need one that these authorities have signed.
    Verify(PathBuf),
}

impl Clients {
    pub(super) fn authorities(&self) -> Option<&Path> {
        match self {
            Self::Any => None,
            Self::VerifyIfGiven(file) | Self::Verify(file) => Some(file),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    #[serde(deserialize_with = "present")]
    tls_server_config: Option<Option<Tls>>,
    #[serde(deserialize_with = "present")]
    basic_auth_users: Option<Option<HashMap<String, String>>>,
    http_server_config: Option<IgnoredAny>,
    rate_limit: Option<IgnoredAny>,
}

/// The last ones are known and not supported.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tls {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    min_version: Option<String>,
    max_version: Option<String>,
    cert: Option<IgnoredAny>,
    key: Option<IgnoredAny>,
    client_ca: Option<IgnoredAny>,
    client_allowed_sans: Option<IgnoredAny>,
    cipher_suites: Option<IgnoredAny>,
    prefer_server_cipher_suites: Option<IgnoredAny>,
    curve_preferences: Option<IgnoredAny>,
}

impl WebConfig {
    /// Reads the file. Paths in it begin where it is.
    pub(super) fn read(path: &Path) -> Result<Self, WebConfigError> {
        let text = fs::read_to_string(path).map_err(|source| WebConfigError::Read { path: path.into(), source })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, directory).map_err(|source| WebConfigError::wrong(path, source))
    }

    fn parse(text: &str, directory: &Path) -> Result<Self, Mistake> {
        // Without the lines around a mistake: hashes may be among them.
        let options = serde_saphyr::options! { with_snippet: false };
        if is_empty(text) {
            return Err(Mistake::Empty);
        }
        let File { tls_server_config, basic_auth_users, http_server_config, rate_limit } =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| Mistake::Yaml(error.into()))?;
        refuse([
            ("http_server_config", http_server_config.is_some(), "lagstop supports HTTP/1.1 only. Remove it"),
            ("rate_limit", rate_limit.is_some(), "each interval is encoded only once. Remove it"),
        ])?;
        // A key without a value is what a file that is cut off ends with.
        let users = match basic_auth_users {
            None => HashMap::new(),
            Some(users) => users.filter(|users| !users.is_empty()).ok_or(Mistake::NoValue("basic_auth_users"))?,
        };
        let tls = tls_server_config.map(|tls| tls.ok_or(Mistake::NoValue("tls_server_config"))).transpose()?;
        if tls.is_none() && users.is_empty() {
            return Err(Mistake::Open);
        }
        users.iter().try_for_each(|(user, hash)| check_hash(user, hash))?;
        Ok(Self { tls: tls.map(|tls| tls.check(directory)).transpose()?, users })
    }
}

impl Tls {
    fn check(self, directory: &Path) -> Result<TlsConfig, Mistake> {
        refuse([
            ("tls_server_config.cert", self.cert.is_some(), "write it to a file and set cert_file"),
            ("tls_server_config.key", self.key.is_some(), "write it to a file and set key_file"),
            ("tls_server_config.client_ca", self.client_ca.is_some(), "write it to a file and set client_ca_file"),
            (
                "tls_server_config.client_allowed_sans",
                self.client_allowed_sans.is_some(),
                "sign the scrapers' certificates with a separate CA and set client_ca_file",
            ),
            (
                "tls_server_config.cipher_suites",
                self.cipher_suites.is_some(),
                "lagstop allows only safe ones. Remove it",
            ),
            (
                "tls_server_config.prefer_server_cipher_suites",
                self.prefer_server_cipher_suites.is_some(),
                "lagstop allows only safe ones. Remove it",
            ),
            (
                "tls_server_config.curve_preferences",
                self.curve_preferences.is_some(),
                "lagstop allows only safe ones. Remove it",
            ),
        ])?;
        let file = |name, file: Option<PathBuf>| file.map(|file| directory.join(file)).ok_or(Mistake::Needs(name));
        let clients = match (self.client_auth_type.as_deref().unwrap_or("NoClientCert"), self.client_ca_file) {
            ("NoClientCert", None) => Clients::Any,
            ("NoClientCert", Some(_)) => {
                return Err(Mistake::UnusedAuthorities);
            }
            ("RequireAndVerifyClientCert", authorities) => Clients::Verify(file("client_ca_file", authorities)?),
            ("VerifyClientCertIfGiven", authorities) => Clients::VerifyIfGiven(file("client_ca_file", authorities)?),
            (unsafe_one @ ("RequestClientCert" | "RequireAnyClientCert"), _) => {
                return Err(Mistake::UnsafeClientAuth(unsafe_one.to_owned()));
            }
            (other, _) => {
                return Err(Mistake::NoClientAuth(other.to_owned()));
            }
        };
        let (least, most) = (version("min_version", self.min_version)?, version("max_version", self.max_version)?);
        let (only_tls13, only_tls12) = (least == Some(13), most == Some(12));
        if only_tls13 && only_tls12 {
            return Err(Mistake::NoVersionLeft);
        }
        Ok(TlsConfig {
            cert_file: file("cert_file", self.cert_file)?,
            key_file: file("key_file", self.key_file)?,
            clients,
            only_tls13,
            only_tls12,
        })
    }
}

/// Is the text a web configuration? For whoever makes some up.
#[doc(hidden)]
pub fn check_web_config(text: &str) -> Result<(), Mistake> {
    WebConfig::parse(text, Path::new("/")).map(drop)
}

/// A key that is there, with a value or without.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Has it nothing in it but comments?
fn is_empty(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn refuse<const N: usize>(keys: [(&'static str, bool, &'static str); N]) -> Result<(), Mistake> {
    match keys.into_iter().find(|(_, is_set, _)| *is_set) {
        Some((key, _, instead)) => Err(Mistake::Unsupported { key, instead }),
        None => Ok(()),
    }
}

fn version(key: &'static str, value: Option<String>) -> Result<Option<u8>, Mistake> {
    match value.as_deref() {
        None => Ok(None),
        Some("TLS12") => Ok(Some(12)),
        Some("TLS13") => Ok(Some(13)),
        Some(old @ ("TLS10" | "TLS11")) => Err(Mistake::OldVersion { key, version: old.to_owned() }),
        Some(other) => Err(Mistake::NoVersion { key, version: other.to_owned() }),
    }
}

fn check_hash(user: &str, hash: &str) -> Result<(), Mistake> {
    let parts = hash.parse::<bcrypt::HashParts>();
    let cost = parts.map_err(|source| Mistake::NoHash { user: user.to_owned(), source })?.get_cost();
    if (4..=MOST_COST).contains(&cost) { Ok(()) } else { Err(Mistake::Cost { user: user.to_owned(), cost }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG";

    fn parse(text: &str) -> Result<WebConfig, Mistake> {
        WebConfig::parse(text, Path::new("/etc/lagstop"))
    }

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_files_of_exporters_are_understood() {
        let text = format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: /keys/server.key\n  \
             client_auth_type: \"RequireAndVerifyClientCert\"\n  client_ca_file: ca.crt\n  min_version: TLS13\n\
             basic_auth_users:\n  alice: {HASH}\n  bob: \"{HASH}\"\n"
        );
        let config = parse(&text).unwrap();
        let tls = config.tls.unwrap();
        assert_eq!(tls.cert_file, Path::new("/etc/lagstop/server.crt"));
        assert_eq!(tls.key_file, Path::new("/keys/server.key"));
        assert_eq!(tls.clients, Clients::Verify("/etc/lagstop/ca.crt".into()));
        assert!(tls.only_tls13 && !tls.only_tls12);
        assert_eq!(config.users.len(), 2);
        assert_eq!(config.users["bob"], HASH);
    }

    /// As a file is while it is written, or where a template came out empty.
    #[test]
    fn a_file_that_asks_for_nothing_is_wrong() {
        for text in ["", "# nothing but a comment\n", "---\n"] {
            assert!(refused(text).contains("omit --web-config"), "{text:?}");
        }
        assert!(refused("basic_auth_users:\n").contains("basic_auth_users is empty"));
        assert!(refused("basic_auth_users: {}\n").contains("basic_auth_users is empty"));
        assert!(refused("tls_server_config:\n").contains("tls_server_config is empty"));
    }

    #[test]
    fn what_is_not_done_is_said() {
        let tls = |more: &str| refused(&format!("tls_server_config:\n  cert_file: a\n  key_file: b\n  {more}\n"));
        assert!(refused("tls_config:\n  cert_file: a\n").contains("tls_config"));
        assert!(refused("tls_server_config:\n  cert_fil: a\n").contains("cert_fil"));
        assert!(refused("tls_server_config:\n  cert_file: a\n").contains("needs key_file"));
        assert!(refused("rate_limit:\n  burst: 1\n").contains("lagstop does not support rate_limit"));
        assert!(tls("cipher_suites: [TLS_AES_128_GCM_SHA256]").contains("cipher_suites"));
        assert!(tls("client_allowed_sans: [a]").contains("a separate CA"));
        assert!(tls("min_version: TLS10").contains("RFC 8996"));
        assert!(tls("min_version: TLS14").contains("TLS12 or TLS13"));
        assert!(tls("client_auth_type: RequireAnyClientCert").contains("does not verify clients"));
        assert!(tls("client_auth_type: Sometimes").contains("unknown client_auth_type"));
        assert!(tls("client_auth_type: RequireAndVerifyClientCert").contains("needs client_ca_file"));
        assert!(tls("client_ca_file: ca.crt").contains("has no effect"));
    }

    #[test]
    fn hashes_are_checked_and_never_shown() {
        let wrong = refused("basic_auth_users:\n  alice: secret\n");
        assert!(wrong.contains("alice") && wrong.contains("htpasswd") && !wrong.contains("secret"), "{wrong}");
        let expensive = refused(&format!("basic_auth_users:\n  alice: {}\n", HASH.replace("$10$", "$31$")));
        assert!(expensive.contains("cost 31"), "{expensive}");
        let with_cost = |cost: u32| {
            let hash = HASH.replace("$10$", &format!("${cost}$"));
            parse(&format!("basic_auth_users:\n  alice: {hash}\n"))
        };
        assert!(with_cost(MOST_COST).is_ok());
        assert!(with_cost(MOST_COST + 1).is_err_and(|why| {
            why.to_string().contains("cost 15, which is too slow to check. Use a cost of 10 to 14")
        }));
        let broken = refused(&format!("basic_auth_users:\n  alice: {HASH}\n  bob: [\n"));
        assert!(!broken.contains("X0h1gDsPszWURQ"), "{broken}");
    }
}
