//! What is true of a made-up fleet. Overhead and p99 wait bend upwards at [`KNEE`] active cgroups per CPU.

use super::Fleet;

/// Active cgroups per CPU at which both curves bend.
pub(super) const KNEE: f64 = 9.0;

/// One in so many nodes has gaps, and one in so many restarts.
const WITH_GAPS: u32 = 200;
const RESTARTS: u32 = 97;

/// `SplitMix64`: a number between 0 and 1 for each seed and `keys`.
fn drawn(seed: u64, keys: [u64; 3]) -> f64 {
    let mut state = seed;
    for key in keys {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ key.wrapping_mul(0xd6e8_feb8_6659_fd93);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    seed: u64,
    pub(super) number: u32,
    pub(super) cpus: f64,
    /// Part of its pods that run when most do.
    active: f64,
    pods: f64,
    end: u64,
    hours: u64,
}

/// A node at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) active: f64,
    pub(super) overhead: f64,
    pub(super) utilisation: f64,
    pub(super) wait_p99: f64,
    pub(super) switch_cost: f64,
}

impl Node {
    pub(super) fn of(fleet: &Fleet, number: u32) -> Self {
        let draw = |what| drawn(fleet.seed, [u64::from(number), what, 0]);
        Self {
            seed: fleet.seed,
            number,
            cpus: if draw(1) < 0.7 { 8.0 } else { 16.0 },
            active: 0.15 + 0.85 * draw(2),
            pods: f64::from(fleet.pods),
            end: fleet.end,
            hours: fleet.hours,
        }
    }

    /// Whether there is a sample.
    pub(super) fn is_there(&self, time: u64) -> bool {
        // It is gone for the last third of the time.
        !self.number.is_multiple_of(WITH_GAPS) || self.end - time > self.hours * 1_200
    }

    /// When its counters started to count.
    pub(super) fn since(&self, time: u64) -> u64 {
        let begun = self.end - self.hours * 3_600 - 100_000;
        let restart = self.end - self.hours * 1_800 - 1_234;
        if self.number % RESTARTS == 5 && time >= restart { restart } else { begun }
    }

    pub(super) fn at(&self, time: u64) -> Moment {
        let noise = |what: u64| drawn(self.seed, [u64::from(self.number), time, what]) - 0.5;
        let day = (time % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
        let active =
            (self.pods * self.active * (0.75 + 0.25 * day.sin()) * (1.0 + 0.1 * noise(1))).clamp(1.0, self.pods);
        let density = active / self.cpus;
        let beyond = (density - KNEE).max(0.0);
        let overhead = (0.01 + 0.003 * density + 0.015 * beyond) * (1.0 + 0.2 * noise(2));
        Moment {
            active,
            overhead,
            utilisation: (0.035 * density + overhead).min(1.0),
            wait_p99: (1.0 + 0.5 * density + 6.0 * beyond) * (1.0 + 0.3 * noise(3)) / 1e3,
            switch_cost: (2.0 + beyond) * (1.0 + 0.1 * noise(4)) / 1e6,
        }
    }
}

/// A pod: which workload it is of, and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) cgroup: String,
}

/// Pods of one workload, about.
const PODS: u32 = 50;

pub(super) fn workloads(fleet: &Fleet) -> u32 {
    (fleet.nodes.saturating_mul(fleet.pods) / PODS).max(1)
}

/// A workload's namespace and name.
pub(super) fn workload(number: u32) -> (String, String) {
    (format!("team-{}", number % 40), format!("service-{number}"))
}

/// Letters of the names that Kubernetes draws.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Pod {
    pub(super) fn of(fleet: &Fleet, node: u32, number: u32) -> Self {
        let all = workloads(fleet);
        let which = (drawn(fleet.seed, [u64::from(node), u64::from(number), 7]) * f64::from(all)) as u32;
        let (namespace, workload) = workload(which.min(all - 1));
        let letters = |from: u64, count: u64| -> String {
            let letter = |n: u64| (drawn(fleet.seed, [u64::from(node), u64::from(number), from + n]) * 27.0) as usize;
            (0..count).map(|n| char::from(LETTERS[letter(n).min(26)])).collect()
        };
        let template: String = (0..9).map(|n| char::from(LETTERS[(which as usize * 7 + n * 5) % 27])).collect();
        let uid = format!("{:032x}", u128::from(node) << 64 | u128::from(number) << 32 | u128::from(which));
        let cgroup = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{uid}{uid}.scope"
        );
        Self { namespace, name: format!("{workload}-{template}-{}", letters(100, 5)), cgroup }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_fleet() {
        let fleet =
            Fleet { nodes: 10, pods: 110, hours: 24, seed: 1, end: 1_699_999_200, every: 300, pods_every: 1_800 };
        let at = |seed| Node::of(&Fleet { seed, ..fleet.clone() }, 3).at(fleet.end).active;
        assert!(at(1) == at(1) && at(1) != at(2));
        assert_eq!(Pod::of(&fleet, 1, 2).name, Pod::of(&fleet, 1, 2).name);
        let densities: Vec<f64> =
            (0..10).map(|n| Node::of(&fleet, n)).map(|node| node.at(fleet.end).active / node.cpus).collect();
        assert!(densities.iter().all(|density| (0.1..14.0).contains(density)), "{densities:?}");
    }
}
