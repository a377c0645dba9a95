//! What can be measured, and the ways to do it, best first.

use std::{borrow::Cow, fmt};

use lagstop_ebpf::{COST_PICK, COST_WHOLE, WAITS_SCHED_INFO, WAITS_WAKEUPS};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::model::Measure;

impl Measure {
    /// The ways to measure it, best first.
    pub fn ways(self) -> impl Iterator<Item = &'static Way> {
        WAYS.iter().filter(move |way| way.measure == self)
    }
}

/// One way to measure something.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    pub measure: Measure,
    /// Its name in `--hooks`.
    pub name: &'static str,
    /// How it works and what it does not see, for people.
    pub note: &'static str,
    /// Programs and where they are attached. None where all comes with the switch.
    pub probes: &'static [Probe],
    /// What the programs are told of it: a `COST_` or `WAITS_` constant, where there is one for the measure.
    pub(super) setting: u64,
    /// Whether another task may get the CPU while its programs run.
    pub(super) is_preemptible: bool,
    /// Whether calls that kept the running task are seen to end.
    pub(super) sees_kept: bool,
}

/// A program, and where it is attached.
#[derive(Debug, PartialEq, Eq)]
pub struct Probe {
    program: &'static str,
    pub at: At,
    /// The way works without it, and sees less.
    pub is_optional: bool,
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// A tracepoint, with types or without.
    Tracepoint(&'static str),
    /// Entry of a function, by BPF trampoline.
    Entry(&'static str),
    /// Exit of a function, by BPF trampoline.
    Exit(&'static str),
    /// Entry of a function, by kprobe. The compiler may have put a suffix such as `.isra.0` behind its name.
    Kprobe(&'static str),
    /// Exit of a function, by kretprobe.
    Kretprobe(&'static str),
    /// A tracepoint of a system call.
    Syscall(&'static str),
}

impl At {
    /// The kernel's name for it.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Tracepoint(name)
            | Self::Entry(name)
            | Self::Exit(name)
            | Self::Kprobe(name)
            | Self::Kretprobe(name)
            | Self::Syscall(name) => name,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Tracepoint(_) | Self::Syscall(_) => "tracepoint",
            Self::Entry(_) => "fentry",
            Self::Exit(_) => "fexit",
            Self::Kprobe(_) => "kprobe",
            Self::Kretprobe(_) => "kretprobe",
        };
        write!(f, "{kind} {}", self.target())
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut all = WAYS.iter().flat_map(|way| way.probes).map(|probe| probe.at);
        let unknown = || D::Error::custom(format_args!("nothing is attached at `{text}`"));
        all.find(|at| at.to_string() == text).ok_or_else(unknown)
    }
}

impl Way {
    /// Of a way to measure switch cost: does it see the swap as well?
    pub const fn gives_whole_cost(&self) -> bool {
        self.setting == COST_WHOLE
    }
}

/// A way without the settings that only some ways have.
const fn way(measure: Measure, name: &'static str, note: &'static str, probes: &'static [Probe]) -> Way {
    Way { measure, name, note, probes, setting: 0, is_preemptible: false, sees_kept: false }
}

const fn probe(program: &'static str, at: At) -> Probe {
    Probe { program, at, is_optional: false }
}

const fn optional(program: &'static str, at: At) -> Probe {
    Probe { program, at, is_optional: true }
}

/// All ways; those to the same measure best first.
pub(super) static WAYS: &[Way] = &[
    way(
        Measure::Switches,
        "sched_switch",
        "counted at the switch",
        &[probe("switch", At::Tracepoint("sched_switch")), optional("free", At::Tracepoint("sched_process_free"))],
    ),
    Way {
        setting: COST_WHOLE,
        sees_kept: true,
        ..way(
            Measure::SwitchCost,
            "tracepoints",
            "from entry to exit of __schedule()",
            &[probe("entry", At::Tracepoint("sched_entry_tp")), probe("exit", At::Tracepoint("sched_exit_tp"))],
        )
    },
    Way {
        setting: COST_WHOLE,
        is_preemptible: true,
        sees_kept: true,
        ..way(
            Measure::SwitchCost,
            "fentry:schedule",
            "from entry to exit of schedule(); misses some preemptions inside the kernel",
            &[
                probe("schedule_entry", At::Entry("schedule")),
                probe("schedule_exit", At::Exit("schedule")),
                optional("schedule_idle_entry", At::Entry("schedule_idle")),
                optional("schedule_idle_exit", At::Exit("schedule_idle")),
                optional("preempt_entry", At::Entry("preempt_schedule_irq")),
                optional("preempt_exit", At::Exit("preempt_schedule_irq")),
                optional("schedule_tail_exit", At::Exit("schedule_tail")),
                optional("dead_entry", At::Entry("do_task_dead")),
            ],
        )
    },
    Way {
        setting: COST_WHOLE,
        ..way(
            Measure::SwitchCost,
            "kprobe:schedule",
            "from entry of schedule() to finish_task_switch(), without the latter; misses preemptions inside the kernel and \
             calls that keep the running task",
            &[
                probe("schedule_kprobe", At::Kprobe("schedule")),
                probe("finish_kprobe", At::Kprobe("finish_task_switch")),
                optional("schedule_idle_kprobe", At::Kprobe("schedule_idle")),
                optional("dead_kprobe", At::Kprobe("do_task_dead")),
            ],
        )
    },
    Way {
        setting: COST_PICK,
        is_preemptible: true,
        ..way(
            Measure::SwitchCost,
            "fentry:pick-only",
            "pick cost only, from entry of schedule()",
            &[
                probe("schedule_entry", At::Entry("schedule")),
                optional("schedule_idle_entry", At::Entry("schedule_idle")),
                optional("dead_entry", At::Entry("do_task_dead")),
            ],
        )
    },
    Way {
        setting: COST_PICK,
        ..way(
            Measure::SwitchCost,
            "kprobe:pick-only",
            "pick cost only, from entry of schedule()",
            &[
                probe("schedule_kprobe", At::Kprobe("schedule")),
                optional("schedule_idle_kprobe", At::Kprobe("schedule_idle")),
                optional("dead_kprobe", At::Kprobe("do_task_dead")),
            ],
        )
    },
    way(
        Measure::Pick,
        "fentry:pick_next_task_fair",
        "from entry to exit of pick_next_task_fair()",
        &[probe("pick_entry", At::Entry("pick_next_task_fair")), probe("pick_exit", At::Exit("pick_next_task_fair"))],
    ),
    way(
        Measure::Pick,
        "kprobe:pick_next_task_fair",
        "from entry to exit of pick_next_task_fair(), including the cost of the kprobes",
        &[
            probe("pick_kprobe", At::Kprobe("pick_next_task_fair")),
            probe("pick_kretprobe", At::Kretprobe("pick_next_task_fair")),
        ],
    ),
    way(
        Measure::Pick,
        "fentry:pick_task_fair",
        "from entry to exit of pick_task_fair(), a part of the former pick_next_task_fair()",
        &[probe("pick_entry", At::Entry("pick_task_fair")), probe("pick_exit", At::Exit("pick_task_fair"))],
    ),
    way(
        Measure::Pick,
        "kprobe:pick_task_fair",
        "from entry to exit of pick_task_fair(), a part of the former pick_next_task_fair(), including the cost of the kprobes",
        &[probe("pick_kprobe", At::Kprobe("pick_task_fair")), probe("pick_kretprobe", At::Kretprobe("pick_task_fair"))],
    ),
    Way {
        setting: WAITS_SCHED_INFO,
        ..way(Measure::RunqWait, "sched_info", "the kernel's own stamps in the task", &[])
    },
    Way {
        setting: WAITS_WAKEUPS,
        ..way(
            Measure::RunqWait,
            "wakeups",
            "clock time from wake-up to switch",
            &[probe("wakeup", At::Tracepoint("sched_wakeup")), probe("wakeup_new", At::Tracepoint("sched_wakeup_new"))],
        )
    },
    way(Measure::Blame, "stints", "from a log of the tasks that ran on each CPU", &[]),
    way(
        Measure::Migrations,
        "sched_migrate_task",
        "counted at the move",
        &[probe("migrate", At::Tracepoint("sched_migrate_task"))],
    ),
    way(
        Measure::TcpState,
        "fentry:tcp_set_state",
        "at entry of tcp_set_state()",
        &[probe("tcp_set_state", At::Entry("tcp_set_state"))],
    ),
    way(
        Measure::TcpState,
        "inet_sock_set_state",
        "at the tracepoint",
        &[probe("tcp_state", At::Tracepoint("inet_sock_set_state"))],
    ),
    way(
        Measure::Accept,
        "fexit:inet_csk_accept",
        "at entry and exit of inet_csk_accept()",
        &[probe("accept_exit", At::Exit("inet_csk_accept")), optional("accept_entry", At::Entry("inet_csk_accept"))],
    ),
    way(
        Measure::Accept,
        "kretprobe:inet_csk_accept",
        "at entry and exit of inet_csk_accept(); a kretprobe misses returns when many processes wait at once",
        &[
            probe("accept_kretprobe", At::Kretprobe("inet_csk_accept")),
            optional("accept_kprobe", At::Kprobe("inet_csk_accept")),
        ],
    ),
    way(
        Measure::Accept,
        "syscalls",
        "at entry and exit of accept(2) and accept4(2), without io_uring and 32-bit programs; slows down every system call slightly",
        &[
            probe("accept", At::Syscall("sys_exit_accept")),
            probe("accept4", At::Syscall("sys_exit_accept4")),
            optional("accept_asked", At::Syscall("sys_enter_accept")),
            optional("accept4_asked", At::Syscall("sys_enter_accept4")),
        ],
    ),
];

/// Functions in which a task sleeps: it comes back through whatever was attached when it went.
pub(super) const SLEEPING: [&str; 4] = ["schedule", "schedule_idle", "preempt_schedule_irq", "inet_csk_accept"];

impl Probe {
    /// The name of its program in the object. A tracepoint has two: one for where the kernel shows its types.
    pub(super) fn program(&self, has_types: bool) -> Cow<'static, str> {
        match self.at {
            At::Tracepoint(_) if !has_types => untyped(self.program).into(),
            _ => self.program.into(),
        }
    }
}

/// The program for a tracepoint where the kernel shows no types.
fn untyped(program: &str) -> String {
    format!("{program}_raw")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_measure_has_ways_with_names_of_their_own() {
        for measure in Measure::ALL {
            assert!(measure.ways().count() > 0, "{measure}");
            assert_eq!(measure.name().parse::<Measure>().unwrap(), measure);
        }
        let names: HashSet<_> = WAYS.iter().map(|way| (way.measure, way.name)).collect();
        assert_eq!(names.len(), WAYS.len());
        assert!("pik".parse::<Measure>().unwrap_err().to_string().contains("pick"));
    }

    #[test]
    fn every_program_is_in_the_object() {
        let object = aya_obj::Object::parse(super::super::OBJECT).unwrap();
        for probe in WAYS.iter().flat_map(|way| way.probes) {
            assert!(object.programs.contains_key(probe.program), "{}", probe.program);
            if matches!(probe.at, At::Tracepoint(_)) {
                assert!(object.programs.contains_key(&untyped(probe.program)), "{}", probe.program);
            }
        }
    }
}
