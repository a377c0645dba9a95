//! What happens beside the command: every wait is measured, or only files are read.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use super::{Args, looks::Looks};
use crate::{
    cli::{
        Failure,
        command::{CommandGroup, Place},
        config::Config,
        output::{GrowingFile, is_compressed},
        record::{Clocks, Single},
        say,
        values::Grouping,
    },
    host::{Hierarchy, has_processes_in_root, names_of_runnable},
    model::{CgroupId, Interval, Nanos},
    recording::{Footer, now},
    run::{Account, Unmeasured, WaitedBehind, Work},
    source::{SourceError, Stream},
    units::KernelTime,
};

pub(super) enum Measuring {
    Live(Box<Live>),
    /// Only files are read, for this reason.
    Files(Unmeasured),
}

/// Every wait, with its cause.
pub(super) struct Live {
    /// `None` once it has ended.
    stream: Option<Stream>,
    /// What the times of intervals count from.
    began: Instant,
    hierarchy: Hierarchy,
    has_processes_in_root: bool,
    recording: Option<Recording>,
    /// Of the command that runs.
    account: Option<(Account, Looks)>,
    names: BTreeMap<CgroupId, Vec<String>>,
    name_looks: u32,
    /// Why it has ended.
    failure: Option<Unmeasured>,
}

impl Measuring {
    /// Starts to measure a command that will run in `place`.
    pub(super) fn start(args: &Args, config: &Config, place: &Place) -> Result<Self, Failure> {
        let (group_by, stream) = match &place.cgroup {
            Err(why) => return Self::files(args, Unmeasured::NoCgroup(why.clone())),
            Ok(group) => {
                // A cgroup for which the scheduler has no group is still a leaf.
                let asked = args.measure.group_by(&config.measure);
                let group_by = if group.has_group { asked } else { Grouping::Leaf };
                (group_by, args.measure.start_since(group_by, &config.measure))
            }
        };
        match stream {
            Ok((stream, began)) => {
                let mut recording = args.record.as_ref().map(|_| Recording::open(args)).transpose()?;
                if let Some(recording) = &mut recording {
                    recording.file.begin(&stream.session)?;
                }
                let hierarchy = Hierarchy::find(group_by.into())?;
                Ok(Self::Live(Box::new(Live {
                    stream: Some(stream),
                    began,
                    has_processes_in_root: has_processes_in_root(&hierarchy),
                    hierarchy,
                    recording,
                    account: None,
                    names: BTreeMap::new(),
                    name_looks: 0,
                    failure: None,
                })))
            }
            Err(error @ SourceError::Kernel(_)) if args.measure.may_read_files() => {
                Self::files(args, Unmeasured::failed(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn files(args: &Args, why: Unmeasured) -> Result<Self, Failure> {
        if args.record.is_some() {
            return Err(format!("nothing can be recorded, and the command was not run: {why}").into());
        }
        Ok(Self::Files(why))
    }

    /// Why nothing is measured.
    pub(super) const fn restricted(&self) -> Option<&Unmeasured> {
        match self {
            Self::Live(_) => None,
            Self::Files(why) => Some(why),
        }
    }

    /// A run begins in this place.
    pub(super) async fn begin(&mut self, place: &Place) {
        if let (Self::Live(live), Ok(group)) = (self, &place.cgroup) {
            live.begin(group).await;
        }
    }

    /// Takes the next interval while the command runs, or looks at its threads. Without a stream it waits forever.
    pub(super) async fn next(&mut self) {
        match self {
            Self::Live(live) if live.stream.is_some() => live.next().await,
            Self::Live(_) | Self::Files(_) => std::future::pending().await,
        }
    }

    /// The result of a run that ended at `ended`, or why there is none.
    pub(super) async fn finish(&mut self, ended: Nanos) -> Result<Work, Unmeasured> {
        match self {
            Self::Live(live) => live.finish(ended).await,
            Self::Files(why) => Err(why.clone()),
        }
    }
}

impl Live {
    /// The longest wait for a reading that was asked for. It takes less, unless something is wrong.
    const READING: Duration = Duration::from_secs(10);
    /// The most looks per run at who runs where the command waits. Each look takes CPU time.
    const MOST_NAME_LOOKS: u32 = 3;
    /// From this share of an interval on, a wait is worth a look.
    const WORTH_A_LOOK: f64 = 0.01;

    async fn begin(&mut self, group: &CommandGroup) {
        // What was before is not the command's.
        self.read_until(Instant::now()).await;
        let account = Account::new(group.id, &group.path, self.has_processes_in_root);
        self.account = Some((account, Looks::at(self.hierarchy.directory(&group.path))));
        self.names.clear();
        self.name_looks = 0;
    }

    async fn next(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let due = self.account.as_ref().map(|(_, looks)| looks.due());
        let look = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            interval = stream.intervals.recv() => match interval {
                Some(Ok(interval)) => drop(self.take(interval)),
                Some(Err(error)) => self.fail(Unmeasured::failed(error)),
                None => self.fail(Unmeasured::Ended),
            },
            () = look => {
                if let Some((_, looks)) = &mut self.account && looks.look(&self.hierarchy) {
                    stream.stop.read_now();
                }
            }
        }
    }

    fn fail(&mut self, why: Unmeasured) {
        self.stream = None;
        self.failure = Some(why);
    }

    /// Returns when it ended.
    fn take(&mut self, interval: Interval) -> Instant {
        let end = interval.start_ns.saturating_add(interval.duration_ns);
        if let Some((account, looks)) = &mut self.account {
            let before = account.worst().map_or(Nanos::ZERO, |worst| worst.wait_ns);
            looks.look(&self.hierarchy);
            account.add(&interval, looks.take().as_ref());
            let worst = account.worst().cloned();
            let grew = |worst: &WaitedBehind| worst.wait_ns.saturating_sub(before).cores(interval.duration_ns).0;
            if let Some(worst) = worst.filter(|worst| grew(worst) > Self::WORTH_A_LOOK) {
                self.look_up_names(&worst);
            }
        }
        if let Some(recording) = &mut self.recording
            && let Err(error) = recording.add(interval)
        {
            say(format_args!("lagstop: {error}. The recording has ended; the command continues\n"));
            self.recording = None;
        }
        self.began + Duration::from_nanos(end.0)
    }

    /// Finds out which threads run there now.
    fn look_up_names(&mut self, whom: &WaitedBehind) {
        /// Reading more threads would disturb the command.
        const MOST_THREADS: usize = 1_000;
        if self.name_looks == Self::MOST_NAME_LOOKS {
            return;
        }
        let directory = self.hierarchy.directory(&whom.path);
        let is_its = |found: fs::Metadata| whom.id == CgroupId::ROOT || found.ino() == whom.id.0;
        let Some(directory) = directory.filter(|directory| fs::metadata(directory).is_ok_and(is_its)) else { return };
        self.name_looks += 1;
        let known = self.names.entry(whom.id).or_default();
        for name in names_of_runnable(&self.hierarchy, &directory, MOST_THREADS) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }

    /// Takes intervals until one has ended at `when` or later.
    async fn read_until(&mut self, when: Instant) {
        if let Some(stream) = &self.stream {
            stream.stop.read_now();
        }
        let until = tokio::time::Instant::now() + Self::READING;
        while let Some(stream) = &mut self.stream {
            match tokio::time::timeout_at(until, stream.intervals.recv()).await {
                Ok(Some(Ok(interval))) => {
                    // One that was being read before lacks the last part.
                    if self.take(interval) >= when {
                        break;
                    }
                }
                Ok(Some(Err(error))) => self.fail(Unmeasured::failed(error)),
                Ok(None) => self.fail(Unmeasured::Ended),
                Err(_) => self.fail(Unmeasured::NoAnswer),
            }
        }
    }

    async fn finish(&mut self, ended: Nanos) -> Result<Work, Unmeasured> {
        self.read_until(KernelTime(ended).instant().unwrap_or_else(Instant::now)).await;
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let (work, frequency) =
            self.account.take().map(|(account, looks)| (account.finish(), looks.frequency())).unzip();
        let mut work = work.flatten().ok_or(Unmeasured::NotTracked)?;
        work.frequency = frequency.flatten();
        for behind in &mut work.behind {
            behind.threads = self.names.remove(&behind.id).unwrap_or_default();
        }
        Ok(work)
    }
}

/// Ends the recording: nothing is measured any more.
impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut recording) = self.recording.take() {
            let ended = || "the command ended".to_owned();
            let reason = self.failure.as_ref().map_or_else(ended, Unmeasured::to_string);
            let footer = Footer { ended_at: now(), reason, ..recording.footer };
            if let Err(error) = recording.file.end(footer) {
                say(format_args!("lagstop: {error}\n"));
            }
        }
    }
}

/// A recording that is made at the same time.
struct Recording {
    file: Single,
    clocks: Clocks,
    footer: Footer,
}

impl Recording {
    fn open(args: &Args) -> Result<Self, Failure> {
        let path = args.record.as_deref().unwrap_or(std::path::Path::new("-"));
        let file = GrowingFile::open(path, args.force)?;
        Ok(Self { file: Single::new(file, is_compressed(path)), clocks: Clocks::read(), footer: Footer::default() })
    }

    fn add(&mut self, interval: Interval) -> Result<(), Failure> {
        let gap = self.clocks.gap(&interval);
        let lost = interval.host.lost;
        self.file.interval(interval, gap)?;
        self.footer.intervals += 1;
        self.footer.lost.add(&lost);
        Ok(())
    }
}
