//! Changes during a simulation: quotas are used up and renewed, and cgroups are ranked again.

use super::Host;
use crate::diagnosis::simulation::SimulatedDynamic;

impl Host<'_> {
    pub(super) fn throttle(&mut self, number: usize) {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            self.cpus[cpu].throttle(number, &mut self.shared);
        }
    }

    /// Quotas of a new period.
    pub(super) fn renew(&mut self) {
        let due = |number: &usize| self.shared.quotas[*number].renews <= self.now;
        let (due, others): (Vec<usize>, Vec<usize>) = self.shared.throttled.iter().partition(|number| due(number));
        self.shared.throttled = others;
        for number in due {
            let quota = &mut self.shared.quotas[number];
            (quota.is_throttled, quota.used) = (false, 0.0);
            quota.renews += self.shared.tree[number].quota.map_or(f64::INFINITY, |(_, period)| period);
            self.throttle(number);
        }
    }

    /// Makes the cgroups idle that are heavy now.
    pub(super) fn rank(&mut self) {
        let Some(SimulatedDynamic { ranked, heavy, every, heavy_from, light_below }) = &self.shared.policy.dynamic
        else {
            return;
        };
        self.ranks = self.now + every;
        let credit = |number: usize| self.shared.credits.at(number, self.now);
        let fair = ranked.iter().map(|&number| credit(number)).sum::<f64>() / ranked.len().max(1) as f64;
        let mut changes = Vec::new();
        for &number in ranked {
            let is_idle = self.shared.tree[number].is_idle;
            let becomes = if self.now == 0.0 {
                heavy.contains(&number)
            } else if is_idle {
                credit(number) >= light_below * fair
            } else {
                credit(number) > heavy_from * fair
            };
            if becomes != is_idle {
                changes.push((number, becomes));
            }
        }
        if !changes.is_empty() {
            changes.iter().for_each(|&(number, is_idle)| self.shared.tree[number].is_idle = is_idle);
            for cpu in 0..self.cpus.len() {
                self.account(cpu);
                self.cpus[cpu].reweigh_all(&mut self.shared);
            }
        }
    }
}
