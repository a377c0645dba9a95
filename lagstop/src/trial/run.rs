//! Blocks without and with a policy, in turn.

use std::{
    io, mem,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use globset::GlobSet;
use thiserror::Error;

use super::{
    Attr, Dynamic, Guard, Journal, JournalError, Kernel, Made, NotUndone, Policy, PolicyChange, PolicyError,
    Prediction, Restored, Sides, Starves, Switch, SwitchError, SwitchSettings, TimeOfBlock, TrialOutcome, Tried,
    block::{Block, Slice},
    ended::Ended,
    guard,
    in_progress::InProgress,
    outcome::figures,
    watchdog::Watchdog,
};
use crate::{
    background::{Background, BackgroundError},
    diagnosis::{CompetitorsError, Finding, Observations, Rule, Thresholds},
    display::{plain, short_name},
    kernel::loaded_scheduler,
    model::{Interval, Session},
    units::KernelTime,
};

#[derive(Clone, Debug)]
pub struct TrialSettings {
    /// The policy. `None`: no policy, to measure variation by chance.
    pub policy: Option<Policy>,
    /// Total measured time, with and without the policy.
    pub duration: Duration,
    pub block: Duration,
    /// Measured time before the trial, to find light and heavy cgroups.
    pub before: Duration,
    /// The cgroups to prioritise. `None`: the light cgroups with long waits, from `diagnose`.
    pub light: Option<GlobSet>,
    /// The least CPU time of every runnable cgroup, in cores.
    pub floor: f64,
    /// How long a cgroup may get less.
    pub patience: Duration,
    pub journal: PathBuf,
    /// Of policies that switch the host's scheduler.
    pub switch: SwitchSettings,
}

impl TrialSettings {
    /// The policy's scheduler, where it has one.
    fn switched(&self) -> Option<Switch> {
        self.policy.and_then(Policy::switches_to).map(|to| Switch::new(to, &self.switch))
    }
}

/// Findings from before the trial.
#[derive(Debug)]
pub struct PreparedTrial {
    /// The light and the heavy cgroups.
    pub sides: Sides,
    /// The finding about them.
    pub finding: Finding,
    /// The first changes.
    pub changes: Vec<PolicyChange>,
    pub prediction: Prediction,
    guard: Guard,
    background: Background,
    session: Session,
}

/// Why a trial does not start.
#[derive(Debug, Error)]
pub enum TrialError {
    /// The host cannot be measured.
    #[error("cannot measure the host: {0}")]
    Background(#[source] BackgroundError),
    /// There are no cgroups to try it with.
    #[error("{} cannot be tried: {source}", super::name(*.policy))]
    Policy {
        /// The policy that was requested.
        policy: Option<Policy>,
        source: Box<Untried>,
    },
    /// The journal is not available.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Without a watchdog, changes might not be undone.
    #[error("cannot start the watchdog: {}. Nothing was changed", plain(.0))]
    Watchdog(#[source] io::Error),
    /// It was asked to stop.
    #[error("stopped. Nothing was changed")]
    Stopped,
}

/// Why something cannot be tried.
#[derive(Debug, Error)]
pub enum Untried {
    #[error("diagnose found no light and heavy cgroups")]
    NoFinding,
    #[error(transparent)]
    Competitors(#[from] CompetitorsError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// One of the sides is empty. What `diagnose` says of the time before may tell why.
    #[error("{source}.{}{} Diagnosis of the {before:?} before the trial: {verdict}", start_elsewhere(.own.as_deref()), choose(*.is_named))]
    NoSides {
        source: PolicyError,
        /// The one that is light and waits long, and is left out because lagstop is in it.
        own: Option<String>,
        is_named: bool,
        before: Duration,
        verdict: String,
    },
}

fn start_elsewhere(own: Option<&str>) -> String {
    let Some(path) = own else { return String::new() };
    format!(
        " {} is light and waits long, but lagstop runs in it: start the trial in a cgroup of its own, with sudo systemd-run --scope --slice=lagstop.slice \
         lagstop trial and the same options.",
        short_name(path, 200)
    )
}

const fn choose(is_named: bool) -> &'static str {
    if is_named { "" } else { " Choose the light ones with --light." }
}

/// Progress of a trial.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Nothing that is known beforehand speaks against the trial. Nothing was measured yet.
    Checked,
    /// Measuring light and heavy cgroups before the trial.
    Before {
        /// Remaining time of this phase.
        left: Duration,
    },
    Block {
        /// Is it one with the policy?
        is_with: bool,
        /// Remaining time of the trial.
        left: Duration,
    },
}

/// Cgroups that are measured.
const CGROUPS: u32 = 5_000;
/// Share of a block that does not count. Chosen: what is waited for when it begins is from before.
const SETTLES: f64 = 0.2;
/// Share of a block that does not count at most, where waiting still rises or falls. Chosen: half has to be left to measure.
const SETTLES_AT_MOST: f64 = 0.5;
/// Time without intervals after which measuring has failed. Normally there are two per second.
const SILENCE: Duration = Duration::from_secs(10);
/// The same with a policy, when starvation would go unnoticed: the longer of this and the patience, up to [`SILENCE`].
const SHORT_SILENCE: Duration = Duration::from_secs(2);
/// Time between checks of waiting threads and of the stop request.
const STEP: Duration = Duration::from_millis(50);
/// How long the last intervals may be on their way.
const LATE: Duration = Duration::from_secs(1);

/// Measures who is light and who is heavy, and finds out what would be changed. Changes nothing.
///
/// # Errors
/// See [`TrialError`].
pub fn prepare(
    settings: &TrialSettings,
    kernel: &Kernel,
    tell: &mut dyn FnMut(Event),
    stop: &AtomicBool,
) -> Result<PreparedTrial, TrialError> {
    if let Some(policy) = settings.policy {
        let cannot =
            |source: PolicyError| TrialError::Policy { policy: settings.policy, source: Box::new(source.into()) };
        policy.has_effect(kernel).map_err(cannot)?;
        let checked = settings.switched().map_or(Ok(()), |switch| switch.check());
        checked.map_err(|source| cannot(source.into()))?;
    }
    tell(Event::Checked);
    let background = Background::start(CGROUPS, Background::INTERVAL).map_err(TrialError::Background)?;
    let mut guard = Guard::new(settings.floor, settings.patience);
    let session = background.session().clone();
    let mut observations = Observations::new(session.clone());
    let ends = Instant::now() + settings.before;
    while Instant::now() < ends {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        tell(Event::Before { left: ends.saturating_duration_since(Instant::now()) });
        let next = background.next(SILENCE).and_then(|next| next.ok_or(BackgroundError::Silent));
        let (_, interval) = next.map_err(TrialError::Background)?;
        observations.add(&interval);
        guard.see(&interval, kernel.hierarchy());
    }
    let report = observations.diagnose(&Thresholds::default());
    let cannot = |source: Untried| TrialError::Policy { policy: settings.policy, source: source.into() };
    let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates);
    let finding = finding.ok_or_else(|| cannot(Untried::NoFinding))?;
    let sides = match &settings.light {
        Some(light) => {
            let named = Sides::named(&observations, light, kernel.hierarchy());
            named.map_err(|source| cannot(source.into()))?
        }
        None => Sides::of(&finding, kernel.hierarchy()),
    };
    let changes = changes(settings.policy, &sides, kernel).map_err(|source| {
        cannot(if sides.is_one_empty() {
            let is_named = settings.light.is_some();
            let own = Sides::own(&finding, kernel.hierarchy()).filter(|_| !is_named && sides.light.is_empty());
            let own = own.map(str::to_owned);
            Untried::NoSides { source, own, is_named, before: settings.before, verdict: finding.verdict.clone() }
        } else {
            source.into()
        })
    })?;
    // Without a policy, there is no prediction.
    let prediction = settings
        .policy
        .map(|policy| Prediction::of(&observations, policy, &sides, &changes, kernel.hierarchy()))
        .unwrap_or_default();
    Ok(PreparedTrial { sides, finding, changes, prediction, guard, background, session })
}

/// First changes of a policy. A trial compares both sides, whatever the policy needs.
fn changes(policy: Option<Policy>, sides: &Sides, kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
    match policy {
        _ if sides.is_one_empty() => Err(PolicyError::not_both(sides)),
        Some(policy) => policy.changes(sides, kernel),
        None => Ok(Vec::new()),
    }
}

/// Runs the trial. Every change is in the journal before it is made. At the end, all changes are undone in any case,
/// except those that other programs changed since.
///
/// # Errors
/// See [`TrialError`]. Nothing was changed in that case.
pub fn run(
    settings: &TrialSettings,
    kernel: &Kernel,
    prepared: PreparedTrial,
    tell: &mut dyn FnMut(Event),
    stop: &AtomicBool,
) -> Result<Tried, TrialError> {
    let PreparedTrial { sides, prediction, guard, background, session, .. } = prepared;
    let journal = Journal::begin(&settings.journal, settings.policy)?;
    let goes_first = settings.policy == Some(Policy::LagsStatic);
    let mut watchdog = match Watchdog::start(journal.path(), goes_first) {
        Ok(watchdog) => watchdog,
        Err(error) => {
            journal.end(&mut || {});
            return Err(TrialError::Watchdog(error));
        }
    };
    let mut notes = watchdog.notes();
    let first = goes_first.then(First::go);
    if let Some(Err(error)) = &first {
        notes.push(format!("the trial is not real-time, so the policy may delay it: {}", plain(error)));
    }
    let pairs = pairs(settings);
    let mut trial = Trial {
        settings,
        kernel,
        sides: &sides,
        background,
        heard: Instant::now(),
        journal,
        watchdog,
        guard,
        in_progress: InProgress::new(&sides, kernel.hierarchy()),
        switch: settings.switched(),
        windows: Vec::new(),
        restored: Restored::default(),
        notes,
    };
    let mut ended = None;
    for number in 0..=2 * pairs {
        let left = settings.block.saturating_mul(u32::try_from(2 * pairs + 1 - number).unwrap_or(u32::MAX));
        if let Err(why) = trial.block(number % 2 == 1, left, tell, stop) {
            ended = Some(why);
            // This block is incomplete.
            trial.windows.truncate(number);
            break;
        }
    }
    if ended.is_none() {
        trial.hear_the_last();
    }
    // Where it ended in the middle of a block. Why it ended is said already.
    let switched_back = trial.switch_back();
    let ended = ended.or(switched_back.err().map(Ended::from));
    let Trial { journal, mut watchdog, mut restored, notes, windows, in_progress, .. } = trial;
    restored.add(journal.end(&mut || watchdog.beat()));
    drop(first);
    if restored.failed.is_empty() {
        watchdog.end();
    }
    // Only now it is known who was looked at when.
    let settled = |Window { latest, slices, .. }: Window| {
        let spent = slices.into_iter().map(|slice| slice.spent(|at| in_progress.until(at)));
        Block::settled(&spent.collect::<Vec<_>>(), latest)
    };
    let mut blocks: Vec<Block> = windows.into_iter().map(settled).collect();
    // A block with it counts between two without.
    let whole = blocks.len().saturating_sub(1) / 2 * 2 + usize::from(!blocks.is_empty());
    blocks.truncate(whole);
    let paths = |groups: &[super::TriedGroup]| groups.iter().map(|group| group.path.clone()).collect();
    let outcome = TrialOutcome {
        schema: TrialOutcome::SCHEMA,
        policy: settings.policy,
        hostname: session.hostname.clone(),
        kernel: session.kernel.clone(),
        light: paths(&sides.light),
        heavy: paths(&sides.heavy),
        pairs: blocks.len() / 2,
        block_seconds: settings.block.as_secs_f64(),
        blocks: times_of(&blocks),
        looked_every_seconds: in_progress.every().map(|every| every.as_secs_f64()),
        figures: figures(&blocks, &prediction),
        ended: ended.map(|why| why.to_string()),
        undone: restored.undone,
        not_undone: restored.failed.iter().map(NotUndone::to_string).collect(),
    };
    let loaded_scheduler =
        settings.policy.filter(|policy| policy.switches_scheduler()).and_then(|_| loaded_scheduler());
    let ignored = settings.switch.options().ignored();
    Ok(Tried { outcome, changed_by_others: restored.left, loaded_scheduler, ignored, notes })
}

/// The calling thread goes before what `lags-static` makes real-time, until this is dropped: else it may wait for it to put
/// things back.
struct First {
    before: Attr,
}

impl First {
    fn go() -> io::Result<Self> {
        Ok(Self { before: Attr::go_first()? })
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // If that fails, the thread ends soon anyway.
        let _ = self.before.set(0);
    }
}

/// When each block counted, on the clock that other processes have too.
fn times_of(blocks: &[Block]) -> Vec<TimeOfBlock> {
    let ns = |at: Instant| KernelTime::of(at).0.0;
    let time = |(number, block): (usize, &Block)| {
        let sum = block.sum.as_ref()?;
        Some(TimeOfBlock {
            is_with: number % 2 == 1,
            from_ns: ns(sum.times.start),
            to_ns: ns(sum.times.end),
            is_steady: block.is_steady,
            light_moved_seconds: sum.moved.map(|[light, _]| light),
            heavy_moved_seconds: sum.moved.map(|[_, heavy]| heavy),
        })
    };
    blocks.iter().enumerate().filter_map(time).collect()
}

/// Number of blocks with the policy. At least two, because chance cannot be estimated from one.
fn pairs(settings: &TrialSettings) -> usize {
    let blocks = settings.duration.as_secs_f64() / settings.block.as_secs_f64();
    (((blocks - 1.0) / 2.0) as usize).max(2)
}

/// A block, and what may count in it: intervals that are whole in this time, whenever they come.
struct Window {
    counts: Range<Instant>,
    /// Counting begins at this time at the latest.
    latest: Instant,
    slices: Vec<Slice>,
}

/// A trial that is running.
struct Trial<'a> {
    settings: &'a TrialSettings,
    kernel: &'a Kernel,
    sides: &'a Sides,
    background: Background,
    /// When the last interval came.
    heard: Instant,
    journal: Journal,
    watchdog: Watchdog,
    guard: Guard,
    in_progress: InProgress,
    /// Of policies that switch the host's scheduler.
    switch: Option<Switch>,
    windows: Vec<Window>,
    /// What was undone so far.
    restored: Restored,
    /// What was refused.
    notes: Vec<String>,
}

impl Trial<'_> {
    /// A block, with or without the policy. Gives why it had to end.
    fn block(
        &mut self,
        is_with: bool,
        left: Duration,
        tell: &mut dyn FnMut(Event),
        stop: &AtomicBool,
    ) -> Result<(), Ended> {
        let mut dynamic = None;
        if is_with {
            // What there is now, before it is changed.
            dynamic =
                (self.settings.policy == Some(Policy::LagsDynamic)).then(|| Dynamic::new(self.sides, self.kernel));
            self.make(changes(self.settings.policy, &self.sides.present(), self.kernel)?, stop)?;
            self.switch(stop)?;
        } else if let Some(switch) = &mut self.switch {
            // CPU time in this block tells which cgroups are heavy when the next one begins.
            switch.learn(&mut || self.watchdog.beat())?;
        }
        let begins = Instant::now();
        // Nobody listened while the scheduler was switched.
        self.heard = begins;
        let ends = begins + self.settings.block;
        let counts = begins + self.settings.block.mul_f64(SETTLES)..ends;
        let latest = begins + self.settings.block.mul_f64(SETTLES_AT_MOST);
        self.windows.push(Window { counts, latest, slices: Vec::new() });
        while Instant::now() < ends {
            tell(Event::Block { is_with, left: left.saturating_sub(begins.elapsed()) });
            self.watchdog.beat();
            self.in_progress.look_in_time();
            self.switch.as_mut().map_or(Ok(()), Switch::look)?;
            if stop.load(Ordering::Relaxed) {
                return Err(Ended::Asked);
            }
            if !self.watchdog.is_there() {
                return Err(Ended::Unwatched);
            }
            let step = STEP.min(ends.saturating_duration_since(Instant::now()));
            let Some((times, interval)) = self.background.next(step)? else {
                self.refuse_silence(is_with)?;
                continue;
            };
            self.heard = Instant::now();
            self.count(&times, &interval);
            self.guard.see(&interval, self.kernel.hierarchy());
            // The time before was without the policy.
            if is_with && times.start >= begins {
                self.refuse_starving(&interval)?;
                let newcomers = |policy: Policy| policy.newcomers(&self.sides.present(), self.kernel);
                let mut changes = self.settings.policy.map(newcomers).unwrap_or_default();
                changes.extend(dynamic.iter_mut().flat_map(|dynamic| dynamic.changes(&interval, self.kernel)));
                self.make(changes, stop)?;
            }
        }
        // Look once more: waits in progress may end when things are put back or changed.
        self.in_progress.look();
        if is_with {
            self.switch_back()?;
            let mut undone = self.journal.undo(&mut || self.watchdog.beat());
            // It is tried again when the journal ends: what counts is how it is then.
            let failed = mem::take(&mut undone.failed);
            self.restored.add(undone);
            if let Some(first) = failed.into_iter().next() {
                return Err(Ended::NotUndone(first.into()));
            }
        }
        Ok(())
    }

    /// Switches the host's scheduler, where the policy does.
    fn switch(&mut self, stop: &AtomicBool) -> Result<(), SwitchError> {
        let Self { switch: Some(switch), watchdog, .. } = self else { return Ok(()) };
        switch.start(&mut || watchdog.beat(), &|| !stop.load(Ordering::Relaxed))
    }

    /// Gives the host back to the kernel's own scheduler.
    fn switch_back(&mut self) -> Result<(), SwitchError> {
        let Self { switch: Some(switch), watchdog, restored, .. } = self else { return Ok(()) };
        if switch.end(&mut || watchdog.beat())? {
            restored.undone += 1;
        }
        Ok(())
    }

    /// Adds an interval to the block that it is whole in. What straddles a switch of policy, or is from a time that does not
    /// count, is left out.
    fn count(&mut self, times: &Range<Instant>, interval: &Interval) {
        let is_in = |counts: &Range<Instant>| times.start >= counts.start && times.end <= counts.end;
        if let Some(window) = self.windows.iter_mut().rev().find(|window| is_in(&window.counts)) {
            window.slices.push(Slice::new(times.clone(), interval, self.sides));
        }
    }

    /// Takes the intervals that are still on their way when the last block ends.
    fn hear_the_last(&mut self) {
        let Some(ends) = self.windows.last().map(|window| window.counts.end) else { return };
        let until = Instant::now() + LATE;
        while let Ok(Some((times, interval))) = self.background.next(until.saturating_duration_since(Instant::now())) {
            self.count(&times, &interval);
            if times.end >= ends {
                break;
            }
        }
    }

    fn refuse_silence(&self, is_with: bool) -> Result<(), BackgroundError> {
        let most = if is_with { SHORT_SILENCE.max(self.guard.patience()).min(SILENCE) } else { SILENCE };
        if self.heard.elapsed() < most { Ok(()) } else { Err(BackgroundError::Silent) }
    }

    fn refuse_starving(&mut self, interval: &Interval) -> Result<(), Ended> {
        let hierarchy = self.kernel.hierarchy();
        let wants = |directory: &Path| guard::wants(hierarchy, directory);
        let Some(Starves { path, is_throttled }) = self.guard.look(interval, wants) else { return Ok(()) };
        let &TrialSettings { floor, patience, .. } = self.settings;
        Err(Ended::Starved { path, floor, patience, is_throttled })
    }

    /// Makes changes, except to settings that another program changed since they were planned. Related changes of a
    /// cgroup, such as its weight and `cpu.idle`, are skipped together.
    fn make(&mut self, changes: Vec<PolicyChange>, stop: &AtomicBool) -> Result<(), Ended> {
        let mut theirs: Vec<PathBuf> = Vec::new();
        for change in changes {
            if stop.load(Ordering::Relaxed) {
                return Err(Ended::Asked);
            }
            self.watchdog.beat();
            let directory = change.directory().map(Path::to_owned);
            if directory.as_ref().is_some_and(|directory| theirs.contains(directory)) {
                continue;
            }
            let made = self.journal.make(change.clone());
            match made.map_err(|source| Ended::Change { change: Box::new(change.clone()), source })? {
                Made::Yes => {}
                Made::No(now) => {
                    theirs.extend(directory);
                    let left = format!(
                        "{}: changed by another program to {now}: the policy leaves it as it is",
                        change.what()
                    );
                    if !self.restored.left.contains(&left) {
                        self.restored.left.push(left);
                    }
                }
            }
        }
        Ok(())
    }
}
