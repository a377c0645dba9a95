//! How fast the CPUs run on which threads run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Hierarchy,
    process::{last_cpu, state},
    threads::{MOST, list},
};

/// Threads that are looked at: to read more would take too long.
const MOST_THREADS: usize = 64;

/// The mean frequency of the CPUs on which threads ran, at the moments when somebody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Frequency {
    /// Their mean frequency in kHz, as the kernel last measured it (`scaling_cur_freq`).
    pub mean_khz: u64,
    /// The mean of what they run at without turbo (`base_frequency`, or the nominal one of ACPI CPPC), in kHz. `null` if the kernel
    /// does not say.
    pub nominal_khz: Option<u64>,
    /// Threads that were seen running.
    pub samples: u64,
}

/// Takes the mean.
#[derive(Debug)]
pub struct Frequencies {
    /// The directories of CPUs.
    cpus: PathBuf,
    current: u64,
    nominal: Option<u64>,
    samples: u64,
}

impl Frequencies {
    /// `None` where the kernel tells no frequency, as in most virtual machines.
    pub fn new() -> Option<Self> {
        Self::of(Path::new("/sys/devices/system/cpu"))
    }

    fn of(cpus: &Path) -> Option<Self> {
        let tells = cpus.join("cpufreq").read_dir().is_ok_and(|mut policies| policies.next().is_some());
        tells.then(|| Self { cpus: cpus.to_owned(), current: 0, nominal: Some(0), samples: 0 })
    }

    /// Looks at the CPUs on which threads of the cgroup in directory `of` run now, and of all inside of it.
    pub fn look(&mut self, hierarchy: &Hierarchy, of: &Path) {
        for tid in list(hierarchy, of, MOST, |_| true).unwrap_or_default().into_iter().take(MOST_THREADS) {
            let stat = fs::read(format!("/proc/{tid}/stat")).unwrap_or_default();
            // Where one waits to run, another does: that CPU runs as fast.
            if state(&stat) == Some(b'R')
                && let Some(cpu) = last_cpu(&stat)
            {
                self.note(cpu);
            }
        }
    }

    /// A thread runs on this CPU.
    fn note(&mut self, cpu: u32) {
        let directory = self.cpus.join(format!("cpu{cpu}"));
        let read = |file: &str| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok();
        let Some(current) = read("cpufreq/scaling_cur_freq") else { return };
        let nominal =
            read("cpufreq/base_frequency").or_else(|| Some(read("acpi_cppc/nominal_freq")?.saturating_mul(1_000)));
        self.current = self.current.saturating_add(current);
        self.nominal = self.nominal.zip(nominal).map(|(sum, one)| sum.saturating_add(one));
        self.samples += 1;
    }

    /// The mean. `None` if no thread was seen running.
    pub fn mean(&self) -> Option<Frequency> {
        let mean = |sum: u64| sum.checked_div(self.samples);
        let nominal_khz = self.nominal.and_then(mean).filter(|&nominal| nominal > 0);
        Some(Frequency { mean_khz: mean(self.current)?, nominal_khz, samples: self.samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_cpus_on_which_threads_ran() {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = home.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert!(Frequencies::of(home.path()).is_none(), "a virtual machine");
        write("cpufreq/policy0/scaling_driver", "acpi-cpufreq\n");
        let mut speeds = Frequencies::of(home.path()).unwrap();
        speeds.note(0);
        assert_eq!(speeds.mean(), None);
        write("cpu0/cpufreq/scaling_cur_freq", "1800000\n");
        write("cpu0/cpufreq/base_frequency", "2400000\n");
        write("cpu1/cpufreq/scaling_cur_freq", "3000000\n");
        write("cpu1/acpi_cppc/nominal_freq", "2600\n");
        [0, 0, 0, 1].into_iter().for_each(|cpu| speeds.note(cpu));
        let mean = Frequency { mean_khz: 2_100_000, nominal_khz: Some(2_450_000), samples: 4 };
        assert_eq!(speeds.mean(), Some(mean));
        write("cpu2/cpufreq/scaling_cur_freq", "100000\n");
        speeds.note(2);
        assert_eq!(
            speeds.mean().map(|mean| (mean.mean_khz, mean.nominal_khz)),
            Some((1_700_000, None)),
            "of one it is not known"
        );
    }
}
