//! Whether a command was disturbed: a line for people, a document for programs, Markdown for a CI job's summary.

use std::{borrow::Cow, fmt::Write as _};

use schemars::JsonSchema;
use serde::Serialize;

use super::{json, markdown};
use crate::{
    display::short_name,
    host::Frequency,
    model::{Nanos, WaitCause},
    run::{Disturbance, Exceeded, Method, Run, RunSeries, RunShares, RunVerdict, Spread, WaitedBehind},
    units::{ending, if_measured, number, percent, plural, ratio, whole_percent},
};

/// What the fields mean; the number goes up when one of them changes its meaning or goes away.
pub const SCHEMA: &str = "lagstop.run/1";

/// The most cells of a name.
const NAME: usize = 60;
/// From this share on, waits behind its own threads and kernel threads are mentioned.
const SPOKEN_OF: f64 = 0.01;
/// From this many moves to another CPU per second of CPU time on, they are mentioned. Each costs caches some tens of
/// microseconds.
const MANY_MOVES: f64 = 500.0;

/// One line about a run, without a line break.
pub fn line(run: &Run) -> String {
    match run.verdict {
        RunVerdict::NotJudged => format!("not judged: {}", not_judged(run)),
        RunVerdict::Disturbed => format!("disturbed: {}", figures(run).join("; ")),
        RunVerdict::Undisturbed => format!("undisturbed: {}", figures(run).join("; ")),
    }
}

/// The line of one of several runs, with its number.
pub fn numbered_line(run: &Run) -> String {
    format!("run {} ({}): {}", run.number, run.wall_ns, line(run))
}

/// Figures of a run. The reason of the verdict comes first.
fn figures(run: &Run) -> Vec<String> {
    let RunShares { waited, throttled, steal, behind_itself, behind_kernel, crowded_out, .. } = run.shares;
    let is_cause = |cause: Disturbance| run.exceeded.iter().any(|exceeded| exceeded.cause == cause);
    let mut all: Vec<(bool, String)> = vec![
        (is_cause(Disturbance::Wait), waited_for(run, waited)),
        (is_cause(Disturbance::Throttled), format!("throttled {}", share(throttled))),
        (is_cause(Disturbance::Steal), format!("steal {}", share(steal))),
    ];
    all.sort_by_key(|(is_cause, _)| !is_cause);
    let mut said: Vec<String> = all.into_iter().map(|(_, said)| said).collect();
    let spoken = |share: Option<f64>| share.filter(|&share| share >= SPOKEN_OF);
    said.extend(spoken(behind_kernel).map(|share| format!("{} {}", WaitCause::KernelThreads.phrase(), percent(share))));
    let itself = behind_itself.zip(crowded_out).map(|(itself, crowded_out)| itself - crowded_out);
    said.extend(spoken(itself).map(|share| format!("behind its own threads {}", percent(share))));
    said.extend(moves(run));
    said.extend(slow(run));
    let hot = run.host_too_hot.filter(|&times| times > 0);
    said.extend(hot.map(|times| format!("CPUs slowed down by heat {}", plural(times, "time"))));
    let lost = Some(run.lost_events).filter(|&lost| lost > 0);
    said.extend(lost.map(|lost| format!("{} could not be measured", plural(lost, "event"))));
    said
}

fn share(share: Option<f64>) -> String {
    if_measured(share, percent)
}

/// `waited 6.1 % of the time, 83 % of it behind user.slice (cargo); p99 wait 14 ms`. Where it was crowded out: `waited because of
/// others 48.0 % of the time: crowded out for about 47.9 % (…), behind others 0.05 %; p99 wait 14 ms`.
fn waited_for(run: &Run, waited: Option<f64>) -> String {
    let Some(waited) = waited else { return "waits n/a".to_owned() };
    let mut said = match crowded_out(run) {
        Some(out) => {
            let both = percent(run.shares.because_of_others().unwrap_or(waited));
            format!("waited because of others {both} of the time: {out}, behind others {}", percent(waited))
        }
        None => format!("waited {} of the time", percent(waited)),
    };
    let others = run.waits.map(|waits| waits.behind_others_ns).unwrap_or_default();
    // The culprit only matters if the wait does.
    let worst = run.behind.first().filter(|worst| waited >= SPOKEN_OF / 10.0 && worst.wait_ns > Nanos::ZERO);
    if let Some(worst) = worst {
        let _ = write!(said, ", {} of it behind {}", part_of(worst.wait_ns, others), name(worst));
    }
    if let Some(p99) = run.waits.and_then(|waits| waits.p99_ns) {
        let _ = write!(said, "; p99 wait {p99}");
    }
    said
}

/// `crowded out for about 47.9 % (its threads waited for each other while others, mostly user.slice, ran on CPUs allowed to all of
/// them)`. Said where it matters.
fn crowded_out(run: &Run) -> Option<String> {
    let share = run.shares.crowded_out?;
    let decides = |exceeded: &Exceeded| exceeded.cause == Disturbance::Wait && exceeded.share - share <= exceeded.limit;
    let share = Some(share).filter(|&share| share >= SPOKEN_OF || run.exceeded.iter().any(decides))?;
    let whom = run.crowded_out_by.first();
    let whom = whom.map_or_else(String::new, |worst| format!(", mostly {},", cgroup_name(&worst.name)));
    let part = percent(share);
    Some(format!(
        "crowded out for about {part} (its threads waited for each other while others{whom} ran on CPUs allowed to all of them)"
    ))
}

fn part_of(part: Nanos, whole: Nanos) -> String {
    whole_percent(ratio(part.0 as f64, whole.0 as f64).min(1.0))
}

/// The name of a culprit, with the threads that were seen to run in it.
fn name(behind: &WaitedBehind) -> String {
    /// The most threads that are named.
    const SHOWN: usize = 2;
    let cgroup = cgroup_name(&behind.name);
    let threads: Vec<_> = behind.threads.iter().take(SHOWN).map(|name| short_name(name, NAME)).collect();
    if threads.is_empty() { cgroup.into_owned() } else { format!("{cgroup} ({})", threads.join(", ")) }
}

fn cgroup_name(name: &str) -> Cow<'_, str> {
    if name == "/" { "the root cgroup".into() } else { short_name(name, NAME) }
}

/// Moves of its tasks, if they are many or far.
fn moves(run: &Run) -> Option<String> {
    if let Some(far) = run.migrations_cross_numa.filter(|&far| far > 0) {
        return Some(format!("moved to another NUMA node {}", plural(far, "time")));
    }
    let per_second = ratio(run.migrations? as f64, run.cpu_ns.seconds());
    (per_second > MANY_MOVES).then(|| format!("{} migrations per second of CPU time", number(per_second)))
}

/// Where its CPUs ran below what they can run at for long: `CPUs at 1.80 GHz, below their nominal 2.40 GHz`.
fn slow(run: &Run) -> Option<String> {
    /// A kernel measures and rounds.
    const PART: f64 = 0.98;
    let Frequency { mean_khz, nominal_khz, .. } = run.frequency?;
    let ghz = |khz: u64| format!("{:.2} GHz", khz as f64 / 1e6);
    let nominal = nominal_khz.filter(|&nominal| (mean_khz as f64) < nominal as f64 * PART)?;
    Some(format!("CPUs at {}, below their nominal {}", ghz(mean_khz), ghz(nominal)))
}

/// What is known if nothing tells what the command waited for.
fn not_judged(run: &Run) -> String {
    let mut said = Vec::new();
    if let Some(seen) = run.seen {
        let part = percent(ratio(seen.cpu_ns.0 as f64, run.cpu_ns.0 as f64).min(1.0));
        said.push(match run.shares.all_waits {
            Some(all) => format!("its threads waited {} of the time, for what is unknown", percent(all)),
            None => "this kernel does not count how long its threads waited".to_owned(),
        });
        said.push(format!("schedstat showed {part} of its CPU time"));
        let pressure = run.pressure_some_ns.map(|some| ("of its cgroup", some));
        let pressure = pressure.or(run.host_pressure_ns.map(|some| ("of the host", some)));
        said.extend(pressure.map(|(whose, some)| {
            format!("CPU pressure {whose} {}", percent(ratio(some.0 as f64, run.wall_ns.0 as f64)))
        }));
        said.push(format!("steal {}", share(run.shares.steal)));
    }
    said.extend(run.why_not.clone());
    said.join("; ")
}

/// Several lines about all runs: how many were undisturbed, and what that does to the run time.
pub fn summary(series: &RunSeries) -> String {
    let mut text = format!("{}\n", headline(series));
    for (what, spread) in times(series) {
        let _ = writeln!(text, "{what}: {}", spread_of(&spread));
    }
    text
}

fn headline(series: &RunSeries) -> String {
    let runs = series.runs.len() as u32;
    let mut said = format!("{} of {runs} run{} undisturbed", series.count(RunVerdict::Undisturbed), ending(runs));
    for (verdict, word) in [(RunVerdict::Disturbed, "disturbed"), (RunVerdict::NotJudged, "not judged")] {
        let numbers: Vec<String> = series.numbers(verdict).iter().map(u32::to_string).collect();
        if !numbers.is_empty() {
            let _ = write!(said, "; {word}: {}", numbers.join(", "));
        }
    }
    said
}

/// Run times of all runs, and without those that were disturbed.
fn times(series: &RunSeries) -> Vec<(&'static str, Spread)> {
    let (all, undisturbed) = (series.spread(), series.spread_undisturbed());
    let mut times: Vec<_> = all.map(|all| ("run time, all runs", all)).into_iter().collect();
    let others = undisturbed.filter(|some| all.is_some_and(|all| some.runs < all.runs));
    times.extend(others.map(|spread| ("run time, undisturbed runs", spread)));
    times
}

/// `2.01 s ± 0.6 % (1.99 s to 2.03 s)`.
fn spread_of(spread: &Spread) -> String {
    let Spread { mean_ns, deviation_ns, min_ns, max_ns, .. } = spread;
    match deviation_ns {
        Some(deviation) => {
            let part = percent(ratio(deviation.0 as f64, mean_ns.0 as f64));
            format!("{mean_ns} ± {part} ({min_ns} to {max_ns})")
        }
        None => mean_ns.to_string(),
    }
}

/// All of it, as `lagstop run --format json` writes it.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// What the fields mean; the number goes up when one of them changes its meaning or goes away.
    schema: &'static str,
    /// `undisturbed`: as many runs were undisturbed as were wanted.
    verdict: RunVerdict,
    /// Numbers of the undisturbed runs.
    undisturbed: Vec<u32>,
    /// Numbers of the disturbed runs.
    disturbed: Vec<u32>,
    /// Numbers of the runs that could not be judged.
    not_judged: Vec<u32>,
    /// Run times of all runs.
    run_time: Option<Spread>,
    /// Run times of the undisturbed runs.
    run_time_undisturbed: Option<Spread>,
    #[serde(flatten)]
    series: &'a RunSeries,
}

fn verdict(series: &RunSeries) -> RunVerdict {
    if series.is_enough() {
        RunVerdict::Undisturbed
    } else if series.count(RunVerdict::Disturbed) > 0 {
        RunVerdict::Disturbed
    } else {
        RunVerdict::NotJudged
    }
}

/// As JSON, readable, one document, ending in a newline. Characters in names that a terminal would obey are escaped.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn json(series: &RunSeries) -> Result<String, serde_json::Error> {
    json::document(&Document {
        schema: SCHEMA,
        verdict: verdict(series),
        undisturbed: series.numbers(RunVerdict::Undisturbed),
        disturbed: series.numbers(RunVerdict::Disturbed),
        not_judged: series.numbers(RunVerdict::NotJudged),
        run_time: series.spread(),
        run_time_undisturbed: series.spread_undisturbed(),
        series,
    })
}

/// The JSON Schema of that. Published as `docs/run.schema.json`.
pub fn schema() -> serde_json::Value {
    json::schema_of::<Document<'_>>("What lagstop run reports")
}

/// A section in GitHub's Markdown. Names cannot be anything but text in it.
pub fn github(series: &RunSeries) -> String {
    let text = markdown::text;
    let command: Vec<String> = series.command.iter().map(|word| text(word)).collect();
    let mut page = format!("### {}: {}\n\n", word(verdict(series)), short_name(&command.join(" "), 200));
    let of_runs = series.runs.len() > 1;
    if of_runs {
        let _ = writeln!(page, "{}.\n", text(&headline(series)));
        for (what, spread) in times(series) {
            let _ = writeln!(page, "- {what}: {}", spread_of(&spread));
        }
        page.push('\n');
    }
    page += "| run | verdict | run time | waited because of others | throttled | steal | caused by |\n| ---: | --- | ---: | ---: | ---: | ---: | --- |\n";
    for run in &series.runs {
        let RunShares { throttled, steal, .. } = run.shares;
        let shown = |cause: Disturbance, value: Option<f64>| match run.exceeded.iter().find(|one| one.cause == cause) {
            Some(Exceeded { limit, .. }) => format!("**{}** (limit {})", share(value), percent(*limit)),
            None => share(value),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} |",
            run.number,
            word(run.verdict),
            run.wall_ns,
            shown(Disturbance::Wait, run.shares.because_of_others()),
            shown(Disturbance::Throttled, throttled),
            shown(Disturbance::Steal, steal),
            text(&caused_by(run))
        );
    }
    let _ = writeln!(
        page,
        "\nOn {}, Linux {}, {}, by lagstop {}.",
        text(&series.hostname),
        text(&series.kernel),
        plural(series.cpus_online, "CPU"),
        text(&series.lagstop_version)
    );
    if let Some(why) = series.restricted.as_ref().filter(|_| series.method == Method::Files) {
        let _ = writeln!(page, "\nThe causes of waits are unknown: {}", text(why));
    }
    page.push('\n');
    page
}

/// `83 % of waits behind others: user.slice (cargo); crowded out for about 47.9 %, mostly by user.slice`
fn caused_by(run: &Run) -> String {
    let others = run.waits.map(|waits| waits.behind_others_ns).unwrap_or_default();
    let behind = run.behind.first();
    let behind =
        behind.map(|worst| format!("{} of waits behind others: {}", part_of(worst.wait_ns, others), name(worst)));
    let out = run.shares.crowded_out.filter(|_| crowded_out(run).is_some()).map(|share| {
        let whom = run.crowded_out_by.first();
        let whom = whom.map_or_else(String::new, |worst| format!(", mostly by {}", cgroup_name(&worst.name)));
        format!("crowded out for about {}{whom}", percent(share))
    });
    [behind, out].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

const fn word(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::Undisturbed => "undisturbed",
        RunVerdict::Disturbed => "disturbed",
        RunVerdict::NotJudged => "not judged",
    }
}

/// Why the exit code is not the command's, where it was held against these limits.
pub fn failure(series: &RunSeries, limits: &[Disturbance]) -> String {
    let wanted = series.wanted;
    if wanted > 1 || limits.is_empty() {
        let runs = series.runs.len() as u64;
        let undisturbed = series.count(RunVerdict::Undisturbed);
        return format!("{undisturbed} of {} undisturbed, and --repeat is {wanted}", plural(runs, "run"));
    }
    let exceeded = series.runs.iter().flat_map(|run| &run.exceeded);
    let exceeded = exceeded.filter(|exceeded| limits.contains(&exceeded.cause));
    let said: Vec<String> = exceeded
        .map(|Exceeded { cause, share, limit }| {
            format!("{} {} and {} is {}", cause.label(), percent(*share), cause.flag(), percent(*limit))
        })
        .collect();
    if said.is_empty() { "the limits could not be checked".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests;
