//! Connections: how many, and for how long.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use hyper::{rt, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, rustls::server::Acceptor};

use super::{
    pace::Pace,
    pages::Site,
    peer::Peer,
    security::{Doors, Security},
};

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// At once. Where one more comes, the oldest of whoever has most makes room.
    pub connections: usize,
    /// Until a TLS handshake has begun, and then until it is done.
    pub handshake: Duration,
    /// Until the head of the request is there.
    pub head: Duration,
    /// For everything.
    pub whole: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            whole: Duration::from_secs(20),
        }
    }
}

/// The head of a request takes this at most.
const LONGEST_HEAD: usize = 16 << 10;
/// What the system holds back of what is sent to a slow reader, twice: left to itself it takes megabytes for each.
const SEND_BUFFER: usize = 128 << 10;
/// How long those who are in have left at the end.
const LAST_MOMENT: Duration = Duration::from_secs(1);
/// A TLS handshake takes a millisecond of CPU time, and who asks for one has no password yet: fifty a second are a twentieth of a
/// CPU, and some more where there were none before.
const HANDSHAKE_EVERY: Duration = Duration::from_millis(20);
const HANDSHAKES_AT_ONCE: u32 = 25;
/// Before the next try where the system has no room for a connection.
const BREATHER: Duration = Duration::from_millis(100);

/// Serves until it is stopped.
pub(super) async fn run(
    listener: TcpListener,
    mut security: Security,
    site: Arc<Site>,
    limits: ConnectionLimits,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    let mut by_age = ByAge::default();
    let handshakes = Arc::new(Pace::new(HANDSHAKE_EVERY, HANDSHAKES_AT_ONCE));
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, address)) = accepted else {
            sleep(BREATHER).await;
            continue;
        };
        while connections.len() >= limits.connections {
            by_age.make_room();
            connections.join_next().await;
        }
        let visit = Visit {
            peer: address.ip().into(),
            doors: security.doors(),
            site: Arc::clone(&site),
            handshakes: Arc::clone(&handshakes),
            limits,
        };
        let peer = visit.peer;
        let connection = async move { timeout(limits.whole, visit.serve(stream)).await };
        by_age.push(peer, connections.spawn(connection));
    }
    drop(listener);
    let _ = timeout(LAST_MOMENT, async { while connections.join_next().await.is_some() {} }).await;
}

/// Connections that are there, with whose they are.
#[derive(Debug, Default)]
struct ByAge(VecDeque<(Peer, AbortHandle)>);

impl ByAge {
    fn push(&mut self, peer: Peer, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        self.0.push_back((peer, connection));
    }

    /// Ends the oldest connection of whoever has most of them: who floods makes room for others, and not they for him.
    fn make_room(&mut self) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        let mut numbers: HashMap<Peer, usize> = HashMap::new();
        for (peer, _) in &self.0 {
            *numbers.entry(*peer).or_default() += 1;
        }
        let most = numbers.values().max().copied();
        let oldest = self.0.iter().position(|(peer, _)| numbers.get(peer).copied() == most);
        if let Some((_, connection)) = oldest.and_then(|oldest| self.0.remove(oldest)) {
            connection.abort();
        }
    }
}

/// A connection and what it gets.
struct Visit {
    peer: Peer,
    doors: Arc<Doors>,
    site: Arc<Site>,
    handshakes: Arc<Pace>,
    limits: ConnectionLimits,
}

impl Visit {
    /// Serves one request, and ends the connection.
    async fn serve(&self, stream: TcpStream) {
        let _ = (stream.set_nodelay(true), set_socket_send_buffer_size(&stream, SEND_BUFFER));
        let Some(tls) = &self.doors.tls else {
            return self.answer(TokioIo::new(stream)).await;
        };
        // Who says nothing has no turn, and keeps nobody from his.
        let begun = timeout(self.limits.handshake, LazyConfigAcceptor::new(Acceptor::default(), stream)).await;
        let Ok(Ok(begun)) = begun else { return };
        self.handshakes.turn().await;
        if let Ok(Ok(stream)) = timeout(self.limits.handshake, begun.into_stream(tls.config())).await {
            self.answer(TokioIo::new(stream)).await;
        }
    }

    async fn answer(&self, stream: impl rt::Read + rt::Write + Unpin) {
        let service = service_fn(|request| {
            let (site, passwords, peer) = (Arc::clone(&self.site), self.doors.passwords.clone(), self.peer);
            async move { site.answer(request, passwords, peer).await }
        });
        // One request each: then the time for a connection is the time for a request, however slowly it is read. Scrapes are
        // seconds apart.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(LONGEST_HEAD)
            .keep_alive(false)
            .serve_connection(stream, service);
        // Who does not speak HTTP, or hangs up, is nobody's concern.
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[tokio::test]
    async fn who_has_most_connections_makes_room() {
        let (mut connections, mut by_age) = (JoinSet::new(), ByAge::default());
        let peers: [Peer; 2] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]).into());
        // One is the first, and the other floods.
        for peer in [peers[0], peers[1], peers[1], peers[1]] {
            by_age.push(peer, connections.spawn(std::future::pending::<()>()));
        }
        for left in [2, 1] {
            by_age.make_room();
            assert!(connections.join_next().await.unwrap().unwrap_err().is_cancelled());
            let of = |peer: Peer| by_age.0.iter().filter(|(of, _)| *of == peer).count();
            assert_eq!((of(peers[0]), of(peers[1])), (1, left));
        }
        by_age.make_room();
        assert_eq!(by_age.0.len(), 1, "as many each: the oldest of all");
        assert_eq!(by_age.0[0].0, peers[1]);
    }
}
