//! What to do for light cgroups that wait, and what speaks against it.

use super::{Classed, Gain, Judged, Prediction};
use crate::diagnosis::{Advice, say, shell};

/// Cgroups that a command is written out for, on each side.
const COMMANDS: usize = 3;
/// The file of the CFS-LAGS patch (arXiv 2508.15703, appendix).
const LATENCY_AWARENESS: &str = "cpu.latency_awareness";

/// The most promising first, of what this kernel offers.
pub(super) fn advice(judged: &Judged<'_>) -> Vec<Advice> {
    let session = &judged.observations.session;
    let has = |file: &str| session.cpu_files.iter().any(|known| known == file);
    let mut waiting = judged.advised();
    waiting.truncate(judged.thresholds.max_cgroup_findings.min(COMMANDS));
    let mut heavy: Vec<&Classed<'_>> = judged.classed.iter().filter(|one| !one.is_light()).collect();
    heavy.sort_by(|a, b| b.credit.total_cmp(&a.credit).then(a.id.cmp(&b.id)));
    heavy.truncate(COMMANDS);

    let write =
        |one: &Classed<'_>, file: &str, value: &str| shell::write(session, one.id, &one.observed.path, file, value);
    let mut advice = Vec::new();
    if has(LATENCY_AWARENESS) {
        advice.extend(waiting.iter().chain(&heavy).map(|one| {
            Advice::new(format!(
                "This kernel has Latency-Aware Group Scheduling: have {} take part, as all that compete with each other \
                 should. Writing 0 undoes it.",
                one.observed.subject(one.id)
            ))
            .command(write(one, LATENCY_AWARENESS, "1"))
        }));
    }
    let (weight, _) = shell::weight(session);
    advice.extend(waiting.iter().map(|one| {
        Advice::new(format!(
            "Give {} twice the weight that it has, and see whether its wait falls: the heavier cgroups pay for it. Half of \
             what {weight} says then undoes it.",
            one.observed.subject(one.id)
        ))
        .command(shell::double_weight(session, one.id, &one.observed.path))
    }));
    if has("cpu.idle") {
        advice.extend(heavy.iter().map(|one| {
            Advice::new(format!(
                "Where {} is work that can wait, let it run only when nobody else wants to: the light ones then go first, as \
                 simulated, and so does everybody else. It may starve. Writing 0 undoes it.",
                one.observed.subject(one.id)
            ))
            .command(write(one, "cpu.idle", "1"))
        }));
    }
    match session.sched_ext.as_deref() {
        Some("") => advice.push(Advice::new(
            "This kernel can load schedulers (sched_ext): one that favours tasks which run briefly and rarely, such as \
             scx_lavd, does something like it without touching any cgroup.",
        )),
        Some(name) => advice.push(Advice::new(format!(
            "The scheduler {} is loaded (sched_ext): see whether it has a setting for latency before changing weights.",
            say::quoted(name)
        ))),
        None => {}
    }
    advice.push(
        Advice::new(
            "Try it before it stays: this weighs light and heavy ones by their Load Credit in turns, measures what it does to both \
             sides beside what is predicted here, and puts everything back.",
        )
        .command("sudo lagstop trial --policy weight --from-diagnose --apply"),
    );
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
pub(super) fn doubts(prediction: Option<&Prediction>, gain: Option<&Gain>) -> Vec<String> {
    let mut doubts = vec![
        "Behind whom a cgroup waited is not measured: that heavier ones ran meanwhile is circumstantial.".to_owned(),
        "The fair share assumes equal weights (cpu.weight 100) on one level: others are entitled to another share."
            .to_owned(),
    ];
    if prediction.is_some() {
        doubts.push(
            "The simulation knows how much was asked for, not when: when tasks wake up and for how long they run is drawn at \
             random; quotas, weights, CPU sets and affinities are left out, and nobody does more because it is done sooner."
                .to_owned(),
        );
    }
    if gain.is_some_and(|gain| gain.is_beyond_curve && gain.overhead.is_some()) {
        doubts.push(
            "The host was never measured with as short a queue as is predicted: switches are taken to cost as much as at \
             the shortest one there was."
                .to_owned(),
        );
    }
    doubts
}
