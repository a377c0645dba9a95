//! Which limits fail, and what lagstop then ends with.

use super::{Args, End, LIMIT_EXCEEDED};
use crate::{
    cli::say,
    report,
    run::{Disturbance, Run, RunSeries, RunVerdict},
};

/// The limits that were asked for.
pub(super) struct Gate {
    limits: Vec<Disturbance>,
    repeats: bool,
}

impl Gate {
    pub(super) fn of(args: &Args) -> Self {
        let all = [
            (Disturbance::Wait, args.max_wait.is_some()),
            (Disturbance::Throttled, args.max_throttled.is_some()),
            (Disturbance::Steal, args.max_steal.is_some()),
        ];
        let limits = all.into_iter().filter(|(_, is_given)| *is_given).map(|(cause, _)| cause).collect();
        Self { limits, repeats: args.repeat.is_some() }
    }

    /// Does it need to know what the command waited for?
    pub(super) fn needs_causes(&self) -> bool {
        self.repeats || self.limits.iter().any(|limit| *limit != Disturbance::Steal)
    }

    /// How lagstop ends after these runs. `end` is how the last one ended.
    pub(super) fn end(&self, series: &RunSeries, end: End) -> End {
        let fails = end == End::Code(0)
            && if self.repeats { !series.is_enough() } else { series.runs.iter().any(|run| self.fails(run)) };
        if !fails {
            return end;
        }
        say(format_args!("lagstop: {}\n", report::run::failure(series, &self.limits)));
        End::Code(LIMIT_EXCEEDED)
    }

    /// A limit that cannot be checked counts as exceeded.
    fn fails(&self, run: &Run) -> bool {
        self.limits.iter().any(|limit| {
            let is_exceeded = run.exceeded.iter().any(|exceeded| exceeded.cause == *limit);
            let is_unknown = match limit {
                Disturbance::Wait | Disturbance::Throttled => {
                    run.why_not.is_some() || run.verdict == RunVerdict::NotJudged
                }
                Disturbance::Steal => run.shares.steal.is_none(),
            };
            is_exceeded || is_unknown
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{CommandStatus, Exceeded, RunShares};

    fn gate(limits: &[Disturbance]) -> Gate {
        Gate { limits: limits.to_vec(), repeats: false }
    }

    fn run(verdict: RunVerdict, exceeded: &[Disturbance], steal: Option<f64>) -> Run {
        let exceeded = exceeded.iter().map(|&cause| Exceeded { cause, share: 0.5, limit: 0.1 }).collect();
        let why_not = (verdict == RunVerdict::NotJudged).then(|| "files".to_owned());
        let status = CommandStatus { exit_code: Some(0), signal: None };
        Run {
            verdict,
            exceeded,
            why_not,
            status,
            shares: RunShares { steal, ..RunShares::default() },
            ..Run::default()
        }
    }

    #[test]
    fn only_limits_that_were_given_fail() {
        let disturbed = run(RunVerdict::Disturbed, &[Disturbance::Wait], Some(0.0));
        assert!(gate(&[Disturbance::Wait]).fails(&disturbed) && !gate(&[Disturbance::Steal]).fails(&disturbed));
        assert!(!gate(&[]).fails(&disturbed));
        assert!(!gate(&[Disturbance::Wait, Disturbance::Steal]).fails(&run(RunVerdict::Undisturbed, &[], Some(0.0))));
    }

    #[test]
    fn what_cannot_be_checked_is_not_passed() {
        let files = run(RunVerdict::NotJudged, &[], Some(0.0));
        assert!(gate(&[Disturbance::Wait]).fails(&files) && !gate(&[Disturbance::Steal]).fails(&files));
        assert!(gate(&[Disturbance::Steal]).fails(&run(RunVerdict::Undisturbed, &[], None)));
        assert!(gate(&[Disturbance::Wait]).needs_causes() && !gate(&[Disturbance::Steal]).needs_causes());
    }
}
