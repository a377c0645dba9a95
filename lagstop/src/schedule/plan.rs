//! From what the kernel's types say to how the object is loaded: which function is called by which name, and what is done
//! without.

use lagstop_scheduler_ebpf::Kfunc;

use super::error::SchedulerError;
use crate::kernel::{Capability, Facts, SchedExt};

/// How the scheduler is loaded into this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePlan {
    /// What each function is called here, in the order of [`Kfunc::ALL`]; `None` where it has no such function and does not
    /// need it.
    names: [Option<&'static str>; Kfunc::ALL.len()],
}

/// What a function is called, newest first: 6.13 renamed `dispatch` and `consume`, 6.19 moved arguments.
const fn names(kfunc: Kfunc) -> &'static [&'static str] {
    match kfunc {
        Kfunc::CreateDsq => &["scx_bpf_create_dsq"],
        Kfunc::SelectCpu => &["scx_bpf_select_cpu_dfl"],
        Kfunc::Insert => &["scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert", "scx_bpf_dispatch"],
        Kfunc::InsertVtime => &["scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"],
        Kfunc::InsertVtimeArgs => &["__scx_bpf_dsq_insert_vtime", "scx_bpf_dsq_insert_vtime___v2"],
        Kfunc::MoveToLocal => &["scx_bpf_dsq_move_to_local___v2", "scx_bpf_dsq_move_to_local", "scx_bpf_consume"],
        Kfunc::KickCpu => &["scx_bpf_kick_cpu"],
        Kfunc::Now => &["scx_bpf_now"],
        Kfunc::SetSlice => &["scx_bpf_task_set_slice"],
        Kfunc::TestCpu => &["bpf_cpumask_test_cpu"],
        Kfunc::PickIdleCpu => &["scx_bpf_pick_idle_cpu"],
        Kfunc::TaskCpu => &["scx_bpf_task_cpu"],
        Kfunc::IterNew => &["bpf_iter_scx_dsq_new"],
        Kfunc::IterNext => &["bpf_iter_scx_dsq_next"],
        Kfunc::IterDestroy => &["bpf_iter_scx_dsq_destroy"],
    }
}

/// Functions that a kernel may lack, as the programs have another way.
const fn is_dispensable(kfunc: Kfunc) -> bool {
    matches!(kfunc, Kfunc::Now | Kfunc::SetSlice | Kfunc::InsertVtime | Kfunc::InsertVtimeArgs)
}

/// Operations that the scheduler has, each a program `lags_NAME`.
pub(super) const OPERATIONS: [&str; 10] =
    ["select_cpu", "enqueue", "dispatch", "tick", "runnable", "running", "stopping", "quiescent", "init", "exit"];

impl SchedulePlan {
    /// Plans by what is known of the kernel and of this process, whatever else is loaded.
    ///
    /// # Errors
    /// When it cannot be loaded, and why.
    pub fn from_facts(facts: &Facts) -> Result<Self, SchedulerError> {
        let plan = Self::from_types(facts)?;
        // The type of program takes CAP_NET_ADMIN or CAP_SYS_ADMIN, maps and BTF CAP_BPF, pointers CAP_PERFMON; the last
        // but one stands in for all.
        if !facts.capabilities.has(Capability::SysAdmin) {
            return Err(SchedulerError::NotPermitted("CAP_SYS_ADMIN"));
        }
        Ok(plan)
    }

    /// The same without a look at privileges.
    ///
    /// # Errors
    /// When this kernel takes no such scheduler.
    pub fn from_types(facts: &Facts) -> Result<Self, SchedulerError> {
        let release = || facts.release.clone();
        let types = facts.sched_ext.as_ref().ok_or_else(|| SchedulerError::NoSchedExt { release: release() })?;
        let lacks = |what: &str| SchedulerError::Lacks { release: release(), what: what.to_owned() };
        let name = |kfunc: Kfunc| names(kfunc).iter().copied().find(|name| types.has(name));
        let names_here = Kfunc::ALL.map(name);
        for (kfunc, found) in Kfunc::ALL.into_iter().zip(names_here) {
            if found.is_none() && !is_dispensable(kfunc) {
                let spoilt = names(kfunc).iter().find(|name| types.malformed().any(|malformed| malformed == **name));
                return Err(match spoilt {
                    Some(function) => {
                        SchedulerError::MalformedTypes { release: release(), function: (*function).to_owned() }
                    }
                    None => lacks(names(kfunc)[0]),
                });
            }
        }
        let plan = Self { names: names_here };
        if !plan.inserts_by_arguments(types) && plan.name(Kfunc::InsertVtime).is_none() {
            return Err(lacks("scx_bpf_dsq_insert_vtime"));
        }
        match OPERATIONS.iter().find(|name| types.operations.iter().all(|operation| operation != *name)) {
            Some(missing) => Err(lacks(&format!("sched_ext_ops.{missing}"))),
            None => Ok(plan),
        }
    }

    /// What a function is called here, if it is.
    pub(super) const fn name(&self, kfunc: Kfunc) -> Option<&'static str> {
        self.names[kfunc as usize]
    }

    /// Are the arguments of an insertion in a structure, as since 6.19?
    pub(super) fn inserts_by_arguments(&self, types: &SchedExt) -> bool {
        types.has_insert_arguments && self.name(Kfunc::InsertVtimeArgs).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::kernel::Capabilities;

    /// What was found out on each kernel of the matrix.
    fn recorded(kernel: &str) -> Facts {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/kernel/plan/facts/{kernel}.json"));
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        serde_json::from_value(record["facts"].clone()).unwrap()
    }

    #[test]
    fn each_kernel_has_its_names() {
        for (kernel, insert, takes_arguments, clock) in [
            ("6.16", "scx_bpf_dsq_insert", false, true),
            ("6.17", "scx_bpf_dsq_insert", false, true),
            ("6.18", "scx_bpf_dsq_insert", false, true),
            ("6.19", "scx_bpf_dsq_insert___v2", true, true),
            ("7.0", "scx_bpf_dsq_insert___v2", true, true),
            ("7.2-arm64", "scx_bpf_dsq_insert___v2", true, true),
            ("7.3", "scx_bpf_dsq_insert___v2", true, true),
        ] {
            let facts = recorded(kernel);
            let plan = SchedulePlan::from_types(&facts).unwrap_or_else(|error| panic!("{kernel}: {error}"));
            let types = facts.sched_ext.as_ref().unwrap();
            assert_eq!(plan.name(Kfunc::Insert), Some(insert), "{kernel}");
            assert_eq!(plan.inserts_by_arguments(types), takes_arguments, "{kernel}");
            assert_eq!(plan.name(Kfunc::Now).is_some(), clock, "{kernel}");
        }
    }

    #[test]
    fn kernels_without_it_and_with_wrong_types_are_told_apart() {
        for kernel in ["5.10", "6.1", "6.12"] {
            let error = SchedulePlan::from_types(&recorded(kernel)).unwrap_err();
            assert!(matches!(error, SchedulerError::NoSchedExt { .. }), "{kernel}: {error}");
        }
        for kernel in ["7.1", "7.2"] {
            let error = SchedulePlan::from_types(&recorded(kernel)).unwrap_err();
            assert!(matches!(error, SchedulerError::MalformedTypes { .. }), "{kernel}: {error}");
            assert!(error.to_string().contains("pahole"), "{error}");
        }
    }

    #[test]
    fn it_takes_privileges() {
        let with = |capabilities| {
            let mut facts = recorded("6.18");
            facts.capabilities = capabilities;
            SchedulePlan::from_facts(&facts)
        };
        assert!(with(Capabilities::FULL).is_ok());
        let error = with(Capabilities::NONE.with(Capability::Bpf)).unwrap_err();
        assert!(matches!(error, SchedulerError::NotPermitted(_)), "{error}");
    }

    #[test]
    fn what_it_cannot_do_without_is_named() {
        let mut facts = recorded("6.18");
        let types = facts.sched_ext.as_mut().unwrap();
        types.functions.remove("scx_bpf_now");
        types.functions.remove("scx_bpf_kick_cpu");
        let error = SchedulePlan::from_types(&facts).unwrap_err();
        assert!(error.to_string().contains("lacks scx_bpf_kick_cpu"), "{error}");
    }
}
