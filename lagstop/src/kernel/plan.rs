//! Which way to measure what, decided from the facts and the user's wishes alone.

mod refusal;

use std::collections::BTreeMap;

use lagstop_ebpf::{COST_NONE, COST_WHOLE, Settings, WAITS_NONE, WAITS_WAKEUPS};

use super::{
    answer::Answer,
    error::KernelError,
    facts::{Facts, Types},
    options::AttachOptions,
    way::{At, Probe, SLEEPING, Way},
};
use crate::model::{GroupBy, Hook, Measure, kernel_version};
use refusal::Refusal;

/// What the user wants measured, and how, where not as it is best.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes(BTreeMap<Measure, Wish>);

/// A wish about one measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is not to be measured.
    Off,
    Way(&'static str),
}

impl Wishes {
    /// What costs next to nothing: all that comes with the switch.
    pub fn light() -> Self {
        let mut wishes = Self::default();
        for measure in Measure::ALL {
            wishes.set(measure, Wish::Off);
        }
        wishes.0.remove(&Measure::Switches);
        wishes.set(Measure::RunqWait, Wish::Way("sched_info"));
        wishes
    }

    /// Is the measure not to be taken?
    pub fn switches_off(&self, measure: Measure) -> bool {
        self.0.get(&measure) == Some(&Wish::Off)
    }

    /// Adds a wish; the last one about a measure counts.
    pub fn set(&mut self, measure: Measure, wish: Wish) {
        self.0.insert(measure, wish);
    }
}

/// How each measure is taken, or why it is not.
#[derive(Clone, Debug)]
pub struct AttachPlan {
    choices: Vec<Choice>,
    /// Without the kernel's own types programs read through a helper.
    has_types: bool,
    has_typed_current: bool,
    sees_throttling: bool,
    accept_result: u64,
}

/// How one measure is taken.
#[derive(Clone, Debug)]
struct Choice {
    measure: Measure,
    way: Option<&'static Way>,
    /// The way's probes that are used.
    probes: Vec<&'static Probe>,
    /// Better ways, or parts of this one, with why they are not used.
    turned_down: Vec<(String, Refusal)>,
}

impl AttachPlan {
    /// Decides.
    ///
    /// # Errors
    /// When something is missing that nothing can be measured without.
    pub fn from_facts(facts: &Facts, wishes: &Wishes) -> Result<Self, KernelError> {
        if facts.in_host_user_namespace == Answer::Known(false) {
            return Err(KernelError::UserNamespace);
        }
        let missing = facts.capabilities.missing();
        if !missing.is_empty() {
            return Err(KernelError::NotPermitted(missing));
        }
        Self::ignoring_privileges(facts, wishes)
    }

    /// Decides as if every capability were held.
    ///
    /// # Errors
    /// When the kernel lacks something that nothing can be measured without.
    pub fn ignoring_privileges(facts: &Facts, wishes: &Wishes) -> Result<Self, KernelError> {
        let release = || facts.release.clone();
        if kernel_version(&facts.release).is_some_and(|version| version < OLDEST) {
            return Err(KernelError::TooOld { release: release() });
        }
        if let Types::Missing(why) = &facts.types {
            return Err(KernelError::NoBtf(why.clone().into()));
        }
        if let Some(field) = facts.missing_field(&["task_", "cfs_rq", "rq_", "group_", "css_", "cgroup_", "kn_"]) {
            return Err(KernelError::Lacks { release: release(), what: format!("field `{field}`") });
        }
        let mut choices: Vec<Choice> = Measure::ALL.map(|measure| choose(facts, wishes, measure)).into();
        drop_useless(&mut choices);
        drop_blame_of_waits_by_the_clock(&mut choices);
        if let Some(setback) = facts.refused.get(&At::Tracepoint("sched_switch")) {
            return Err(KernelError::refused("program on sched_switch", setback.clone()));
        }
        if let Some(Choice { way: None, turned_down, .. }) = choices.first() {
            let what = turned_down.iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>().join("; ");
            return Err(KernelError::Lacks {
                release: release(),
                what: format!("`sched_switch` to attach to: {what}"),
            });
        }
        let has_types = facts.types == Types::Kernel;
        let probes = choices.iter().flat_map(|choice| &choice.probes);
        let accept_result = probes.into_iter().find_map(|probe| result_offset(facts, probe.at)).unwrap_or(0);
        Ok(Self {
            choices,
            has_types,
            has_typed_current: has_types && facts.has_typed_current,
            sees_throttling: !facts.lacks("throttled_time"),
            accept_result,
        })
    }

    /// The way in which `measure` is taken.
    pub fn way(&self, measure: Measure) -> Option<&'static Way> {
        self.choices.iter().find(|choice| choice.measure == measure)?.way
    }

    pub fn uses(&self, measure: Measure) -> bool {
        self.way(measure).is_some()
    }

    /// Are the swap and the whole cost of switches taken?
    pub(super) fn sees_exits(&self) -> bool {
        self.way(Measure::SwitchCost).is_some_and(|way| way.setting == COST_WHOLE)
    }

    /// Does the verifier know the arguments of programs by type?
    pub(super) const fn has_types(&self) -> bool {
        self.has_types
    }

    /// Is `probe` only there to time switches?
    pub(super) fn times_by(&self, probe: &Probe) -> bool {
        let of_costs = |choice: &&Choice| matches!(choice.measure, Measure::SwitchCost | Measure::Pick);
        self.choices.iter().filter(of_costs).any(|choice| choice.probes.contains(&probe))
    }

    /// What to attach, in the order in which to do it. What is refused most is tried first; the switch comes last, so
    /// that no switch is seen without its entry.
    pub(super) fn probes(&self) -> impl Iterator<Item = &'static Probe> {
        let mut probes: Vec<&'static Probe> = self.choices.iter().flat_map(|choice| &choice.probes).copied().collect();
        probes.sort_by_key(|probe| match probe.at {
            At::Entry(_) | At::Exit(_) => 0,
            At::Kprobe(_) | At::Kretprobe(_) | At::Syscall(_) => 1,
            At::Tracepoint("sched_switch") => 3,
            At::Tracepoint(_) => 2,
        });
        probes.into_iter()
    }

    pub(super) fn settings(
        &self,
        options: &AttachOptions,
        loaded_at_ns: u64,
        (read, shards, cpus): (u32, u32, u32),
        tasks: u32,
    ) -> Settings {
        let setting = |measure, none| self.way(measure).map_or(none, |way| way.setting);
        let cost = self.way(Measure::SwitchCost);
        Settings {
            group_by_leaf: u64::from(options.group_by == GroupBy::Leaf),
            runq_wait: setting(Measure::RunqWait, WAITS_NONE),
            switch_cost: setting(Measure::SwitchCost, COST_NONE),
            samples_cost: options.samples_cost.into(),
            sees_kept: cost.is_some_and(|way| way.sees_kept).into(),
            is_preemptible: cost.is_some_and(|way| way.is_preemptible).into(),
            current_is_typed: self.has_typed_current.into(),
            accept_result: self.accept_result,
            loaded_at_ns,
            shards: shards.into(),
            excludes_cpus: u64::from(shards > read),
            owns_distributions: (cpus <= read && !cost.is_some_and(|way| way.is_preemptible)).into(),
            task_places: (tasks - 1).into(),
            blame: self.uses(Measure::Blame).into(),
            sees_throttling: (self.sees_throttling && self.uses(Measure::Blame)).into(),
            clock_only: options.clock_only.into(),
        }
    }

    /// For people and recordings.
    pub fn hooks(&self) -> Vec<Hook> {
        self.choices.iter().map(|choice| choice.hook(self.has_types)).collect()
    }
}

impl Choice {
    fn turn_down(&mut self, what: &str, why: Refusal) {
        self.turned_down.push((what.to_owned(), why));
    }

    fn hook(&self, has_types: bool) -> Hook {
        let untyped = if has_types || self.probes.is_empty() { "" } else { ", through raw tracepoints" };
        let turned_down: Vec<String> = self.turned_down.iter().map(|(what, why)| format!("{what}: {why}")).collect();
        let turned_down = turned_down.join("; ");
        let detail = match self.way {
            Some(way) if turned_down.is_empty() => format!("{}{untyped}", way.note),
            Some(way) => format!("{}{untyped}. Not {turned_down}", way.note),
            None => turned_down,
        };
        Hook::new(self.measure, self.way.map(|way| way.name), detail)
    }
}

/// The best way that nothing speaks against.
fn choose(facts: &Facts, wishes: &Wishes, measure: Measure) -> Choice {
    let mut choice = Choice { measure, way: None, probes: Vec::new(), turned_down: Vec::new() };
    let wish = wishes.0.get(&measure);
    if wish == Some(&Wish::Off) {
        choice.turn_down(measure.name(), Refusal::Off);
        return choice;
    }
    if let (Measure::Pick, Some(name)) = (measure, &facts.loaded_scheduler) {
        // Finding that out by trying takes long: all programs are loaded anew for each way.
        choice.turn_down(measure.name(), Refusal::NotCalled(name.clone()));
        return choice;
    }
    for way in measure.ways().filter(|way| wish.is_none_or(|wish| *wish == Wish::Way(way.name))) {
        match facts.probes_of(way) {
            Err(why) => choice.turn_down(way.name, why),
            Ok((probes, left_out)) => {
                choice.way = Some(way);
                choice.probes = probes;
                for (at, why) in left_out {
                    choice.turn_down(&at.to_string(), why);
                }
                break;
            }
        }
    }
    choice
}

/// Drops choices that are useless without a measure that is missing.
fn drop_useless(choices: &mut [Choice]) {
    let missing: Vec<Measure> =
        choices.iter().filter(|choice| choice.way.is_none()).map(|choice| choice.measure).collect();
    for choice in choices.iter_mut().filter(|choice| choice.way.is_some()) {
        if let Some(needed) = choice.measure.needs().filter(|needed| missing.contains(needed)) {
            choice.way = None;
            choice.probes.clear();
            choice.turned_down.clear();
            choice.turn_down(choice.measure.name(), Refusal::Needs(needed));
        }
    }
}

/// Waits that are taken by the clock do not tell on which CPU they were spent.
fn drop_blame_of_waits_by_the_clock(choices: &mut [Choice]) {
    let is_by_the_clock = |choice: &Choice| {
        choice.measure == Measure::RunqWait && choice.way.is_some_and(|way| way.setting == WAITS_WAKEUPS)
    };
    if choices.iter().any(is_by_the_clock)
        && let Some(blame) = choices.iter_mut().find(|choice| choice.measure == Measure::Blame)
        && blame.way.take().is_some()
    {
        blame.turn_down("stints", Refusal::ByTheClock);
    }
}

impl Facts {
    /// The probes of `way` that can be attached, and the optional ones that cannot, with the reason; or what speaks
    /// against it.
    #[expect(clippy::type_complexity, reason = "two lists, used in one place")]
    fn probes_of(&self, way: &'static Way) -> Result<(Vec<&'static Probe>, Vec<(At, Refusal)>), Refusal> {
        match (way.measure, way.name) {
            (Measure::RunqWait, "sched_info") if SCHED_INFO.iter().any(|field| self.lacks(field)) => {
                return Err(Refusal::Option("CONFIG_SCHED_INFO"));
            }
            (Measure::TcpState | Measure::Accept, _) => {
                if let Some(field) = self.missing_field(&["sk_", "net_", "socket_", "files_", "fdt_", "file_"]) {
                    return Err(self.without(format!("field `{field}`")));
                }
            }
            _ => {}
        }
        let (mut probes, mut left_out) = (Vec::new(), Vec::new());
        for probe in way.probes {
            match self.against(probe.at) {
                None => probes.push(probe),
                Some(why) if probe.is_optional => left_out.push((probe.at, why)),
                Some(why) => return Err(why),
            }
        }
        Ok((probes, left_out))
    }

    /// What speaks against attaching at `at`.
    fn against(&self, at: At) -> Option<Refusal> {
        if let Some(setback) = self.refused.get(&at) {
            return Some(Refusal::Tried(setback.clone()));
        }
        let release = || self.release.clone();
        match at {
            At::Tracepoint(name) => match self.tracepoints.get(name) {
                None => Some(self.without(format!("tracepoint {name}"))),
                Some(arguments) if *arguments < arguments_read(name) => {
                    Some(Refusal::Arguments { release: release(), tracepoint: name })
                }
                Some(_) => None,
            },
            At::Entry(_) | At::Exit(_) if self.types != Types::Kernel => Some(Refusal::Types),
            At::Exit(name) if SLEEPING.contains(&name) && !self.trampolines_outlive_sleep => {
                Some(Refusal::Sleeps { release: release(), function: name })
            }
            At::Entry(name) | At::Exit(name) => {
                (!self.functions.contains_key(name)).then(|| self.without(format!("function {name} to hook")))
            }
            At::Kprobe(_) | At::Kretprobe(_) if self.kprobes == Answer::Known(false) => {
                Some(Refusal::Option("CONFIG_KPROBES"))
            }
            At::Kprobe(name) | At::Kretprobe(name) => {
                self.symbol(name).is_none().then(|| self.without(format!("function {name}")))
            }
            At::Syscall(_) => None,
        }
    }

    fn without(&self, what: String) -> Refusal {
        Refusal::Lacks { release: self.release.clone(), what }
    }

    fn lacks(&self, field: &str) -> bool {
        self.missing_fields.iter().any(|missing| missing == field)
    }

    /// The first missing field whose name starts with one of `prefixes`, but for those that not everything needs.
    fn missing_field(&self, prefixes: &[&str]) -> Option<&str> {
        let is_meant = |field: &&str| {
            let is_optional = SCHED_INFO.contains(field) || *field == ONLY_AFTER_HIDDEN_SWITCHES;
            prefixes.iter().any(|prefix| field.starts_with(prefix)) && !is_optional
        };
        self.missing_fields.iter().map(String::as_str).find(is_meant)
    }
}

/// How many arguments of a tracepoint its program reads: the tracepoint must have at least as many.
fn arguments_read(tracepoint: &str) -> u32 {
    match tracepoint {
        "sched_switch" | "inet_sock_set_state" => 3,
        "sched_migrate_task" => 2,
        "sched_process_free" | "sched_wakeup" | "sched_wakeup_new" => 1,
        _ => 0,
    }
}

/// Where the program at `at` finds what the function returns: behind its arguments, or in a register.
fn result_offset(facts: &Facts, at: At) -> Option<u64> {
    match at {
        At::Exit(name @ "inet_csk_accept") => facts.functions.get(name).map(|arguments| u64::from(*arguments) * 8),
        // `pt_regs.ax`; `user_pt_regs.regs[0]`
        At::Kretprobe("inet_csk_accept") => Some(if facts.architecture == "x86_64" { 80 } else { 0 }),
        _ => None,
    }
}

/// What tells how long a task has run that came by a switch that the kernel did not show.
const ONLY_AFTER_HIDDEN_SWITCHES: &str = "task_prev_sum_exec_runtime";
/// The fields that only waits are read from.
const SCHED_INFO: [&str; 3] = ["task_run_delay", "task_last_arrival", "task_last_queued"];

/// Programs can be run on a chosen CPU, by which a reading settles them, since then (1b4d60ec162f).
const OLDEST: (u32, u32) = (5, 10);

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
