//! The CPUs of this host for the cgroups that were measured, with the commands.

use serde::Serialize;

use super::{
    CpusetPlan, Observations, Request, Strictness, Subject, Thresholds, cpuset_plan::plan,
    quota_without_cpuset::violations, rated::is_rated, shell,
};
use crate::units::{Unit, Value, show_cpus};

/// Which CPUs each cgroup should have, and how to give it them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// What is done where they do not suffice.
    pub strictness: Strictness,
    /// CPUs of one cgroup alone (P1), as the kernel writes lists.
    pub exclusive: String,
    /// CPUs of which a cgroup of class C1 has a part (P2).
    pub parts: String,
    /// CPUs of all others (P3).
    pub pool: String,
    /// Those of class C1 first.
    pub cgroups: Vec<PlannedCgroup>,
    /// Why there are no commands, and how to get them. `None` where there are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_withheld: Option<String>,
}

/// A cgroup in a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedCgroup {
    #[serde(flatten)]
    pub cgroup: Subject,
    /// Class C1: it must see no more CPUs than it gets.
    pub is_sensitive: bool,
    /// Its quota in cores. `None` without one.
    pub quota: Option<Value>,
    /// Its CPUs, as the kernel writes lists. `None` where the plan has none for it.
    pub cpus: Option<String>,
    /// What gives it them, for a POSIX shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Observations {
    /// Plans CPU sets for the cgroups that ran: of class C1 are those with a quota below the CPUs that they see, and that run
    /// into it with more threads (003, §IV). Cgroups that hold one of these inside stay as they are: its CPUs are theirs.
    pub fn plan_cpusets(&self, thresholds: &Thresholds, strictness: Strictness) -> Planned {
        let sensitive: Vec<_> = violations(self, thresholds).into_iter().map(|(id, ..)| id).collect();
        let paths: Vec<String> =
            sensitive.iter().filter_map(|id| Some(format!("{}/", self.cgroups.get(id)?.path))).collect();
        let holds_one =
            |path: &str| paths.iter().any(|inner| inner.starts_with(&format!("{}/", path.trim_end_matches('/'))));
        let mut members: Vec<_> = self
            .cgroups
            .iter()
            .filter(|(id, observed)| is_rated(**id) && (sensitive.contains(id) || !holds_one(&observed.path)))
            .map(|(&id, observed)| (!sensitive.contains(&id), id, observed))
            .collect();
        members.sort_by_key(|&(is_other, id, _)| (is_other, id));
        let quota = |quota: crate::model::Nanos| quota.0 / 1_000_000;
        let requests: Vec<Request> = members
            .iter()
            .map(|(is_other, _, observed)| Request {
                millicores: observed.quota_ns.map(quota),
                is_sensitive: !is_other,
            })
            .collect();
        let CpusetPlan { cpus, exclusive, parts, pool } = plan(&self.cpu_numbers(), &requests, strictness);
        let cgroups = members.iter().zip(cpus).map(|(&(is_other, id, observed), cpus)| {
            let cpus = cpus.map(|cpus| show_cpus(&cpus));
            PlannedCgroup {
                cgroup: observed.subject(id),
                is_sensitive: !is_other,
                quota: observed.quota_ns.map(|quota| quota.seconds().into()),
                // Its use of the excluded CPUs is unknown.
                command: cpus
                    .as_ref()
                    .filter(|_| self.session.excluded_cpus.is_empty())
                    .map(|cpus| shell::cpuset(&self.session, id, &observed.path, cpus)),
                cpus,
            }
        });
        Planned {
            strictness,
            cgroups: cgroups.collect(),
            exclusive: show_cpus(&exclusive),
            parts: show_cpus(&parts),
            pool: show_cpus(&pool),
            commands_withheld: (!self.session.excluded_cpus.is_empty()).then(|| {
                "No commands are shown: CPUs were excluded, and what cgroups do there is not known.".to_owned()
            }),
        }
    }
}

impl PlannedCgroup {
    /// Its quota, for people.
    pub fn quota(&self) -> String {
        self.quota.map_or_else(|| "no quota".to_owned(), |quota| Unit::Cores.show(quota))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    fn planned(strictness: Strictness) -> Planned {
        let mut observations = Observations::new(fixture::session());
        fixture::full_of_problems().iter().for_each(|interval| observations.add(interval));
        observations.plan_cpusets(&Thresholds::default(), strictness)
    }

    #[test]
    fn a_cgroup_that_runs_into_its_quota_gets_cpus_of_its_own() {
        let plan = planned(Strictness::PrincipleHard);
        let pool = &plan.cgroups[0];
        assert_eq!(
            (pool.cgroup.to_string(), pool.is_sensitive, pool.quota()),
            ("pool".to_owned(), true, "1.00 cores".to_owned())
        );
        assert_eq!(pool.cpus.as_deref(), Some("0"));
        assert_eq!(pool.command.as_deref(), Some("echo 0 | sudo tee /sys/fs/cgroup/apps.slice/pool/cpuset.cpus"));
        assert_eq!((plan.exclusive.as_str(), plan.pool.as_str()), ("0", "1-3"));
        assert!(plan.cgroups[1..].iter().all(|job| job.cpus.as_deref() == Some("1-3") && !job.is_sensitive));
        assert_eq!(plan.cgroups.len(), 16);
    }
}
