//! Why the kernel side cannot run, as sentences with a remedy.

use std::io;

use thiserror::Error;

use crate::display::plain;

use super::capabilities::{Capability, setcap};

/// Why the kernel side cannot run, or stopped.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error(
        "cannot load programs into the kernel: this process lacks {}. Run lagstop as root (in a container: with \
         --privileged and the host's PID namespace), or give the binary the capabilities: \
         sudo setcap {} \"$(command -v lagstop)\". Run `lagstop check` for details",
        join(.0),
        setcap(&Capability::GIVEN)
    )]
    NotPermitted(Vec<Capability>),
    /// Capabilities are held only in a user namespace.
    #[error(
        "cannot load programs into the kernel: root in this user namespace has no privileges on the host. Run lagstop \
         outside of it (Docker: --userns host; Podman: with sudo; Kubernetes: hostUsers: true)"
    )]
    UserNamespace,
    /// The kernel shows no type information.
    #[error(
        "cannot find this kernel's type information (BTF): {}. Mount sysfs on /sys and use a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y (as all current distribution kernels are), or name a BTF file with --btf FILE",
        chain(&**.0)
    )]
    NoBtf(#[source] Source),
    /// A file of types is another kernel's.
    #[error(
        "the BTF file given with --btf does not match the running kernel. Use the BTF of exactly this kernel (uname -r)"
    )]
    WrongTypes,
    /// The kernel is older than what lagstop was made for.
    #[error("kernel {release} is too old: lagstop needs Linux 5.10 or later, and 6.16 or later for all measures")]
    TooOld {
        /// `uname -r`
        release: String,
    },
    /// The kernel lacks what nothing can be measured without.
    #[error("kernel {release} has no {what}, which lagstop needs. Run `lagstop check` for details")]
    Lacks {
        /// `uname -r`
        release: String,
        what: String,
    },
    /// Before Linux 5.11 maps count as locked memory, and there is too little.
    #[error(
        "not enough locked memory for lagstop's maps (limit: {limit} bytes; maps count as locked memory before Linux 5.11): \
         {}. Run lagstop with CAP_SYS_RESOURCE, or after `ulimit -l unlimited`",
        chain(&**source)
    )]
    LockedMemory { limit: u64, source: Source },
    /// There is no memory for the maps.
    #[error(
        "not enough memory for lagstop's maps: {}. Lower --max-cgroups or, in a container, raise its memory limit \
         (docs/deploy/README.md lists the limit for each number of CPUs)",
        chain(&**.0)
    )]
    NoMemory(#[source] Source),
    /// The object or a program was refused.
    #[error(
        "the kernel refused lagstop's {what}: {}. If this is a permission error, check for a seccomp filter, a container \
         without --privileged, or lockdown=confidentiality. Otherwise please report this message",
        chain(&**source)
    )]
    Refused {
        /// Map, program or object.
        what: String,
        source: Source,
    },
    /// Capabilities that are not needed any more could not be given up.
    #[error("cannot drop capabilities: {}. Please report it", plain(source))]
    Capabilities { source: io::Error },
    /// An access to a map failed.
    #[error(
        "a map of lagstop could not be {action}: {}. Restart lagstop; if this happens again, please report it",
        plain(source)
    )]
    Map {
        /// Read, written, …
        action: &'static str,
        source: io::Error,
    },
}

/// What the kernel or the loader said, with all that caused it.
pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

impl KernelError {
    pub(crate) fn refused(what: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Refused { what: what.into(), source: source.into() }
    }
}

fn join(missing: &[Capability]) -> String {
    let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
    names.join(" and ")
}

/// The system's error number, however deep in the chain it is.
pub(super) fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.filter_map(|error| error.downcast_ref::<io::Error>()).find_map(io::Error::raw_os_error)
}

/// The error and all that caused it, in one line. Only the end of a verifier's log is kept: it says what the verifier rejects.
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
        let said = if kept.is_empty() { String::new() } else { format!("the verifier's last lines were: {kept}") };
        text = format!("{before}{said}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    without_numbers(words.join(" ").trim_end_matches(['.', ':']))
}

/// Removes the ` (os error 22)` that the standard library puts behind the system's words.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_error_is_found_however_deep_it_is() {
        #[derive(Debug, Error)]
        #[error("a map could not be made")]
        struct Outer(#[source] io::Error);
        assert_eq!(errno(&Outer(io::Error::from_raw_os_error(libc::ENOMEM))), Some(libc::ENOMEM));
        assert_eq!(errno(&Outer(io::Error::other("nobody knows"))), None);
    }

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
