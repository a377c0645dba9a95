//! Whom to trust, and what to prove.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::{CertificateError, ConnectionError};

/// CA bundles of common distributions.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Files in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// CA certificates to verify the server. Default: the CA certificates of this host.
    pub ca: Option<PathBuf>,
    /// A certificate of the client's own and its key, which may be in the same file.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// The settings of TLS for `ureq`.
    pub(crate) fn config(&self, insecure: bool) -> Result<TlsConfig, ConnectionError> {
        let builder = TlsConfig::builder().disable_verification(insecure).root_certs(self.roots()?);
        let client = self.client.as_ref().map(|(certificate, key)| client(certificate, key)).transpose()?;
        Ok(builder.client_cert(client).build())
    }

    fn roots(&self) -> Result<RootCerts, ConnectionError> {
        if let Some(path) = &self.ca {
            return Ok(certificates(path)?.into());
        }
        let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let here = named.into_iter().chain(BUNDLES.map(PathBuf::from)).find(|path| path.is_file());
        // Without a CA bundle, use Mozilla's CA certificates.
        here.map_or(Ok(RootCerts::WebPki), |path| Ok(certificates(&path)?.into()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectionError> {
    fs::read(path).map_err(|source| ConnectionError::File { path: path.to_owned(), source })
}

fn wrong(path: &Path, source: CertificateError) -> ConnectionError {
    ConnectionError::Certificate { path: path.to_owned(), source }
}

fn items(path: &Path, pem: &[u8]) -> Result<Vec<PemItem<'static>>, ConnectionError> {
    let items = parse_pem(pem).collect::<Result<_, _>>();
    items.map_err(|error| wrong(path, CertificateError::Pem(Box::new(error))))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ConnectionError> {
    let found: Vec<_> = items(path, &read(path)?)?
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() { Err(wrong(path, CertificateError::NoCertificate)) } else { Ok(found) }
}

/// The client's certificate and key. `ureq` takes it for granted that they go together, so that is tried here.
fn client(certificate: &Path, key: &Path) -> Result<ClientCert, ConnectionError> {
    let chain = certificates(certificate)?;
    let pem = read(key)?;
    let found = items(key, &pem)?.into_iter().find_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    let none = |source| wrong(key, CertificateError::NoKey(source));
    let private: PrivateKey<'static> = found.ok_or_else(|| none(None))?;
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| none(Some(error)))?;
    let chain_der = chain.iter().map(|certificate| CertificateDer::from(certificate.der()).into_owned()).collect();
    let tried = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let builder = builder.with_root_certificates(rustls::RootCertStore::empty());
            builder.with_client_auth_cert(chain_der, der)
        });
    match tried {
        Ok(_) => Ok(ClientCert::new_with_certs(&chain, private)),
        Err(source) => Err(wrong(certificate, CertificateError::Pair { key: key.to_owned(), source })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_what_they_should_have_are_named() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let empty = file("empty.pem", "");
        let broken = file("broken.pem", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
        let garbage = file("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        let key = file("key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        let error = |files: TlsFiles| files.config(false).unwrap_err().to_string();
        let of_ca = |ca: &Path| TlsFiles { ca: Some(ca.to_owned()), client: None };
        assert!(error(of_ca(&home.path().join("none"))).contains("No such file"));
        assert!(error(of_ca(&empty)).ends_with("empty.pem: the file contains no certificate"));
        assert!(error(of_ca(&broken)).contains("not in PEM format"));
        let of_client = |certificate: &Path, key: &Path| TlsFiles {
            ca: None,
            client: Some((certificate.to_owned(), key.to_owned())),
        };
        assert!(error(of_client(&garbage, &empty)).contains("no private key"));
        assert!(error(of_client(&garbage, &key)).contains("does not match the key"), "and nothing panics");
    }
}
