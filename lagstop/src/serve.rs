//! The HTTP server of `lagstop serve`. It knows nothing of measuring: it serves the last snapshot that was published, and the
//! intervals that were fed to it.
//!
//! Whoever connects is trusted with nothing. Each connection is one request and has a limited time for it; there is a limited
//! number of them, and where more come, whoever has most of them makes room. Those that follow the intervals stay, in places of
//! their own: they end where they take nothing, lag too far behind, or would not be let in any more. What is sent to all of them is encoded once for
//! each interval and format, and slow readers share it. Passwords are tried one at a time, and not often, and so are handshakes
//! of TLS. The server has a thread of its own, so that nothing of this can hold up a reading. All else on the host goes first,
//! and it may do nothing but read the files that say who is let in.

mod chunks;
mod connections;
mod feed;
mod live;
mod names;
mod negotiation;
mod pace;
mod page;
mod pages;
mod passwords;
mod peer;
mod pieces;
mod places;
mod query;
mod response_cache;
mod security;
mod stall;
mod web_config;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

pub use connections::ConnectionLimits;
pub use feed::{Feed, Feeder};
pub use page::{PageMoment, Watcher, schema};
pub use passwords::NoRandomNumbers;
pub use pieces::Pieces;
pub use security::{Reloaded, Security};
#[doc(hidden)]
pub use web_config::check_web_config;
pub use web_config::{Mistake, WebConfigError};

use self::{pages::Site, places::Places};
use crate::{kernel::Capabilities, metrics::MetricsSnapshot};

/// A snapshot, and when it was made.
#[derive(Clone, Debug)]
pub struct Published {
    pub snapshot: Arc<MetricsSnapshot>,
    /// When its last interval ended.
    pub at: Instant,
}

/// Where snapshots are published. `None` before the first.
pub type Publisher = watch::Sender<Option<Published>>;

#[derive(Clone, Debug)]
pub struct Offered {
    pub metrics: watch::Receiver<Option<Published>>,
    pub intervals: Arc<Feed>,
    /// What makes the figures of the page. `None` where there is none.
    pub page: Option<Arc<Watcher>>,
}

#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    pub limits: ConnectionLimits,
    /// How old a snapshot may be for the server to call itself ready.
    pub fresh_for: Duration,
    /// How old it is where reading hangs, and lagstop has to be started anew.
    pub hangs_after: Duration,
}

/// A server at work, on a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// Threads for what takes long: encoding, and trying passwords.
const THREADS: usize = 2;
/// Niceness of all of them. Whoever connects says how much there is to do, and the host has its own work.
const NICE: i32 = 10;

impl Server {
    /// Starts to serve what is offered, to whom `security` lets in.
    ///
    /// # Errors
    /// When the system has no more threads or files for it.
    pub fn start(
        listener: TcpListener,
        security: Security,
        offered: Offered,
        options: ServeOptions,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let places = Places::new(options.limits.followers, options.limits.followers_of_one);
        let site = Arc::new(Site::new(offered, places, options.fresh_for, options.hangs_after));
        let thread = thread::Builder::new().name("serve".to_owned()).spawn(move || {
            // Told also when this thread dies.
            let _ending = ending;
            if confine(security.needs()).is_err() {
                // Strangers are not let near more than that.
                return;
            }
            runtime.block_on(connections::run(listener, security, site, options.limits, stopped));
            // A password that is being tried does not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, stop: Some(stop), ended, thread: Some(thread) })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for its end, which nobody asked for.
    pub async fn died(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Ends it: nobody is let in any more, and those who are in have a moment left.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Leaves this thread, and those that it starts, with what it needs.
fn confine(needs: Capabilities) -> io::Result<()> {
    // To be less urgent is always allowed.
    let _ = rustix::process::setpriority_process(None, NICE);
    needs.keep_of_held()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
