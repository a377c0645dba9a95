//! What the kernel was built with, where that can be read.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use flate2::read::GzDecoder;

use super::super::answer::{Answer, not_read};

/// The settings that lagstop depends on.
const OF_INTEREST: [&str; 15] = [
    "CONFIG_BPF_JIT",
    "CONFIG_BPF_SYSCALL",
    "CONFIG_CFS_BANDWIDTH",
    "CONFIG_DEBUG_INFO_BTF",
    "CONFIG_FAIR_GROUP_SCHED",
    "CONFIG_FTRACE_SYSCALLS",
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_HZ",
    "CONFIG_KPROBES",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_PSI",
    "CONFIG_RT_GROUP_SCHED",
    "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED",
    "CONFIG_SCHED_INFO",
    "CONFIG_TASK_DELAY_ACCT",
];

/// Those of the running kernel, which is `release`, that are set.
pub(crate) fn configuration(release: &str) -> Answer<BTreeMap<String, String>> {
    let packed = Path::new("/proc/config.gz");
    if let Ok(file) = File::open(packed) {
        let mut text = String::new();
        return match GzDecoder::new(file).read_to_string(&mut text) {
            Ok(_) => Answer::Known(parse(&text)),
            Err(error) => Answer::Unknown(not_read(packed, &error)),
        };
    }
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let mut answers = files.iter().map(Answer::of_file);
    answers
        .find_map(|answer| answer.known().map(|text| Answer::Known(parse(text))))
        .unwrap_or_else(|| Answer::Unknown(format!("cannot read {}, {}", packed.display(), files.join(", "))))
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| OF_INTEREST.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_and_of_interest_is_kept() {
        let config = parse("# CONFIG_PSI is not set\nCONFIG_KPROBES=y\nCONFIG_NET=y\n");
        assert_eq!(config, BTreeMap::from([("CONFIG_KPROBES".to_owned(), "y".to_owned())]));
    }
}
