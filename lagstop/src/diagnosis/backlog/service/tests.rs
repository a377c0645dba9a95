use lagstop_ebpf::Acceptor;

use super::*;
use crate::{model::Nanos, random::Random};

/// How a simulated thread waits for connections.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// In `accept(2)`.
    InAccept,
    /// In `poll(2)`; it asks when it is told that there is a connection.
    InPoll,
    /// In `accept(2)`, which is not seen before it has one.
    Unseen,
}

/// Serves connections that come at random in the order in which they came, by threads that the kernel's own rule watches.
/// Times are in milliseconds: services of 10 on average, as many as `servers` at the share `load` of their time.
fn simulated(seed: u64, load: f64, servers: usize, waits: Waits, service: fn(&mut Random) -> f64) -> (Services, f64) {
    const CONNECTIONS: u32 = 40_000;
    const MEAN: f64 = 10.0;
    let ns = |ms: f64| (ms * 1e6) as u64 + 1;
    let (mut arriving, mut serving) = (Random::new(seed, 1), Random::new(seed, 2));
    let mut services = Services { threads: servers as u64, ..Services::NONE };
    // Until when each is busy, and what is kept about it.
    let mut threads: Vec<(f64, Acceptor)> = vec![(0.0, bytemuck::Zeroable::zeroed()); servers];
    let mut now = 0.0;
    for _ in 0..CONNECTIONS {
        now += arriving.exponential() * MEAN / load / servers as f64;
        // The one that has been free for longest, or is free next, has it.
        let (free, acceptor) = threads.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let begins = free.max(now);
        acceptor.asked_ns = match waits {
            Waits::InAccept => ns(*free),
            Waits::InPoll => ns(begins),
            Waits::Unseen => 0,
        };
        if let Some(served) = acceptor.service(ns(now), ns(begins)) {
            add(&mut services.all, served.ns);
            if served.kept_waiting {
                add(&mut services.kept_waiting, served.ns);
            }
            services.found_none += u64::from(served.found_none);
        }
        acceptor.accepted_ns = ns(begins);
        *free = begins + MEAN * service(&mut serving);
    }
    (services, f64::from(CONNECTIONS) / (now / 1e3))
}

fn add(times: &mut Times, ns: u64) {
    let us = ns / 1_000;
    *times = Times {
        count: times.count + 1,
        time_ns: times.time_ns.saturating_add(Nanos(ns)),
        squares_us2: times.squares_us2 + us * us,
    };
}

const SEEDS: std::ops::Range<u64> = 0..5;
const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];

/// ρ as the finding has it.
fn utilisation(of: &(Services, f64)) -> Result<f64, &'static str> {
    let (services, arrivals) = of;
    let service = Service::of(services)?;
    Ok(crate::diagnosis::queueing::Station::new(*arrivals, service.mean.recip(), service.servers)
        .unwrap()
        .utilisation())
}

fn assert_true(servers: usize, waits: Waits, service: fn(&mut Random) -> f64) {
    for (seed, load) in SEEDS.flat_map(|seed| LOADS.map(|load| (seed, load))) {
        let measured = utilisation(&simulated(seed, load, servers, waits, service)).unwrap();
        assert!((measured - load).abs() <= 0.05, "{servers} servers at {load}: {measured}");
    }
}

#[test]
fn one_server_is_as_busy_as_it_is_however_it_waits() {
    for waits in [Waits::InAccept, Waits::InPoll, Waits::Unseen] {
        assert_true(1, waits, Random::exponential);
    }
}

#[test]
fn several_servers_that_wait_in_accept_are_as_busy_as_they_are() {
    assert_true(3, Waits::InAccept, Random::exponential);
}

/// Squared coefficients of variation of 0, and of 5.05: one in eleven takes ten times as long as the others, on
/// average.
#[test]
fn it_does_not_matter_how_uneven_services_are() {
    let uneven: fn(&mut Random) -> f64 = |random| random.exponential() * if random.below(11) == 0 { 5.5 } else { 0.55 };
    for (service, variation) in [(uneven, 5.05), (|_: &mut Random| 1.0, 0.0)] {
        for servers in [1, 3] {
            assert_true(servers, Waits::InAccept, service);
            let (services, _) = simulated(1, 0.7, servers, Waits::InAccept, service);
            let measured = Service::of(&services).unwrap().variation;
            assert!((measured - variation).abs() < 0.5, "{measured}");
        }
    }
}

/// Of several that are told of connections it is not seen when they are free: nothing is said, or what is true.
#[test]
fn several_servers_that_wait_elsewhere_are_not_guessed_at() {
    for waits in [Waits::InPoll, Waits::Unseen] {
        for (seed, load) in SEEDS.flat_map(|seed| LOADS.map(|load| (seed, load))) {
            let measured = utilisation(&simulated(seed, load, 3, waits, Random::exponential));
            assert!(measured == Err(ELSEWHERE), "{load}: {measured:?}");
        }
        // Overloaded: nobody is ever free.
        let measured = utilisation(&simulated(1, 1.3, 3, waits, Random::exponential)).unwrap();
        assert!((measured - 1.3).abs() < 0.05, "{measured}");
    }
}

#[test]
fn what_is_not_known_is_not_said() {
    let times = |count| Times { count, time_ns: Nanos(count * 1_000_000), squares_us2: count * 1_000_000 };
    let one = Services { threads: 1, found_none: 20, all: times(30), ..Services::NONE };
    let expected = Service { mean: 0.001, variation: 0.0, count: 30, servers: 1 };
    assert_eq!(Service::of(&one), Ok(expected));
    for (services, why) in [
        (Services { threads: 0, ..one }, "the accepting threads have exited"),
        (Services { strayed: 1, ..one }, "the accepting threads also serve other ports"),
        (Services { all: times(29), ..one }, TOO_FEW),
        (Services { found_none: 0, kept_waiting: times(29), ..one }, TOO_FEW),
        (Services { all: Times { time_ns: Nanos::ZERO, ..times(30) }, ..one }, "the measured service time is zero"),
    ] {
        assert_eq!(Service::of(&services), Err(why));
    }
}
