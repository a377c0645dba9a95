//! All that changed from one recording to the other.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    CgroupChanges, Change, ChangeVerdict, DiffSettings, Lone, cgroups::Cgroups, change::Comparer, doubts::doubts,
    party::Party,
};
use crate::model::{Lost, Nanos, Session};

/// All that changed from one recording to the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    pub settings: DiffSettings,
    pub before: Recorded,
    pub after: Recorded,
    /// Caveats of the comparison.
    pub doubts: Vec<String>,
    /// Changes of the host.
    pub host: Vec<Change>,
    /// Numbers of cgroups by kind.
    pub counts: Counts,
    /// Cgroups in both recordings, most changed first.
    pub cgroups: Vec<CgroupChanges>,
    /// Cgroups only in the second recording, most CPU time first.
    pub appeared: Vec<Lone>,
    /// Cgroups only in the first recording, most CPU time first.
    pub gone: Vec<Lone>,
}

/// Numbers of cgroups by kind, whether or not they are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// In both recordings.
    pub compared: usize,
    /// Of these, cgroups with a significant change.
    pub changed: usize,
    /// Of these, cgroups with a change for the worse.
    pub worse: usize,
    /// Of these, cgroups with a change for the better.
    pub better: usize,
    /// Only in the second recording.
    pub appeared: usize,
    /// Only in the first recording.
    pub gone: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// Host and settings of the recording.
    pub session: Session,
    pub intervals: usize,
    /// Blocks in each draw.
    pub blocks: usize,
    /// Intervals in a block, on average.
    pub block_intervals: f64,
    /// Total time of the intervals.
    pub duration_ns: Nanos,
    /// Missing intervals, counted by gaps in their numbers.
    pub skipped_intervals: u64,
    /// Whether the recording was ended, and not cut off.
    pub is_whole: bool,
    /// Events that could not be measured.
    pub lost: Lost,
}

impl From<&Party<'_>> for Recorded {
    fn from(Party { side, block, .. }: &Party<'_>) -> Self {
        Self {
            session: side.session.clone(),
            intervals: side.intervals,
            blocks: side.pieces().len().div_ceil(*block),
            block_intervals: side.pieces().intervals(*block),
            duration_ns: side.duration_ns,
            skipped_intervals: side.skipped_intervals,
            is_whole: side.is_whole,
            lost: side.lost,
        }
    }
}

impl Diff {
    pub(super) fn new(comparer: &Comparer<'_>, settings: DiffSettings, host: Vec<Change>, cgroups: Cgroups) -> Self {
        let (before, after) = comparer.parties();
        let Cgroups { compared, appeared, gone } = cgroups;
        let with = |verdict| compared.iter().filter(|cgroup| cgroup.has(verdict)).count();
        let counts = Counts {
            compared: compared.len(),
            changed: compared.iter().filter(|cgroup| cgroup.is_significant()).count(),
            worse: with(ChangeVerdict::Worse),
            better: with(ChangeVerdict::Better),
            appeared: appeared.len(),
            gone: gone.len(),
        };
        Self {
            settings,
            before: before.into(),
            after: after.into(),
            doubts: doubts(before.side, after.side, &host),
            host,
            counts,
            cgroups: compared,
            appeared,
            gone,
        }
    }

    /// Lists `most` cgroups of each kind at most.
    pub fn keep(&mut self, most: usize) {
        self.cgroups.truncate(most);
        self.appeared.truncate(most);
        self.gone.truncate(most);
    }

    /// Did anything get significantly worse, on the host or in a cgroup?
    pub fn is_worse(&self) -> bool {
        self.counts.worse > 0 || self.host.iter().any(|change| change.verdict == ChangeVerdict::Worse)
    }

    /// All of it in a line or two.
    pub fn verdict(&self) -> String {
        format!("{} {}", self.verdict_on_host(), self.verdict_on_cgroups())
    }

    fn verdict_on_host(&self) -> String {
        let with = |verdict| self.host.iter().filter(move |change| change.verdict == verdict);
        let changed: Vec<String> =
            [ChangeVerdict::Worse, ChangeVerdict::Better, ChangeVerdict::More, ChangeVerdict::Less]
                .into_iter()
                .filter_map(|verdict| {
                    let labels: Vec<&str> = with(verdict).map(|change| change.label).collect();
                    (!labels.is_empty()).then(|| format!("{}: {}", verdict.words(), labels.join(", ")))
                })
                .collect();
        if !changed.is_empty() {
            format!("On the host, {}.", changed.join("; "))
        } else if with(ChangeVerdict::NoSignificantChange).count() > 0 {
            "On the host, no significant change.".to_owned()
        } else if with(ChangeVerdict::NotEnoughIntervals).count() > 0
            || self.before.intervals.min(self.after.intervals) == 0
        {
            "On the host, there are not enough intervals to compare: record for longer.".to_owned()
        } else {
            "On the host, no metric can be compared.".to_owned()
        }
    }

    fn verdict_on_cgroups(&self) -> String {
        let Counts { compared, changed, worse, better, .. } = self.counts;
        match (compared, changed) {
            (0, _) => "No cgroup is in both recordings.".to_owned(),
            (_, 0) => format!("Cgroups in both: {compared}, no significant change."),
            _ => format!(
                "Cgroups in both: {compared}, of which {changed} changed: {worse} for the worse, {better} for the better."
            ),
        }
    }
}
