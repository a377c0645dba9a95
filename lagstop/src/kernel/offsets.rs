//! Which fields the programs need, and where this kernel keeps them.

use bytemuck::Zeroable;
use lagstop_ebpf::Offsets;

use super::btf::Btf;

/// Resolves every offset in `btf`. A field that is missing is named in the second part, and 0 in the first.
pub(super) fn resolve(btf: &Btf) -> (Offsets, Vec<&'static str>) {
    let mut offsets = Offsets::zeroed();
    let mut missing = Vec::new();
    macro_rules! resolve {
        ($($field:ident: $($structure:literal.$member:literal)|+;)+) => {
            $(
                match None$(.or_else(|| btf.offset($structure, $member)))+ {
                    Some(offset) => offsets.$field = offset,
                    None => missing.push(stringify!($field)),
                }
            )+
        };
    }
    resolve! {
        task_flags: "task_struct"."flags";
        task_pid: "task_struct"."pid";
        task_tgid: "task_struct"."tgid";
        // In thread_info since 5.16 on x86 (bcf9033e5449).
        task_cpu: "task_struct"."thread_info.cpu" | "task_struct"."cpu";
        // Renamed in 5.14 (2f064a59a11f); what matters is in its lower half.
        task_state: "task_struct"."__state" | "task_struct"."state";
        task_nvcsw: "task_struct"."nvcsw";
        task_start_time: "task_struct"."start_time";
        task_sum_exec_runtime: "task_struct"."se.sum_exec_runtime";
        task_prev_sum_exec_runtime: "task_struct"."se.prev_sum_exec_runtime";
        task_cfs_rq: "task_struct"."se.cfs_rq";
        task_run_delay: "task_struct"."sched_info.run_delay";
        task_last_arrival: "task_struct"."sched_info.last_arrival";
        task_last_queued: "task_struct"."sched_info.last_queued";
        task_group: "task_struct"."sched_task_group";
        task_cgroups: "task_struct"."cgroups";
        task_files: "task_struct"."files";
        cfs_rq_rq: "cfs_rq"."rq";
        rq_clock: "rq"."clock";
        // By the clock of waits since 6.6 (677ea015f231), before that by one that leaves out interrupts and stolen time, or runs as
        // fast as the CPU. Absent without CONFIG_CFS_BANDWIDTH: nobody is throttled then.
        throttled_time: "cfs_rq"."throttled_clock_self_time"
            | "cfs_rq"."throttled_clock_pelt_time"
            | "cfs_rq"."throttled_clock_task_time";
        group_cgroup: "task_group"."css.cgroup";
        css_set_dfl_cgrp: "css_set"."dfl_cgrp";
        cgroup_kn: "cgroup"."kn";
        cgroup_parent_css: "cgroup"."self.parent";
        css_cgroup: "cgroup_subsys_state"."cgroup";
        kn_id: "kernfs_node"."id";
        kn_name: "kernfs_node"."name";
        files_fdt: "files_struct"."fdt";
        fdt_fd: "fdtable"."fd";
        fdt_max_fds: "fdtable"."max_fds";
        file_private_data: "file"."private_data";
        socket_sk: "socket"."sk";
        socket_file: "socket"."file";
        sk_socket: "sock"."sk_socket";
        sk_state: "sock"."__sk_common.skc_state";
        sk_family: "sock"."__sk_common.skc_family";
        sk_num: "sock"."__sk_common.skc_num";
        sk_rcv_saddr: "sock"."__sk_common.skc_rcv_saddr";
        sk_v6_rcv_saddr: "sock"."__sk_common.skc_v6_rcv_saddr";
        sk_net: "sock"."__sk_common.skc_net.net";
        net_inum: "net"."ns.inum";
    }
    (offsets, missing)
}
