//! Rule: listeners whose connections wait to be accepted, and for what: for a CPU, or for a worker.
//!
//! Thesis on accept backlogs (002). It used the rate of departures as the rate of service, which gives the same wait
//! whatever the server does. Here each service is timed.

mod service;

use self::service::Service;
use super::{
    Advice, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    history::Address,
    observations::ObservedListener,
    single,
};
use crate::{
    diagnosis::queueing::Station,
    model::{CgroupId, Measure, Nanos},
    units::{self, MOSTLY, Unit},
};

figures! {
    accept_wait = MEAN_ACCEPT_WAIT, "thesis on accept backlogs (002)";
    arrivals: PerSecond, "new connections" = "established / duration_ns", COUNTED;
    accept_rate: PerSecond, "accepted connections" = "accepts / duration_ns", COUNTED;
    abandoned: Count, "abandoned before accept" = "abandoned", COUNTED;
    backlog_used: Share, "peak backlog use" = "deepest / backlog_capacity", COUNTED;
    backlog: Count, "mean backlog" = "backlogs / listed", COUNTED;
    worst_backlog: Share, "peak backlog use, all listeners" = "the largest of all listeners: deepest / capacity", COUNTED;
    all_overflows: Count, "overflows of all listeners" = "Σ ListenOverflows of all network namespaces", COUNTED;
    drops: Count, "dropped connections" = "drops", COUNTED;
    overflows: Count, "overflows in its network namespace" = "listen_overflows of the network namespace", COUNTED;
    starved: Tasks, "tasks waiting for a CPU" = "acceptor_wait_ns / duration_ns", COUNTED;
    service_time: Ns, "mean service time" = "1/μ: service_ns / services, or kept_waiting_ns / kept_waiting where the thread waits elsewhere than in accept", "from busy time, never from throughput: thesis on accept backlogs (002)";
    service_variation: Factor, "service time variation (c²)" = "variance / service_time^2 of the same services", COUNTED;
    servers: Count, "accepting threads" = "c: threads that accept", COUNTED;
    utilisation: Share, "utilisation of accepting threads" = "ρ = λ / (c·μ), λ = arrivals", "Kleinrock, Queueing Systems I, §2.1";
    wait_mmck: Ns, "modelled accept wait (M/M/c/K)" = "Lq / (λ·(1 − P_K)) of M/M/c/K, c = servers, μ = 1 / service_time, K = backlog_capacity + c", "Kleinrock, Queueing Systems I, §3.6";
    wait_ggc: Ns, "modelled accept wait (G/G/c)" = "C(c, ρ) / (c·μ − λ) · (dispersion + service_variation) / 2, c = servers, μ = 1 / service_time", "Allen–Cunneen; c_a² by the dispersion of arrivals, c_s² of the services";
    residual: Count, "residual of Little's law" = "backlog − arrivals · accept_wait", "Little's law";
    all_accepts: Count, "accepted connections" = "Σ accepts", COUNTED;
}

/// The highest recommended share of the time that servers are busy. Chosen: beyond it waits grow steeply. At one server they are
/// four services on average there, ρ / (1 − ρ) (M/M/1).
const UTILISATION: f64 = 0.8;
/// A model that differs from the measurement by more than this factor does not apply. Chosen: advice would be wrong.
const APPLIES: f64 = 2.0;
/// The largest backlog for which the formula is evaluated: its run time grows with the backlog.
const LARGEST: u64 = 100_000;
/// The largest backlog that is recommended. Chosen: a longer one only hides that too few are served.
const MOST_ROOM: u32 = 1 << 16;
/// Share of connections that may find the recommended backlog full. Chosen.
const MAY_BE_LOST: f64 = 0.001;
/// The usual `net.core.somaxconn` since Linux 5.4 (listen(2)): advice never sets less.
const USUAL_SOMAXCONN: u64 = 4_096;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let found = observations.listeners.iter().filter_map(|(&address, observed)| {
        let queue = Queue::of(observations, address, observed)?;
        let severity = queue.severity(observations, thresholds)?;
        let wait = queue.wait.map_or(0.0, |wait| wait.seconds());
        Some((wait, finding(observations, thresholds, address, &queue, severity)))
    });
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

/// What was measured of a listener's queue.
struct Queue<'a> {
    observed: &'a ObservedListener,
    accepts: u64,
    abandoned: u64,
    /// Connections that came in a second, and how unevenly.
    arrivals: Option<(f64, f64)>,
    /// Mean accept wait.
    wait: Option<Nanos>,
    /// Part of the backlog that was in use at the worst.
    used: Option<f64>,
    /// Tasks of the cgroup that accepts waiting for a CPU, on average; or why that is not known.
    starved: Result<f64, &'static str>,
    overflows: Option<u64>,
    /// How connections are served, or why that is not known.
    service: Result<Service, &'static str>,
}

/// What a formula says, beside what was measured.
struct Model {
    station: Station,
    finite: Option<Nanos>,
    loss: Option<f64>,
    general: Option<Nanos>,
}

impl Model {
    /// The mean accept wait that the model predicts.
    fn wait(&self) -> Option<Nanos> {
        self.general.or(self.finite)
    }

    /// Is the predicted wait close enough to the measured one?
    fn applies(&self, queue: &Queue<'_>) -> bool {
        self.wait().zip(queue.wait).is_some_and(|(modelled, wait)| {
            (1.0 / APPLIES..=APPLIES).contains(&(modelled.0.max(1) as f64 / wait.0.max(1) as f64))
        })
    }
}

impl<'a> Queue<'a> {
    /// `None` if nothing came and nothing waited.
    fn of(observations: &Observations, (netns, _): Address, observed: &'a ObservedListener) -> Option<Self> {
        let totals = observed.totals.unwrap_or_default();
        let deepest = observed.deepest.unwrap_or_default();
        (totals.established > 0 || deepest > 0 || observed.drops > Some(0)).then_some(())?;
        Some(Self {
            observed,
            accepts: totals.accepts,
            abandoned: totals.abandoned,
            arrivals: observed.arrivals(),
            wait: observed.mean_wait(),
            used: observed.capacity.filter(|&capacity| capacity > 0).map(|capacity| deepest as f64 / capacity as f64),
            starved: starved(observations, observed.cgroup),
            overflows: observations.overflows.get(&netns).copied().flatten(),
            service: match observed.totals.map(|_| observed.services) {
                Some(Some(services)) => Service::of(&services),
                Some(None) => Err("not in this recording"),
                None => Err("accept is not measured"),
            },
        })
    }

    /// `None` if there is no problem.
    fn severity(&self, observations: &Observations, thresholds: &Thresholds) -> Option<Severity> {
        observations.too_short(thresholds).is_none().then_some(())?;
        let used = self.used.unwrap_or_default();
        let waits =
            self.accepts >= thresholds.min_waits && self.wait.is_some_and(|wait| wait >= thresholds.accept_wait_warn);
        if used >= thresholds.backlog_critical {
            Some(Severity::Critical)
        } else if used >= thresholds.backlog_warn || waits || self.drops() >= thresholds.drops_warn.max(1) {
            Some(Severity::Warning)
        } else {
            None
        }
    }

    fn drops(&self) -> u64 {
        self.observed.drops.unwrap_or_default()
    }

    /// The share of the time in which connections wait. By Little's law, the number waiting at a time is the number
    /// that come during one wait. If none was accepted, there is no wait, so the number seen waiting is used. `None` if
    /// none was.
    fn pending(&self) -> Option<f64> {
        let little = self.arrivals.zip(self.wait).map(|((rate, _), wait)| rate * wait.seconds());
        little.or_else(|| self.observed.mean_backlog()).map(|waiting| waiting.min(1.0)).filter(|&part| part > 0.0)
    }

    /// Does the cgroup that accepts wait for a CPU for most of the time in which connections wait? `None` if that is unknown.
    fn is_starved(&self) -> Option<bool> {
        let (starved, pending) = (self.starved.ok()?, self.pending()?);
        Some(starved >= MOSTLY * pending)
    }

    /// The model in which each accepting thread is a server.
    fn model(&self) -> Option<Model> {
        let (rate, dispersion) = self.arrivals?;
        let Service { mean, variation, servers, .. } = self.service.ok()?;
        let station = Station::new(rate, mean.recip(), servers)?;
        let ns = |seconds: f64| Nanos((seconds * 1e9) as u64);
        let room = self.observed.capacity.filter(|&capacity| capacity < LARGEST);
        let finite = room.and_then(|room| station.finite(u32::try_from(room).ok()?.checked_add(servers)?));
        Some(Model {
            finite: finite.map(|finite| ns(finite.wait)),
            loss: finite.map(|finite| finite.loss),
            general: station.wait(dispersion, variation).map(ns),
            station,
        })
    }

    /// Measured waiting connections minus arrivals × their wait: 0 by Little's law.
    fn residual(&self) -> Option<f64> {
        let (rate, _) = self.arrivals?;
        Some(self.observed.mean_backlog()? - rate * self.wait?.seconds())
    }
}

/// Tasks of cgroup `id` that wait for a CPU, on average.
fn starved(observations: &Observations, id: Option<CgroupId>) -> Result<f64, &'static str> {
    match id {
        None => Err("the accepting cgroup is unknown"),
        Some(CgroupId::ROOT) => Err("the listener runs in the root cgroup (run it in its own cgroup to measure this)"),
        Some(CgroupId::OTHER) => Err("the accepting cgroup is not tracked separately"),
        Some(id) => observations
            .cgroups
            .get(&id)
            .ok_or("the accepting cgroup did not run")
            .and_then(|acceptor| acceptor.totals.runq_wait_ns.ok_or("run-queue wait was not measured"))
            .map(|wait| wait.cores(observations.span.duration_ns).0),
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (netns, address): Address,
    queue: &Queue<'_>,
    severity: Severity,
) -> Finding {
    let acceptor = queue.observed.cgroup.and_then(|id| Some((id, observations.cgroups.get(&id)?)));
    let cgroup = acceptor.map(|(id, observed)| observed.subject(id));
    let path = acceptor.map(|(_, observed)| std::sync::Arc::clone(&observed.path));
    let subject = Subject::Listener { netns, address, id: queue.observed.cgroup, path };
    let model = queue.model();
    let waits = match queue.wait {
        Some(wait) => format!("wait {wait} on average to be accepted"),
        None if queue.observed.totals.is_some_and(|totals| totals.accepts == 0) => "are not accepted".to_owned(),
        None => "wait to be accepted (time not measured)".to_owned(),
    };
    let used =
        queue.used.map(|used| format!(", with the backlog up to {} full", units::percent(used))).unwrap_or_default();
    let dropped = match queue.drops() {
        0 => String::new(),
        drops => {
            format!(", and {} {} dropped", units::count(drops), if drops == 1 { "was" } else { "were" })
        }
    };
    let who = cgroup.as_ref().map_or_else(|| "the accepting cgroup".to_owned(), ToString::to_string);
    let why = match queue.is_starved() {
        None => String::new(),
        Some(true) => format!(", because {who} waits for a CPU"),
        Some(false) => format!(", because {who} is busy with other work"),
    };
    Finding {
        rule: Rule::Backlog,
        culprits: Vec::new(),
        severity,
        verdict: format!("Connections to {subject} {waits}{used}{dropped}{why}."),
        measured: measured(observations, queue, model.as_ref()),
        threshold: [Limit::accept_wait_warn, Limit::backlog_warn, Limit::backlog_critical, Limit::drops_warn]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: basis(observations, queue.accepts).confidence(),
        caveats: caveats(queue, model.as_ref()),
        advice: advice(queue, model.as_ref(), cgroup.as_ref()),
        subject,
        cgroups: Vec::new(),
    }
}

fn measured(observations: &Observations, queue: &Queue<'_>, model: Option<&Model>) -> Vec<Figure> {
    let seconds = observations.span.duration_ns.seconds();
    let unwatched = observations.session.why_not(Measure::Accept);
    let untimed = queue.service.err().unwrap_or("there were no new connections");
    let too_many = "more connections arrive than are served, so the queue always fills";
    let no_room = match queue.observed.capacity {
        _ if model.is_none() => untimed,
        None => "sockets could not be listed, so the backlog limit is unknown",
        Some(_) => "the backlog is too long for the formula",
    };
    vec![
        figures::accept_wait.measured(queue.wait, &unwatched),
        figures::arrivals.measured(queue.arrivals.map(|(rate, _)| rate), &unwatched),
        figures::accept_rate.is(queue.accepts as f64 / seconds),
        figures::abandoned.is(queue.abandoned),
        figures::backlog_used
            .measured(queue.used, "sockets could not be listed")
            .note(queue.observed.capacity.map(|capacity| format!("of {capacity}")).unwrap_or_default()),
        figures::backlog
            .measured(queue.observed.mean_backlog(), "sockets could not be listed")
            .note("at the end of each interval"),
        figures::drops
            .measured(queue.observed.drops, "sockets could not be listed")
            .note("for any reason, including a full backlog"),
        figures::overflows.measured(queue.overflows, "not reported by the kernel").note("of all its listeners"),
        figures::starved
            .measured(queue.starved.ok(), queue.starved.err().unwrap_or_default())
            .note("in the accepting cgroup"),
        figures::service_time
            .measured(queue.service.ok().map(|service| Nanos((service.mean * 1e9) as u64)), untimed)
            .note(
                queue
                    .service
                    .map(|service| {
                        format!(
                            "of {}, from accepting one to asking for the next",
                            units::plural(service.count, "connection")
                        )
                    })
                    .unwrap_or_default(),
            ),
        figures::service_variation
            .measured(queue.service.ok().map(|service| service.variation), untimed)
            .note("variance / mean²: 0 if constant, 1 if exponential"),
        figures::utilisation
            .measured(model.map(|model| model.station.utilisation()), untimed)
            .note("ρ = λ/(c·μ), with μ from busy time only"),
        figures::servers
            .measured(queue.observed.services.map(|services| services.threads), untimed)
            .note("alive and seen accepting; the most in any interval"),
        figures::wait_mmck.measured(model.and_then(|model| model.finite), no_room).note(
            model
                .and_then(|model| model.loss)
                .map(|loss| format!("{} find the backlog full", units::percent(loss)))
                .unwrap_or_default(),
        ),
        figures::wait_ggc
            .measured(model.and_then(|model| model.general), if model.is_some() { too_many } else { untimed })
            .note(
                queue
                    .arrivals
                    .map(|(_, dispersion)| {
                        format!("Allen–Cunneen; arrivals vary {}x as much as Poisson", units::number(dispersion))
                    })
                    .unwrap_or_default(),
            ),
        figures::residual
            .measured(queue.residual(), "not all inputs were measured")
            .note("mean backlog − arrivals × wait"),
    ]
}

fn caveats(queue: &Queue<'_>, model: Option<&Model>) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Some((wait, modelled)) = queue.wait.zip(model.and_then(Model::wait))
        && !model.is_some_and(|model| model.applies(queue))
    {
        caveats.push(format!(
            "The model does not apply here (modelled wait {modelled}, measured {wait}), so no advice is based on it."
        ));
    }
    if queue.observed.sockets > Some(1) {
        caveats.push(
            "Its sockets share the address (SO_REUSEPORT) and have a queue each, but the model assumes one queue."
                .to_owned(),
        );
    }
    caveats.push("Run-queue wait covers all tasks of the cgroup, not only those that accept.".to_owned());
    caveats.push(
        "Connections count from when they are established; with TCP_DEFER_ACCEPT that is when their first data arrives."
            .to_owned(),
    );
    caveats
}

fn advice(queue: &Queue<'_>, model: Option<&Model>, cgroup: Option<&Subject>) -> Vec<Advice> {
    let whose = cgroup.map_or_else(|| "the accepting cgroup".to_owned(), ToString::to_string);
    // A model that does not fit the measurement must not recommend anything.
    let station = model.filter(|model| model.applies(queue)).map(|model| &model.station);
    let mut advice = Vec::new();
    if queue.is_starved() == Some(true) {
        advice.push(Advice::new(format!(
            "Give {whose} faster access to a CPU; more workers would only wait as well. The other findings show what it \
             waits behind."
        )));
    } else {
        advice.push(Advice::new(match station.filter(|it| it.utilisation() > UTILISATION) {
            Some(station) => {
                let workers = station.servers_for(UTILISATION);
                format!(
                    "Increase the workers in {whose} from {} to {workers}: at the same speed, they would be busy {} \
                     of the time.",
                    station.servers,
                    units::percent(station.offered() / f64::from(workers))
                )
            }
            None => match queue.starved {
                Err(why) => format!(
                    "Find out first whether the accepting threads wait for a CPU or are busy with other work. This is \
                     unknown here: {why}."
                ),
                Ok(_) => format!(
                    "Check what the workers of {whose} do before they accept again. More workers, or a dedicated \
                     accepting thread, help if they wait for something else."
                ),
            },
        }));
    }
    if queue.used.is_some_and(|used| used >= 1.0) || queue.drops() > 0 {
        advice.push(room(queue, station));
    }
    advice
}

/// How long the backlog should be: so long that hardly any connections are lost by the formula, and at least twice as
/// long as now, up to [`MOST_ROOM`].
fn room(queue: &Queue<'_>, station: Option<&Station>) -> Advice {
    let now = queue.observed.capacity.unwrap_or_default();
    if let Some(seconds) = station.and_then(|it| it.fills_in(u32::try_from(now).unwrap_or(u32::MAX))) {
        return Advice::new(format!(
            "Do not lengthen the backlog: more connections arrive than are served, and the present one fills in {}.",
            Unit::Seconds.show(seconds)
        ));
    }
    let twice = now.saturating_mul(2);
    let modelled = station.and_then(|station| station.room_for(MAY_BE_LOST, MOST_ROOM)).map_or(0, u64::from);
    let room = twice.max(modelled).checked_next_power_of_two().unwrap_or(twice).min(u64::from(MOST_ROOM));
    let by_formula = if modelled == 0 {
        String::new()
    } else {
        format!(" (by M/M/c/K, {modelled} would reject {} of evenly arriving connections)", units::percent(MAY_BE_LOST))
    };
    Advice::new(format!(
        "Raise the backlog to {room} so that bursts fit{by_formula}: change the second argument of listen(2), which \
         this limit caps."
    ))
    .command(format!("sudo sysctl net.core.somaxconn={}", room.max(USUAL_SOMAXCONN)))
}

fn basis(observations: &Observations, accepts: u64) -> Basis {
    let lost = observations.host.as_ref().map(|host| host.lost).unwrap_or_default();
    Basis {
        intervals: observations.span.intervals,
        samples: accepts,
        samples_are: "accepted connections",
        agreeing: None,
        lost: lost
            .connections
            .saturating_add(lost.accepts)
            .saturating_add(lost.listener_overflows)
            .saturating_add(lost.acceptors),
    }
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let listeners = observations.listeners.len() as u64;
    let accepts = observations
        .listeners
        .values()
        .filter_map(|listener| Some(listener.totals?.accepts))
        .fold(0, u64::saturating_add);
    let used = observations
        .listeners
        .values()
        .filter_map(|it| Some(it.deepest? as f64 / it.capacity.filter(|&of| of > 0)? as f64));
    let used = used.reduce(f64::max);
    let overflows = observations.overflows.values().copied().flatten().reduce(u64::saturating_add);
    let watched = observations.listeners.values().any(|listener| listener.totals.is_some());
    let (severity, verdict) = match observations.too_short(thresholds) {
        Some(too_short) => (Severity::NotEnoughData, format!("Cannot judge accept waits: {too_short}.")),
        None if listeners > 0
            && !watched
            && observations.listeners.values().all(|listener| listener.deepest.is_none()) =>
        {
            let why = observations.session.why_not(Measure::Accept);
            (Severity::NotEnoughData, format!("Cannot judge accept waits: they are {why}."))
        }
        None if listeners == 0 => (Severity::Ok, "No TCP listener was active.".to_owned()),
        None => (
            Severity::Ok,
            format!("Connections are accepted quickly ({} measured).", units::plural(listeners, "listener")),
        ),
    };
    single::healthy(
        Rule::Backlog,
        (severity, verdict),
        vec![
            figures::all_accepts.is(accepts),
            figures::worst_backlog.measured(used, "sockets could not be listed"),
            figures::all_overflows.measured(overflows, "not reported by the kernel"),
        ],
        thresholds.state(Limit::accept_wait_warn),
        basis(observations, accepts).confidence(),
    )
}

#[cfg(test)]
mod tests;
