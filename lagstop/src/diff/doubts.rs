//! What makes a comparison doubtful.

use super::{Change, DiffSide};
use crate::{
    model::{Derived, GroupBy, Hook, HookState, Lost, Measure, Session},
    units::{percent, show_cpus},
};

/// From this change of utilisation on, as a share of what it was, the load counts as different. Chosen: a tenth.
const LOAD_MATTERS: f64 = 0.1;

/// Sentences, the gravest first.
pub(super) fn doubts(before: &DiffSide, after: &DiffSide, host: &[Change]) -> Vec<String> {
    let mut doubts = Vec::new();
    between(&before.session, &after.session, &mut doubts);
    doubts.extend(load(host));
    for (side, which) in [(before, "first"), (after, "second")] {
        within(side, which, &mut doubts);
    }
    doubts
}

fn between(before: &Session, after: &Session, doubts: &mut Vec<String>) {
    let mut say = |is_so: bool, doubt: &dyn Fn() -> String| {
        if is_so {
            doubts.push(doubt());
        }
    };
    let is_same = !before.started_at.is_empty()
        && (&before.started_at, &before.boot_id, &before.hostname)
            == (&after.started_at, &after.boot_id, &after.hostname);
    say(is_same, &|| "Both are the same recording, so the comparison cannot show variation by chance.".to_owned());
    // Times in RFC 3339 are in UTC and of equal length here, so they sort as text.
    say(before.started_at > after.started_at && !after.started_at.is_empty(), &|| {
        "The first was recorded after the second: \"before\" and \"after\" may be swapped.".to_owned()
    });
    say(before.hostname != after.hostname, &|| {
        format!("The recordings are of different hosts: {} and {}.", before.hostname, after.hostname)
    });
    say(before.kernel != after.kernel, &|| {
        format!("The recordings are of different kernels: {} and {}.", before.kernel, after.kernel)
    });
    say(before.cpus_online != after.cpus_online, &|| {
        format!("The numbers of CPUs differ: {} and {}.", before.cpus_online, after.cpus_online)
    });
    say(before.excluded_cpus != after.excluded_cpus, &|| {
        let of = |session: &Session| {
            let cpus = show_cpus(&session.excluded_cpus);
            if cpus.is_empty() { "none".to_owned() } else { cpus }
        };
        format!("Different CPUs are excluded: {} and {}.", of(before), of(after))
    });
    say(before.group_by != after.group_by, &|| {
        format!(
            "Tasks are grouped by different cgroups, {} and {}: cgroups of the same name contain different tasks.",
            group_by(before.group_by),
            group_by(after.group_by)
        )
    });
    say(before.interval_ns != after.interval_ns, &|| {
        format!(
            "Intervals have different lengths, {} and {}: shorter intervals vary more.",
            before.interval_ns, after.interval_ns
        )
    });
    for (name, then, now) in ways(before, after) {
        say(true, &|| format!("{name} was measured by {then} before and by {now} after."));
    }
}

const fn group_by(what: GroupBy) -> &'static str {
    match what {
        GroupBy::Scheduler => "the scheduler's",
        GroupBy::Leaf => "the leaf",
    }
}

/// What was measured in different ways. Of costs the changes themselves say so.
fn ways<'a>(before: &'a Session, after: &'a Session) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    let is_cost = |hook: &Hook| matches!(hook.measure(), Some(Measure::SwitchCost | Measure::Pick));
    before.hooks.iter().filter(move |hook| hook.state == HookState::On && !is_cost(hook)).filter_map(|hook| {
        let other = after.hooks.iter().find(|other| other.name == hook.name && other.state == HookState::On)?;
        let (then, now) = (hook.way.as_deref()?, other.way.as_deref()?);
        (then != now).then_some((&*hook.name, then, now))
    })
}

fn load(host: &[Change]) -> Option<String> {
    let utilisation = host.iter().find(|change| change.name == Derived::CPU_UTILISATION.name)?;
    let (then, now) = utilisation.before.zip(utilisation.after)?;
    let is_another = utilisation.verdict.is_significant() && (now - then).abs() > LOAD_MATTERS * then;
    is_another.then(|| {
        format!(
            "The load differs: CPU utilisation was {} before and {} after. The changes include its effect.",
            percent(then),
            percent(now)
        )
    })
}

fn within(side: &DiffSide, which: &str, doubts: &mut Vec<String>) {
    if !side.is_whole {
        doubts.push(format!("The {which} recording was cut off, or is still running."));
    }
    if side.skipped_intervals > 0 {
        doubts.push(format!("In the {which} recording, {} intervals are missing in between.", side.skipped_intervals));
    }
    let lost = &side.lost;
    let without_cost = lost.entries.saturating_add(lost.exits).saturating_add(lost.switches);
    let switches = side.host.sums()[super::series::Amount::SWITCHES.place()];
    if without_cost as f64 > Lost::MATTERS * switches {
        doubts.push(format!(
            "In the {which} recording, {without_cost} of {switches:.0} switches have no cost, or only a part of it. Its costs are too low."
        ));
    }
    if lost.cgroup_overflows > 0 {
        doubts.push(format!("The {which} recording had too many cgroups: some share the row (other)."));
    }
}
