//! Headers for a server: in a file, one per line, because everybody on the host can read a command line.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::say;
use crate::display::plain;

/// As in `X-Scope-OrgID:team`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME:VALUE, e.g. X-Scope-OrgID:team")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Why there are no headers.
#[derive(Debug, Error)]
pub(super) enum HeadersError {
    #[error("cannot read the headers in {}: {}. Check the path and its permissions", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    /// The line itself is not shown: most likely it is a secret.
    #[error("{}: line {line} is not a header: write it as NAME: VALUE", path.display())]
    NoHeader { path: PathBuf, line: usize },
    #[error("{} has no headers. Write one per line, as NAME: VALUE", .0.display())]
    Empty(PathBuf),
}

/// Headers in a file, without empty lines and lines that begin with #. Warns if others may read the file.
pub(super) fn headers_in(path: &Path) -> Result<Vec<(String, String)>, HeadersError> {
    let text = fs::read_to_string(path).map_err(|source| HeadersError::Read { path: path.to_owned(), source })?;
    let headers = parse(&text).map_err(|line| HeadersError::NoHeader { path: path.to_owned(), line })?;
    if headers.is_empty() {
        return Err(HeadersError::Empty(path.to_owned()));
    }
    warn_if_for_all(path);
    Ok(headers)
}

/// Warns if others may read the file at `path`.
pub(super) fn warn_if_for_all(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| is_for_all(metadata.permissions().mode())) {
        say(format_args!("lagstop: all users of this host can read {0}. Run chmod o= {0}\n", path.display()));
    }
}

/// The headers in `text`, or the number of the first line that is not a header.
fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(n, line)| header(line).ok().filter(|(name, _)| !name.is_empty()).ok_or(n + 1)).collect()
}

/// May others than its owner and group read it? Secrets of Kubernetes belong to a group.
const fn is_for_all(mode: u32) -> bool {
    mode & 0o004 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        assert_eq!(header("X-Scope-OrgID: team"), Ok(("X-Scope-OrgID".to_owned(), "team".to_owned())));
        assert!(header("team").is_err());
    }

    #[test]
    fn a_file_has_a_header_a_line() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("headers");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            headers_in(&file)
        };
        let two = read("# for the gateway\nAuthorization: Bearer a:b\n\nX-Scope-OrgID:team\n").unwrap();
        assert_eq!(two[0], ("Authorization".to_owned(), "Bearer a:b".to_owned()));
        assert_eq!(two[1], ("X-Scope-OrgID".to_owned(), "team".to_owned()));
        let wrong = read("a: b\nhush\n").unwrap_err().to_string();
        assert!(wrong.contains("line 2 is not a header") && !wrong.contains("hush"), "{wrong}");
        assert!(read(": hush\n").is_err() && read("# nothing\n").unwrap_err().to_string().contains("has no headers"));
        assert!(headers_in(&home.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn a_file_is_for_its_owner_and_group() {
        assert!(is_for_all(0o100_644) && !is_for_all(0o100_600) && !is_for_all(0o100_440));
    }
}
