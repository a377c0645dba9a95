//! Connections: how many, and for how long.

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{rt, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, rustls::server::Acceptor};

use super::{
    pace::Pace,
    pages::{Site, Visitor},
    peer::Peer,
    security::{Access, Security},
    stall::Stalls,
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
    /// For everything, but what is followed.
    pub whole: Duration,
    /// Of those beside them that follow the intervals: at once in all, and of one peer.
    pub followers: usize,
    pub followers_of_one: usize,
    /// For how long one of those may take nothing of what is sent to it.
    pub stall: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            whole: Duration::from_secs(20),
            followers: 16,
            followers_of_one: 8,
            stall: Duration::from_secs(30),
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
/// Time between two checks whether followers are still let in.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Pause before the next try where the system has no room for a connection.
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
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = looks.tick() => {
                if by_age.has_followers() {
                    // What let them in may have changed since.
                    by_age.end_followers(Some(&security.access()));
                }
                continue;
            }
        };
        let Ok((stream, address)) = accepted else {
            sleep(BREATHER).await;
            continue;
        };
        while by_age.visits() >= limits.connections {
            by_age.make_room();
            connections.join_next().await;
        }
        let visit = Visit {
            peer: address.ip().into(),
            access: security.access(),
            site: Arc::clone(&site),
            handshakes: Arc::clone(&handshakes),
            follows: Arc::default(),
            limits,
        };
        let (peer, access, follows) = (visit.peer, Arc::clone(&visit.access), Arc::clone(&visit.follows));
        let connection = connections.spawn(visit.stay(stream));
        by_age.push(Guest { peer, access, follows, connection });
    }
    drop(listener);
    by_age.end_followers(None);
    let _ = timeout(LAST_MOMENT, async { while connections.join_next().await.is_some() {} }).await;
}

/// An accepted connection.
#[derive(Debug)]
struct Guest {
    peer: Peer,
    /// What it had to pass.
    access: Arc<Access>,
    /// Whether it follows the intervals.
    follows: Arc<AtomicBool>,
    connection: AbortHandle,
}

impl Guest {
    fn follows(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }
}

/// Connections that are there, the oldest first.
#[derive(Debug, Default)]
struct ByAge(VecDeque<Guest>);

impl ByAge {
    fn push(&mut self, guest: Guest) {
        self.forget_who_has_gone();
        self.0.push_back(guest);
    }

    fn forget_who_has_gone(&mut self) {
        self.0.retain(|guest| !guest.connection.is_finished());
    }

    /// Those that do not stay: followers have a limit of their own, and take no place of these.
    fn visits(&mut self) -> usize {
        self.forget_who_has_gone();
        self.0.iter().filter(|guest| !guest.follows()).count()
    }

    fn has_followers(&self) -> bool {
        self.0.iter().any(Guest::follows)
    }

    /// Ends those that follow and were let in by other rules than these.
    fn end_followers(&mut self, now: Option<&Arc<Access>>) {
        let is_old = |guest: &&Guest| guest.follows() && now.is_none_or(|now| !Arc::ptr_eq(&guest.access, now));
        self.0.iter().filter(is_old).for_each(|guest| guest.connection.abort());
    }

    /// Ends the oldest visit of whoever has most of them: who floods makes room for others, and not they for him.
    fn make_room(&mut self) {
        self.forget_who_has_gone();
        let mut numbers: HashMap<Peer, usize> = HashMap::new();
        for guest in self.0.iter().filter(|guest| !guest.follows()) {
            *numbers.entry(guest.peer).or_default() += 1;
        }
        let most = numbers.values().max().copied();
        let is_theirs = |guest: &Guest| !guest.follows() && numbers.get(&guest.peer).copied() == most;
        let oldest = self.0.iter().position(is_theirs);
        if let Some(guest) = oldest.and_then(|oldest| self.0.remove(oldest)) {
            guest.connection.abort();
        }
    }
}

/// A connection and what it gets.
struct Visit {
    peer: Peer,
    access: Arc<Access>,
    site: Arc<Site>,
    handshakes: Arc<Pace>,
    follows: Arc<AtomicBool>,
    limits: ConnectionLimits,
}

impl Visit {
    /// Serves a visit within its time. Who follows stays.
    async fn stay(self, stream: TcpStream) {
        let (whole, follows) = (self.limits.whole, Arc::clone(&self.follows));
        let mut visit = pin!(self.serve(stream));
        if timeout(whole, &mut visit).await.is_err() && follows.load(Ordering::Relaxed) {
            visit.await;
        }
    }

    /// Serves one request, and ends the connection.
    async fn serve(self, stream: TcpStream) {
        let _ = (stream.set_nodelay(true), set_socket_send_buffer_size(&stream, SEND_BUFFER));
        let is_local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let visitor = Visitor {
            peer: self.peer,
            passwords: self.access.passwords.clone(),
            may_be_rebound: is_local && self.access.is_open(),
            follows: Arc::clone(&self.follows),
        };
        let stream = Stalls::new(stream, self.limits.stall);
        let Some(tls) = &self.access.tls else {
            return self.answer(TokioIo::new(stream), &visitor).await;
        };
        // Waits until the client has sent something: a silent one must not take a turn.
        let begun = timeout(self.limits.handshake, LazyConfigAcceptor::new(Acceptor::default(), stream)).await;
        let Ok(Ok(begun)) = begun else { return };
        self.handshakes.turn().await;
        if let Ok(Ok(stream)) = timeout(self.limits.handshake, begun.into_stream(tls.config())).await {
            self.answer(TokioIo::new(stream), &visitor).await;
        }
    }

    async fn answer(&self, stream: impl rt::Read + rt::Write + Unpin, visitor: &Visitor) {
        let service = service_fn(|request| self.site.answer(request, visitor));
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

    fn guest(peer: Peer, follows: bool, connection: AbortHandle) -> Guest {
        Guest { peer, access: Arc::default(), follows: Arc::new(follows.into()), connection }
    }

    #[tokio::test]
    async fn who_has_most_connections_makes_room() {
        let (mut connections, mut by_age) = (JoinSet::new(), ByAge::default());
        let peers: [Peer; 2] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]).into());
        // One is the first, and the other floods. Followers are not counted, and stay.
        for (peer, follows) in [(1, true), (1, true), (1, true), (0, false), (1, false), (1, false), (1, false)] {
            by_age.push(guest(peers[peer], follows, connections.spawn(std::future::pending::<()>())));
        }
        assert_eq!(by_age.visits(), 4);
        for left in [2, 1] {
            by_age.make_room();
            assert!(connections.join_next().await.unwrap().unwrap_err().is_cancelled());
            let of = |peer: Peer| by_age.0.iter().filter(|guest| guest.peer == peer && !guest.follows()).count();
            assert_eq!((of(peers[0]), of(peers[1])), (1, left));
        }
        by_age.make_room();
        assert!(connections.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(by_age.visits(), 1, "as many each: the oldest of all");
        assert_eq!((by_age.0.len(), by_age.0[3].peer), (4, peers[1]));
    }

    #[tokio::test]
    async fn who_follows_by_rules_that_have_changed_is_shown_out() {
        let (mut connections, mut by_age) = (JoinSet::new(), ByAge::default());
        let peer: Peer = IpAddr::from([10, 0, 0, 1]).into();
        for follows in [true, true, false] {
            by_age.push(guest(peer, follows, connections.spawn(std::future::pending::<()>())));
        }
        let access = Arc::clone(&by_age.0[0].access);
        by_age.end_followers(Some(&access));
        assert!(connections.join_next().await.unwrap().unwrap_err().is_cancelled());
        by_age.forget_who_has_gone();
        assert_eq!(by_age.0.len(), 2, "who was let in by these rules, and who leaves soon anyway");
        by_age.end_followers(None);
        assert!(connections.join_next().await.unwrap().unwrap_err().is_cancelled());
        by_age.forget_who_has_gone();
        assert!(!by_age.has_followers() && by_age.visits() == 1);
    }
}
