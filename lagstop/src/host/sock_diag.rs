//! Listening TCP sockets, from the kernel's socket diagnostics: sock_diag(7).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    /// Connections in the accept queue: `sk_ack_backlog`.
    pub(super) backlog: u32,
    /// `sk_max_ack_backlog`.
    pub(super) limit: u32,
    /// Tells sockets apart: no other ever has it.
    pub(super) cookie: u64,
    /// `sk_drops` since it was made. It wraps.
    pub(super) drops: Option<u32>,
    /// Id of its cgroup of version 2: that of the task that made it. Known since Linux 5.8.
    pub(super) cgroup: Option<u64>,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const TCP_LISTEN: u32 = 10;
const HEADER_LEN: usize = 16;
/// `struct inet_diag_msg`, `include/uapi/linux/inet_diag.h`.
const MESSAGE_LEN: usize = 72;
const REQUEST_LEN: usize = 56;
/// Attributes, the same file.
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// Of the words in the first of them, `include/uapi/linux/sock_diag.h`.
const SK_MEMINFO_DROPS: usize = 8;

/// All listening TCP sockets of the calling thread's network namespace.
pub(super) fn listening() -> io::Result<Vec<Listening>> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut all = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    for family in [libc::AF_INET, libc::AF_INET6] {
        send(&socket, &request(family as u8), SendFlags::empty())?;
        loop {
            let (_, len) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
            if !parse(&buffer[..len.min(buffer.len())], &mut all)? {
                break;
            }
        }
    }
    Ok(all)
}

/// A request for a dump of the listening TCP sockets of `family`.
fn request(family: u8) -> Vec<u8> {
    let len = HEADER_LEN + REQUEST_LEN;
    let mut request = Vec::with_capacity(len);
    request.extend_from_slice(&(len as u32).to_ne_bytes());
    request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&[family, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_SKMEMINFO - 1), 0]);
    request.extend_from_slice(&(1u32 << TCP_LISTEN).to_ne_bytes());
    request.resize(len, 0);
    request
}

/// Reads the messages of one answer; `false` when it was the last.
pub(super) fn parse(mut answer: &[u8], all: &mut Vec<Listening>) -> io::Result<bool> {
    while let Some(header) = answer.get(..HEADER_LEN) {
        let len = word(header, 0) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let Some(payload) = answer.get(HEADER_LEN..len) else { break };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = payload.get(..4).map_or(0, |code| word(code, 0) as i32);
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => all.extend(payload.split_at_checked(MESSAGE_LEN).map(|(fixed, more)| message(fixed, more))),
        }
        answer = answer.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn message(message: &[u8], attributes: &[u8]) -> Listening {
    let port = u16::from_be_bytes([message[4], message[5]]);
    let mut source = [0; 16];
    source.copy_from_slice(&message[8..24]);
    let ip = if i32::from(message[0]) == libc::AF_INET {
        let [a, b, c, d, ..] = source;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::V6(Ipv6Addr::from(source)).to_canonical()
    };
    let mut listening = Listening {
        address: SocketAddr::new(ip, port),
        backlog: word(message, 56),
        limit: word(message, 60),
        cookie: long(message, 44),
        drops: None,
        cgroup: None,
    };
    for (kind, value) in Attributes(attributes) {
        match kind {
            INET_DIAG_SKMEMINFO if value.len() >= 4 * (SK_MEMINFO_DROPS + 1) => {
                listening.drops = Some(word(value, 4 * SK_MEMINFO_DROPS));
            }
            INET_DIAG_CGROUP_ID if value.len() >= 8 => listening.cgroup = Some(long(value, 0)),
            _ => {}
        }
    }
    listening
}

/// The attributes at the end of a message, `struct nlattr`: kind and value.
struct Attributes<'m>(&'m [u8]);

impl<'m> Iterator for Attributes<'m> {
    type Item = (u16, &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.0.get(..4)?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([header[2], header[3]]), value))
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_real_listener_is_found_with_its_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _waiting: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let all = listening().unwrap();
        let found = all.iter().find(|found| found.address == address).unwrap();
        assert_eq!(found.backlog, 3);
        assert!(found.limit > 3);
    }

    #[test]
    fn attributes_are_read_as_far_as_they_are_whole() {
        let memory: Vec<u8> = (0u32..9).flat_map(|word| (word * 11).to_ne_bytes()).collect();
        let attribute = |kind: u16, value: &[u8]| {
            let mut all = (value.len() as u16 + 4).to_ne_bytes().to_vec();
            all.extend(kind.to_ne_bytes());
            all.extend(value);
            all.resize(all.len().next_multiple_of(4), 0);
            all
        };
        // The second is of an odd length, and one that nobody asked for.
        let all = [
            attribute(INET_DIAG_SKMEMINFO, &memory),
            attribute(4, b"cubic"),
            attribute(INET_DIAG_CGROUP_ID, &4_711u64.to_ne_bytes()),
        ]
        .concat();
        let found = message(&[0; MESSAGE_LEN], &all);
        assert_eq!((found.drops, found.cgroup), (Some(88), Some(4_711)));
        let found = message(&[0; MESSAGE_LEN], &all[..all.len() - 1]);
        assert_eq!((found.drops, found.cgroup), (Some(88), None));
        assert_eq!(message(&[0; MESSAGE_LEN], &[0; 12]).drops, None, "an attribute of no length ends it");
    }

    #[test]
    fn cut_answers_are_no_trouble() {
        let mut all = Vec::new();
        let answer = [200, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
        for len in 0..answer.len() {
            assert!(parse(&answer[..len], &mut all).unwrap());
        }
        assert!(all.is_empty());
    }
}
