//! What is fuzzed, and how much of it.

use clap::ValueEnum;

/// What is in fuzz/fuzz_targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Target {
    /// Any file, read as a recording in every way
    #[value(name = "recording")]
    Recording,
    /// What was read, written and read back
    #[value(name = "round_trip")]
    RoundTrip,
    /// The file that says who may scrape
    #[value(name = "web_config")]
    WebConfig,
    /// The configuration file
    #[value(name = "config")]
    Config,
    /// What is mounted
    #[value(name = "mountinfo")]
    Mountinfo,
    /// Files of /proc, /sys and cgroupfs, and what is said of sockets
    #[value(name = "kernel_files")]
    KernelFiles,
    /// What a Prometheus server answers
    #[value(name = "prometheus")]
    Prometheus,
    /// What a trial says it has changed
    #[value(name = "journal")]
    Journal,
}

impl Target {
    pub(super) const ALL: [Self; 8] = [
        Self::Recording,
        Self::RoundTrip,
        Self::WebConfig,
        Self::Config,
        Self::Mountinfo,
        Self::KernelFiles,
        Self::Prometheus,
        Self::Journal,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::RoundTrip => "round_trip",
            Self::WebConfig => "web_config",
            Self::Config => "config",
            Self::Mountinfo => "mountinfo",
            Self::KernelFiles => "kernel_files",
            Self::Prometheus => "prometheus",
            Self::Journal => "journal",
        }
    }

    /// Whether it reads recordings, which take a millisecond, or texts, which take some microseconds.
    pub(super) const fn is_of_recordings(self) -> bool {
        matches!(self, Self::Recording | Self::RoundTrip)
    }

    /// Its part of the executions, chosen so that slow and quick targets take about as long.
    const fn parts(self) -> u64 {
        if self.is_of_recordings() { 1 } else { 5 }
    }

    /// How often it is executed when all `targets` together are executed `executions` times, or somewhat more.
    pub(super) fn share(self, executions: u64, targets: &[Self]) -> u64 {
        let all: u64 = targets.iter().map(|target| target.parts()).sum();
        executions.saturating_mul(self.parts()).div_ceil(all.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_are_all_executions() {
        for executions in [1, 1_000, 10_000_000] {
            let all: u64 = Target::ALL.iter().map(|target| target.share(executions, &Target::ALL)).sum();
            assert!((executions..executions + 9).contains(&all), "{all} of {executions}");
        }
        assert_eq!(Target::Recording.share(500, &[Target::Recording]), 500);
    }

    #[test]
    fn each_target_is_there_and_has_seeds() {
        let fuzz = crate::workspace::Workspace::here().root().join("fuzz");
        for target in Target::ALL {
            let file = fuzz.join("fuzz_targets").join(target.name()).with_extension("rs");
            assert!(file.exists(), "{}", file.display());
            let seeds = std::fs::read_dir(fuzz.join("corpus").join(target.name())).map(Iterator::count);
            assert!(seeds.is_ok_and(|seeds| seeds > 0), "{} has no seeds", target.name());
        }
        let all = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
        assert_eq!(all, Target::ALL.len());
    }
}
