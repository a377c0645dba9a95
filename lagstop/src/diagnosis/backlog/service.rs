//! What serving a connection takes, and by how many threads: from how long each connection kept the thread that accepted it
//! from asking for the next one.
//!
//! A thread that asks before it waits (in `accept(2)`, or by trying it before `poll(2)`) was busy until it asked, whatever
//! came meanwhile. One that waits elsewhere and asks when it is told to was surely busy only where the next connection
//! waited throughout. Where one thread accepts, that depends on nothing but what came before it began, so that such services
//! are like all others. Of several threads the others may take what waits: such services are too short, and all of them
//! together too long, as there is waiting in them; the truth lies between.

use crate::model::{Services, Times};

/// The fewest services for a meaningful mean: the standard error is 18 % if they are exponentially distributed.
const ENOUGH: u64 = 30;
/// A share that may be by chance: connections that were reset, or taken by another thread, before they could be
/// accepted. Chosen: one in a hundred.
const CHANCE: f64 = 0.01;
/// If the estimate that is too short is at least this share of the one that is too long, either will do. Chosen: a mean of
/// [`ENOUGH`] is less exact.
const NEAR: f64 = 0.9;

const TOO_FEW: &str = "too few services were timed";
const ELSEWHERE: &str =
    "several threads accept and wait for connections outside accept(2), so their busy time is unknown";

/// How connections are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Service {
    /// Mean time that one takes, in seconds.
    pub mean: f64,
    /// Its squared coefficient of variation.
    pub variation: f64,
    /// How many were timed.
    pub count: u64,
    /// Threads that serve.
    pub servers: u32,
}

impl Service {
    /// What is known of it, or why nothing is.
    pub(super) fn of(services: &Services) -> Result<Self, &'static str> {
        let servers = u32::try_from(services.threads).unwrap_or(u32::MAX);
        if servers == 0 {
            return Err("the accepting threads have exited");
        }
        let Services { strayed, all, .. } = services;
        if *strayed as f64 > CHANCE * strayed.saturating_add(all.count) as f64 {
            return Err("the accepting threads also serve other ports");
        }
        let times = Self::times(services)?;
        let (mean, variation) = times.mean().zip(times.variation()).ok_or("the measured service time is zero")?;
        Ok(Self { mean, variation, count: times.count, servers })
    }

    /// The services that are representative of all.
    fn times(services: &Services) -> Result<&Times, &'static str> {
        let Services { threads, found_none, all, kept_waiting, .. } = services;
        let asks_first = *found_none as f64 > CHANCE * all.count as f64;
        let is_near =
            || all.mean().zip(kept_waiting.mean()).is_some_and(|(longest, shortest)| shortest >= NEAR * longest);
        let times = match threads {
            _ if asks_first => all,
            1 => kept_waiting,
            _ if is_near() => all,
            _ if all.count < ENOUGH => return Err(TOO_FEW),
            _ => return Err(ELSEWHERE),
        };
        if times.count < ENOUGH { Err(TOO_FEW) } else { Ok(times) }
    }
}

#[cfg(test)]
mod tests;
