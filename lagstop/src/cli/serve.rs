//! `lagstop serve`

use std::{
    net::{Ipv6Addr, SocketAddr, TcpListener},
    num::NonZeroU32,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use clap::Args as ClapArgs;
use globset::{Glob, GlobSetBuilder};
use humantime::format_duration;
use tokio::sync::watch;

use super::{
    Failure, behind, block_on,
    config::Config,
    listen,
    measure::MeasureArgs,
    say,
    sentinel::{SentinelArgs, watching},
    values::{glob, positive},
};
use crate::{
    display::plain,
    metrics::{Accumulator, MetricsSettings, MetricsSnapshot},
    model::{Cgroup, Nanos, Session},
    serve::{ConnectionLimits, Feeder, Offered, Pieces, Published, Security, ServeOptions, Server, Watcher},
    source::{SentinelState, changed},
};

const EXAMPLES: &str = "\
Examples:
  lagstop serve
  curl http://127.0.0.1:9185/metrics
  lagstop serve --listen :9185 --web-config web.yml
                                       Listen on all addresses, with TLS and passwords
  lagstop serve --cgroups '/kubepods*' --top 200
                                       Separate series for the 200 busiest pods' cgroups
  lagstop serve --light --interval 15s    Lower overhead, always measuring
  lagstop serve --sentinel                Attach nothing while all is calm

docs/metrics.md lists every metric and its source, and describes the web configuration.";

/// Default length of an interval.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, ClapArgs)]
#[command(
    after_help = EXAMPLES,
    mut_arg("interval", |interval| interval.help(format!(
        "Length of an interval; a scrape gets the last complete one [default: {}]",
        format_duration(INTERVAL),
    )))
)]
pub(super) struct Args {
    /// Address and port to listen on; :9185 means all addresses of the host
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9185", value_parser = address)]
    listen: SocketAddr,

    /// Read TLS, client certificate and password settings from FILE, in the format of Prometheus exporters
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,

    /// Export separate series only for cgroups whose path or name matches GLOB (repeatable). The rest are summed as other
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    cgroups: Vec<Glob>,

    /// Export separate series for at most this many cgroups: those with the most CPU time, waits and switches. The rest are
    /// summed as other
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    top: usize,

    /// How long to keep exporting a cgroup after it last ran
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive)]
    expire: Duration,

    /// Measure the cost of switches in one of NUMBER intervals, chosen at random, and estimate it in the others. With 1, measure it
    /// in every interval
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    cost_sampling: u32,

    /// Serve no web page at / and none of its figures; metrics and intervals only
    #[arg(long)]
    no_page: bool,

    #[command(flatten)]
    sentinel: SentinelArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// An address and a port. Without an address it is all addresses of the host.
fn address(text: &str) -> Result<SocketAddr, String> {
    let everywhere = || text.strip_prefix(':')?.parse().ok().map(|port: u16| (Ipv6Addr::UNSPECIFIED, port).into());
    text.parse()
        .ok()
        .or_else(everywhere)
        .ok_or_else(|| "write it as 127.0.0.1:9185, [::1]:9185, or :9185 for all addresses of the host".to_owned())
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    // What can be refused is checked before anything is attached.
    let settings = args.settings()?;
    let security = args.security()?;
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        format!("cannot listen on {}: {}. Choose another address or port with --listen", args.listen, plain(&error))
    })?;
    block_on(serve(args, config, settings, security, listener))
}

async fn serve(
    args: &Args,
    config: &Config,
    settings: MetricsSettings,
    security: Security,
    listener: TcpListener,
) -> Result<(), Failure> {
    let mut endings = listen()?;
    let cost_sampling = NonZeroU32::new(args.cost_sampling).unwrap_or(NonZeroU32::MIN);
    let mut stream = args.measure.start_every(INTERVAL, cost_sampling, args.sentinel.linger(), &config.measure)?;
    let mut accumulator = Accumulator::new(&stream.session, settings);
    let mut feeder = Feeder::new(&stream.session)?;
    let (publisher, metrics) = watch::channel(None);
    let page = (!args.no_page).then(|| Watcher::new(feeder.feed(), &config.thresholds.0));
    let offered = Offered { metrics, intervals: feeder.feed(), page: page.clone() };
    let options = ServeOptions {
        limits: ConnectionLimits::default(),
        fresh_for: fresh_for(&stream.session),
        hangs_after: hangs_after(&stream.session),
    };
    let mut told = Told { is_attached: false, encrypted: security.is_encrypted(), open: security.is_open() };
    let failed = |error| format!("cannot start the server: {}", plain(&error));
    let mut server = Server::start(listener, security, offered, options).map_err(failed)?;
    told.tell(server.address(), &stream.session);
    let mut watched = stream.watched.take();
    let mut pieces = Pieces::of(&stream.session);
    loop {
        let interval = tokio::select! {
            biased;
            () = endings.wait() => break,
            // An interval that was measured before a calm time must be handled before it.
            interval = stream.intervals.recv() => interval,
            Some(now) = changed(&mut watched) => {
                told.watched(&now);
                if now.is_attached {
                    pieces.resume();
                } else {
                    if let Some(rest) = pieces.pause() {
                        feeder.add(&rest)?;
                    }
                    feeder.calm()?;
                    page.iter().for_each(|page| page.calm());
                }
                accumulator.watched(now);
                publish(&publisher, &accumulator);
                continue;
            }
            () = pieces.due() => {
                if pieces.ask(page.as_ref().is_some_and(|page| page.is_looked_at())) {
                    stream.stop.read_now();
                }
                continue;
            }
            () = server.died() => {
                return Err("serving ended because of a bug in lagstop. Please report it with the message above".into());
            }
        };
        let Some(interval) = interval else { break };
        let (piece, whole) = pieces.add(accumulator.complete(interval?));
        accumulator.add(&piece);
        if let Some(whole) = whole {
            feeder.add(&whole)?;
        }
        // Afterwards: whoever comes in between finds it in the feed, and is not shown it twice.
        page.iter().for_each(|page| page.show(&piece));
        publish(&publisher, &accumulator);
    }
    stream.stop.stop();
    server.stop();
    Ok(())
}

fn publish(publisher: &watch::Sender<Option<Published>>, accumulator: &Accumulator) {
    let snapshot = MetricsSnapshot { taken_in: unix_now(), ..accumulator.snapshot() };
    publisher.send_replace(Some(Published { snapshot: snapshot.into(), at: Instant::now() }));
}

fn unix_now() -> Nanos {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since_1970)
}

/// Without an interval for this long, something is wrong.
fn fresh_for(session: &Session) -> Duration {
    const PATIENCE: Duration = Duration::from_secs(10);
    Duration::from_nanos(session.interval_ns.0).saturating_mul(3).saturating_add(PATIENCE)
}

/// Without an interval for this long, a reading hangs and only a restart helps. A crowded host is late, but not by that
/// much.
fn hangs_after(session: &Session) -> Duration {
    const LEAST: Duration = Duration::from_secs(30);
    Duration::from_nanos(session.interval_ns.0).saturating_mul(10).max(LEAST)
}

impl Args {
    fn settings(&self) -> Result<MetricsSettings, Failure> {
        let globs = self.cgroups.iter().fold(GlobSetBuilder::new(), |mut globs, glob| {
            globs.add(glob.clone());
            globs
        });
        let (globs, all) = (globs.build()?, self.cgroups.is_empty());
        let is_wanted = move |cgroup: &Cgroup| all || globs.is_match(&*cgroup.path) || globs.is_match(&*cgroup.name);
        let expiry = Nanos::from(self.expire);
        Ok(MetricsSettings { is_wanted: Box::new(is_wanted), top: self.top, expiry })
    }

    fn security(&self) -> Result<Security, Failure> {
        let Some(file) = &self.web_config else { return Ok(Security::none()) };
        let tell = |reloaded: &_| say(format_args!("lagstop: {reloaded}\n"));
        Ok(Security::read(file, tell)?)
    }
}

/// What is printed for the person who started it.
struct Told {
    /// Were programs attached at the last report of a sentinel?
    is_attached: bool,
    encrypted: bool,
    open: bool,
}

impl Told {
    fn watched(&mut self, now: &SentinelState) {
        if std::mem::replace(&mut self.is_attached, now.is_attached) != now.is_attached {
            say(format_args!("lagstop: {}\n", watching(now)));
        }
    }

    fn tell(&self, address: SocketAddr, session: &Session) {
        let scheme = if self.encrypted { "https" } else { "http" };
        say(format_args!("serving {scheme}://{address}/metrics (Ctrl-C ends){}\n", behind(session.not_measured())));
        if self.open && !address.ip().is_loopback() {
            say(format_args!(
                "lagstop: any client that reaches {address} can read the names and the load of everything on this host. Use \
                 --web-config FILE to require passwords or certificates\n"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(flags: &[&str]) -> Args {
        Command::try_parse_from(["serve"].iter().chain(flags)).unwrap().args
    }

    #[test]
    fn an_address_may_be_every_one() {
        assert_eq!(args(&[]).listen, ([127, 0, 0, 1], 9185).into());
        assert_eq!(args(&["--listen", ":80"]).listen, (Ipv6Addr::UNSPECIFIED, 80).into());
        assert!(Command::try_parse_from(["serve", "--listen", "localhost"]).is_err());
    }

    #[test]
    fn reading_hangs_long_after_it_is_late() {
        let session = |seconds: u64| Session { interval_ns: Nanos(seconds * Nanos::SECOND.0), ..Session::default() };
        for (interval, expected) in [(1, 30), (5, 50), (60, 600)] {
            let session = session(interval);
            assert_eq!(hangs_after(&session), Duration::from_secs(expected));
            assert!(hangs_after(&session) > fresh_for(&session));
        }
    }

    #[test]
    fn cgroups_are_wanted_by_path_or_name() {
        let cgroup = |path: &str, name: &str| Cgroup { path: path.into(), name: name.into(), ..Cgroup::default() };
        let is_wanted = args(&["--cgroups", "/kubepods*", "--cgroups", "*shop*"]).settings().unwrap().is_wanted;
        assert!(is_wanted(&cgroup("/kubepods/x", "x")) && is_wanted(&cgroup("/y", "shop/web")));
        assert!(!is_wanted(&cgroup("/system.slice", "system.slice")));
        let all = args(&[]).settings().unwrap().is_wanted;
        assert!(all(&cgroup("/", "/")));
    }
}
