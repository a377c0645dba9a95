//! Watches files while all is calm, and measures while something is wrong.

use std::{
    fmt,
    sync::{Arc, mpsc as blocking},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

use super::{
    Looks, Order, SourceError, Stop, Stream,
    beat::{Beat, Course, Readings, WAITING, guarded},
    live::{Collector, Leave, LiveOptions, NICE},
};
use crate::{
    host::{Hierarchy, SignWatch, Signs},
    kernel::{Capabilities, Capability, Facts, KernelError},
    model::{Interval, Measure, Session, Snapshot},
    units::whole_percent,
};

/// From which signs on programs are attached. Lower ones let them be detached again.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limits {
    /// See [`Signs::pressure`].
    pressure: f64,
    /// See [`Signs::throttled`].
    throttled: f64,
    /// See [`Signs::waiting`].
    waiting: f64,
}

const LIMITS: Limits = Limits { pressure: 0.1, throttled: 0.05, waiting: 0.5 };
/// How often files are read, unless intervals are longer.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How it went until now.
#[derive(Clone, Debug, Default)]
pub struct SentinelState {
    pub is_attached: bool,
    /// How long none were,
    pub watching: Duration,
    /// and how long some were.
    pub measuring: Duration,
    /// How often they were attached.
    pub attached: u64,
    /// What was seen last.
    pub signs: Signs,
    /// Why they were attached the last time, for people.
    pub why: Option<Arc<str>>,
}

/// Why programs are attached.
#[derive(Clone, Debug, PartialEq)]
enum Reason {
    Pressure(f64, Arc<str>),
    Throttled(f64, Arc<str>),
    Waiting(f64, u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pressure(share, path) => {
                write!(f, "tasks of {path} waited {} of the time (PSI)", whole_percent(*share))
            }
            Self::Throttled(share, path) => {
                write!(f, "{path} used up its quota in {} of its periods", whole_percent(*share))
            }
            Self::Waiting(tasks, cpu) => write!(f, "{tasks:.1} tasks waited for CPU {cpu} on average"),
        }
    }
}

impl Limits {
    /// The sign that is furthest beyond its limit.
    fn reason(self, signs: &Signs) -> Option<Reason> {
        let beyond = |share: f64, limit: f64| (share >= limit).then_some(share / limit);
        let pressure = signs.pressure.as_ref().and_then(|(share, path)| {
            Some((beyond(*share, self.pressure)?, Reason::Pressure(*share, Arc::clone(path))))
        });
        let throttled = signs.throttled.as_ref().and_then(|(share, path)| {
            Some((beyond(*share, self.throttled)?, Reason::Throttled(*share, Arc::clone(path))))
        });
        let waiting =
            signs.waiting.and_then(|(tasks, cpu)| Some((beyond(tasks, self.waiting)?, Reason::Waiting(tasks, cpu))));
        let worst = [pressure, throttled, waiting].into_iter().flatten().max_by(|one, other| one.0.total_cmp(&other.0));
        worst.map(|(_, reason)| reason)
    }
}

/// Measures only while files tell that something is wrong, and for `linger` after that: see [`SentinelState`].
///
/// # Errors
/// When this kernel or this process cannot.
pub fn sentinel(options: LiveOptions, linger: Duration) -> Result<Stream, SourceError> {
    start(options, linger, Capabilities::keep_only)
}

/// The same for who talks to strangers, as [`live_as_nobody`](super::live_as_nobody).
///
/// # Errors
/// When this kernel or this process cannot.
pub fn sentinel_as_nobody(options: LiveOptions, linger: Duration) -> Result<Stream, SourceError> {
    start(options, linger, Capabilities::keep_as_nobody)
}

/// Attaches once, to see that it can. This thread and the one that watches `leave` what capabilities neither needs.
fn start(options: LiveOptions, linger: Duration, leave: Leave) -> Result<Stream, SourceError> {
    let (sender, intervals) = mpsc::channel(WAITING);
    let (stop, orders) = Stop::new();
    let (teller, told) = watch::channel(SentinelState::default());
    let (begins, begun) = blocking::channel();
    let hierarchy = Hierarchy::find(options.group_by)?;
    let held = Capabilities::held();
    let keep = move |needed: Capabilities| leave(needed).map_err(|source| KernelError::Capabilities { source });
    let watched = Hierarchy::clone(&hierarchy);
    thread::spawn(move || {
        // As in `live`: it has to be on time where others are not.
        let _ = rustix::process::setpriority_process(None, NICE);
        // As whoever it will be each time.
        let begin = || -> Result<(Session, Course, Sentinel), SourceError> {
            keep(needed(&options))?;
            // Reading the kernel's types is most of what attaching takes: once is enough.
            let mut facts = Facts::probe(options.btf.as_deref());
            let mut collector = Collector::start(&mut facts, &options)?;
            let session = collector.session(&options)?;
            let course = Course::since(collector.last().at);
            let watch = SignWatch::new(watched)?;
            let (watched, last_look) = (SentinelState::default(), Instant::now());
            Ok((session, course, Sentinel { options, facts, linger, watch, watched, teller, last_look }))
        };
        match begin() {
            Err(error) => drop(begins.send(Err(error))),
            Ok((session, course, sentinel)) => {
                let _ = begins.send(Ok(session));
                guarded(&sender, || sentinel.run(course, &orders, &sender));
            }
        }
    });
    let session = begun.recv().map_err(|_| SourceError::Died)??;
    keep(Capabilities::NONE.with(Capability::DacReadSearch).among(held))?;
    let looks = Some(Looks::start(hierarchy));
    Ok(Stream { session, intervals, stop, looks, watched: Some(told), link: None })
}

/// What attaching and reading take, again and again.
fn needed(options: &LiveOptions) -> Capabilities {
    let needed = Capabilities::NONE
        .with(Capability::Bpf)
        .with(Capability::Perfmon)
        .with(Capability::DacReadSearch)
        .with(Capability::SysResource);
    let with_sockets = needed.with(Capability::SysPtrace).with(Capability::SysAdmin);
    let sees_sockets = !options.wishes.switches_off(Measure::TcpState);
    if sees_sockets { with_sockets } else { needed }.among(Capabilities::held())
}

struct Sentinel {
    options: LiveOptions,
    facts: Facts,
    /// For how long nothing must have been wrong before programs are detached.
    linger: Duration,
    watch: SignWatch,
    watched: SentinelState,
    teller: watch::Sender<SentinelState>,
    last_look: Instant,
}

impl Sentinel {
    /// Runs until it is stopped, the time is up, or nobody listens.
    fn run(
        mut self,
        mut course: Course,
        orders: &blocking::Receiver<Order>,
        intervals: &mpsc::Sender<Result<Interval, SourceError>>,
    ) {
        let end = self.options.duration.map(|duration| Instant::now() + duration);
        self.tell(false);
        while self.is_calm_until_something_is_wrong(end, orders, intervals) {
            let LiveOptions { interval, load_credit_time, .. } = self.options;
            let duration = end.map(|end| end.saturating_duration_since(Instant::now()));
            let beat = Beat { interval, duration, load_credit_time };
            let over = match Collector::start(&mut self.facts, &self.options) {
                Err(error) => Err(error),
                Ok(collector) => {
                    self.tell(true);
                    let measuring = Measuring { collector, sentinel: &mut self, calm_since: None };
                    Ok(beat.run(measuring, &mut course, orders, intervals))
                }
            };
            match over {
                Ok(true) => self.tell(false),
                Ok(false) => return,
                Err(error) => {
                    let _ = intervals.blocking_send(Err(error));
                    return;
                }
            }
        }
    }

    /// Watches. Gives whether there is something to measure.
    fn is_calm_until_something_is_wrong(
        &mut self,
        end: Option<Instant>,
        orders: &blocking::Receiver<Order>,
        intervals: &mpsc::Sender<Result<Interval, SourceError>>,
    ) -> bool {
        loop {
            let next = self.last_look + self.options.interval.max(LOOK_EVERY);
            let until = end.map_or(next, |end| end.min(next));
            match orders.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(blocking::RecvTimeoutError::Timeout) if end.is_none_or(|end| Instant::now() < end) => {}
                // There is no interval to end.
                Ok(Order::Read) => continue,
                _ => return false,
            }
            match self.look() {
                Ok(None) => self.tell(false),
                Ok(Some(reason)) => {
                    self.watched.why = Some(reason.to_string().into());
                    return true;
                }
                Err(error) => {
                    let _ = intervals.blocking_send(Err(error));
                    return false;
                }
            }
            if intervals.is_closed() {
                return false;
            }
        }
    }

    fn look(&mut self) -> Result<Option<Reason>, SourceError> {
        let passed = std::mem::replace(&mut self.last_look, Instant::now()).elapsed();
        let SentinelState { is_attached, watching, measuring, signs, .. } = &mut self.watched;
        *if *is_attached { measuring } else { watching } += passed;
        *signs = self.watch.look()?;
        Ok(LIMITS.reason(signs))
    }

    fn tell(&mut self, is_attached: bool) {
        if is_attached && !self.watched.is_attached {
            self.watched.attached += 1;
        }
        self.watched.is_attached = is_attached;
        self.teller.send_replace(self.watched.clone());
    }
}

/// The kernel while something is wrong.
struct Measuring<'s> {
    collector: Collector,
    sentinel: &'s mut Sentinel,
    /// Since when nothing is wrong.
    calm_since: Option<Instant>,
}

impl Readings for Measuring<'_> {
    fn read(&mut self) -> Result<Snapshot, SourceError> {
        self.collector.read()
    }

    fn last(&mut self) -> &mut Snapshot {
        self.collector.last()
    }

    fn goes_on(&mut self) -> Result<bool, SourceError> {
        if self.sentinel.last_look.elapsed() < LOOK_EVERY {
            return Ok(true);
        }
        let is_calm = self.sentinel.look()?.is_none();
        self.sentinel.tell(true);
        if !is_calm {
            self.calm_since = None;
            return Ok(true);
        }
        Ok(self.calm_since.get_or_insert_with(Instant::now).elapsed() < self.sentinel.linger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_furthest_beyond_its_limit_is_the_reason() {
        let calm = Signs {
            pressure: Some((0.09, "/a".into())),
            throttled: Some((0.04, "/b".into())),
            waiting: Some((0.49, 3)),
            left_out: 0,
        };
        assert_eq!(LIMITS.reason(&calm), None);
        assert_eq!(LIMITS.reason(&Signs::default()), None);
        let pressed = Signs { pressure: Some((0.2, "/a".into())), ..calm.clone() };
        assert_eq!(LIMITS.reason(&pressed), Some(Reason::Pressure(0.2, "/a".into())));
        let throttled = Signs { throttled: Some((1.0, "/b".into())), ..pressed };
        let reason = LIMITS.reason(&throttled).unwrap();
        assert_eq!(reason.to_string(), "/b used up its quota in 100 % of its periods");
        let waiting = Signs { waiting: Some((1.5, 3)), ..calm };
        assert_eq!(LIMITS.reason(&waiting).unwrap().to_string(), "1.5 tasks waited for CPU 3 on average");
    }
}
