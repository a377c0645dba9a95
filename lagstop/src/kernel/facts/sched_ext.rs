//! What the kernel's types say of sched_ext, which schedulers are loaded by (kernel/sched/ext.c).

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::super::btf::Btf;

/// What sched_ext has in this kernel. That it has a name in the types does not say that it can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedExt {
    /// Functions that a scheduler may call, of those that lagstop's may, with the names of their parameters.
    pub functions: BTreeMap<String, Vec<String>>,
    /// What a scheduler may do: members of `struct sched_ext_ops`.
    pub operations: Vec<String>,
    /// Whether `struct scx_bpf_dsq_insert_vtime_args` is there.
    pub has_insert_arguments: bool,
    /// Whether a part of every CPU is kept for its tasks, whatever real-time tasks do: `rq.ext_server`, since Linux 7.0.
    #[serde(default)]
    pub has_server: bool,
}

/// Names of all functions that lagstop's scheduler calls on any kernel.
const FUNCTIONS: [&str; 21] = [
    "__scx_bpf_dsq_insert_vtime",
    "bpf_cpumask_test_cpu",
    "bpf_iter_scx_dsq_destroy",
    "bpf_iter_scx_dsq_new",
    "bpf_iter_scx_dsq_next",
    "scx_bpf_consume",
    "scx_bpf_create_dsq",
    "scx_bpf_dispatch",
    "scx_bpf_dispatch_vtime",
    "scx_bpf_dsq_insert",
    "scx_bpf_dsq_insert___v2",
    "scx_bpf_dsq_insert_vtime",
    "scx_bpf_dsq_insert_vtime___v2",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_move_to_local___v2",
    "scx_bpf_kick_cpu",
    "scx_bpf_now",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_cpu",
    "scx_bpf_task_set_slice",
];

impl SchedExt {
    /// `None` where the kernel has no sched_ext.
    pub(super) fn of(btf: &Btf) -> Option<Self> {
        let operations = btf.structure("sched_ext_ops")?;
        let functions =
            FUNCTIONS.into_iter().filter_map(|name| Some((name.to_owned(), btf.function(name)?.parameters)));
        Some(Self {
            functions: functions.collect(),
            operations: operations.members.into_iter().map(|member| member.name).collect(),
            has_insert_arguments: btf.has_structure("scx_bpf_dsq_insert_vtime_args"),
            has_server: btf
                .structure("rq")
                .is_some_and(|rq| rq.members.iter().any(|member| member.name == "ext_server")),
        })
    }

    /// Functions of which the types have a parameter that no caller passes: the kernel then refuses every scheduler that calls
    /// one, with "cannot find function scx_bpf_create_dsq_impl in BTF". pahole before 1.31 makes such types of Linux 7.1.
    pub fn malformed(&self) -> impl Iterator<Item = &str> {
        let is_malformed = |parameters: &Vec<String>| parameters.last().is_some_and(|name| name == "aux");
        self.functions.iter().filter(move |(_, parameters)| is_malformed(parameters)).map(|(name, _)| &**name)
    }

    /// Can `name` be called?
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name) && self.malformed().all(|malformed| malformed != name)
    }
}

/// The sched_ext scheduler that is loaded, empty for none; `None` where the kernel cannot load any.
pub fn loaded_scheduler() -> Option<String> {
    let (name, state) = name_and_state()?;
    Some(if state == "disabled" { String::new() } else { name.unwrap_or_else(|| UNKNOWN.to_owned()) })
}

/// The same as a measurement names it: one on its way that has no name yet, or none any more, is none. Seen on Linux 7.3 while one
/// ended.
pub fn measured_scheduler() -> Option<String> {
    name_and_state().map(|(name, state)| measured(name, &state))
}

/// What is said of one in force whose name cannot be read.
const UNKNOWN: &str = "unknown";

fn measured(name: Option<String>, state: &str) -> String {
    match (name, state) {
        (_, "disabled") => String::new(),
        (None, "enabled") => UNKNOWN.to_owned(),
        (name, _) => name.unwrap_or_default(),
    }
}

/// The name first: it is there before a scheduler is in force, and goes before it is away.
fn name_and_state() -> Option<(Option<String>, String)> {
    let read = |file: &str| fs::read_to_string(Path::new("/sys/kernel/sched_ext").join(file));
    let name = read("root/ops").ok().map(|name| name.trim().to_owned());
    Some((name, read("state").ok()?.trim().to_owned()))
}

/// Is a sched_ext scheduler in force, and not only on its way?
pub fn is_scheduler_enabled() -> bool {
    fs::read_to_string("/sys/kernel/sched_ext/state").is_ok_and(|state| state.trim() == "enabled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_on_its_way_without_a_name_is_none() {
        let measured = |name: Option<&str>, state| measured(name.map(str::to_owned), state);
        assert_eq!(measured(None, "disabling"), "");
        assert_eq!(
            (measured(Some("a"), "disabling"), measured(Some("a"), "disabled")),
            ("a".to_owned(), String::new())
        );
        assert_eq!(measured(None, "enabled"), UNKNOWN, "one is in force, whatever it is called");
    }

    #[test]
    fn a_hidden_parameter_in_the_types_spoils_a_function() {
        let functions = [("scx_bpf_now", vec![]), ("scx_bpf_kick_cpu", vec!["cpu", "flags", "aux"])];
        let named = |(name, parameters): (&str, Vec<&str>)| {
            (name.to_owned(), parameters.into_iter().map(str::to_owned).collect())
        };
        let types = SchedExt { functions: functions.map(named).into(), ..SchedExt::default() };
        assert_eq!(types.malformed().collect::<Vec<_>>(), ["scx_bpf_kick_cpu"]);
        assert!(types.has("scx_bpf_now") && !types.has("scx_bpf_kick_cpu") && !types.has("scx_bpf_consume"));
    }
}
