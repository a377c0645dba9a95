//! What this kernel and this process have, found out once; "could not be checked" is told apart from "no".

mod config;
mod sched_ext;
mod symbols;

pub(crate) use config::configuration;
pub use sched_ext::{SchedExt, is_scheduler_enabled, loaded_scheduler, measured_scheduler};

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use lagstop_ebpf::Offsets;
use serde::{Deserialize, Serialize};

use super::{
    answer::Answer,
    btf::Btf,
    capabilities::Capabilities,
    memlock, offsets,
    setback::Setback,
    way::{At, WAYS},
};

/// What is known about the kernel and this process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// `uname -r`
    pub release: String,
    /// `uname -m`
    pub architecture: String,
    /// Where the kernel's types were found.
    pub types: Types,
    /// Tracepoints that are there, of those that a way uses, with the number of their arguments.
    pub tracepoints: BTreeMap<String, u32>,
    /// Functions that the kernel's types name, of those that a way uses, with the number of their arguments.
    pub functions: BTreeMap<String, u32>,
    /// Fields that this kernel does not have.
    pub missing_fields: Vec<String>,
    /// Whether a function may be hooked at its exit while tasks sleep in it: the code that they return to is kept.
    pub trampolines_outlive_sleep: bool,
    /// The helper that gives the running task with its type is there (5.11).
    pub has_typed_current: bool,
    /// Symbols that kprobes can be put on, of those that a way uses, suffixes included.
    pub symbols: Answer<BTreeSet<String>>,
    /// Whether there are kprobes at all.
    pub kprobes: Answer<bool>,
    /// Capabilities that are held.
    pub capabilities: Capabilities,
    /// `none`, `integrity` or `confidentiality`.
    pub lockdown: Answer<String>,
    /// `kernel.perf_event_paranoid`
    pub perf_event_paranoid: Answer<i64>,
    /// `kernel.unprivileged_bpf_disabled`
    pub unprivileged_bpf_disabled: Answer<i64>,
    /// How much memory this process may lock, where maps count as such (before 5.11) and that is limited.
    pub locked_memory: Option<u64>,
    /// What `/proc/self/status` calls `Seccomp`: 0 is off.
    pub seccomp: Answer<u64>,
    /// Whether this process sees the host's processes.
    pub in_host_pid_namespace: Answer<bool>,
    /// Whether its capabilities hold on the host, and not only in a user namespace of its own.
    pub in_host_user_namespace: Answer<bool>,
    /// Where tracefs is mounted.
    pub tracefs: Answer<PathBuf>,
    /// The settings that lagstop depends on, of those that the kernel was built with.
    pub config: Answer<BTreeMap<String, String>>,
    /// What was tried and refused, with the kernel's reason, by where it was to be attached.
    #[serde(default)]
    pub refused: BTreeMap<At, Setback>,
    /// What its types say of sched_ext; `None` where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<SchedExt>,
    /// The sched_ext scheduler that is loaded, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_scheduler: Option<String>,
    #[serde(skip)]
    pub(super) offsets: Offsets,
}

/// Where the kernel's types come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Types {
    /// The kernel shows them, and checks programs by them.
    Kernel,
    /// A file has them; the kernel knows nothing of it.
    File(PathBuf),
    /// There are none, for this reason.
    Missing(String),
}

impl Facts {
    /// Looks at the running kernel and this process. The kernel's types are taken from `btf` where it is given.
    pub fn probe(btf: Option<&Path>) -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let release = text(uname.release());
        let status = Answer::of_file("/proc/self/status");
        let mut facts = Self {
            architecture: text(uname.machine()),
            types: Types::Kernel,
            tracepoints: BTreeMap::new(),
            functions: BTreeMap::new(),
            missing_fields: Vec::new(),
            trampolines_outlive_sleep: false,
            has_typed_current: false,
            symbols: symbols::of_interest(),
            kprobes: exists("/sys/bus/event_source/devices", "kprobe"),
            capabilities: Capabilities::held(),
            lockdown: Answer::of_file("/sys/kernel/security/lockdown").map(|text| chosen(&text)),
            perf_event_paranoid: sysctl("perf_event_paranoid"),
            unprivileged_bpf_disabled: sysctl("unprivileged_bpf_disabled"),
            locked_memory: memlock::limit(&release),
            seccomp: status.map(|status| field(&status, "Seccomp:")),
            in_host_pid_namespace: is_namespace("pid", "pid:[4026531836]"),
            in_host_user_namespace: is_namespace("user", "user:[4026531837]"),
            tracefs: tracefs(),
            config: configuration(&release),
            refused: BTreeMap::new(),
            sched_ext: None,
            loaded_scheduler: loaded_scheduler().filter(|name| !name.is_empty()),
            offsets: Offsets::default(),
            release,
        };
        let (types, file) = match btf {
            Some(file) => (Types::File(file.to_owned()), file),
            None => (Types::Kernel, Path::new(Btf::VMLINUX)),
        };
        match Btf::read(file) {
            Ok(btf) => {
                facts.types = types;
                facts.learn(&btf);
            }
            Err(error) => facts.types = Types::Missing(error.to_string()),
        }
        facts
    }

    /// Takes what `btf` tells.
    fn learn(&mut self, btf: &Btf) {
        let (offsets, missing) = offsets::resolve(btf);
        self.offsets = offsets;
        self.missing_fields = missing.into_iter().map(str::to_owned).collect();
        // Came with the cure for trampolines that were freed under a task that slept (e21aa341785c, 5.12 and stable).
        self.trampolines_outlive_sleep = btf.has_structure("bpf_tramp_image");
        self.sched_ext = SchedExt::of(btf);
        self.has_typed_current = btf.arguments("bpf_get_current_task_btf").is_some();
        for at in WAYS.iter().flat_map(|way| way.probes).map(|probe| probe.at) {
            let target = at.target();
            match at {
                At::Tracepoint(_) => {
                    if let Some(arguments) = btf.tracepoint_arguments(target) {
                        self.tracepoints.insert(target.to_owned(), arguments);
                    }
                }
                At::Entry(_) | At::Exit(_) => {
                    if let Some(arguments) = btf.arguments(target) {
                        self.functions.insert(target.to_owned(), arguments);
                    }
                }
                _ => {}
            }
        }
    }

    /// The symbol that a kprobe on `function` is to be put on: the compiler may have put a suffix behind its name.
    pub(super) fn symbol(&self, function: &str) -> Option<String> {
        match &self.symbols {
            Answer::Known(symbols) => symbols::find(symbols, function).cloned(),
            Answer::Unknown(_) => Some(function.to_owned()),
        }
    }

    pub(super) fn refuse(&mut self, at: At, setback: Setback) {
        self.refused.insert(at, setback);
    }
}

fn exists(directory: &str, name: &str) -> Answer<bool> {
    match fs::exists(Path::new(directory).join(name)) {
        Ok(true) => Answer::Known(true),
        // sysfs is not mounted everywhere.
        Ok(false) if Path::new(directory).exists() => Answer::Known(false),
        _ => Answer::Unknown(format!("cannot read {directory}")),
    }
}

/// The one in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> String {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(chosen, _)| chosen).to_owned()
}

fn sysctl(name: &str) -> Answer<i64> {
    let file = format!("/proc/sys/kernel/{name}");
    match Answer::of_file(&file) {
        Answer::Known(text) => text
            .trim()
            .parse()
            .map_or_else(|_| Answer::Unknown(format!("{file} does not contain a number")), Answer::Known),
        Answer::Unknown(why) => Answer::Unknown(why),
    }
}

/// A number in `/proc/self/status`; 0 where there is no such field.
fn field(status: &str, name: &str) -> u64 {
    status.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// The host's namespaces have numbers of their own (`PROC_PID_INIT_INO`, `PROC_USER_INIT_INO`, include/linux/proc_ns.h).
fn is_namespace(kind: &str, of_host: &str) -> Answer<bool> {
    let link = Path::new("/proc/self/ns").join(kind);
    match fs::read_link(&link) {
        Ok(namespace) => Answer::Known(namespace == Path::new(of_host)),
        Err(error) => Answer::Unknown(super::answer::not_read(&link, &error)),
    }
}

fn tracefs() -> Answer<PathBuf> {
    let mounted = super::tracefs::PLACES.iter().map(Path::new).find(|place| place.join("events").is_dir());
    mounted.map_or_else(
        || Answer::Unknown(format!("not mounted, or not readable, at {}", super::tracefs::PLACES.join(" or "))),
        |place| Answer::Known(place.to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_read() {
        assert_eq!(chosen("none [integrity] confidentiality\n"), "integrity");
        assert_eq!(chosen("odd\n"), "odd");
        assert_eq!(field("Name:\tx\nSeccomp:\t2\n", "Seccomp:"), 2);
        assert_eq!(field("", "Seccomp:"), 0);
    }

    #[test]
    fn facts_can_be_kept() {
        let facts = Facts::probe(None);
        let kept = serde_json::to_string(&facts).unwrap();
        let again: Facts = serde_json::from_str(&kept).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), kept);
    }
}
