//! Who is let in, as the file says, also after it has changed.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    version::{TLS12, TLS13},
};

use super::{
    passwords::Passwords,
    web_config::{Clients, Mistake, TlsConfig, WebConfig, WebConfigError},
};
use crate::kernel::{Capabilities, Capability};

/// Files are looked at for changes this often at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who is let in. Certificates are renewed by others while lagstop runs: changed files are read again.
pub struct Security {
    file: Option<PathBuf>,
    access: Arc<Access>,
    /// The files that it comes from, as they were.
    stamps: Stamps,
    looked: Instant,
    tell: Box<dyn Fn(&Reloaded) + Send>,
}

/// What came of files that have changed.
#[derive(Debug)]
pub enum Reloaded {
    /// They are taken.
    Taken(String),
    /// They are not: who is let in stays as it was.
    Refused(WebConfigError),
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(what) => f.write_str(what),
            Self::Refused(error) => write!(f, "{error}. The previous configuration stays in force"),
        }
    }
}

/// How much is asked of a client: the more, the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Protection {
    has_tls: bool,
    speaks_tls13: bool,
    only_tls13: bool,
    certificates: Certificates,
    has_passwords: bool,
}

/// What certificates clients have to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Certificates {
    #[default]
    None,
    IfGiven,
    Required,
}

impl Protection {
    fn of(config: &WebConfig) -> Self {
        let tls = config.tls.as_ref();
        Self {
            has_tls: tls.is_some(),
            speaks_tls13: tls.is_some_and(|tls| !tls.only_tls12),
            only_tls13: tls.is_some_and(|tls| tls.only_tls13),
            certificates: tls.map_or(Certificates::None, |tls| match tls.clients {
                Clients::Any => Certificates::None,
                Clients::VerifyIfGiven(_) => Certificates::IfGiven,
                Clients::Verify(_) => Certificates::Required,
            }),
            has_passwords: !config.users.is_empty(),
        }
    }

    /// What makes `new` weaker.
    fn lost_in(self, new: Self) -> Option<&'static str> {
        [
            (self.has_tls && !new.has_tls, "no TLS"),
            (self.has_passwords && !new.has_passwords, "no passwords"),
            (self.certificates > new.certificates, "weaker checks of client certificates"),
            (self.speaks_tls13 && !new.speaks_tls13, "no TLS 1.3"),
            (self.only_tls13 && !new.only_tls13, "TLS 1.2 allowed"),
        ]
        .into_iter()
        .find_map(|(is_lost, what)| is_lost.then_some(what))
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.has_tls, self.speaks_tls13, self.only_tls13) {
            (false, ..) => "no TLS",
            (true, false, _) => "TLS 1.2 only",
            (true, true, false) => "TLS",
            (true, true, true) => "TLS 1.3 only",
        })?;
        f.write_str(match self.certificates {
            Certificates::None => "",
            Certificates::IfGiven => ", client certificates checked if given",
            Certificates::Required => ", client certificates required",
        })?;
        f.write_str(if self.has_passwords { ", passwords" } else { ", no passwords" })
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security").field("file", &self.file).field("access", &self.access).finish_non_exhaustive()
    }
}

/// What a connection has to pass.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) tls: Option<Tls>,
    protection: Protection,
    pub(super) passwords: Option<Arc<Passwords>>,
}

impl Access {
    /// Is every request let in, whatever name it has for this server?
    pub(super) fn is_open(&self) -> bool {
        self.tls.is_none() && self.passwords.is_none()
    }
}

/// How TLS is spoken.
pub(super) struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// What differs once a file is changed or replaced. `None` if there is no file.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

impl Security {
    /// Everybody is let in.
    pub fn none() -> Self {
        Self { file: None, access: Arc::default(), stamps: Vec::new(), looked: Instant::now(), tell: Box::new(|_| {}) }
    }

    /// As `file` says, also once that has changed. Where it is wrong then, or asks less of clients than it did, who is let in
    /// stays as it was: only a restart lowers protection. `tell` hears of either.
    ///
    /// # Errors
    /// When the file, or one that it names, cannot be read or is wrong.
    pub fn read(file: &Path, tell: impl Fn(&Reloaded) + Send + 'static) -> Result<Self, WebConfigError> {
        let (stamps, access) = open(file, None);
        Ok(Self {
            file: Some(file.to_owned()),
            access: access?.into(),
            stamps,
            looked: Instant::now(),
            tell: Box::new(tell),
        })
    }

    /// Is it HTTPS that is spoken?
    pub fn is_encrypted(&self) -> bool {
        self.access.tls.is_some()
    }

    /// The capabilities that reading its files again takes, where only their owner may.
    pub(super) fn needs(&self) -> Capabilities {
        match self.file {
            None => Capabilities::NONE,
            Some(_) => Capabilities::NONE.with(Capability::DacReadSearch),
        }
    }

    /// May whoever reaches it read everything?
    pub fn is_open(&self) -> bool {
        self.access.passwords.is_none() && self.access.protection.certificates < Certificates::Required
    }

    /// What a connection has to pass now.
    pub(super) fn access(&mut self) -> Arc<Access> {
        if let Some(file) = self.file.as_deref().filter(|_| self.looked.elapsed() >= LOOK_EVERY) {
            self.looked = Instant::now();
            let now: Stamps = self.stamps.iter().map(|(path, _)| (path.clone(), stamp(path))).collect();
            if now != self.stamps {
                // It may be half written, or name what comes later: the next look is when any of it changes again.
                let (stamps, access) = open(file, self.access.passwords.as_ref());
                self.stamps = stamps;
                let told = match access.and_then(|access| self.not_lowered(access, file)) {
                    Ok(access) => {
                        self.access = access.into();
                        Reloaded::Taken(format!("{} was reloaded: {}", file.display(), self.access.protection))
                    }
                    Err(error) => Reloaded::Refused(error),
                };
                (self.tell)(&told);
            }
        }
        Arc::clone(&self.access)
    }

    /// `access`, if it asks for no less than the present one.
    fn not_lowered(&self, access: Access, file: &Path) -> Result<Access, WebConfigError> {
        match self.access.protection.lost_in(access.protection) {
            None => Ok(access),
            Some(what) => Err(WebConfigError::wrong(file, Mistake::Lowered(what))),
        }
    }
}

/// Files, as they were.
type Stamps = Vec<(PathBuf, Stamp)>;

/// Reads the file and those that it names. `before` are the passwords so far. Also returns all files as they were before it read
/// them, even if one of them is wrong.
fn open(file: &Path, before: Option<&Arc<Passwords>>) -> (Stamps, Result<Access, WebConfigError>) {
    let stamped = |path: &Path| (path.to_owned(), stamp(path));
    let mut stamps = vec![stamped(file)];
    let config = match WebConfig::read(file) {
        Ok(config) => config,
        Err(error) => return (stamps, Err(error)),
    };
    if let Some(tls) = &config.tls {
        let named = [Some(tls.cert_file.as_path()), Some(tls.key_file.as_path()), tls.clients.authorities()];
        stamps.extend(named.into_iter().flatten().map(stamped));
    }
    (stamps, access(config, file, before))
}

fn access(config: WebConfig, file: &Path, before: Option<&Arc<Passwords>>) -> Result<Access, WebConfigError> {
    let protection = Protection::of(&config);
    let WebConfig { tls, users } = config;
    let passwords = match before {
        _ if users.is_empty() => None,
        Some(before) => Some(before.renewed(users)),
        None => Some(Arc::new(Passwords::new(users).map_err(|error| WebConfigError::wrong(file, error))?)),
    };
    Ok(Access { tls: tls.as_ref().map(server).transpose()?, protection, passwords })
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}

fn server(config: &TlsConfig) -> Result<Tls, WebConfigError> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match (config.only_tls12, config.only_tls13) {
        (_, true) => &[&TLS13],
        (true, false) => &[&TLS12],
        (false, false) => &[&TLS13, &TLS12],
    };
    let of_certificate = |error: rustls::Error| WebConfigError::wrong(&config.cert_file, error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(of_certificate)?;
    let builder = match &config.clients {
        Clients::Any => builder.with_no_client_auth(),
        Clients::Verify(file) => builder.with_client_cert_verifier(verifier(file, provider, true)?),
        Clients::VerifyIfGiven(file) => builder.with_client_cert_verifier(verifier(file, provider, false)?),
    };
    let certificates = certificates(&config.cert_file)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&config.key_file)?)
        .map_err(|error| WebConfigError::wrong(&config.key_file, Mistake::Key(error)))?;
    let mut server = builder.with_single_cert(certificates, key).map_err(of_certificate)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls(Arc::new(server)))
}

fn verifier(
    file: &Path,
    provider: Arc<CryptoProvider>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, WebConfigError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(file)? {
        authorities.add(certificate).map_err(|error| WebConfigError::wrong(file, error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider);
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| WebConfigError::wrong(file, error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, WebConfigError> {
    let pem = read(file)?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| WebConfigError::wrong(file, Mistake::Certificate(error)))?;
    if all.is_empty() { Err(WebConfigError::wrong(file, Mistake::NoCertificate)) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, WebConfigError> {
    fs::read(path).map_err(|source: io::Error| WebConfigError::Read { path: path.to_owned(), source })
}
