//! Listening TCP sockets, from the kernel's socket diagnostics: sock_diag(7).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    /// Connections in the accept queue: `sk_ack_backlog`.
    pub(super) backlog: u32,
    /// `sk_max_ack_backlog`.
    pub(super) limit: u32,
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

/// A dump of the listening TCP sockets of `family`.
fn request(family: u8) -> Vec<u8> {
    let len = HEADER_LEN + REQUEST_LEN;
    let mut request = Vec::with_capacity(len);
    request.extend_from_slice(&(len as u32).to_ne_bytes());
    request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&[family, libc::IPPROTO_TCP as u8, 0, 0]);
    request.extend_from_slice(&(1u32 << TCP_LISTEN).to_ne_bytes());
    request.resize(len, 0);
    request
}

/// Reads the messages of one answer; `false` when it was the last.
fn parse(mut answer: &[u8], all: &mut Vec<Listening>) -> io::Result<bool> {
    while let Some(header) = answer.get(..HEADER_LEN) {
        let len = word(header, 0) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let Some(payload) = answer.get(HEADER_LEN..len) else { break };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = payload.get(..4).map_or(0, |code| word(code, 0) as i32);
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => all.extend(payload.get(..MESSAGE_LEN).map(message)),
        }
        answer = answer.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn message(message: &[u8]) -> Listening {
    let port = u16::from_be_bytes([message[4], message[5]]);
    let mut source = [0; 16];
    source.copy_from_slice(&message[8..24]);
    let ip = if i32::from(message[0]) == libc::AF_INET {
        let [a, b, c, d, ..] = source;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::V6(Ipv6Addr::from(source)).to_canonical()
    };
    Listening { address: SocketAddr::new(ip, port), backlog: word(message, 56), limit: word(message, 60) }
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
    fn cut_answers_are_no_trouble() {
        let mut all = Vec::new();
        let answer = [200, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
        for len in 0..answer.len() {
            assert!(parse(&answer[..len], &mut all).unwrap());
        }
        assert!(all.is_empty());
    }
}
