//! Many cgroups, each with a process that sleeps most of the time.

use super::error::Error;
use crate::{
    tenants::{Tenants, quiet},
    work::{Kind, Work},
};

/// How long a process sleeps at a time: between so many milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    least_ms: u64,
    most_ms: u64,
}

impl Pause {
    /// One in ten wakes up in a second.
    pub(crate) const LONG: Self = Self { least_ms: 5_000, most_ms: 15_000 };
    /// Each wakes up three times a second.
    pub(crate) const SHORT: Self = Self { least_ms: 200, most_ms: 400 };
}

/// A process ends by itself after this time, should nobody end it.
const LONGEST_S: u64 = 15 * 60;

/// The cgroups and their processes. Dropping it ends and removes them.
pub(crate) struct Crowd(#[expect(dead_code, reason = "held for its drop")] Tenants);

impl Crowd {
    pub(crate) fn start(count: u32, pause: Pause) -> Result<Self, Error> {
        let mut tenants = Tenants::make("lagstop-crowd", "crowd")?;
        let kind = Kind::Nap { least_ms: pause.least_ms, most_ms: pause.most_ms };
        for number in 0..count {
            // Paths are as long as those of Kubernetes.
            let path = format!("kubepods-burstable-pod{number:08x}_0000_4000_8000_{number:012x}.slice");
            let work = Work { seed: u64::from(number), threads: 1, seconds: LONGEST_S, kind };
            let mut command = quiet(work.command().map_err(Error::file("this program"))?);
            tenants.spawn(&path, &mut command)?;
        }
        Ok(Self(tenants))
    }
}
