//! All runs of a command, one after the other.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Limits, Run, RunVerdict};
use crate::model::Nanos;

/// The runs of a command, and how they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunSeries {
    /// The command and its arguments. What is no text is replaced.
    pub command: Vec<String>,
    pub method: Method,
    /// Why files are read and nothing is measured with eBPF, and the remedy.
    pub restricted: Option<String>,
    pub lagstop_version: String,
    pub hostname: String,
    /// `uname -r`
    pub kernel: String,
    pub cpus_online: u64,
    /// When the first run began, RFC 3339.
    pub started_at: String,
    pub limits: Limits,
    /// Undisturbed runs that were wanted.
    pub wanted: u32,
    /// Runs that were allowed at most.
    pub at_most: u32,
    pub runs: Vec<Run>,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every wait, with its cause.
    Ebpf,
    /// What files tell: how long threads waited that were seen, and not for what.
    Files,
}

/// Run times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Of so many runs.
    pub runs: u32,
    pub mean_ns: Nanos,
    /// Sample standard deviation. `null` of a single run.
    pub deviation_ns: Option<Nanos>,
    pub min_ns: Nanos,
    pub max_ns: Nanos,
}

impl RunSeries {
    /// Is the command to run again? It is until enough runs were undisturbed, as many were made as may be, or one failed.
    pub fn wants_more(&self) -> bool {
        let runs = self.runs.len() as u32;
        let has_failed = self.runs.last().is_some_and(|run| !run.status.is_success());
        runs == 0 || !has_failed && runs < self.at_most && self.count(RunVerdict::Undisturbed) < self.wanted
    }

    pub fn count(&self, verdict: RunVerdict) -> u32 {
        self.runs.iter().filter(|run| run.verdict == verdict).count() as u32
    }

    /// Numbers of the runs with this verdict.
    pub fn numbers(&self, verdict: RunVerdict) -> Vec<u32> {
        self.runs.iter().filter(|run| run.verdict == verdict).map(|run| run.number).collect()
    }

    /// Were as many undisturbed as were wanted?
    pub fn is_enough(&self) -> bool {
        self.count(RunVerdict::Undisturbed) >= self.wanted
    }

    /// Run times of all runs.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.wall_ns))
    }

    /// Run times of the undisturbed runs.
    pub fn spread_undisturbed(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().filter(|run| run.verdict == RunVerdict::Undisturbed).map(|run| run.wall_ns))
    }
}

impl Spread {
    /// `None` of none.
    fn of(times: impl Iterator<Item = Nanos>) -> Option<Self> {
        let times: Vec<u64> = times.map(|time| time.0).collect();
        let (min, max) = (times.iter().min()?, times.iter().max()?);
        let mean = times.iter().map(|&time| time as f64).sum::<f64>() / times.len() as f64;
        let squares: f64 = times.iter().map(|&time| (time as f64 - mean).powi(2)).sum();
        let deviation = (times.len() > 1).then(|| Nanos((squares / (times.len() - 1) as f64).sqrt() as u64));
        Some(Self {
            runs: times.len() as u32,
            mean_ns: Nanos(mean as u64),
            deviation_ns: deviation,
            min_ns: Nanos(*min),
            max_ns: Nanos(*max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CommandStatus;

    fn series(wanted: u32, at_most: u32, runs: &[(RunVerdict, u64)]) -> RunSeries {
        let status = CommandStatus { exit_code: Some(0), signal: None };
        let runs = (1..).zip(runs).map(|(number, &(verdict, ms))| Run {
            number,
            verdict,
            status,
            wall_ns: Nanos(ms * 1_000_000),
            ..Run::default()
        });
        RunSeries {
            command: vec!["make".to_owned()],
            method: Method::Ebpf,
            restricted: None,
            lagstop_version: String::new(),
            hostname: String::new(),
            kernel: String::new(),
            cpus_online: 2,
            started_at: String::new(),
            limits: Limits::default(),
            wanted,
            at_most,
            runs: runs.collect(),
        }
    }

    #[test]
    fn it_runs_until_enough_were_undisturbed_and_no_further() {
        use RunVerdict::{Disturbed, NotJudged, Undisturbed};
        assert!(series(1, 1, &[]).wants_more());
        assert!(series(2, 6, &[(Undisturbed, 9), (Disturbed, 9)]).wants_more());
        assert!(!series(2, 6, &[(Undisturbed, 9), (Disturbed, 9), (Undisturbed, 9)]).wants_more());
        let spent = series(2, 3, &[(Disturbed, 9), (NotJudged, 9), (Undisturbed, 9)]);
        assert!(!spent.wants_more() && !spent.is_enough());
        let mut failed = series(2, 6, &[(Undisturbed, 9)]);
        failed.runs[0].status = CommandStatus { exit_code: Some(2), signal: None };
        assert!(!failed.wants_more());
    }

    #[test]
    fn times_are_spread_with_and_without_the_disturbed() {
        let series =
            series(2, 6, &[(RunVerdict::Undisturbed, 10), (RunVerdict::Disturbed, 40), (RunVerdict::Undisturbed, 12)]);
        let (all, undisturbed) = (series.spread().unwrap(), series.spread_undisturbed().unwrap());
        assert_eq!((all.runs, all.min_ns, all.max_ns), (3, Nanos(10_000_000), Nanos(40_000_000)));
        assert_eq!((undisturbed.runs, undisturbed.mean_ns), (2, Nanos(11_000_000)));
        assert_eq!(undisturbed.deviation_ns.map(|ns| ns.0 / 1_000), Some(1_414));
        assert_eq!(Spread::of([Nanos(5)].into_iter()).unwrap().deviation_ns, None);
        assert_eq!(Spread::of(std::iter::empty()), None);
        assert_eq!(series.numbers(RunVerdict::Disturbed), [2]);
    }
}
