//! The list of what lagstop needs, each with what is lost without it and how to get it.

use super::{Requirement, State, Trial};
use crate::{
    display::plain,
    host::{Seen, Surroundings},
    kernel::{Answer, Capability, Facts, KernelError, SETCAP, Types},
};

const EVERYTHING: &str = "everything";
/// What the kernel does not let lagstop measure.
const ALL_BUT_FILES: &str = "everything but what lagstop top reads from files";

/// All requirements, the essential ones first. `error` is why nothing could be attached.
pub(super) fn of(facts: &Facts, surroundings: &Surroundings, trial: Trial<'_>) -> Vec<Requirement> {
    let error = trial.error();
    let mut all = vec![
        kernel_version(facts, error),
        types(facts),
        capabilities(facts, "capabilities to attach", &[Capability::Bpf, Capability::Perfmon], ALL_BUT_FILES),
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
            "cgroups and container names that only root may read",
        ),
        capabilities(
            facts,
            "capabilities to look into",
            &[Capability::SysAdmin, Capability::SysPtrace],
            "listeners without traffic in other network namespaces, backlog, drops and owners of all there, lagstop's own \
             cost in the kernel",
        ),
        perf_event_paranoid(facts),
        tracefs(facts),
        pressure(surroundings),
        socket_diagnostics(surroundings),
        names_of_pods(surroundings),
    ];
    if let Trial::Failed(error) = trial {
        all.push(missed(
            "attaching",
            error.to_string(),
            ALL_BUT_FILES,
            &[
                "in a container: --privileged, which takes away seccomp and AppArmor as well",
                "in Kubernetes: securityContext: {privileged: true}",
                "else please report it, with the output of lagstop check --format json",
            ],
        ));
    }
    all
}

fn satisfied(name: &'static str, found: impl Into<String>) -> Requirement {
    Requirement {
        name,
        state: State::Satisfied,
        found: found.into(),
        lost: None,
        remedies: Vec::new(),
        is_essential: false,
    }
}

fn missed(name: &'static str, found: impl Into<String>, lost: &'static str, remedies: &[&str]) -> Requirement {
    Requirement {
        state: State::Missed,
        lost: Some(lost),
        remedies: remedies.iter().map(|&remedy| remedy.to_owned()).collect(),
        is_essential: [EVERYTHING, ALL_BUT_FILES].contains(&lost),
        ..satisfied(name, found)
    }
}

fn unknown(name: &'static str, found: impl Into<String>, remedies: &[&str]) -> Requirement {
    Requirement { state: State::Unknown, lost: None, is_essential: false, ..missed(name, found, "", remedies) }
}

fn kernel_version(facts: &Facts, error: Option<&KernelError>) -> Requirement {
    let found = format!("Linux {} on {}", facts.release, facts.architecture);
    match error {
        Some(KernelError::TooOld { .. }) => {
            missed("kernel", found, ALL_BUT_FILES, &["a kernel of 5.10 or later; 6.16 for all that is measured"])
        }
        Some(error @ KernelError::Lacks { .. }) => missed(
            "kernel",
            format!("{found}: {error}"),
            ALL_BUT_FILES,
            &["a kernel built with CONFIG_FAIR_GROUP_SCHED=y and CONFIG_TRACEPOINTS=y"],
        ),
        _ => satisfied("kernel", found),
    }
}

fn types(facts: &Facts) -> Requirement {
    match &facts.types {
        Types::Kernel => satisfied("kernel types (BTF)", "shown by the kernel"),
        Types::File(file) => satisfied("kernel types (BTF)", format!("from {}", file.display())),
        Types::Missing(why) => missed(
            "kernel types (BTF)",
            why.clone(),
            ALL_BUT_FILES,
            &[
                "a kernel built with CONFIG_DEBUG_INFO_BTF=y: every current distribution's is",
                "sysfs mounted on /sys",
                "--btf FILE, with the types of exactly this kernel (btfhub has those of older distribution kernels)",
            ],
        ),
    }
}

/// `wanted`, each of which CAP_SYS_ADMIN stands in for where that is all it takes to attach.
fn capabilities(facts: &Facts, name: &'static str, wanted: &[Capability], lost: &'static str) -> Requirement {
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
    let mut setcap: Vec<String> = SETCAP.split(',').map(|one| one.trim_end_matches("+ep").to_owned()).collect();
    setcap.extend(missing.iter().map(|one| one.name().to_lowercase()).filter(|one| !SETCAP.contains(one.as_str())));
    let mut requirement = missed(name, format!("{}: not held", names(&missing)), lost, &["run lagstop as root"]);
    requirement.remedies.extend([
        format!("sudo setcap {}+ep \"$(command -v lagstop)\"", setcap.join(",")),
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
            "this is a user namespace of its own: its capabilities do not hold on the host",
            ALL_BUT_FILES,
            &["Docker: --userns host", "Podman: with sudo", "in Kubernetes: hostUsers: true"],
        ),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t proc proc /proc"]),
    }
}

/// What the maps take on a large host.
const ENOUGH_LOCKED_MEMORY: u64 = 64 << 20;

fn locked_memory(facts: &Facts, trial: Trial<'_>) -> Requirement {
    const NAME: &str = "locked memory";
    match facts.locked_memory {
        _ if matches!(trial, Trial::Succeeded) => satisfied(NAME, "enough"),
        None => satisfied(NAME, "not limited, or of no matter to this kernel"),
        Some(limit) if limit >= ENOUGH_LOCKED_MEMORY => satisfied(NAME, format!("up to {limit} bytes")),
        Some(limit) if facts.capabilities.has(Capability::SysResource) => {
            satisfied(NAME, format!("{limit} bytes, which CAP_SYS_RESOURCE raises"))
        }
        Some(limit) => missed(
            NAME,
            format!("{limit} bytes: before Linux 5.11 all maps have to fit"),
            ALL_BUT_FILES,
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
            "confidentiality: programs may not read the kernel's memory",
            ALL_BUT_FILES,
            &["boot without lockdown=confidentiality (lockdown=integrity does no harm)"],
        ),
        Answer::Known(level) => satisfied(NAME, level.clone()),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &["mount -t securityfs securityfs /sys/kernel/security"]),
    }
}

fn seccomp(facts: &Facts, trial: Trial<'_>) -> Requirement {
    const NAME: &str = "seccomp";
    match &facts.seccomp {
        Answer::Known(0) => satisfied(NAME, "no filter"),
        Answer::Known(_) if matches!(trial, Trial::Succeeded) => satisfied(NAME, "a filter, which lets bpf(2) pass"),
        Answer::Known(_) => unknown(
            NAME,
            "a filter is in force; whether it lets bpf(2) and perf_event_open(2) pass shows when tried",
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
            EVERYTHING,
            &["in a container: -v /sys/fs/cgroup:/sys/fs/cgroup:ro --cgroupns host"],
        ),
    }
}

fn scheduling_groups(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "cpu controller";
    match &surroundings.hierarchy {
        Ok(Seen { groups_tasks: Some(true), .. }) => satisfied(NAME, "groups tasks for the scheduler"),
        Ok(Seen { groups_tasks: None, .. }) => {
            unknown(NAME, "the root of the hierarchy, where it would be handed down, is not to be seen here", &[])
        }
        Ok(seen) => missed(
            NAME,
            "is handed down to no cgroup below the root: to the scheduler all tasks are one group",
            "what tells cgroups apart, but with --group-by leaf",
            &[
                &format!("echo +cpu > {}/cgroup.subtree_control", seen.mount),
                "with systemd: CPUAccounting=yes in a unit",
            ],
        ),
        Err(_) => unknown(NAME, "there is no hierarchy to look at", &[]),
    }
}

fn pid_namespace(facts: &Facts) -> Requirement {
    const NAME: &str = "the host's processes";
    match &facts.in_host_pid_namespace {
        Answer::Known(true) => satisfied(NAME, "seen"),
        Answer::Known(false) => missed(
            NAME,
            "this is a PID namespace of its own",
            "listeners without traffic in other network namespaces, backlog, drops and owners of all there",
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
            format!("at {} only a part of the hierarchy is to be seen", seen.mount),
            "throttling, and the end of cgroups, outside of it",
            &[
                "in a container: --cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup:ro",
                "in Kubernetes: a hostPath volume on /sys/fs/cgroup",
            ],
        ),
        Err(_) => unknown(NAME, "there is no hierarchy to look at", &[]),
    }
}

/// Matters for kprobes and the tracepoints of system calls alone, which the measures say.
fn perf_event_paranoid(facts: &Facts) -> Requirement {
    const NAME: &str = "kernel.perf_event_paranoid";
    match &facts.perf_event_paranoid {
        Answer::Known(level) if *level > 2 && !facts.capabilities.has(Capability::SysAdmin) => Requirement {
            lost: None,
            ..missed(
                NAME,
                format!("{level}: kprobes and system call tracepoints take CAP_SYS_ADMIN"),
                "",
                &["sysctl kernel.perf_event_paranoid=2"],
            )
        },
        Answer::Known(level) => satisfied(NAME, level.to_string()),
        Answer::Unknown(why) => unknown(NAME, why.clone(), &[]),
    }
}

/// Matters for the tracepoints of system calls alone, which the measures say.
fn tracefs(facts: &Facts) -> Requirement {
    const NAME: &str = "tracefs";
    match &facts.tracefs {
        Answer::Known(place) => satisfied(NAME, format!("at {}", place.display())),
        Answer::Unknown(_) if facts.capabilities.has(Capability::SysAdmin) => {
            satisfied(NAME, "not mounted; lagstop mounts it for itself when it is needed")
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
        "/proc/pressure/cpu cannot be read",
        "CPU pressure",
        &["a kernel with CONFIG_PSI=y, booted with psi=1"],
    )
}

fn socket_diagnostics(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "socket diagnostics";
    match &surroundings.lists_listeners {
        Ok(()) => satisfied(NAME, "the kernel lists listening sockets"),
        Err(why) => missed(
            NAME,
            format!("listening sockets cannot be listed: {}", plain(why)),
            "listeners without traffic, backlog, drops and owners of all listeners, overflows of accept queues",
            &["modprobe tcp_diag", "a kernel with CONFIG_INET_DIAG"],
        ),
    }
}

fn names_of_pods(surroundings: &Surroundings) -> Requirement {
    const NAME: &str = "names of pods";
    match &surroundings.names_pods {
        None => satisfied(NAME, "there are no pods here"),
        Some(Ok(())) => satisfied(NAME, "/var/log/containers"),
        Some(Err(why)) => missed(
            NAME,
            format!("/var/log/containers: {}", plain(why)),
            "names of pods and their containers: they are called by their ids",
            &[
                "in a container: -v /var/log/containers:/var/log/containers:ro",
                "in Kubernetes: a hostPath volume on /var/log/containers",
            ],
        ),
    }
}
