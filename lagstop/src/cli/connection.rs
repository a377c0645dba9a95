//! How to reach a server: arguments of every command that asks one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use thiserror::Error;

use super::{
    Failure,
    headers::{header, headers_in, warn_if_for_all},
    say,
};
use crate::{
    client::{Connection, Secret, TlsFiles},
    display::plain,
};

/// How to reach a server.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// Read the bearer token for the server from FILE
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Read user and password for the server from FILE, as USER:PASSWORD
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    password_file: Option<PathBuf>,

    /// Send this header to the server, e.g. X-Scope-OrgID:team (repeatable)
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,

    /// Read headers for the server from FILE, one per line as NAME: VALUE
    #[arg(long, value_name = "FILE")]
    header_file: Option<PathBuf>,

    /// CA certificates to verify the server, in PEM [default: system trust store]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Client certificate for the server, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// Key of the client certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// Trust any certificate, and send tokens and passwords unencrypted
    #[arg(long)]
    insecure: bool,
}

impl ConnectionArgs {
    /// How to reach the server at `url`. Warns if its identity is not verified.
    pub(super) fn to(&self, url: &str) -> Result<Connection, Failure> {
        if self.insecure {
            say(format_args!("lagstop: --insecure: the server's identity is not verified\n"));
        }
        let secret = match (&self.token_file, &self.password_file) {
            (Some(file), _) => Some(Secret::Token(secret(file)?)),
            (None, Some(file)) => Some(password(file)?),
            (None, None) => None,
        };
        let in_file = self.header_file.as_deref().map_or(Ok(Vec::new()), headers_in)?;
        Ok(Connection {
            url: url.to_owned(),
            secret,
            headers: [self.headers.clone(), in_file].concat(),
            tls: TlsFiles { ca: self.ca_file.clone(), client: self.client_cert.clone().zip(self.client_key.clone()) },
            insecure: self.insecure,
        })
    }
}

/// Why there is no token and no password.
#[derive(Debug, Error)]
enum SecretError {
    #[error("cannot read {}: {}. Check the path and its permissions", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is empty: write the token or USER:PASSWORD into it", .0.display())]
    Empty(PathBuf),
    /// The text is not shown: most likely it is a secret.
    #[error("{} does not contain USER:PASSWORD", .0.display())]
    NoPassword(PathBuf),
}

fn secret(path: &Path) -> Result<String, SecretError> {
    let text = fs::read_to_string(path).map_err(|source| SecretError::Read { path: path.to_owned(), source })?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(SecretError::Empty(path.to_owned()));
    }
    warn_if_for_all(path);
    Ok(secret.to_owned())
}

fn password(path: &Path) -> Result<Secret, SecretError> {
    let secret = secret(path)?;
    if secret.contains(':') { Ok(Secret::Password(secret)) } else { Err(SecretError::NoPassword(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_files_and_are_not_quoted() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("secret");
        let to = |token: bool, text: &str| {
            fs::write(&file, text).unwrap();
            let mut args = ConnectionArgs::default();
            *(if token { &mut args.token_file } else { &mut args.password_file }) = Some(file.clone());
            args.to("http://127.0.0.1").map(|connection| connection.secret)
        };
        assert!(matches!(to(true, " abc\n").unwrap(), Some(Secret::Token(token)) if token == "abc"));
        assert!(matches!(to(false, "ann:a b:c\n").unwrap(), Some(Secret::Password(it)) if it == "ann:a b:c"));
        let wrong = to(false, "hush\n").unwrap_err().to_string();
        assert!(wrong.contains("does not contain USER:PASSWORD") && !wrong.contains("hush"), "{wrong}");
        assert!(to(true, "\n").unwrap_err().to_string().contains("is empty"));
    }
}
