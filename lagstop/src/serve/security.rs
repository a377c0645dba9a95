//! Who is let in, as the file says, also after it has changed.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
        version::{TLS12, TLS13},
    },
};

use super::{
    passwords::Passwords,
    web_config::{Clients, TlsConfig, WebConfig, WebConfigError},
};

/// Files are looked at for changes this often at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who is let in. Certificates are renewed by others while lagstop runs: changed files are read again.
pub struct Security {
    file: Option<PathBuf>,
    doors: Arc<Doors>,
    /// The files that it comes from, as they were.
    stamps: Vec<(PathBuf, Stamp)>,
    looked: Instant,
    complain: Box<dyn Fn(&WebConfigError) + Send>,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security").field("file", &self.file).field("doors", &self.doors).finish_non_exhaustive()
    }
}

/// What a connection has to pass.
#[derive(Debug, Default)]
pub(super) struct Doors {
    pub(super) tls: Option<Tls>,
    /// Do clients need a certificate?
    knows_clients: bool,
    pub(super) passwords: Option<Arc<Passwords>>,
}

/// TLS, ready to accept.
pub(super) struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl std::ops::Deref for Tls {
    type Target = TlsAcceptor;

    fn deref(&self) -> &TlsAcceptor {
        &self.0
    }
}

/// What a file has another of once it is changed or replaced. `None` where there is none.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

impl Security {
    /// Everybody is let in.
    pub fn none() -> Self {
        Self {
            file: None,
            doors: Arc::default(),
            stamps: Vec::new(),
            looked: Instant::now(),
            complain: Box::new(|_| {}),
        }
    }

    /// As `file` says. Should it be wrong once it is changed, it stays as it was, and `complain` hears of it.
    ///
    /// # Errors
    /// When the file, or one that it names, cannot be read or is wrong.
    pub fn read(file: &Path, complain: impl Fn(&WebConfigError) + Send + 'static) -> Result<Self, WebConfigError> {
        let (doors, stamps) = open(file)?;
        Ok(Self {
            file: Some(file.to_owned()),
            doors: doors.into(),
            stamps,
            looked: Instant::now(),
            complain: Box::new(complain),
        })
    }

    /// Is it HTTPS that is spoken?
    pub fn is_encrypted(&self) -> bool {
        self.doors.tls.is_some()
    }

    /// May whoever reaches it read everything?
    pub fn is_open(&self) -> bool {
        self.doors.passwords.is_none() && !self.doors.knows_clients
    }

    /// What a connection has to pass now.
    pub(super) fn doors(&mut self) -> Arc<Doors> {
        if let Some(file) = self.file.as_deref().filter(|_| self.looked.elapsed() >= LOOK_EVERY) {
            self.looked = Instant::now();
            let now: Vec<(PathBuf, Stamp)> = self.stamps.iter().map(|(path, _)| (path.clone(), stamp(path))).collect();
            if now != self.stamps {
                match open(file) {
                    Ok((doors, stamps)) => (self.doors, self.stamps) = (doors.into(), stamps),
                    // It may be half written: the next look is when it changes again.
                    Err(error) => {
                        (self.complain)(&error);
                        self.stamps = now;
                    }
                }
            }
        }
        Arc::clone(&self.doors)
    }
}

/// Reads the file and those it names, with what they were before.
fn open(file: &Path) -> Result<(Doors, Vec<(PathBuf, Stamp)>), WebConfigError> {
    let stamped = |path: &Path| (path.to_owned(), stamp(path));
    let mut stamps = vec![stamped(file)];
    let WebConfig { tls, users } = WebConfig::read(file)?;
    let wrong = |why| WebConfigError::Wrong { path: file.to_owned(), why };
    let passwords = (!users.is_empty()).then(|| Passwords::new(users).map(Arc::new)).transpose().map_err(wrong)?;
    let knows_clients = tls.as_ref().is_some_and(|tls| matches!(tls.clients, Clients::Verify(_)));
    let tls = tls.map(|tls| {
        let named = [Some(tls.cert_file.as_path()), Some(tls.key_file.as_path()), tls.clients.authorities()];
        stamps.extend(named.into_iter().flatten().map(stamped));
        server(&tls)
    });
    Ok((Doors { tls: tls.transpose()?, knows_clients, passwords }, stamps))
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
    let of_certificate = |error: &dyn fmt::Display| wrong(&config.cert_file, error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| of_certificate(&error))?;
    let builder = match &config.clients {
        Clients::Any => builder.with_no_client_auth(),
        Clients::Verify(file) => builder.with_client_cert_verifier(verifier(file, provider, true)?),
        Clients::VerifyIfGiven(file) => builder.with_client_cert_verifier(verifier(file, provider, false)?),
    };
    let certificates = certificates(&config.cert_file)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&config.key_file)?)
        .map_err(|error| wrong(&config.key_file, &format!("there is no private key in it: {error}")))?;
    let mut server = builder.with_single_cert(certificates, key).map_err(|error| of_certificate(&error))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls(TlsAcceptor::from(Arc::new(server))))
}

fn verifier(
    file: &Path,
    provider: Arc<CryptoProvider>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, WebConfigError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(file)? {
        authorities.add(certificate).map_err(|error| wrong(file, &error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider);
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| wrong(file, &error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, WebConfigError> {
    let pem = read(file)?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(file, &format!("there is no certificate in it: {error}")))?;
    if all.is_empty() { Err(wrong(file, &"there is no certificate in it")) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, WebConfigError> {
    fs::read(path).map_err(|source: io::Error| WebConfigError::Read { path: path.to_owned(), source })
}

fn wrong(path: &Path, why: &dyn fmt::Display) -> WebConfigError {
    WebConfigError::Wrong { path: path.to_owned(), why: why.to_string() }
}
