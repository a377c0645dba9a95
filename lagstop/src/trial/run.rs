//! Blocks without and with a policy, in turn.

use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use globset::GlobSet;
use thiserror::Error;

use super::{
    Change, Dynamic, Guard, Journal, JournalError, Kernel, Outcome, Policy, Sides,
    guard::wants_to_run,
    outcome::{Block, figures},
    watchdog::Watchdog,
};
use crate::{
    diagnosis::{Finding, Observations, Rule, Thresholds},
    model::{Interval, Session},
    plain::plain,
    recorder::Recorder,
};

/// How to try it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What.
    pub policy: Policy,
    /// How long it is measured, with and without.
    pub duration: Duration,
    /// How long a block is.
    pub block: Duration,
    /// How long it is measured before, to see who is light and who is heavy.
    pub before: Duration,
    /// Who is to go first. `None`: who waits long, as `diagnose` says.
    pub light: Option<GlobSet>,
    /// CPU time that everybody is to get who wants to run, in cores; and for how long it may be less.
    pub floor: f64,
    /// For how long it may be less.
    pub patience: Duration,
    /// Where the journal is.
    pub journal: PathBuf,
}

/// What was found before.
#[derive(Debug)]
pub struct Prepared {
    /// Who is to go first, and who pays.
    pub sides: Sides,
    /// What is predicted.
    pub finding: Finding,
    /// What would be changed at first.
    pub changes: Vec<Change>,
    recorder: Recorder,
    session: Session,
}

/// What ends a trial before it begins.
#[derive(Debug, Error)]
pub enum TrialError {
    /// The host cannot be measured.
    #[error("the host cannot be measured: {}", plain(.0))]
    Recorder(io::Error),
    /// There is nobody to try it with.
    #[error("{policy} cannot be tried: {why}")]
    Policy {
        /// What was to be tried.
        policy: Policy,
        /// Why not.
        why: String,
    },
    /// The journal is not to be had.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nobody would put things back.
    #[error("the watchdog cannot be started: {}: nothing was changed", plain(.0))]
    Watchdog(io::Error),
    /// It was asked to stop.
    #[error("stopped: nothing was changed")]
    Stopped,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// It is measured who is light and who is heavy.
    Before {
        /// How long it takes from here.
        left: Duration,
    },
    /// A block.
    Block {
        /// Is it one with the policy?
        is_with: bool,
        /// How long all of it takes from here.
        left: Duration,
    },
}

/// Cgroups that are measured.
const CGROUPS: u32 = 5_000;
/// Part of a block that is not measured: what is waited for when it begins is from before.
const SETTLES: f64 = 0.2;
const ASKED: &str = "it was asked to";
/// The recorder writes twice a second; where it is silent for so long, something is wrong.
const SILENCE: Duration = Duration::from_secs(10);

/// Measures who is light and who is heavy, and finds out what would be changed. Changes nothing.
///
/// # Errors
/// See [`TrialError`].
pub fn prepare(
    settings: &Settings,
    kernel: &Kernel,
    tell: &mut dyn FnMut(Event),
    stop: &AtomicBool,
) -> Result<Prepared, TrialError> {
    let recorder = Recorder::start(CGROUPS).map_err(TrialError::Recorder)?;
    let session = recorder.session().clone();
    let mut observations = Observations::new(session.clone());
    let ends = Instant::now() + settings.before;
    while Instant::now() < ends {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        tell(Event::Before { left: ends.saturating_duration_since(Instant::now()) });
        observations.add(&next(&recorder).map_err(TrialError::Recorder)?.1);
    }
    let report = observations.diagnose(&Thresholds::default());
    let cannot = |why: String| TrialError::Policy { policy: settings.policy, why };
    let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates);
    let finding = finding.ok_or_else(|| cannot("nothing is said of light and heavy cgroups".to_owned()))?;
    let sides = Sides::of(&finding, settings.light.as_ref(), kernel.hierarchy());
    let changes = settings.policy.changes(&sides, kernel).map_err(|why| {
        cannot(if sides.light.is_empty() || sides.heavy.is_empty() {
            format!("{why}. In the {:?} before: {}", settings.before, finding.verdict)
        } else {
            why
        })
    })?;
    Ok(Prepared { sides, finding, changes, recorder, session })
}

/// Tries it: every change is in the journal before it is made, and all of them are undone at the end, whatever happens.
///
/// # Errors
/// See [`TrialError`]: nothing was changed then.
pub fn run(
    settings: &Settings,
    kernel: &Kernel,
    prepared: Prepared,
    tell: &mut dyn FnMut(Event),
    stop: &AtomicBool,
) -> Result<Outcome, TrialError> {
    let Prepared { sides, finding, recorder, session, .. } = prepared;
    let journal = Journal::begin(&settings.journal, settings.policy)?;
    let watchdog = match Watchdog::start(journal.path()) {
        Ok(watchdog) => watchdog,
        Err(error) => {
            journal.end();
            return Err(TrialError::Watchdog(error));
        }
    };
    let pairs = pairs(settings);
    let mut trial = Trial {
        settings,
        kernel,
        sides: &sides,
        recorder,
        journal,
        watchdog,
        guard: Guard::new(settings.floor, settings.patience),
        undone: 0,
    };
    let mut blocks = Vec::new();
    let mut ended = None;
    for number in 0..=2 * pairs {
        let left = settings.block.saturating_mul(u32::try_from(2 * pairs + 1 - number).unwrap_or(u32::MAX));
        match trial.block(number % 2 == 1, left, tell, stop) {
            Ok(block) => blocks.push(block),
            Err(why) => {
                ended = Some(why);
                break;
            }
        }
    }
    let Trial { journal, watchdog, undone, .. } = trial;
    let restored = journal.end();
    if restored.failed.is_empty() {
        watchdog.end();
    }
    // A block with it counts between two without.
    let whole = blocks.len().saturating_sub(1) / 2 * 2 + usize::from(!blocks.is_empty());
    blocks.truncate(whole);
    let paths = |groups: &[super::Group]| groups.iter().map(|group| group.path.clone()).collect();
    Ok(Outcome {
        schema: Outcome::SCHEMA,
        policy: settings.policy,
        hostname: session.hostname.clone(),
        kernel: session.kernel.clone(),
        light: paths(&sides.light),
        heavy: paths(&sides.heavy),
        pairs: blocks.len() / 2,
        block_seconds: settings.block.as_secs_f64(),
        figures: figures(&blocks, Some(&finding)),
        ended,
        undone: undone + restored.undone,
        not_undone: restored.failed,
    })
}

/// Blocks with the policy; at least two, else there is no spread to tell chance by.
fn pairs(settings: &Settings) -> usize {
    let blocks = settings.duration.as_secs_f64() / settings.block.as_secs_f64();
    (((blocks - 1.0) / 2.0) as usize).max(2)
}

/// One that goes on.
struct Trial<'a> {
    settings: &'a Settings,
    kernel: &'a Kernel,
    sides: &'a Sides,
    recorder: Recorder,
    journal: Journal,
    watchdog: Watchdog,
    guard: Guard,
    /// Changes that were undone so far.
    undone: usize,
}

impl Trial<'_> {
    /// A block, with or without the policy. Gives why it had to end.
    fn block(
        &mut self,
        is_with: bool,
        left: Duration,
        tell: &mut dyn FnMut(Event),
        stop: &AtomicBool,
    ) -> Result<Block, String> {
        let mut dynamic = None;
        if is_with {
            // What there is now, before it is changed.
            dynamic = (self.settings.policy == Policy::LagsDynamic).then(|| Dynamic::new(self.sides, self.kernel));
            for change in self.settings.policy.changes(&self.sides.present(), self.kernel)? {
                if stop.load(Ordering::Relaxed) {
                    return Err(ASKED.to_owned());
                }
                self.make(change)?;
            }
        }
        let begins = Instant::now();
        let (counts, ends) = (begins + self.settings.block.mul_f64(SETTLES), begins + self.settings.block);
        let mut intervals: Vec<Interval> = Vec::new();
        while Instant::now() < ends {
            tell(Event::Block { is_with, left: left.saturating_sub(begins.elapsed()) });
            if stop.load(Ordering::Relaxed) {
                return Err(ASKED.to_owned());
            }
            if !self.watchdog.is_there() {
                return Err("its watchdog was killed".to_owned());
            }
            let (came, interval) = next(&self.recorder).map_err(|error| plain(&error).to_string())?;
            let began = came.checked_sub(Duration::from_nanos(interval.duration_ns.0));
            if is_with {
                if let Some(group) = self.guard.look(self.sides, &interval, wants_to_run) {
                    return Err(format!(
                        "{} wanted to run and got less than {} cores for {:?}",
                        group.path, self.settings.floor, self.settings.patience
                    ));
                }
                let mut changes = self.settings.policy.newcomers(&self.sides.present(), self.kernel);
                changes.extend(dynamic.iter_mut().flat_map(|dynamic| dynamic.changes(&interval, self.kernel)));
                for change in changes {
                    self.make(change)?;
                }
            }
            if began.is_some_and(|began| began >= counts) {
                intervals.push(interval);
            }
        }
        self.guard.forget();
        if is_with {
            let restored = self.journal.undo();
            self.undone += restored.undone;
            if let Some(why) = restored.failed.first() {
                return Err(why.clone());
            }
        }
        Ok(Block::of(&intervals, self.sides))
    }

    fn make(&mut self, change: Change) -> Result<(), String> {
        let shown = change.to_string();
        self.journal.make(change).map_err(|error| format!("{shown}: {}", plain(&error)))
    }
}

fn next(recorder: &Recorder) -> io::Result<(Instant, Interval)> {
    recorder.next(SILENCE).ok_or_else(|| io::Error::other("lagstop record writes nothing any more"))
}
