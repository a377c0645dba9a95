//! What to do for light cgroups that wait, and what speaks against it.

use super::{Judged, arena::Sibling};
use crate::{
    diagnosis::{Advice, shell},
    model::Measure,
    units,
};

/// Cgroups that a command is written out for, on each side.
const COMMANDS: usize = 3;
/// The file of the CFS-LAGS patch (arXiv 2508.15703, appendix).
const LATENCY_AWARENESS: &str = "cpu.latency_awareness";

/// Tries it, measures what it does, and puts everything back.
pub(super) fn trial() -> Advice {
    Advice::new(
        "Try it first. The trial measures anew who is light and who is heavy, takes turns with and without the new weights, \
         shows what changed beside what is predicted, and undoes all of it.",
    )
    .command(shell::trial_of_weights(&[]))
}

/// The same, of just those that can go first without the others taking longer than they should, where these are not all.
pub(super) fn trial_of(judged: &Judged<'_>) -> Advice {
    let only = judged.advised();
    let named: Option<Vec<&str>> = only.iter().map(|one| shell::glob(&one.path)).collect();
    let Some(named) = named.filter(|_| only.len() != judged.waiting && !only.is_empty()) else { return trial() };
    Advice::new(
        "Try it first, with those that can go first. The trial takes turns with and without the new weights, shows what changed \
         beside what is predicted, and undoes all of it.",
    )
    .command(shell::trial_of_weights(&named))
}

/// The most promising first, of what this kernel offers.
pub(super) fn advice(judged: &Judged<'_>) -> Vec<Advice> {
    let session = &judged.observations.session;
    let has = |file: &str| session.cpu_files.iter().any(|known| known == file);
    let mut waiting = judged.advised();
    waiting.truncate(judged.thresholds.max_cgroup_findings.min(COMMANDS));
    let mut heavy: Vec<&Sibling<'_>> = judged.heavy_siblings().collect();
    heavy.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then(a.number.cmp(&b.number)));
    heavy.truncate(COMMANDS);

    let write = |one: &Sibling<'_>, file: &str, value: &str| shell::write(session, one.id, &one.path, file, value);
    let mut advice = vec![trial_of(judged)];
    if has(LATENCY_AWARENESS) {
        advice.extend(waiting.iter().chain(&heavy).map(|one| {
            Advice::new(format!(
                "This kernel has Latency-Aware Group Scheduling: have {} take part, as all that compete with each other \
                 should. Writing 0 undoes it.",
                one.subject()
            ))
            .command_if(write(one, LATENCY_AWARENESS, "1"))
        }));
    }
    let (weight, usual) = shell::weight(session);
    advice.extend(waiting.iter().filter_map(|one| {
        let (_, to) = judged.weights().iter().find(|(path, _)| *path == one.path)?;
        let file = |weight: f64| (weight / 100.0 * f64::from(usual)).round().clamp(1.0, 1e5) as u64;
        Some(
            Advice::new(format!(
                "A part of what was simulated: raise the weight of {}. The prediction also raises those of all {} that go first, \
                 and lowers those of the heavy ones: the trial without --apply lists them. To undo it, write {} to {weight}.",
                one.subject(),
                judged.advised().len(),
                file(one.weight * 100.0)
            ))
            .command_if(write(one, weight, &file(*to).to_string())),
        )
    }));
    if has("cpu.idle") {
        advice.extend(heavy.iter().map(|one| {
            Advice::new(format!(
                "If {} is work that can wait, let it run only when none of its siblings wants to. It may starve. To undo it, \
                 write 0.",
                one.subject()
            ))
            .command_if(write(one, "cpu.idle", "1"))
        }));
    }
    match session.sched_ext.as_deref() {
        Some("") => advice.push(Advice::new(
            "This kernel can load schedulers (sched_ext): one that favours tasks which run briefly and rarely, such as \
             scx_lavd, does something like it without touching any cgroup.",
        )),
        Some(name) => advice.push(Advice::new(format!(
            "The scheduler {} is loaded (sched_ext): see whether it has a setting for latency before changing weights.",
            units::quoted(name)
        ))),
        None => {}
    }
    advice.push(
        Advice::new(
            "CFS-LAGS-static of the paper, SCHED_RR for the light ones, is the last resort: a real-time task that loops takes \
             up to 95 % of a CPU from everybody else. What keeps the rest for them is the fair server from Linux 6.12 on, and before \
             it, or with CONFIG_RT_GROUP_SCHED, sched_rt_runtime_us. A trial of it ends where anybody starves.",
        )
        .command("sudo lagstop trial --policy lags-static --from-diagnose --apply"),
    );
    advice
}

/// What speaks against the finding.
pub(super) fn doubts(judged: &Judged<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    if judged.has_waits() && !judged.has_causes() {
        doubts.push(format!(
            "What each wait was caused by is {}: light cgroups that wait for their own threads are not left out.",
            judged.observations.session.why_not(Measure::Blame)
        ));
    }
    if !judged.observations.asked.has_weights() {
        doubts.push(
            "Weights were not recorded: all are taken to have the usual one. Where they differ, so does the outcome."
                .to_owned(),
        );
    }
    if judged.plans.is_some() {
        doubts.push(
            "The simulation knows how much was asked for, not when: when tasks wake up and for how long they run is drawn at \
             random; who wakes whom, affinities and nice values are left out. Whether somebody does more when it is done sooner \
             is not known: the prediction is in the middle."
                .to_owned(),
        );
    }
    if is_before_eevdf(&judged.observations.session.kernel) && judged.plans.is_some() {
        doubts.push("The simulation has the scheduler of Linux 6.6 and later, EEVDF; this kernel has CFS.".to_owned());
    }
    doubts
}

/// Is it Linux before 6.6?
pub(super) fn is_before_eevdf(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version < (6, 6))
}
