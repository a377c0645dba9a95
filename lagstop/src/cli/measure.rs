//! Arguments of every subcommand that measures.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use clap::Args;
use humantime::format_duration;

use super::{
    config::MeasureConfig,
    hooks::HookArgs,
    values::{Grouping, interval, positive},
};
use crate::{
    host::ExcludedCpus,
    model::LoadCredits,
    source::{
        FilesOptions, LiveOptions, SourceError, Stream, files, live, live_as_nobody, live_since, sentinel,
        sentinel_as_nobody,
    },
};

/// Default length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
const LOAD_CREDIT_TIME: Duration = Duration::from_nanos(LoadCredits::TIME_CONSTANT.0);

/// How to measure.
#[derive(Args, Clone, Debug)]
pub(super) struct MeasureArgs {
    #[arg(long, value_name = "TIME", value_parser = interval, help = format!("Length of an interval [default: {}]", format_duration(INTERVAL)))]
    interval: Option<Duration>,

    /// Group tasks by the cgroup that the scheduler uses, or by their cgroup v2 leaf [default: scheduler]
    #[arg(long, value_name = "WHAT")]
    group_by: Option<Grouping>,

    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000), help = format!(
        "Track at most this many cgroups separately at a time; the rest share the row `(other)` [default: {}]",
        LiveOptions::DEFAULT_MAX_CGROUPS,
    ))]
    max_cgroups: Option<u32>,

    #[arg(long, value_name = "TIME", value_parser = positive, help = format!("Time constant of Load Credit [default: {}]", format_duration(LOAD_CREDIT_TIME)))]
    load_credit_time: Option<Duration>,

    /// Leave CPUs alone and out of all figures: numbers such as `2-5,8`, or `isolated` for those of isolcpus= and nohz_full=
    #[arg(long, value_name = "CPUS")]
    exclude_cpus: Option<ExcludedCpus>,

    #[command(flatten)]
    hooks: HookArgs,

    /// Only read the clock in each program, to find the cost of that
    #[arg(long, hide = true)]
    clock_only: bool,
}

impl MeasureArgs {
    /// The list that was asked for instead of a measurement.
    pub(super) fn list(&self) -> Option<String> {
        self.hooks.list()
    }

    /// Starts to measure, for `duration` or until it is stopped. Missing arguments are taken from `config`.
    pub(super) fn start(&self, duration: Option<Duration>, config: &MeasureConfig) -> Result<Stream, SourceError> {
        live(self.options(duration, config))
    }

    /// Like [`Self::start`], but measures only while something is wrong, and for `linger` after that. While all is
    /// calm, only files are watched.
    pub(super) fn start_sentinel(
        &self,
        duration: Option<Duration>,
        linger: Duration,
        config: &MeasureConfig,
    ) -> Result<Stream, SourceError> {
        sentinel(self.options(duration, config), linger)
    }

    /// Like [`Self::start`], without a time limit, grouped by `group_by`. Also returns the time that intervals count
    /// from.
    pub(super) fn start_since(
        &self,
        group_by: Grouping,
        config: &MeasureConfig,
    ) -> Result<(Stream, Instant), SourceError> {
        live_since(LiveOptions { group_by: group_by.into(), ..self.options(None, config) })
    }

    /// Was no method of measuring chosen? Then reading files may replace the programs in the kernel.
    pub(super) fn may_read_files(&self) -> bool {
        self.hooks.are_default()
    }

    /// [`Self::start`] for a long-running service with untrusted clients: it runs as nobody. Its intervals have their
    /// own default: those of the configuration file are for people who wait for them. Switches are timed in one of
    /// `cost_sampling` intervals. With `linger` it measures only while something is wrong, and for that long after.
    pub(super) fn start_every(
        &self,
        default: Duration,
        cost_sampling: NonZeroU32,
        linger: Option<Duration>,
        config: &MeasureConfig,
    ) -> Result<Stream, SourceError> {
        let config = MeasureConfig { interval: Some(default), ..config.clone() };
        let options = LiveOptions { cost_sampling, ..self.options(None, &config) };
        match linger {
            Some(linger) => sentinel_as_nobody(options, linger),
            None => live_as_nobody(options),
        }
    }

    pub(super) fn group_by(&self, config: &MeasureConfig) -> Grouping {
        self.group_by.or(config.group_by).unwrap_or(Grouping::Scheduler)
    }

    fn options(&self, duration: Option<Duration>, config: &MeasureConfig) -> LiveOptions {
        let credit_time = self.load_credit_time.or(config.load_credit_time);
        LiveOptions {
            interval: self.interval.or(config.interval).unwrap_or(INTERVAL),
            duration,
            group_by: self.group_by(config).into(),
            max_cgroups: self
                .max_cgroups
                .or(config.max_cgroups.map(|most| most.0))
                .unwrap_or(LiveOptions::DEFAULT_MAX_CGROUPS),
            load_credit_time: credit_time.unwrap_or(LOAD_CREDIT_TIME),
            wishes: self.hooks.wishes(),
            btf: self.hooks.btf.clone(),
            clock_only: self.clock_only,
            exclude_cpus: self.exclude_cpus.clone().or_else(|| config.exclude_cpus.clone()).unwrap_or_default(),
            cost_sampling: NonZeroU32::MIN,
        }
    }

    /// Starts to measure. If the kernel does not allow that, reads only what its files tell, until it is stopped.
    pub(super) fn start_or_read(&self, config: &MeasureConfig) -> Result<Stream, SourceError> {
        match self.start(None, config) {
            // If a method was chosen, reading files would not be what was asked for.
            Err(SourceError::Kernel(why)) if self.may_read_files() => {
                let LiveOptions { interval, duration, group_by, load_credit_time, exclude_cpus, .. } =
                    self.options(None, config);
                // The figures in files are of all CPUs, so none can be excluded.
                if exclude_cpus != ExcludedCpus::default() {
                    return Err(SourceError::Kernel(why));
                }
                let options = FilesOptions { interval, duration, group_by, load_credit_time };
                files(options, why.to_string())
            }
            started => started,
        }
    }
}
