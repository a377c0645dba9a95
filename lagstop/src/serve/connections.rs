//! Connections: how many, and for how long.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use hyper::{rt, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    pages::Site,
    security::{Doors, Security},
};

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At once. Where one more comes, the oldest makes room.
    pub connections: usize,
    /// Until the TLS handshake is done.
    pub handshake: Duration,
    /// Until the head of the request is there.
    pub head: Duration,
    /// For everything.
    pub whole: Duration,
}

impl Default for Limits {
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
/// Before the next try where the system has no room for a connection.
const BREATHER: Duration = Duration::from_millis(100);

/// Serves until it is stopped.
pub(super) async fn run(
    listener: TcpListener,
    mut security: Security,
    site: Arc<Site>,
    limits: Limits,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            sleep(BREATHER).await;
            continue;
        };
        while connections.len() >= limits.connections {
            if let Some(oldest) = by_age.pop_front() {
                oldest.abort();
            }
            connections.join_next().await;
        }
        by_age.retain(|connection| !connection.is_finished());
        let (doors, site) = (security.doors(), Arc::clone(&site));
        let connection = async move { timeout(limits.whole, serve(stream, doors, site, limits)).await };
        by_age.push_back(connections.spawn(connection));
    }
    drop(listener);
    let _ = timeout(LAST_MOMENT, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves one request, and ends the connection.
async fn serve(stream: TcpStream, doors: Arc<Doors>, site: Arc<Site>, limits: Limits) {
    let _ = (stream.set_nodelay(true), set_socket_send_buffer_size(&stream, SEND_BUFFER));
    match &doors.tls {
        None => answer(TokioIo::new(stream), &doors, site, limits).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(limits.handshake, tls.accept(stream)).await {
                answer(TokioIo::new(stream), &doors, site, limits).await;
            }
        }
    }
}

async fn answer(stream: impl rt::Read + rt::Write + Unpin, doors: &Doors, site: Arc<Site>, limits: Limits) {
    let service = service_fn(|request| {
        let (site, passwords) = (Arc::clone(&site), doors.passwords.clone());
        async move { site.answer(request, passwords).await }
    });
    // One request each: then the time for a connection is the time for a request, however slowly it is read. Scrapes are
    // seconds apart.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false)
        .serve_connection(stream, service);
    // Who does not speak HTTP, or hangs up, is nobody's concern.
    let _ = connection.await;
}
