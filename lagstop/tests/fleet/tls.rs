//! A server that speaks TLS, with certificates of an authority that nobody else knows.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;

use super::{
    done,
    fake::{AT, fleet_of_eight, http, read},
    fleet, refused,
};

pub(super) const TESTS: [(&str, fn()); 3] = [
    ("tls_trusts_whom_it_was_told_to", trusts_whom_it_was_told_to),
    ("tls_shows_its_certificate", shows_its_certificate),
    ("tls_a_key_of_another_certificate_is_said", a_key_of_another_certificate_is_said),
];

/// An authority, and files of what it signed.
struct Keys {
    home: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Keys {
    fn make() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let keys = Self { home: tempfile::tempdir().unwrap(), authority };
        keys.write("ca.pem", &keys.authority.pem());
        keys
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }

    /// A certificate and its key.
    fn signed(&self, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages.push(usage);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.authority).unwrap().pem(), key.serialize_pem())
    }

    /// A client's certificate and key, as files.
    fn client(&self, name: &str) -> [String; 2] {
        let (certificate, key) = self.signed(ExtendedKeyUsagePurpose::ClientAuth);
        self.write(&format!("{name}.pem"), &certificate);
        self.write(&format!("{name}.key"), &key);
        [self.path(&format!("{name}.pem")), self.path(&format!("{name}.key"))]
    }

    /// A server, its address, and the tokens that it was shown. It ends with the test's process.
    fn serve(&self, asks_for_certificate: bool) -> (String, Arc<Mutex<Vec<String>>>) {
        let (certificate, key) = self.signed(ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = if asks_for_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tokens);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let Some(request) = read(&mut stream) else { continue };
                kept.lock().unwrap().push(request.authorization.clone());
                let _ = stream.write_all(http(&fleet_of_eight(&request)).as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        (url, tokens)
    }
}

fn trusts_whom_it_was_told_to() {
    let keys = Keys::make();
    let (url, tokens) = keys.serve(false);
    keys.write("token", "s3cr3t");
    let token = keys.path("token");
    let said = refused(&fleet(&url, &[&AT[..], &["--token-file", &token]].concat()));
    assert!(said.contains("certificate") && said.contains("--ca-file"), "{said}");
    assert!(tokens.lock().unwrap().is_empty(), "nothing is shown to somebody unknown");

    let ca = keys.path("ca.pem");
    let written = done(&fleet(&url, &[&AT[..], &["--ca-file", &ca, "--token-file", &token]].concat()));
    assert!(written.starts_with("8 nodes lose "), "{written}");
    assert!(tokens.lock().unwrap().iter().all(|token| token == "Bearer s3cr3t"));

    let other = Keys::make().authority.pem();
    keys.write("other.pem", &other);
    assert!(refused(&fleet(&url, &[&AT[..], &["--ca-file", &keys.path("other.pem")]].concat())).contains("--ca-file"));

    let output = fleet(&url, &[&AT[..], &["--insecure"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("identity is not verified"));
    done(&output);
}

fn shows_its_certificate() {
    let keys = Keys::make();
    let (url, _) = keys.serve(true);
    let ca = keys.path("ca.pem");
    let asked = |more: &[&str]| fleet(&url, &[&AT[..], &["--ca-file", &ca], more].concat());
    assert!(!asked(&[]).status.success());
    let [certificate, key] = keys.client("client");
    assert!(done(&asked(&["--client-cert", &certificate, "--client-key", &key])).starts_with("8 nodes lose "));
}

fn a_key_of_another_certificate_is_said() {
    let keys = Keys::make();
    let [certificate, _] = keys.client("one");
    let [_, key] = keys.client("another");
    let said = refused(&fleet("https://127.0.0.1:9", &["--client-cert", &certificate, "--client-key", &key]));
    assert!(said.contains("does not match the key in") && !said.contains("panicked"), "{said}");
}
