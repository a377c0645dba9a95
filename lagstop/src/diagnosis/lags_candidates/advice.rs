//! What to do for light cgroups that wait, and caveats.

use super::{Judged, arena::Sibling};
use crate::{
    diagnosis::{
        Advice,
        shell::{self, WeightSetting},
    },
    model::{Level, Measure, kernel_version},
    schedule::NAME,
    units,
};

/// The most cgroups on each side for which a command is written.
const COMMANDS: usize = 3;
/// The file of the CFS-LAGS patch (arXiv 2508.15703, appendix).
const LATENCY_AWARENESS: &str = "cpu.latency_awareness";

/// Advice to try the plan, which measures the effect and undoes everything.
pub(super) fn trial() -> Advice {
    Advice::new(
        "Run a trial. For a minute it alternates between the old weights and new ones, more for light cgroups and less \
         for heavy ones. It shows the effect, then restores the old weights, also when interrupted: --apply keeps nothing.",
    )
    .command(shell::trial_of_weights(&[]))
}

/// Like [`trial`], but only for those that can go first at a tolerable cost for the others, if these are not all.
fn trial_of(judged: &Judged<'_>) -> Advice {
    let only = judged.advised();
    let named: Option<Vec<&str>> = only.iter().map(|one| shell::glob(&one.path)).collect();
    let Some(named) = named.filter(|_| only.len() as u64 != judged.waiting.size && !only.is_empty()) else {
        return trial();
    };
    Advice::new(
        "Run a trial with the cgroups that can be prioritised. It alternates between the old and new weights, \
         compares the effect with the prediction, and restores the old weights: --apply keeps nothing.",
    )
    .command(shell::trial_of_weights(&named))
}

/// The trials that this host allows, the most promising first: one of LAGS, and one of weights, which other schedulers may
/// ignore.
pub(super) fn trials(judged: &Judged<'_>) -> Vec<Advice> {
    let of_lags = Advice::new(
        "Run a trial of LAGS as the host's scheduler: it alternates with the kernel's own, and changes no cgroup. It refuses a host \
         with CPU quotas, which LAGS ignores.",
    )
    .command("sudo lagstop trial --policy lags --apply");
    match judged.observations.schedulers.at_end() {
        Some("") => vec![of_lags, trial_of(judged)],
        Some(NAME) => {
            vec![
                Advice::new("LAGS schedules this host already. See what it does.").command("lagstop schedule --status"),
            ]
        }
        Some(name) => vec![Advice::new(format!(
            "Check whether the loaded sched_ext scheduler {} has a latency setting before changing weights.",
            units::quoted(name)
        ))],
        None => vec![trial_of(judged)],
    }
}

/// How cgroups can be told apart where the scheduler does not.
pub(super) fn where_there_is_one_group() -> Vec<Advice> {
    vec![
        Advice::new("Measure each cgroup separately. The scheduler ignores cgroups here: all tasks compete one by one.")
            .command("sudo lagstop diagnose --group-by leaf"),
        Advice::new(
            "To let the scheduler share CPU time by cgroup until the next boot, enable the cpu controller: give one service a weight (100 \
             is the default). Replace SERVICE.",
        )
        .command("sudo systemctl set-property --runtime SERVICE CPUWeight=100"),
    ]
}

/// Advice that this kernel supports, the most promising first.
pub(super) fn advice(judged: &Judged<'_>) -> Vec<Advice> {
    let session = &judged.observations.session;
    let has = |file: &str| session.cpu_files.iter().any(|known| known == file);
    let mut waiting = judged.advised();
    waiting.truncate(judged.thresholds.max_cgroup_findings.min(COMMANDS));
    let mut heavy: Vec<&Sibling<'_>> = judged.heavy_siblings().collect();
    heavy.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then(a.number.cmp(&b.number)));
    heavy.truncate(COMMANDS);

    let write = |one: &Sibling<'_>, file: &str, value: &str| shell::write(session, one.id, &one.path, file, value);
    let mut advice = trials(judged);
    // Weights, cpu.idle and the rest are for the kernel's own scheduler.
    if judged.observations.schedulers.at_end().is_some_and(|name| !name.is_empty()) {
        return advice;
    }
    if has(LATENCY_AWARENESS) {
        advice.extend(waiting.iter().chain(&heavy).map(|one| {
            Advice::new(format!(
                "Enable Latency-Aware Group Scheduling for {}, as for all cgroups that compete with it.",
                one.subject()
            ))
            .command_if(write(one, LATENCY_AWARENESS, "1"))
        }));
    }
    let give = |one: &Sibling<'_>, weight| shell::give_weight(session, one.id, &one.path, weight);
    advice.extend(waiting.iter().filter_map(|one| {
        let (_, to) = judged.weights().iter().find(|(path, _)| *path == one.path)?;
        Some(
            Advice::new(format!(
                "Raise the weight of {}. The prediction also raises the weights of all {} prioritised cgroups and \
                 lowers those of the heavy ones; the trial without --apply lists them.",
                one.subject(),
                judged.advised().len(),
            ))
            .command_if(give(one, to / Level::DEFAULT_WEIGHT))
            .undo_if(give(one, one.weight).filter(|_| WeightSetting::of(session, &one.path).is_exact(one.weight))),
        )
    }));
    if has("cpu.idle") {
        let is_idle = |one: &Sibling<'_>| judged.observations.asked.trace().groups[one.number].is_idle;
        advice.extend(heavy.iter().filter(|one| !is_idle(one)).map(|one| {
            // `cpu.idle` makes the kernel forget the weight, so the undo command sets it again.
            let undo =
                write(one, "cpu.idle", "0").zip(give(one, one.weight)).map(|(end, weigh)| format!("{end} && {weigh}"));
            Advice::new(format!(
                "Let {} run only when the cgroups beside it do not want to, if its work can wait. It may starve.",
                one.subject()
            ))
            .command_if(write(one, "cpu.idle", "1"))
            .undo_if(undo.filter(|_| WeightSetting::of(session, &one.path).is_exact(one.weight)))
        }));
    }
    if judged.observations.schedulers.at_end() == Some("") {
        advice.extend([
            Advice::new(
                "On a test host, schedule it by LAGS for a while: that was tried in virtual machines only. No cgroup has to \
                 change, and the kernel's own scheduler is back when it ends. CPU quotas are not enforced: it refuses a host \
                 that has any.",
            )
            .command("sudo lagstop schedule --duration 10m"),
            Advice::new(
                "Or consider another sched_ext scheduler that favours tasks which run briefly and rarely, such as \
                 scx_lavd. Check first what it takes away: with most of them cpu.max, cpu.weight and cpu.idle have no \
                 effect.",
            ),
        ]);
    }
    advice.push(
        Advice::new(
            "As a last resort, try SCHED_RR for the light cgroups (CFS-LAGS-static in the paper). A real-time task \
             that loops takes up to 95 % of a CPU from all others. The fair server keeps the rest for them from Linux \
             6.12 on; before that, and with CONFIG_RT_GROUP_SCHED, sched_rt_runtime_us does. The trial ends if a \
             cgroup starves.",
        )
        .command("sudo lagstop trial --policy lags-static --from-diagnose --apply"),
    );
    advice
}

/// Caveats that do not depend on the plan.
pub(super) fn caveats(judged: &Judged<'_>) -> Vec<String> {
    let mut caveats = Vec::new();
    if judged.has_waits() && !judged.has_causes() {
        caveats.push(format!(
            "Light cgroups that wait for their own threads may be included, because the cause of each wait is {}.",
            judged.observations.session.why_not(Measure::Blame)
        ));
    }
    if !judged.observations.asked.has_weights() {
        caveats.push("Weights were not recorded, so all cgroups are assumed to have the default weight.".to_owned());
    }
    if judged.plans.is_some() {
        caveats.push(
            "The simulation draws wakeup times and run lengths at random, and ignores wakeup chains, affinities and \
             nice values."
                .to_owned(),
        );
        caveats.push(
            "Whether tasks would do more work if they ran sooner is unknown; the prediction lies between both cases."
                .to_owned(),
        );
    }
    caveats.extend(judged.plans.as_ref().and_then(|_| schedules_otherwise(&judged.observations.session.kernel)));
    caveats
}

/// How a kernel schedules, if not as the simulation does: as Linux 6.6 to 7.2.
pub(super) fn schedules_otherwise(release: &str) -> Option<String> {
    let version = kernel_version(release)?;
    if version < (6, 6) {
        Some("The simulation models EEVDF (Linux 6.6 and later), but this kernel uses CFS.".to_owned())
    } else if version >= (7, 3) {
        Some(
            "The simulation models a queue for each cgroup (Linux 6.6 to 7.2), but this kernel picks from one queue for each \
             CPU."
                .to_owned(),
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_not_simulated_are_said() {
        let says = |release, what| schedules_otherwise(release).is_some_and(|said| said.contains(what));
        assert!(says("5.10.0-32-amd64", "uses CFS") && says("7.3.4+deb13-amd64", "one queue for each CPU"));
        assert_eq!(["6.6.0", "6.12.107+deb13-amd64", "7.2.0", "unknown"].map(schedules_otherwise), [const { None }; 4]);
    }
}
