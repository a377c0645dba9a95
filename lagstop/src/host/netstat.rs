//! What the kernel counts for a whole network namespace: `/proc/net/netstat`.

use std::fs;

/// `ListenOverflows` of the calling thread's network namespace: connections that found an accept queue full, since the
/// namespace was made.
pub(super) fn listen_overflows() -> Option<u64> {
    // `/proc/net` is that of the process' first thread.
    parse(&fs::read_to_string("/proc/thread-self/net/netstat").ok()?, "ListenOverflows")
}

/// `TcpExt:` twice: a line of names and a line of figures.
pub(super) fn parse(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, figures) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|found| found == name)?;
    figures.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_below_their_names() {
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 3\nIpExt: InOctets\nIpExt: 9\n";
        assert_eq!(parse(netstat, "ListenOverflows"), Some(22));
        assert_eq!(parse(netstat, "InOctets"), None, "of another protocol");
        assert_eq!(parse("TcpExt: ListenOverflows\n", "ListenOverflows"), None);
        assert!(listen_overflows().is_some());
    }
}
