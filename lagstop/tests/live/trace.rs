//! Who waited for a CPU, and who ran meanwhile, from the kernel's own tracepoints as text: nothing of lagstop is in it.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

/// A trace of the switches on one CPU. It stops, and is gone, when this is dropped.
pub(crate) struct Trace {
    instance: PathBuf,
    cpu: usize,
}

/// What happened on the CPU, by process ids of threads.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    /// Time that a thread waited while another ran there, of waits that ended: by who waited and who ran. 0 is idle.
    pub(crate) waits: HashMap<(u32, u32), f64>,
    /// Number of finished waits of each thread.
    pub(crate) count: HashMap<u32, u64>,
    /// The squares of their lengths, added up.
    pub(crate) squares: HashMap<u32, f64>,
    /// Time of the waits in which too many others ran to charge each of them, and the sum of the squares of their
    /// lengths.
    pub(crate) drawn: HashMap<u32, (f64, f64)>,
    /// Parent and child of each fork there, in order.
    forks: Vec<(u32, u32)>,
}

impl Traced {
    /// The process's threads, provided that it and they began all others on this CPU.
    pub(crate) fn threads_of(&self, process: u32) -> BTreeSet<u32> {
        let mut threads = BTreeSet::from([process]);
        for (parent, child) in &self.forks {
            if threads.contains(parent) {
                threads.insert(*child);
            }
        }
        threads
    }
}

impl Trace {
    pub(crate) fn start(cpu: usize) -> Self {
        let instances = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"].map(Path::new);
        let instances = instances.into_iter().find(|path| path.is_dir()).expect("there is no tracefs");
        let instance = instances.join(format!("lagstop-test-{}", std::process::id()));
        fs::create_dir(&instance).unwrap();
        let trace = Self { instance, cpu };
        trace.write("tracing_on", "0");
        trace.write("buffer_size_kb", "16384");
        trace.write("trace_clock", "mono");
        for event in ["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_process_fork"] {
            trace.write(&format!("events/sched/{event}/enable"), "1");
        }
        trace.write("tracing_on", "1");
        trace
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.instance.join(file), value).unwrap_or_else(|error| panic!("{file} of the trace: {error}"));
    }

    /// Ends, and tells.
    pub(crate) fn finish(self) -> Traced {
        self.write("tracing_on", "0");
        let buffer = self.instance.join(format!("per_cpu/cpu{}", self.cpu));
        let stats = fs::read_to_string(buffer.join("stats")).unwrap();
        assert!(stats.lines().any(|line| line.trim() == "overrun: 0"), "the trace is not whole: {stats}");
        // A comm may hold any bytes.
        let text = fs::read(buffer.join("trace")).unwrap();
        traced(&String::from_utf8_lossy(&text), self.cpu)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Stints of others in a wait from which on instants of it are drawn (docs/measures.md).
const WALKED: u32 = 16;

/// A wait that goes on.
#[derive(Default)]
struct Waiting {
    /// Time that each thread ran meanwhile.
    behind: HashMap<u32, f64>,
    stints: u32,
}

/// A wake-up shows up on the CPU of the one that caused it: wake-ups of tasks for another CPU are left out.
fn traced(text: &str, cpu: usize) -> Traced {
    let mut traced = Traced::default();
    // Which thread runs, and since when; and for each waiting thread, what has run since its wait began.
    let mut running: Option<(u32, f64)> = None;
    let mut waiting: HashMap<u32, Waiting> = HashMap::new();
    let mut last = 0.0;
    for line in text.lines() {
        let Some((at, rest)) = event(line) else { continue };
        if let Some((who, since)) = running {
            let ran = at - f64::max(since, last);
            for wait in waiting.values_mut() {
                *wait.behind.entry(who).or_default() += ran;
                wait.stints += u32::from(rest.starts_with("sched_switch: "));
            }
        }
        last = at;
        let number = |name: &str| field(rest, name).and_then(|text| text.parse::<u32>().ok());
        if rest.starts_with("sched_switch: ") {
            let (Some(prev), Some(next)) = (number("prev_pid="), number("next_pid=")) else { continue };
            if let Some(wait) = waiting.remove(&next) {
                *traced.count.entry(next).or_default() += 1;
                let length: f64 = wait.behind.values().sum();
                *traced.squares.entry(next).or_default() += length.powi(2);
                if wait.stints >= WALKED {
                    let drawn = traced.drawn.entry(next).or_default();
                    *drawn = (drawn.0 + length, drawn.1 + length.powi(2));
                }
                for (who, time) in wait.behind {
                    *traced.waits.entry((next, who)).or_default() += time;
                }
            }
            if prev != 0 && field(rest, "prev_state=").is_some_and(|state| state.starts_with('R')) {
                waiting.insert(prev, Waiting::default());
            }
            running = Some((next, at));
        } else if rest.starts_with("sched_wakeup")
            && let Some(pid) = number(" pid=")
            && field(rest, "target_cpu=").and_then(|text| text.parse().ok()) == Some(cpu)
            && running.is_none_or(|(who, _)| who != pid)
        {
            // A thread that waited here before, and went elsewhere meanwhile, starts a new wait.
            waiting.insert(pid, Waiting::default());
        } else if rest.starts_with("sched_process_fork: ")
            && let (Some(parent), Some(child)) = (number(" pid="), number("child_pid="))
        {
            traced.forks.push((parent, child));
        }
    }
    traced
}

/// When an event was, and what: `comm-pid [cpu] flags seconds: name: fields`.
fn event(line: &str) -> Option<(f64, &str)> {
    let name = line.find(": sched_")?;
    let at = line[..name].rsplit(' ').next()?.parse().ok()?;
    Some((at, &line[name + 2..]))
}

/// What stands behind `name`, of which the last counts: a comm may be called anything.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.rsplit_once(name)?.1.split_whitespace().next()
}
