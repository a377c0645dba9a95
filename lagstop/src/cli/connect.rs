//! `--connect`: the intervals of another host.

use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use super::{Failure, connection::ConnectionArgs, say, values::positive};
use crate::{
    kernel::{Capabilities, KernelError},
    source::{Begin, ConnectOptions, Link, SourceError, Stream, connected},
};

/// Another host instead of this one.
#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Connection",
    mut_group("ConnectionArgs", |group| group.requires("connect")),
)]
pub(super) struct ConnectArgs {
    /// Read the intervals of the `lagstop serve` at URL, e.g. https://node:9185, instead of measuring this host
    #[arg(long, value_name = "URL", conflicts_with_all = ["interval", "group_by", "max_cgroups", "load_credit_time", "exclude_cpus", "hooks", "light", "btf"])]
    connect: Option<String>,

    /// With --connect: begin this long ago, or with the oldest interval that the server still has
    #[arg(long, value_name = "TIME", value_parser = positive, requires = "connect")]
    back: Option<Duration>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

impl ConnectArgs {
    pub(super) const fn is_given(&self) -> bool {
        self.connect.is_some()
    }

    /// The intervals of the named host, for `duration` from now on. They begin as `begin` says, unless `--back` was
    /// given. `None` if no host was named.
    pub(super) fn start(&self, begin: Begin, duration: Option<Duration>) -> Result<Option<Stream>, Failure> {
        Ok(self.options(begin, duration)?.map(follow).transpose()?)
    }

    /// How to get them. `None` where no host was named.
    pub(super) fn options(&self, begin: Begin, duration: Option<Duration>) -> Result<Option<ConnectOptions>, Failure> {
        let Some(url) = &self.connect else { return Ok(None) };
        let begin = self.back.map_or(begin, Begin::Ago);
        Ok(Some(ConnectOptions { connection: self.connection.to(url)?, begin, duration }))
    }

    /// Like [`Self::start`], for commands without a screen: prints when the connection breaks, and when it is back.
    pub(super) fn start_and_tell(&self, begin: Begin, duration: Option<Duration>) -> Result<Option<Stream>, Failure> {
        let stream = self.start(begin, duration)?;
        if let Some(link) = stream.as_ref().and_then(|stream| stream.link.clone()) {
            tokio::spawn(tell(link, |news| say(format_args!("lagstop: {news}\n"))));
        }
        Ok(stream)
    }
}

/// Says what changes about the connection, until there is none.
async fn tell(mut link: watch::Receiver<Link>, say: impl Fn(String)) {
    // What the server said at once may be known already.
    let mut before = Link { server: link.borrow().server.clone(), ..Link::default() };
    loop {
        let now = link.borrow_and_update().clone();
        if let Some(news) = news(&before, &now) {
            say(news);
        }
        before = now;
        if link.changed().await.is_err() {
            break;
        }
    }
}

/// What has changed, for people.
fn news(before: &Link, now: &Link) -> Option<String> {
    let server = &now.server;
    match &now.lost {
        Some(why) if before.lost != now.lost => Some(format!("connection to {server} lost: {why}. Reconnecting")),
        None if before.lost.is_some() => Some(format!("connected to {server} again")),
        _ if before.is_calm == now.is_calm => None,
        _ if now.is_calm => Some(format!("all is calm: {server} only watches files and measures nothing")),
        _ => Some(format!("{server} measures: something is wrong there")),
    }
}

/// Connects. This thread first drops all privileges except for files: what the server sends is not trusted.
pub(super) fn follow(options: ConnectOptions) -> Result<Stream, SourceError> {
    Capabilities::ANY_FILE.keep_of_held().map_err(|source| KernelError::Capabilities { source })?;
    connected(options)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// All that is said of a connection that became like each of `all`, before and after it was listened to.
    async fn said(early: Link, late: Vec<Link>) -> Vec<String> {
        let (link, mut links) = watch::channel(Link::default());
        link.send_replace(early);
        links.mark_unchanged();
        let said = Mutex::new(Vec::new());
        let change = async {
            for one in late {
                tokio::task::yield_now().await;
                link.send_replace(one);
            }
            tokio::task::yield_now().await;
            drop(link);
        };
        tokio::join!(biased; tell(links, |news| said.lock().unwrap().push(news)), change);
        said.into_inner().unwrap()
    }

    #[tokio::test]
    async fn a_server_that_was_calm_before_anybody_listened_is_said_to_be() {
        let link = |is_calm| Link { server: "https://node".to_owned(), is_calm, ..Link::default() };
        let calm = "all is calm: https://node only watches files and measures nothing";
        assert_eq!(said(link(true), vec![]).await, [calm]);
        assert_eq!(said(link(false), vec![link(false)]).await, [] as [&str; 0]);
        let all = said(link(true), vec![link(true), link(false), link(true)]).await;
        assert_eq!(all, [calm, "https://node measures: something is wrong there", calm]);
    }
}
