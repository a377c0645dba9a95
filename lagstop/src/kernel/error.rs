//! Why the kernel side cannot run, as sentences with a remedy.

use std::io;

use thiserror::Error;

use crate::plain::plain;

use super::{btf::BtfError, facts::MissingCapability};

/// Why the kernel side cannot run, or stopped.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Capabilities are missing.
    #[error(
        "loading programs into the kernel needs {}, which this process does not have. Run lagstop as root (in a \
         container: with --privileged and the host's PID namespace), or give the binary the capabilities: \
         sudo setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_dac_read_search+ep \"$(command -v lagstop)\"",
        join(.0)
    )]
    NotPermitted(Vec<MissingCapability>),
    /// The kernel shows no type information.
    #[error(
        "this kernel's type information is needed and not there: {0}. It takes a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y (every current distribution kernel is), with sysfs mounted on /sys"
    )]
    NoBtf(BtfError),
    /// The kernel lacks what nothing can be measured without.
    #[error(
        "kernel {release} has no {what}, without which nothing can be measured: lagstop needs Linux 6.4 or later, and 6.16 for all it measures"
    )]
    TooOld {
        /// `uname -r`
        release: String,
        /// What is missing.
        what: String,
    },
    /// The object or a program was refused.
    #[error(
        "the kernel refused lagstop's {what}: {why}. Where it says that this is not permitted, look for seccomp, for a \
         container without --privileged, and for lockdown=confidentiality; else please report it with this message"
    )]
    Refused {
        /// Map, program or object.
        what: String,
        /// What the kernel or the loader said.
        why: String,
    },
    /// An access to a map failed.
    #[error(
        "a map of lagstop's could not be {action}: {}. Start lagstop again; should it recur, please report it",
        plain(source)
    )]
    Map {
        /// Read, written, …
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl KernelError {
    /// What the kernel said, without what to do about it: for a hook that can be done without.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Refused { why, .. } => why.clone(),
            other => other.to_string(),
        }
    }
}

fn join(missing: &[MissingCapability]) -> String {
    let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
    names.join(" and ")
}

/// The error and all that caused it, in one line. Of a verifier's log the end is kept, which says what it minds.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    const LOG: &str = "Verifier output:";
    const KEPT_LINES: usize = 4;
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
        next = error.source();
    }
    if let Some((before, log)) = text.split_once(LOG) {
        // The last lines before the statistics.
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let end = lines.iter().position(|line| line.starts_with("verification time")).unwrap_or(lines.len());
        let kept = lines[end.saturating_sub(KEPT_LINES)..end].join("; ");
        text = format!("{before}the verifier's last words were: {kept}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    without_numbers(&words.join(" "))
}

/// Leaves out the ` (os error 22)` that the standard library puts behind the system's words.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_verifier_log_only_the_end_is_kept() {
        let log = (0..100).map(|n| format!("{n}: (bf) r1 = r2\n")).collect::<String>();
        let error =
            io::Error::other(format!("Invalid argument\nVerifier output: {log}bad access\nverification time 5\n"));
        let text = chain(&error);
        assert_eq!(without_numbers("a (os error 22). b (os error 1)"), "a. b");
        assert!(text.starts_with("Invalid argument") && text.ends_with("99: (bf) r1 = r2; bad access"), "{text}");
    }
}
