//! Why the host is not, or no longer, scheduled by LAGS: sentences with a remedy.

use std::io;

use thiserror::Error;

use super::{NAME, demand::IgnoredQuota};
use crate::{
    display::{plain, short_name},
    host::{HostError, RealTimeUse},
    kernel::KernelError,
    units::{self, ending},
};

/// Why LAGS cannot schedule this host.
#[derive(Debug, Error)]
pub enum SchedulerError {
    #[error(
        "kernel {release} has no sched_ext, so no scheduler can be loaded into it. sched_ext needs Linux 6.12 or later, built with \
         CONFIG_SCHED_CLASS_EXT=y; Debian's kernels have it since 6.16"
    )]
    NoSchedExt {
        /// `uname -r`
        release: String,
    },
    #[error(
        "the types of kernel {release} (BTF) describe {function} wrongly, so that it refuses every sched_ext scheduler. \
         Boot a kernel whose types were made with pahole 1.31 or later"
    )]
    MalformedTypes {
        /// `uname -r`
        release: String,
        /// The first of the functions.
        function: String,
    },
    #[error("kernel {release} lacks {what}, which the scheduler needs. Boot a newer kernel")]
    Lacks {
        /// `uname -r`
        release: String,
        what: String,
    },
    #[error("{}", loaded(.0))]
    Loaded(String),
    #[error(
        "LAGS would change nothing: the scheduler puts all tasks of this host into one group, because the cpu controller is enabled \
         in no cgroup. To enable it until the next boot, give one service a weight (100 is the default): sudo systemctl set-property \
         --runtime SERVICE CPUWeight=100"
    )]
    NoGroups,
    #[error(
        "lagstop sees only a part of the host's cgroups, and would schedule all of them. Run it on the host, or in a container with the \
         host's cgroup namespace"
    )]
    HiddenCgroups,
    #[error(
        "loading a scheduler needs {0}. Run lagstop as root on the host, or in a container with --privileged and the host's \
         PID, user and cgroup namespaces"
    )]
    NotPermitted(&'static str),
    #[error(
        "{}{} a CPU quota, and quotas are not enforced while LAGS schedules: a cgroup limited to 20% of a CPU could use all of it. \
         Lift the quotas, or accept that with --ignore-quotas",
        short_name(&.first.path, 200), others(*.more)
    )]
    Quotas { first: IgnoredQuota, more: usize },
    #[error(
        "real-time tasks use {} CPUs. Thread {} ({}) uses the most. If they took all CPUs, kernel {release} could not end \
         the sched_ext scheduler, and the host would hang until a reset. Stop these tasks, or use Linux 7.0 or later. To accept the risk, use \
         --ignore-real-time",
        units::number(.used.cpus), .used.tid, short_name(&.used.name, 32)
    )]
    RealTime {
        used: RealTimeUse,
        /// `uname -r`
        release: String,
    },
    #[error(
        "lagstop cannot see the host's real-time tasks from its own PID namespace. If they took all CPUs, kernel {release} could not \
         end the sched_ext scheduler, and the host would hang until a reset. Run lagstop in the host's PID namespace, or use Linux 7.0 or later. To \
         accept the risk, use --ignore-real-time"
    )]
    HiddenRealTime {
        /// `uname -r`
        release: String,
    },
    #[error("cannot read the cgroups: {0}")]
    Host(#[from] HostError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(
        "cannot make the attaching thread real-time: {}. Without that, attaching to a busy host can stall it. Grant \
         CAP_SYS_NICE",
        plain(source)
    )]
    NotRealTime { source: io::Error },
    #[error("the kernel did not switch to LAGS: {}. See dmesg for its reason", plain(source))]
    NotAttached { source: io::Error },
}

impl SchedulerError {
    pub(super) fn refused(what: impl Into<String>, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        KernelError::refused(what, why).into()
    }
}

fn loaded(name: &str) -> String {
    if name == NAME {
        return "LAGS schedules it already. Stop the lagstop schedule, trial or bench that started it: press Ctrl-C there; if it is the \
                service, run sudo systemctl stop lagstop-schedule"
            .to_owned();
    }
    format!("the sched_ext scheduler {} is loaded, and there can be one only. Stop it first", short_name(name, 64))
}

fn others(more: usize) -> String {
    match more {
        0 => " has".to_owned(),
        more => format!(" and {more} more cgroup{} have", ending(more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_schedules_already_is_said_with_how_to_end_it() {
        let said = |name: &str| SchedulerError::Loaded(name.to_owned()).to_string();
        assert!(said("lags").contains("systemctl stop lagstop-schedule"), "{}", said("lags"));
        assert!(said("flatcg").starts_with("the sched_ext scheduler flatcg is loaded"), "{}", said("flatcg"));
    }

    #[test]
    fn quotas_are_named_and_counted() {
        let said = |more| SchedulerError::Quotas { first: IgnoredQuota { path: "/a".to_owned() }, more }.to_string();
        assert!(said(0).starts_with("/a has a CPU quota"), "{}", said(0));
        assert!(said(1).starts_with("/a and 1 more cgroup have"), "{}", said(1));
        assert!(said(7).starts_with("/a and 7 more cgroups have"), "{}", said(7));
    }
}
