//! Which queue each CPU has: one for each last-level cache.

use std::collections::BTreeMap;

use lagstop_scheduler_ebpf::{Cpu, MAX_QUEUES};

use crate::model::Place;

/// What the programs are told of each CPU, by number, and how many queues there are. CPUs of the same cache are in a ring; those
/// that are not online are in one of their own, as nothing is to be looked for there.
pub(super) fn topology(places: &[Place], online: &[u32]) -> (Vec<Cpu>, u32) {
    let count = places.iter().map(|place| place.cpu + 1).max().unwrap_or(1);
    let mut cpus: Vec<Cpu> = (0..count).map(|n| Cpu { next: n, ..Cpu::default() }).collect();
    let mut caches: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for place in places.iter().filter(|place| online.contains(&place.cpu)) {
        caches.entry(place.llc).or_default().push(place.cpu);
    }
    for (cache, members) in caches.values().enumerate() {
        let queue = cache as u32 % MAX_QUEUES;
        for (n, &member) in members.iter().enumerate() {
            if let Some(cpu) = cpus.get_mut(member as usize) {
                let next = members[(n + 1) % members.len()];
                *cpu = Cpu { queue, next, other: queue, ..Cpu::default() };
            }
        }
    }
    (cpus, (caches.len() as u32).clamp(1, MAX_QUEUES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_cache_share_a_queue_and_a_ring() {
        let place = |cpu, llc| Place { cpu, llc, numa: 0 };
        let places = [place(0, 0), place(1, 0), place(2, 2), place(3, 2), place(4, 2)];
        let (cpus, queues) = topology(&places, &[0, 1, 2, 4]);
        assert_eq!(queues, 2);
        let told: Vec<(u32, u32)> = cpus.iter().map(|cpu| (cpu.queue, cpu.next)).collect();
        assert_eq!(told, [(0, 1), (0, 0), (1, 4), (0, 3), (1, 2)], "3 is not online");
    }

    #[test]
    fn many_caches_share_queues() {
        let places: Vec<Place> = (0..100).map(|cpu| Place { cpu, llc: cpu, numa: 0 }).collect();
        let online: Vec<u32> = (0..100).collect();
        let (cpus, queues) = topology(&places, &online);
        assert_eq!(queues, MAX_QUEUES);
        assert!(cpus.iter().all(|cpu| cpu.queue < MAX_QUEUES));
    }
}
