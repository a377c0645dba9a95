//! Queues in theory: how long a wait should be. Pure formulas. Rates are per unit of time, whichever the caller takes.
//!
//! The rate of service is 1 / the time that a service takes, which is busy time. With the rate of departures instead, ρ
//! is 1 whatever the server does, and the wait means nothing.

/// Customers that come to servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// λ: customers that come in a unit of time.
    pub arrivals: f64,
    /// μ: customers that one busy server serves in a unit of time.
    pub service: f64,
    /// c: servers.
    pub servers: u32,
}

/// What is to be expected of a queue that has an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finite {
    /// The share of customers that find it full.
    pub loss: f64,
    /// Customers that wait on average.
    pub waiting: f64,
    /// How long one that was let in waits on average.
    pub wait: f64,
}

impl Station {
    /// `None` for values that no queue can have.
    pub fn new(arrivals: f64, service: f64, servers: u32) -> Option<Self> {
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        let station = Self { arrivals, service, servers };
        (is_rate(arrivals) && is_rate(service) && servers > 0 && is_rate(station.offered())).then_some(station)
    }

    /// a = λ/μ: servers that would be busy if there were enough.
    pub fn offered(&self) -> f64 {
        self.arrivals / self.service
    }

    /// ρ = a/c: from 1 on, the queue grows without end.
    pub fn utilisation(&self) -> f64 {
        self.offered() / f64::from(self.servers)
    }

    /// M/M/c/K: the queue has room for `capacity` customers, those in service included. `None` where that is fewer than
    /// there are servers.
    ///
    /// The weights of the states are taken by their logarithms, which neither overflow nor vanish whatever c and K are.
    pub fn finite(&self, capacity: u32) -> Option<Finite> {
        if capacity < self.servers {
            return None;
        }
        let step = self.offered().ln();
        let mut log_weight = 0.0;
        let log_weights: Vec<f64> = std::iter::once(0.0)
            .chain((1..=capacity).map(|n| {
                log_weight += step - f64::from(n.min(self.servers)).ln();
                log_weight
            }))
            .collect();
        let most = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let loss = weights.last()? / sum;
        let mean = |customers: fn(u32, u32) -> u32| {
            (0u32..).zip(&weights).map(|(n, weight)| f64::from(customers(n, self.servers)) * weight).sum::<f64>() / sum
        };
        let (waiting, busy) = (mean(u32::saturating_sub), mean(u32::min));
        // Computed from the busy servers: the difference between arrivals and losses would be too inexact if far more
        // customers come than can be served.
        let wait = if waiting > 0.0 { waiting / (self.service * busy) } else { 0.0 };
        Some(Finite { loss, waiting, wait })
    }

    /// Erlang C: the share of customers that have to wait where nobody is turned away. 1 where the queue grows without end.
    pub fn wait_share(&self) -> f64 {
        let (offered, utilisation) = (self.offered(), self.utilisation());
        if utilisation >= 1.0 {
            return 1.0;
        }
        let lost = (1..=self.servers).fold(1.0, |lost, n| offered * lost / (f64::from(n) + offered * lost));
        lost / (1.0 - utilisation * (1.0 - lost))
    }

    /// G/G/c by Allen and Cunneen: the mean wait where nobody is turned away, from the squared coefficients of variation of
    /// the times between arrivals and of service; 1 and 1 are M/M/c. `None` where the queue grows without end.
    pub fn wait(&self, arrival_variation: f64, service_variation: f64) -> Option<f64> {
        let spare = f64::from(self.servers) * self.service - self.arrivals;
        (spare > 0.0).then(|| self.wait_share() / spare * (arrival_variation + service_variation) / 2.0)
    }

    /// How long an empty queue with room for `capacity` takes to fill up, at a steady pace. `None` if customers are
    /// served as fast as they come.
    pub fn fills_in(&self, capacity: u32) -> Option<f64> {
        let growth = self.arrivals - f64::from(self.servers) * self.service;
        (growth > 0.0).then(|| f64::from(capacity) / growth)
    }

    /// The least room for customers who wait, doubled up from 1, with which no more than `loss` of them are turned away, by
    /// M/M/c/K. `None` where more than `most` would be needed.
    pub fn room_for(&self, loss: f64, most: u32) -> Option<u32> {
        let rooms = std::iter::successors(Some(1_u32), |room| room.checked_mul(2)).take_while(|&room| room <= most);
        let is_enough = |room: &u32| {
            let capacity = self.servers.checked_add(*room);
            capacity.and_then(|capacity| self.finite(capacity)).is_some_and(|finite| finite.loss <= loss)
        };
        rooms.into_iter().find(is_enough)
    }

    /// The fewest servers that keep the share of busy time below `utilisation`.
    pub fn servers_for(&self, utilisation: f64) -> u32 {
        (self.offered() / utilisation).ceil().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn station(arrivals: f64, service: f64, servers: u32) -> Station {
        Station::new(arrivals, service, servers).unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-9)
    }

    /// Computed with fractions, apart from this code.
    #[test]
    fn known_queues_have_their_known_waits() {
        for ((arrivals, service, servers, capacity), (loss, wait)) in [
            ((10.0, 6.0, 1, 10), (0.401_456, 1.260_139)),
            ((8.0, 5.0, 2, 5), (0.102_744, 0.101_090)),
            ((10.0, 5.0, 2, 7), (0.133_333, 0.230_769)),
        ] {
            let found = station(arrivals, service, servers).finite(capacity).unwrap();
            assert!((found.loss - loss).abs() < 5e-7 && (found.wait - wait).abs() < 5e-7, "{found:?}");
        }
    }

    /// Throughput for the rate of service: ρ = 1, and (K − 1)/(2λ) whatever the server does.
    #[test]
    fn departures_in_place_of_service_say_nothing() {
        for arrivals in [19.0, 26.0] {
            let wait = station(arrivals, arrivals, 1).finite(512).unwrap().wait;
            assert!(close(wait, 511.0 / (2.0 * arrivals)), "{wait}");
        }
    }

    #[test]
    fn one_server_waits_as_the_textbook_has_it() {
        // M/M/1: ρ/(μ − λ); M/D/1: half of it.
        let station = station(8.0, 10.0, 1);
        assert!(close(station.wait(1.0, 1.0).unwrap(), 0.4));
        assert!(close(station.wait(1.0, 0.0).unwrap(), 0.2));
        // Erlang C of two servers with a = 1.
        assert!(close(Station::new(1.0, 1.0, 2).unwrap().wait_share(), 1.0 / 3.0));
    }

    #[test]
    fn where_too_many_come_the_queue_fills() {
        let over = station(10.0, 3.0, 2);
        assert_eq!((over.wait(1.0, 1.0), over.wait_share()), (None, 1.0));
        assert_eq!(
            [over.fills_in(100), over.fills_in(0), station(5.0, 3.0, 2).fills_in(100)],
            [Some(25.0), Some(0.0), None]
        );
        assert_eq!(over.room_for(0.001, 1 << 16), None, "no room is enough");
        assert_eq!((over.servers_for(1.0), over.servers_for(0.8)), (4, 5));
    }

    /// M/M/1/K loses (1 − ρ)·ρ^K / (1 − ρ^(K+1)): of ρ = 1/2 that is 1/(2^(K+1) − 1).
    #[test]
    fn room_is_found_for_all_but_a_few() {
        let half = station(1.0, 2.0, 1);
        assert_eq!(half.room_for(1.0 / 31.0 + 1e-9, 1 << 16), Some(4), "5 places: 1/63; 4 places: 1/31; 3: 1/15");
        assert_eq!(half.room_for(1.0 / 15.0 + 1e-9, 1 << 16), Some(2));
        assert_eq!(half.room_for(1e-9, 8), None);
    }

    #[test]
    fn what_is_no_queue_is_none() {
        for (arrivals, service, servers) in [
            (0.0, 1.0, 1),
            (1.0, 0.0, 1),
            (1.0, 1.0, 0),
            (f64::NAN, 1.0, 1),
            (1.0, f64::INFINITY, 1),
            (1e308, 1e-308, 1),
        ] {
            assert_eq!(Station::new(arrivals, service, servers), None);
        }
        assert_eq!(station(1.0, 1.0, 4).finite(3), None);
    }

    proptest! {
        #[test]
        fn every_queue_has_figures(
            arrivals in 1e-3f64..1e6, service in 1e-3f64..1e6, servers in 1u32..300, more in 0u32..5_000,
        ) {
            let station = station(arrivals, service, servers);
            let found = station.finite(servers + more).unwrap();
            prop_assert!((0.0..=1.0).contains(&found.loss), "{:?}", found);
            prop_assert!(found.waiting >= 0.0 && found.waiting <= f64::from(more) * (1.0 + 1e-9), "{:?}", found);
            prop_assert!(found.wait.is_finite() && found.wait >= 0.0, "{:?}", found);
            prop_assert!((0.0..=1.0).contains(&station.wait_share()));
        }

        #[test]
        fn with_enough_room_it_is_one_without_an_end(service in 0.1f64..10.0, servers in 1u32..20, busy in 0.05f64..0.9) {
            let station = station(service * f64::from(servers) * busy, service, servers);
            let (with, without) = (station.finite(servers + 2_000).unwrap().wait, station.wait(1.0, 1.0).unwrap());
            prop_assert!((with - without).abs() <= 1e-6 * without.max(1e-6), "{} {}", with, without);
        }

        #[test]
        fn more_servers_never_make_it_worse(
            arrivals in 0.1f64..100.0, service in 0.1f64..100.0, servers in 1u32..50, more in 0u32..100,
        ) {
            let wait = |servers| station(arrivals, service, servers).finite(51 + more).unwrap().waiting;
            prop_assert!(wait(servers + 1) <= wait(servers) * (1.0 + 1e-9) + 1e-12);
        }
    }
}
