//! The list of what lagstop needs, each with what is lost without it and how to get it.

use super::{Attempt, Requirement, RequirementState};
use crate::{
    display::plain,
    host::{Nameless, SeenHierarchy, Surroundings},
    kernel::{Answer, Capability, Facts, KernelError, Types, setcap},
    schedule::{SchedulePlan, SchedulerError},
    units::plural,
};

/// What is lost without a requirement.
#[derive(Clone, Copy)]
enum Loss {
    Everything,
    /// What lagstop cannot measure without programs in the kernel.
    AllButFiles,
    /// Only this. All else is measured.
    Part(&'static str),
}

impl Loss {
    /// For people.
    const fn text(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::AllButFiles => "everything except what lagstop top reads from files",
            Self::Part(part) => part,
        }
    }

    /// Does nothing work without it?
    const fn is_of_all(self) -> bool {
        match self {
            Self::Everything | Self::AllButFiles => true,
            Self::Part(_) => false,
        }
    }
}

/// All requirements, the essential ones first. `error` is why nothing could be attached.
pub(super) fn of(facts: &Facts, surroundings: &Surroundings, trial: Attempt<'_>) -> Vec<Requirement> {
    let error = trial.error();
    let mut all = vec![
        kernel_version(facts, error),
        types(facts),
        capabilities(facts, "capabilities to attach", &[Capability::Bpf, Capability::Perfmon], Loss::AllButFiles),
        user_namespace(facts),
        locked_memory(facts, trial),
        lockdown(facts),
        seccomp(facts, trial),
        cgroups(surroundings),
        scheduling_groups(surroundings),
        pid_namespace(facts),
        host_cgroups(surroundings),
        capabilities(
            facts,
            "capabilities to read",
            &[Capability::DacReadSearch],
            Loss::Part("cgroups and container names that only root may read"),
        ),
        capabilities(
            facts,
            "capabilities to look into",
            &[Capability::SysAdmin, Capability::SysPtrace],
            Loss::Part(
                "listeners without traffic in other network namespaces, backlog, drops and owners of all listeners there, cost of \
                 lagstop in the kernel",
            ),
        ),
        perf_event_paranoid(facts),
        tracefs(facts),
        pressure(surroundings),
        socket_diagnostics(surroundings),
        names_of_pods(surroundings),
        names_of_containers(surroundings),
        scheduling(facts),
    ];
    if let Attempt::Failed(error) = trial {
        all.push(missed(
            "attaching",
            error.to_string(),
            Loss::AllButFiles,
            &[
                "in a container: --privileged, which also turns off seccomp and AppArmor",
                "in Kubernetes: securityContext: {privileged: true}",
                "otherwise please report it, with the output of lagstop check --format json",
            ],
        ));
    }
    all
}

fn satisfied(name: &'static str, found: impl Into<String>) -> Requirement {
    stated(name, RequirementState::Satisfied, found, &[])
}

fn missed(name: &'static str, found: impl Into<String>, loss: Loss, remedies: &[&str]) -> Requirement {
    Requirement {
        lost: Some(loss.text()),
        is_essential: loss.is_of_all(),
        ..stated(name, RequirementState::Missed, found, remedies)
    }
}

fn unknown(name: &'static str, found: impl Into<String>, remedies: &[&str]) -> Requirement {
    stated(name, RequirementState::Unknown, found, remedies)
}

/// A requirement without which nothing is lost, as far as is known.
fn stated(name: &'static str, state: RequirementState, found: impl Into<String>, remedies: &[&str]) -> Requirement {
    Requirement {
        name,
        state,
        found: found.into(),
        lost: None,
        remedies: remedies.iter().map(|&remedy| remedy.to_owned()).collect(),
        is_essential: false,
    }
}

fn kernel_version(facts: &Facts, error: Option<&KernelError>) -> Requirement {
    let found = format!("Linux {} on {}", facts.release, facts.architecture);
    match error {
        Some(KernelError::TooOld { .. }) => {
            missed("kernel", found, Loss::AllButFiles, &["Linux 5.10 or later; 6.16 or later for all measures"])
        }
        Some(error @ KernelError::Lacks { .. }) => missed(
            "kernel",
            format!("{found}: {error}"),
            Loss::AllButFiles,
            &["a kernel built with CONFIG_FAIR_GROUP_SCHED=y and CONFIG_TRACEPOINTS=y"],
        ),
        _ => satisfied("kernel", found),
    }
}

fn types(facts: &Facts) -> Requirement {
    match &facts.types {
        Types::Kernel => satisfied("kernel types (BTF)", "provided by the kernel"),
        Types::File(file) => satisfied("kernel types (BTF)", format!("from {}", file.display())),
        Types::Missing(why) => missed(
            "kernel types (BTF)",
            why.clone(),
            Loss::AllButFiles,
            &[
                "a kernel built with CONFIG_DEBUG_INFO_BTF=y, as in all current distributions",
                "sysfs mounted on /sys",
                "--btf FILE, with the types of exactly this kernel (btfhub has those of older distribution kernels)",
            ],
        ),
    }
}

/// Whether `lagstop schedule` can run. Nothing is lost without it: it measures nothing.
fn scheduling(facts: &Facts) -> Requirement {
    const NAME: &str = "scheduling by LAGS";
    match SchedulePlan::from_types(facts) {
        Ok(_) => satisfied(NAME, "possible: sudo lagstop schedule --dry-run says more"),
        Err(error @ SchedulerError::MalformedTypes { .. }) => {
            stated(NAME, RequirementState::Missed, format!("not possible: {error}"), &[])
        }
        Err(error) => satisfied(NAME, format!("not possible, and not needed to measure: {error}")),
    }
}

/// The requirement of the capabilities `wanted`. CAP_SYS_ADMIN stands in for those that are only needed to attach
/// (CAP_BPF and CAP_PERFMON).
fn capabilities(facts: &Facts, name: &'static str, wanted: &[Capability], loss: Loss) -> Requirement {
    let names = |of: &[Capability]| of.iter().map(|one| one.name()).collect::<Vec<_>>().join(" and ");
    let held = facts.capabilities;
    let stands_in =
        |one: Capability| matches!(one, Capability::Bpf | Capability::Perfmon) && held.has(Capability::SysAdmin);
    let missing: Vec<Capability> = wanted.iter().copied().filter(|&one| !held.has(one) && !stands_in(one)).collect();
    if missing.is_empty() {
        let by = if wanted.iter().all(|&one| held.has(one)) { "held" } else { "CAP_SYS_ADMIN is held instead" };
        return satisfied(name, format!("{}: {by}", names(wanted)));
    }
    let short: Vec<&str> = missing.iter().map(|one| one.name().trim_start_matches("CAP_")).collect();
    let mut given = Capability::GIVEN.to_vec();
    given.extend(missing.iter().filter(|one| !Capability::GIVEN.contains(one)));
    let mut requirement = missed(name, format!("{}: not held", names(&missing)), loss, &["run lagstop as root"]);
    requirement.remedies.extend([
        format!("sudo setcap {} \"$(command -v lagstop)\"", setcap(&given)),
        format!("in a container: --cap-add {}, or --privileged", short.join(" --cap-add ")),
        format!(
            "in Kubernetes: securityContext: {{capabilities: {{add: [{}]}}}}, or privileged: true",
            short.join(", ")
        ),
    ]);
    requirement
}

fn user_namespace(facts: &Facts) -> Requirement {
    const NAME: &str = "the host's privileges";
    match &facts.in_host_user_namespace {
        Answer::Known(true) => satisfied(NAME, "this is the host's user namespace"),
        Answer::Known(false) => missed(
            NAME,
            "this user namespace is not the host's; its capabilities have no effect on the host",
            Loss::AllButFiles,
            &["Docker: --userns host", "Podman: with sudo", "in Kubernetes: hostUsers: true"],
        ),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t proc proc /proc"]),
    }
}

/// Memory that the maps need on a large host.
const ENOUGH_LOCKED_MEMORY: u64 = 64 << 20;

fn locked_memory(facts: &Facts, trial: Attempt<'_>) -> Requirement {
    const NAME: &str = "locked memory";
    match facts.locked_memory {
        _ if matches!(trial, Attempt::Succeeded) => satisfied(NAME, "enough"),
        None => satisfied(NAME, "unlimited, or irrelevant on this kernel"),
        Some(limit) if limit >= ENOUGH_LOCKED_MEMORY => satisfied(NAME, format!("up to {limit} bytes")),
        Some(limit) if facts.capabilities.has(Capability::SysResource) => {
            satisfied(NAME, format!("{limit} bytes, which CAP_SYS_RESOURCE raises"))
        }
        Some(limit) => missed(
            NAME,
            format!("{limit} bytes: before Linux 5.11 all maps must fit into it"),
            Loss::AllButFiles,
            &[
                "ulimit -l unlimited",
                "with systemd: LimitMEMLOCK=infinity",
                "in a container: --ulimit memlock=-1, or --cap-add SYS_RESOURCE",
            ],
        ),
    }
}

fn lockdown(facts: &Facts) -> Requirement {
    const NAME: &str = "lockdown";
    match &facts.lockdown {
        Answer::Known(level) if level == "confidentiality" => missed(
            NAME,
            "confidentiality: eBPF programs cannot read kernel memory",
            Loss::AllButFiles,
            &["boot without lockdown=confidentiality (lockdown=integrity is fine)"],
        ),
        Answer::Known(level) => satisfied(NAME, level.clone()),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t securityfs securityfs /sys/kernel/security"]),
    }
}

fn seccomp(facts: &Facts, trial: Attempt<'_>) -> Requirement {
    const NAME: &str = "seccomp";
    match &facts.seccomp {
        Answer::Known(0) => satisfied(NAME, "no filter"),
        Answer::Known(_) if matches!(trial, Attempt::Succeeded) => satisfied(NAME, "a filter that allows bpf(2)"),
        Answer::Known(_) => unknown(
            NAME,
            "a filter is active; lagstop must attach programs to see whether it allows bpf(2) and perf_event_open(2)",
            &[
                "in a container: --security-opt seccomp=unconfined",
                "in Kubernetes: securityContext: {seccompProfile: {type: Unconfined}}",
            ],
        ),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &[]),
    }
}

fn cgroups(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "cgroups";
    match &surroundings.hierarchy {
        Ok(seen) => satisfied(NAME, format!("version {} at {}", seen.version, seen.mount)),
        Err(why) => missed(
            NAME,
            why.to_string(),
            Loss::Everything,
            &["in a container: -v /sys/fs/cgroup:/sys/fs/cgroup:ro --cgroupns host"],
        ),
    }
}

fn scheduling_groups(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "cpu controller";
    match &surroundings.hierarchy {
        Ok(SeenHierarchy { groups_tasks: Some(true), .. }) => satisfied(NAME, "groups tasks for the scheduler"),
        Ok(SeenHierarchy { groups_tasks: None, .. }) => {
            unknown(NAME, "unknown: the root of the hierarchy is not visible here", &[])
        }
        Ok(seen) => missed(
            NAME,
            "not enabled for any cgroup below the root: the scheduler puts all tasks into one group",
            Loss::Part("separate cgroups, except with --group-by leaf"),
            &[
                // systemd enables it for all units beside one that has a weight, and takes back what others enable.
                "with systemd: sudo systemctl set-property --runtime SERVICE CPUWeight=100",
                &format!("without systemd: echo +cpu > {}/cgroup.subtree_control", seen.mount),
            ],
        ),
        Err(_) => unknown(NAME, "no cgroup hierarchy found", &[]),
    }
}

fn pid_namespace(facts: &Facts) -> Requirement {
    const NAME: &str = "the host's processes";
    match &facts.in_host_pid_namespace {
        Answer::Known(true) => satisfied(NAME, "seen"),
        Answer::Known(false) => missed(
            NAME,
            "this PID namespace is not the host's",
            Loss::Part(
                "listeners without traffic in other network namespaces, backlog, drops and owners of all listeners there",
            ),
            &["in a container: --pid host", "in Kubernetes: hostPID: true"],
        ),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t proc proc /proc"]),
    }
}

fn host_cgroups(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "the host's cgroups";
    match &surroundings.hierarchy {
        Ok(seen) if seen.is_whole => satisfied(NAME, "seen"),
        Ok(seen) => missed(
            NAME,
            format!("only a part of the hierarchy is visible at {}", seen.mount),
            Loss::Part("throttling and removal of cgroups outside that part"),
            &[
                "in a container: --cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup:ro",
                "in Kubernetes: a hostPath volume on /sys/fs/cgroup",
            ],
        ),
        Err(_) => unknown(NAME, "no cgroup hierarchy found", &[]),
    }
}

/// Only matters for kprobes and for tracepoints of system calls. The measures that use these say what is missing.
fn perf_event_paranoid(facts: &Facts) -> Requirement {
    const NAME: &str = "kernel.perf_event_paranoid";
    match &facts.perf_event_paranoid {
        Answer::Known(level) if *level > 2 && !facts.capabilities.has(Capability::SysAdmin) => stated(
            NAME,
            RequirementState::Missed,
            format!("{level}: kprobes and system call tracepoints need CAP_SYS_ADMIN"),
            &["sysctl kernel.perf_event_paranoid=2"],
        ),
        Answer::Known(level) => satisfied(NAME, level.to_string()),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &[]),
    }
}

/// Only matters for tracepoints of system calls. The measures that use these say what is missing.
fn tracefs(facts: &Facts) -> Requirement {
    const NAME: &str = "tracefs";
    match &facts.tracefs {
        Answer::Known(place) => satisfied(NAME, format!("at {}", place.display())),
        Answer::Unknown(_) if facts.capabilities.has(Capability::SysAdmin) => {
            satisfied(NAME, "not mounted; lagstop mounts it privately when needed")
        }
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t tracefs tracefs /sys/kernel/tracing"]),
    }
}

fn pressure(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "pressure stall information";
    if surroundings.has_pressure {
        return satisfied(NAME, "/proc/pressure/cpu");
    }
    missed(
        NAME,
        "cannot read /proc/pressure/cpu",
        Loss::Part("CPU pressure"),
        &["a kernel with CONFIG_PSI=y, booted with psi=1"],
    )
}

fn socket_diagnostics(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "socket diagnostics";
    match &surroundings.lists_listeners {
        Ok(()) => satisfied(NAME, "the kernel lists listening sockets"),
        Err(why) => missed(
            NAME,
            format!("cannot list listening sockets: {}", plain(why)),
            Loss::Part(
                "listeners without traffic, backlog, drops and owners of all listeners, overflows of accept queues",
            ),
            &["modprobe tcp_diag", "a kernel with CONFIG_INET_DIAG"],
        ),
    }
}

fn names_of_pods(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "names of pods";
    match &surroundings.names_pods {
        None => satisfied(NAME, "no pods on this host"),
        Some(Ok(())) => satisfied(NAME, "/var/log/containers"),
        Some(Err(why)) => missed(
            NAME,
            format!("/var/log/containers: {}", plain(why)),
            Loss::Part("names of pods and containers; only their ids are shown"),
            &[
                "in a container: -v /var/log/containers:/var/log/containers:ro",
                "in Kubernetes: a hostPath volume on /var/log/containers",
            ],
        ),
    }
}

fn names_of_containers(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "names of containers";
    let said = |one: &Nameless| {
        let Nameless { runtime, containers, directory, why } = one;
        let why = why
            .as_ref()
            .map_or_else(|| "does not name them".to_owned(), |why| format!("cannot be read: {}", plain(why)));
        format!("{} of {runtime} with an id only: {directory} {why}", plural(*containers as u64, "container"))
    };
    let all = &surroundings.nameless;
    let found = all.iter().map(said).collect::<Vec<_>>().join("; ");
    let hidden: Vec<&Nameless> = all.iter().filter(|one| one.why.is_some()).collect();
    if hidden.is_empty() {
        return satisfied(NAME, if all.is_empty() { "complete".to_owned() } else { found });
    }
    let mut requirement = missed(
        NAME,
        found,
        Loss::Part("names of containers; only their ids are shown"),
        &["run lagstop as root, or with CAP_DAC_READ_SEARCH"],
    );
    let mounts = hidden.iter().map(|one| {
        let directory = one.directory;
        format!("in a container: -v {directory}:{directory}:ro (its files hold the environment of every container)")
    });
    requirement.remedies.extend(mounts);
    requirement
}
