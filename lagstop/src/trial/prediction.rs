//! What is predicted of a trial: of exactly the policy that is tried, with exactly the cgroups that it is tried with.

use std::sync::Arc;

use super::{
    Dynamic, Policy, PolicyChange, Sides, TriedGroup,
    cgroup_file::{SHARES, WEIGHT},
    policy,
};
use crate::{
    background::Background,
    diagnosis::{Competitors, Forecast, ForecastFigure, Intervention, Observations},
    host::Hierarchy,
    model::Nanos,
};

pub use crate::diagnosis::{Predicted, Unpredicted};

/// What is predicted of a trial.
#[derive(Clone, Debug, Default)]
pub struct Prediction(Option<Forecast>);

impl Prediction {
    /// From what was observed before, of what `policy` changes at first.
    pub fn of(
        observations: &Observations,
        policy: Policy,
        sides: &Sides,
        changes: &[PolicyChange],
        hierarchy: &Hierarchy,
    ) -> Self {
        let paths = |groups: &[TriedGroup]| groups.iter().map(|group| Arc::from(&*group.path)).collect();
        let competitors = Competitors { light: paths(&sides.light), heavy: paths(&sides.heavy) };
        let forecast =
            |intervention: Intervention| Some(observations.forecaster()?.forecast(&competitors, &intervention));
        Self(intervention(policy, sides, changes, hierarchy).and_then(forecast))
    }

    /// Of this figure. `None` where nothing is predicted of it.
    pub fn change(&self, figure: ForecastFigure) -> Option<Predicted> {
        self.0.as_ref()?.change(figure)
    }

    /// All figures that something could be predicted of: what is, or why nothing is.
    pub fn figures(&self) -> impl Iterator<Item = (ForecastFigure, Result<Predicted, Unpredicted>)> {
        self.0.iter().flat_map(Forecast::figures)
    }

    #[cfg(test)]
    pub(crate) fn with(figures: impl IntoIterator<Item = (ForecastFigure, Result<Predicted, Unpredicted>)>) -> Self {
        Self(Some(Forecast::with(figures)))
    }

    /// Why nothing is predicted of this figure. `None` where something is, or nothing ever is.
    pub fn why_not(&self, figure: ForecastFigure) -> Option<Unpredicted> {
        self.0.as_ref()?.why_not(figure)
    }
}

/// What a policy does, as it can be simulated. `None` of one that cannot.
fn intervention(
    policy: Policy,
    sides: &Sides,
    changes: &[PolicyChange],
    hierarchy: &Hierarchy,
) -> Option<Intervention> {
    let path = |group: &TriedGroup| -> Arc<str> { Arc::from(&*group.path) };
    let slice = |slice: u64| move |group: &TriedGroup| (Arc::from(&*group.path), Nanos(slice));
    let none = Intervention::default();
    Some(match policy {
        Policy::Weight => Intervention { weights: weights(changes, hierarchy), ..none },
        Policy::Idle => Intervention { idle: idle(changes, hierarchy), ..none },
        Policy::Slice => Intervention {
            slices: sides
                .light
                .iter()
                .map(slice(policy::SHORT))
                .chain(sides.heavy.iter().map(slice(policy::LONG)))
                .collect(),
            ..none
        },
        Policy::LagsStatic => Intervention { real_time: sides.light.iter().map(path).collect(), ..none },
        Policy::LagsDynamic => Intervention {
            dynamic: Some(Dynamic::ranking(
                sides.all().map(path).collect(),
                sides.heavy.iter().map(path).collect(),
                Nanos::from(Background::INTERVAL),
            )),
            ..none
        },
        // Others' schedulers are not known, and LAGS ranks all cgroups of the host, and not only those of the trial.
        Policy::Lags | Policy::Scx(_) => return None,
        Policy::KernelLags => Intervention { lightest_first: sides.all().map(path).collect(), ..none },
    })
}

/// The changes to files: path of the cgroup in the hierarchy, name of the file, and its new contents.
fn files<'c>(changes: &'c [PolicyChange], hierarchy: &Hierarchy) -> impl Iterator<Item = (Arc<str>, &'c str, &'c str)> {
    changes.iter().filter_map(move |change| match change {
        PolicyChange::File { directory, file, after, .. } => {
            Some((Arc::from(hierarchy.path(directory)), file.as_str(), after.as_str()))
        }
        PolicyChange::Thread { .. } => None,
    })
}

fn weights(changes: &[PolicyChange], hierarchy: &Hierarchy) -> Vec<(Arc<str>, f64)> {
    let weight = |(path, file, after): (Arc<str>, &str, &str)| {
        let after: f64 = after.parse().ok()?;
        match file {
            WEIGHT => Some((path, after)),
            SHARES => Some((path, after * 100.0 / 1_024.0)),
            _ => None,
        }
    };
    files(changes, hierarchy).filter_map(weight).collect()
}

fn idle(changes: &[PolicyChange], hierarchy: &Hierarchy) -> Vec<Arc<str>> {
    files(changes, hierarchy)
        .filter(|(_, file, after)| *file == "cpu.idle" && *after == "1")
        .map(|(path, ..)| path)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Version, model::GroupBy};

    #[test]
    fn it_is_of_what_is_changed() {
        let hierarchy = Hierarchy::at(Version::V1, "/sys/fs/cgroup/cpu".as_ref(), GroupBy::Scheduler);
        let file = |path: &str, file: &str, after: &str| PolicyChange::File {
            directory: format!("/sys/fs/cgroup/cpu{path}").into(),
            inode: 1,
            file: file.to_owned(),
            before: "1024".to_owned(),
            after: after.to_owned(),
        };
        let changes = [
            file("/pods/a", "cpu.shares", "10240"),
            file("/pods/b", "cpu.shares", "512"),
            file("/c", "cpu.idle", "1"),
            file("/c", "cpu.idle", "0"),
        ];
        let of = |policy| intervention(policy, &Sides::default(), &changes, &hierarchy).unwrap();
        let weights = [("/pods/a".into(), 1_000.0), ("/pods/b".into(), 50.0)];
        assert_eq!(of(Policy::Weight), Intervention { weights: weights.into(), ..Intervention::default() });
        assert_eq!(of(Policy::Idle), Intervention { idle: vec!["/c".into()], ..Intervention::default() });
    }
}
