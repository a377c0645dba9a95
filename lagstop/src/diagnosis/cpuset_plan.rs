//! Which CPUs each cgroup should have: the hybrid allocation of the WYSIWYG paper (003, Algorithm 1).
//!
//! Cgroups of class C1 size themselves by the CPUs they see: they get whole CPUs for themselves (P1), and where their quota is
//! no whole number a part of one that is shared (P2). All others, class C2, share what is left (P3) and P2. Quotas stay.

use std::collections::BTreeMap;

use serde::Serialize;

/// A CPU's worth of time.
const CORE: u64 = 1_000;

/// What a cgroup is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Thousandths of a CPU. `None` for a cgroup of class C2 without a quota.
    pub millicores: Option<u64>,
    /// Class C1: it must see no more CPUs than it gets.
    pub is_sensitive: bool,
}

/// What to do where the CPUs do not suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// Give a cgroup of class C1 nothing rather than more CPUs than it may use.
    #[default]
    PrincipleHard,
    /// Give it parts of more CPUs.
    BestEffort,
}

/// The CPUs of each cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusetPlan {
    /// In the order of the requests. `None` where it cannot be had.
    pub cpus: Vec<Option<Vec<u32>>>,
    /// P1: those of one cgroup alone.
    pub exclusive: Vec<u32>,
    /// P2: those of which somebody of class C1 has a part.
    pub parts: Vec<u32>,
    /// P3: those of all of class C2.
    pub pool: Vec<u32>,
}

/// Plans `requests` on `cpus`, the largest of class C1 first.
pub(super) fn plan(cpus: &[u32], requests: &[Request], strictness: Strictness) -> CpusetPlan {
    let mut host = Host { exclusive: Vec::new(), parts: BTreeMap::new(), pool: cpus.to_vec(), strictness };
    host.pool.sort_unstable();
    host.pool.dedup();
    let mut given: Vec<Option<Vec<u32>>> = vec![None; requests.len()];
    let mut sensitive: Vec<(usize, u64)> = requests
        .iter()
        .enumerate()
        .filter(|(_, request)| request.is_sensitive)
        .filter_map(|(number, request)| Some((number, request.millicores.filter(|&part| part > 0)?)))
        .collect();
    sensitive.sort_by_key(|&(number, millicores)| (std::cmp::Reverse(millicores), number));
    // If others need CPUs too, one CPU is kept for them.
    let others = requests.iter().any(|request| !request.is_sensitive);
    let kept = if others && sensitive.len() < requests.len() { host.pool.pop() } else { None };
    for (number, millicores) in sensitive {
        given[number] = host.allocate(millicores);
    }
    host.pool.extend(kept);
    let shared: Vec<u32> = host.shared();
    for (cpus, _) in given.iter_mut().zip(requests).filter(|(_, request)| !request.is_sensitive) {
        *cpus = (!shared.is_empty()).then(|| shared.clone());
    }
    CpusetPlan { cpus: given, exclusive: host.exclusive, parts: host.parts.into_keys().collect(), pool: host.pool }
}

struct Host {
    exclusive: Vec<u32>,
    /// CPUs of P2, each with the part of it that is given away.
    parts: BTreeMap<u32, u64>,
    pool: Vec<u32>,
    strictness: Strictness,
}

impl Host {
    /// P2 ∪ P3.
    fn shared(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.parts.keys().chain(&self.pool).copied().collect();
        all.sort_unstable();
        all
    }

    /// Algorithm 1, lines 8 to 33. `None` leaves everything as it was.
    fn allocate(&mut self, millicores: u64) -> Option<Vec<u32>> {
        let (whole, part) = (usize::try_from(millicores / CORE).ok()?, millicores % CORE);
        let taken = whole.min(self.pool.len());
        let missing = (whole - taken) as u64 * CORE + part;
        let shared = if missing == 0 {
            Vec::new()
        } else if let (true, None, Some(&fresh)) = (whole == taken, self.fits(1, missing), self.pool.get(taken)) {
            // A part of a CPU of which no part is given away yet.
            vec![(fresh, missing)]
        } else {
            // If whole CPUs are missing and no part is needed, the cgroup would see more CPUs than it gets.
            let is_exact = whole == taken || part > 0;
            let most = match self.strictness {
                Strictness::PrincipleHard => is_exact.then(|| missing.div_ceil(CORE) as usize)?,
                Strictness::BestEffort => usize::MAX,
            };
            self.fits(most, missing)?
        };
        let mut cpus: Vec<u32> = self.pool.drain(..taken).collect();
        self.exclusive.extend(&cpus);
        for (cpu, part) in shared {
            self.pool.retain(|&free| free != cpu);
            *self.parts.entry(cpu).or_default() += part;
            cpus.push(cpu);
        }
        cpus.sort_unstable();
        Some(cpus)
    }

    /// At most `most` CPUs of P2 that have this much left together, and how much of each: the fullest that suffices
    /// alone, otherwise the emptiest first.
    fn fits(&self, most: usize, millicores: u64) -> Option<Vec<(u32, u64)>> {
        let mut left: Vec<(u64, u32)> =
            self.parts.iter().map(|(&cpu, given)| (CORE.saturating_sub(*given), cpu)).collect();
        left.sort_unstable();
        if let Some(&(_, cpu)) = left.iter().find(|(left, _)| *left >= millicores) {
            return Some(vec![(cpu, millicores)]);
        }
        let mut missing = millicores;
        let mut parts = Vec::new();
        for &(left, cpu) in left.iter().rev().take(most).filter(|(left, _)| *left > 0) {
            let part = left.min(missing);
            parts.push((cpu, part));
            missing -= part;
            if missing == 0 {
                return Some(parts);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn c1(millicores: u64) -> Request {
        Request { millicores: Some(millicores), is_sensitive: true }
    }

    const C2: Request = Request { millicores: None, is_sensitive: false };

    fn on(cpus: u32, requests: &[Request], strictness: Strictness) -> CpusetPlan {
        plan(&(0..cpus).collect::<Vec<_>>(), requests, strictness)
    }

    #[test]
    fn whole_cores_are_exclusive() {
        let plan = on(8, &[c1(2_000), C2, c1(3_000)], Strictness::PrincipleHard);
        assert_eq!(plan.cpus, [Some(vec![3, 4]), Some(vec![5, 6, 7]), Some(vec![0, 1, 2])]);
        assert_eq!((plan.exclusive.len(), plan.parts.len(), plan.pool), (5, 0, vec![5, 6, 7]));
    }

    #[test]
    fn three_and_a_half_cores_are_four_cpus_of_which_one_is_shared() {
        let plan = on(8, &[c1(3_500), C2, c1(500)], Strictness::PrincipleHard);
        assert_eq!(plan.cpus[0], Some(vec![0, 1, 2, 3]));
        assert_eq!((plan.exclusive, plan.parts), (vec![0, 1, 2], vec![3]));
        assert_eq!(plan.cpus[2], Some(vec![3]), "the other half of it");
        assert_eq!(plan.cpus[1], Some(vec![3, 4, 5, 6, 7]), "others may use what is left of it");
    }

    #[test]
    fn one_and_a_half_cores_fit_into_two_halves_and_a_bit() {
        // No CPU is left whole, but two have three quarters left each.
        let three = on(2, &[c1(250), c1(250), c1(1_500)], Strictness::PrincipleHard);
        assert_eq!(three.cpus[2], Some(vec![0, 1]), "the largest goes first: one and a half");
        let mut host = Host {
            exclusive: vec![],
            parts: [(0, 250), (1, 250)].into(),
            pool: vec![],
            strictness: Strictness::PrincipleHard,
        };
        assert_eq!(host.allocate(1_500), Some(vec![0, 1]), "150 % on 2 cores");
        assert_eq!(host.parts, [(0, 1_000), (1, 1_000)].into());
    }

    #[test]
    fn what_cannot_be_had_is_not_given_and_takes_nothing() {
        let hard = on(2, &[c1(2_000), c1(1_000)], Strictness::PrincipleHard);
        assert_eq!(hard.cpus, [Some(vec![0, 1]), None]);
        let host = |strictness| Host {
            exclusive: vec![],
            parts: [(0, 600), (1, 600), (2, 500)].into(),
            pool: vec![],
            strictness,
        };
        // One core is left in all, in three pieces. The cgroup must not see three CPUs for it.
        let mut strict = host(Strictness::PrincipleHard);
        assert_eq!((strict.allocate(1_000), strict.parts), (None, host(Strictness::PrincipleHard).parts));
        assert_eq!(host(Strictness::BestEffort).allocate(1_000), Some(vec![0, 1, 2]));
        assert_eq!(host(Strictness::BestEffort).allocate(1_400), None, "that much is not there");
        // Nor two CPUs for half a core.
        let mut strict = host(Strictness::PrincipleHard);
        strict.parts.insert(2, 600);
        assert_eq!(strict.allocate(500), None);
        assert_eq!(strict.allocate(400), Some(vec![0]));
        let mut lax = Host { parts: [(0, 600), (1, 600)].into(), ..host(Strictness::BestEffort) };
        assert_eq!(lax.allocate(500), Some(vec![0, 1]));
        assert_eq!(lax.parts, [(0, 700), (1, 1_000)].into());
    }

    #[test]
    fn those_that_share_keep_a_cpu() {
        let plan = on(2, &[c1(2_000), C2], Strictness::BestEffort);
        assert_eq!(plan.cpus, [None, Some(vec![0, 1])]);
        assert_eq!(on(0, &[c1(1_000), C2], Strictness::BestEffort).cpus, [None, None]);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_there_is(
            cpus in 0u32..12,
            asked in prop::collection::vec((prop::option::of(0u64..6_000), any::<bool>()), 0..12),
            is_hard in any::<bool>(),
        ) {
            let requests: Vec<Request> =
                asked.iter().map(|&(millicores, is_sensitive)| Request { millicores, is_sensitive }).collect();
            let strictness = if is_hard { Strictness::PrincipleHard } else { Strictness::BestEffort };
            let plan = on(cpus, &requests, strictness);
            let mut all: Vec<u32> = [&plan.exclusive[..], &plan.parts, &plan.pool].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..cpus).collect::<Vec<_>>(), "each CPU is in one of the three");
            let mut given = 0;
            for (cpus, request) in plan.cpus.iter().zip(&requests).filter(|(_, request)| request.is_sensitive) {
                let Some(cpus) = cpus else { continue };
                let millicores = request.millicores.unwrap_or_default();
                given += millicores;
                prop_assert!(cpus.len() as u64 * CORE >= millicores);
                if is_hard {
                    prop_assert_eq!(cpus.len() as u64, millicores.div_ceil(CORE), "what it sees is what it gets");
                }
                for exclusive in plan.exclusive.iter().filter(|cpu| cpus.contains(cpu)) {
                    let owners = plan.cpus.iter().flatten().filter(|cpus| cpus.contains(exclusive)).count();
                    prop_assert_eq!(owners, 1);
                }
            }
            prop_assert!(given <= u64::from(cpus) * CORE);
        }
    }
}
