//! Which limits fail, and what lagstop then ends with.

use super::{Args, End, LIMIT_EXCEEDED};
use crate::{
    cli::say,
    report,
    run::{Cause, Run, Series, Verdict},
};

/// The limits that were asked for.
pub(super) struct Gate {
    limits: Vec<Cause>,
    repeats: bool,
}

impl Gate {
    pub(super) fn of(args: &Args) -> Self {
        let all = [
            (Cause::Wait, args.max_wait.is_some()),
            (Cause::Throttled, args.max_throttled.is_some()),
            (Cause::Steal, args.max_steal.is_some()),
        ];
        let limits = all.into_iter().filter(|(_, is_given)| *is_given).map(|(cause, _)| cause).collect();
        Self { limits, repeats: args.repeat.is_some() }
    }

    /// Does it need to know what the command waited for?
    pub(super) fn needs_causes(&self) -> bool {
        self.repeats || self.limits.iter().any(|limit| *limit != Cause::Steal)
    }

    /// How lagstop ends after these runs. `end` is how the last one ended.
    pub(super) fn end(&self, series: &Series, end: End) -> End {
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
                Cause::Wait | Cause::Throttled => run.why_not.is_some() || run.verdict == Verdict::NotJudged,
                Cause::Steal => run.shares.steal.is_none(),
            };
            is_exceeded || is_unknown
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Exceeded, Shares, Status};

    fn gate(limits: &[Cause]) -> Gate {
        Gate { limits: limits.to_vec(), repeats: false }
    }

    fn run(verdict: Verdict, exceeded: &[Cause], steal: Option<f64>) -> Run {
        let exceeded = exceeded.iter().map(|&cause| Exceeded { cause, share: 0.5, limit: 0.1 }).collect();
        let why_not = (verdict == Verdict::NotJudged).then(|| "files".to_owned());
        let status = Status { exit_code: Some(0), signal: None };
        Run { verdict, exceeded, why_not, status, shares: Shares { steal, ..Shares::default() }, ..Run::default() }
    }

    #[test]
    fn only_limits_that_were_given_fail() {
        let disturbed = run(Verdict::Disturbed, &[Cause::Wait], Some(0.0));
        assert!(gate(&[Cause::Wait]).fails(&disturbed) && !gate(&[Cause::Steal]).fails(&disturbed));
        assert!(!gate(&[]).fails(&disturbed));
        assert!(!gate(&[Cause::Wait, Cause::Steal]).fails(&run(Verdict::Undisturbed, &[], Some(0.0))));
    }

    #[test]
    fn what_cannot_be_checked_is_not_passed() {
        let files = run(Verdict::NotJudged, &[], Some(0.0));
        assert!(gate(&[Cause::Wait]).fails(&files) && !gate(&[Cause::Steal]).fails(&files));
        assert!(gate(&[Cause::Steal]).fails(&run(Verdict::Undisturbed, &[], None)));
        assert!(gate(&[Cause::Wait]).needs_causes() && !gate(&[Cause::Steal]).needs_causes());
    }
}
