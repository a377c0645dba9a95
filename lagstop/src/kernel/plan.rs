//! Which hooks to use, decided from the facts alone.

use lagstop_ebpf::Settings;

use super::{attach::Options, error::KernelError, facts::Facts};
use crate::model::{GroupBy, Hook, HookState};

/// Something in the kernel that a program can be attached to, or that the programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookId {
    /// The switch itself. Without it there is nothing.
    SchedSwitch,
    /// Entry of `__schedule()`.
    SchedEntry,
    /// Exit of `__schedule()`.
    SchedExit,
    /// Moves between CPUs.
    SchedMigrateTask,
    /// TCP state changes.
    InetSockSetState,
    /// Exit of `accept(2)`.
    SysExitAccept,
    /// Exit of `accept4(2)`.
    SysExitAccept4,
    /// `task_struct.sched_info`: no hook, but the source of the waits.
    SchedInfo,
    /// Entry and exit of the function.
    PickNextTaskFair,
}

impl HookId {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SchedSwitch => "sched_switch",
            Self::SchedEntry => "sched_entry_tp",
            Self::SchedExit => "sched_exit_tp",
            Self::SchedMigrateTask => "sched_migrate_task",
            Self::InetSockSetState => "inet_sock_set_state",
            Self::SysExitAccept => "sys_exit_accept",
            Self::SysExitAccept4 => "sys_exit_accept4",
            Self::SchedInfo => "sched_info",
            Self::PickNextTaskFair => "pick_next_task_fair",
        }
    }

    /// The measures that are lost without it.
    pub const fn measures(self) -> &'static str {
        match self {
            Self::SchedSwitch => "everything",
            Self::SchedEntry => "pick cost, kept-running cost, switch cost",
            Self::SchedExit => "swap cost, kept-running cost, switch cost",
            Self::SchedMigrateTask => "migrations",
            Self::InetSockSetState => "accept wait, abandoned connections",
            Self::SysExitAccept => "accept wait of servers that call accept(2)",
            Self::SysExitAccept4 => "accept wait of servers that call accept4(2)",
            Self::SchedInfo => "run-queue wait, runnable load, Load Credit",
            Self::PickNextTaskFair => "pick_next_task_fair cost",
        }
    }
}

/// The hooks to use, and those not to with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    hooks: Vec<(HookId, Result<(), String>)>,
}

impl Plan {
    /// Decides from the facts.
    ///
    /// # Errors
    /// When something is missing that nothing can be measured without.
    pub fn from_facts(facts: &Facts) -> Result<Self, KernelError> {
        if !facts.missing_capabilities.is_empty() {
            return Err(KernelError::NotPermitted(facts.missing_capabilities.clone()));
        }
        let too_old = |what: String| KernelError::TooOld { release: facts.release.clone(), what };
        let missing = |prefixes: &[&str]| {
            let field =
                |name: &&&str| prefixes.iter().any(|prefix| name.starts_with(prefix)) && !OPTIONAL.contains(name);
            facts.missing_fields.iter().find(field).map(|name| format!("field `{name}` in its BTF"))
        };
        let tracepoint = |hook: HookId, fields: &[&str]| {
            if !facts.tracepoints.contains(&hook.name()) {
                return Err(format!("kernel {} has no such tracepoint", facts.release));
            }
            missing(fields).map_or(Ok(()), |what| Err(format!("kernel {} has no {what}", facts.release)))
        };
        if version(&facts.release).is_some_and(|version| version < OLDEST) {
            return Err(too_old("safe way to keep state about tasks".to_owned()));
        }
        let switch = tracepoint(HookId::SchedSwitch, &[]);
        if switch.is_err() {
            return Err(too_old("tracepoint `sched_switch` in its BTF".to_owned()));
        }
        if let Some(what) = missing(&["task_", "cfs_rq", "rq_", "group_", "css_", "cgroup_", "kn_"]) {
            return Err(too_old(what));
        }
        let entry = tracepoint(HookId::SchedEntry, &[]);
        let exit = tracepoint(HookId::SchedExit, &[]);
        let socket_fields = ["sk_", "net_", "socket_", "files_", "fdt_", "file_"];
        let tcp = tracepoint(HookId::InetSockSetState, &socket_fields);
        let sched_info = match OPTIONAL.iter().find(|field| facts.missing_fields.contains(field)) {
            None => Ok(()),
            Some(_) => Err("this kernel is built without CONFIG_SCHED_INFO".to_owned()),
        };
        let mut plan = Self {
            hooks: vec![
                (HookId::SchedSwitch, switch),
                (HookId::SchedEntry, entry),
                (HookId::SchedExit, exit),
                (HookId::SchedMigrateTask, tracepoint(HookId::SchedMigrateTask, &[])),
                (HookId::InetSockSetState, tcp),
                (HookId::SysExitAccept, Ok(())),
                (HookId::SysExitAccept4, Ok(())),
                (HookId::SchedInfo, sched_info),
                (HookId::PickNextTaskFair, Err("this version of lagstop does not attach to functions".to_owned())),
            ],
        };
        plan.drop_useless();
        Ok(plan)
    }

    /// Is `hook` to be used?
    pub fn uses(&self, hook: HookId) -> bool {
        self.hooks.iter().any(|(id, state)| *id == hook && state.is_ok())
    }

    /// Takes `hook` out for the `reason`, and those that are of no use without it.
    pub fn refuse(&mut self, hook: HookId, reason: &str) {
        self.drop_hook(hook, reason);
        self.drop_useless();
    }

    fn drop_hook(&mut self, hook: HookId, reason: &str) {
        for (_, state) in self.hooks.iter_mut().filter(|(id, state)| *id == hook && state.is_ok()) {
            *state = Err(reason.to_owned());
        }
    }

    /// Cost is the time between entry and exit, and accepts are told by what came before them: one alone gives nothing.
    fn drop_useless(&mut self) {
        const NEEDS: [(HookId, HookId); 4] = [
            (HookId::SchedEntry, HookId::SchedExit),
            (HookId::SchedExit, HookId::SchedEntry),
            (HookId::SysExitAccept, HookId::InetSockSetState),
            (HookId::SysExitAccept4, HookId::InetSockSetState),
        ];
        if !self.uses(HookId::SysExitAccept) && !self.uses(HookId::SysExitAccept4) {
            // Every connection would look abandoned.
            self.drop_hook(HookId::InetSockSetState, "of no use without sys_exit_accept or sys_exit_accept4");
        }
        for (hook, needed) in NEEDS {
            if !self.uses(needed) {
                self.drop_hook(hook, &format!("of no use without {}", needed.name()));
            }
        }
    }

    /// The hooks to attach, in the order in which to do it: entry and exit before the switch, so that no switch is seen
    /// without its entry.
    pub(super) fn to_attach(&self) -> Vec<HookId> {
        let rank = |hook: &HookId| u8::from(*hook == HookId::SchedSwitch);
        let mut hooks: Vec<HookId> = self.hooks.iter().filter(|(_, state)| state.is_ok()).map(|(id, _)| *id).collect();
        hooks.retain(|hook| *hook != HookId::SchedInfo);
        hooks.sort_by_key(rank);
        hooks
    }

    pub(super) fn settings(&self, options: &Options, loaded_at_ns: u64, shards: u32) -> Settings {
        Settings {
            group_by_leaf: u64::from(options.group_by == GroupBy::Leaf),
            runq_wait: u64::from(self.uses(HookId::SchedInfo)),
            loaded_at_ns,
            shards: shards.into(),
            clock_only: options.clock_only.into(),
        }
    }

    /// For people and recordings.
    pub fn hooks(&self) -> Vec<Hook> {
        let hook = |(id, state): &(HookId, Result<(), String>)| Hook {
            name: id.name().to_owned(),
            state: if state.is_ok() { HookState::On } else { HookState::Off },
            detail: match (state, id) {
                (Err(reason), _) => reason.clone(),
                (Ok(()), HookId::SysExitAccept | HookId::SysExitAccept4) => "syscall tracepoint".to_owned(),
                (Ok(()), HookId::SchedInfo) => "read from the task at sched_switch".to_owned(),
                (Ok(()), _) => "tp_btf".to_owned(),
            },
            measures: id.measures().to_owned(),
        };
        self.hooks.iter().map(hook).collect()
    }
}

/// Before it, the first state of a task was allocated in a way that may wake up another task, which must not happen
/// inside of a switch (the kernel commit "bpf: Use bpf_mem_cache_alloc/free in bpf_local_storage_elem" cured it).
const OLDEST: (u32, u32) = (6, 4);

/// Major and minor version of a release such as `6.12.107+deb13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Fields without which only the run-queue wait is lost.
const OPTIONAL: [&str; 2] = ["task_run_delay", "task_last_queued"];

#[cfg(test)]
mod tests {
    use lagstop_ebpf::Offsets;

    use super::*;
    use crate::kernel::{MissingCapability, facts::TRACEPOINTS};

    fn facts(tracepoints: &[&'static str], missing_fields: &[&'static str]) -> Facts {
        Facts {
            release: "6.18.0".to_owned(),
            missing_capabilities: vec![],
            tracepoints: tracepoints.to_vec(),
            offsets: Offsets::default(),
            missing_fields: missing_fields.to_vec(),
        }
    }

    #[test]
    fn a_full_kernel_uses_everything_and_attaches_the_switch_last() {
        let plan = Plan::from_facts(&facts(&TRACEPOINTS, &[])).unwrap();
        assert_eq!(plan.to_attach().last(), Some(&HookId::SchedSwitch));
        assert_eq!(plan.to_attach().len(), 7);
        assert!(plan.uses(HookId::SchedInfo));
    }

    #[test]
    fn what_is_missing_is_off_with_the_reason() {
        let plan = Plan::from_facts(&facts(&["sched_switch"], &["task_run_delay", "task_last_queued"])).unwrap();
        assert_eq!(plan.to_attach(), [HookId::SchedSwitch]);
        for hook in plan.hooks().iter().filter(|hook| hook.state == HookState::Off) {
            assert!(hook.detail.len() > 10, "{hook:?}");
        }
        assert!(!plan.uses(HookId::SchedInfo));
    }

    #[test]
    fn a_refusal_is_a_reason_too() {
        let mut plan = Plan::from_facts(&facts(&TRACEPOINTS, &[])).unwrap();
        plan.refuse(HookId::SysExitAccept, "tracefs is not mounted");
        assert!(!plan.uses(HookId::SysExitAccept) && plan.uses(HookId::SysExitAccept4));
        assert!(plan.hooks().iter().any(|hook| hook.detail == "tracefs is not mounted"));
    }

    #[test]
    fn what_is_of_no_use_alone_goes_with_what_it_needs() {
        let mut plan = Plan::from_facts(&facts(&TRACEPOINTS, &[])).unwrap();
        plan.refuse(HookId::SchedExit, "refused");
        plan.refuse(HookId::InetSockSetState, "refused");
        for hook in [HookId::SchedEntry, HookId::SysExitAccept, HookId::SysExitAccept4] {
            assert!(!plan.uses(hook), "{hook:?}");
        }
        let reasons: Vec<String> = plan.hooks().into_iter().map(|hook| hook.detail).collect();
        assert_eq!(reasons.iter().filter(|reason| *reason == "refused").count(), 2, "each keeps its own reason");
    }

    #[test]
    fn what_cannot_work_says_what_to_do() {
        let no_switch = Plan::from_facts(&facts(&[], &[])).unwrap_err().to_string();
        assert!(no_switch.contains("sched_switch") && no_switch.contains("6.4"), "{no_switch}");
        let mut old = facts(&TRACEPOINTS, &[]);
        old.release = "6.1.0-44-amd64".to_owned();
        assert!(Plan::from_facts(&old).unwrap_err().to_string().contains("6.1.0-44-amd64"));
        assert_eq!([version("6.12.107+deb13"), version("7.0"), version("odd")], [Some((6, 12)), Some((7, 0)), None]);
        let no_group = Plan::from_facts(&facts(&TRACEPOINTS, &["task_group"])).unwrap_err().to_string();
        assert!(no_group.contains("task_group"), "{no_group}");
        let mut unprivileged = facts(&TRACEPOINTS, &[]);
        unprivileged.missing_capabilities = vec![MissingCapability::Bpf, MissingCapability::Perfmon];
        let refused = Plan::from_facts(&unprivileged).unwrap_err().to_string();
        assert!(refused.contains("CAP_BPF and CAP_PERFMON") && refused.contains("setcap"), "{refused}");
    }
}
