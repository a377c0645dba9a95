//! What is in a recording, for people and for programs.

use super::{
    json::escape,
    page::{Colour, Page, PageOptions},
};
use crate::{
    display::{display_name, fit},
    model::{Cores, GroupBy, Session},
    recording::{CgroupSum, Contents, Form},
    units::{bytes, if_measured, percent, span},
};

/// Columns of a cgroup's name. Longer names are shortened in the middle.
const LEAST_NAMED: usize = 16;
const MOST_NAMED: usize = 40;

/// As JSON, readable, one document, ending in a newline; what a terminal would obey is escaped in names.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn to_json(contents: &Contents) -> Result<String, serde_json::Error> {
    Ok(escape(&serde_json::to_string_pretty(contents)?) + "\n")
}

/// For a terminal. `file` is what the recording is called.
pub fn render(file: &str, contents: &Contents, options: PageOptions) -> String {
    let mut page = Page::new(options);
    heading(&mut page, file, contents);
    page.blank();
    extent(&mut page, contents);
    gaps(&mut page, contents);
    let named = (options.width / 2).clamp(LEAST_NAMED, MOST_NAMED);
    busiest(&mut page, named, "Most CPU time", &contents.by_cpu_time, contents);
    busiest(&mut page, named, "Highest switch cost", &contents.by_switch_cost, contents);
    measures(&mut page, &contents.session);
    page.finish()
}

fn heading(page: &mut Page, file: &str, contents: &Contents) {
    let session = &contents.session;
    match &contents.footer {
        Some(_) => page.text("", Colour::Green, &format!("{file} is complete")),
        None => {
            page.text("", Colour::Yellow, &format!("{file} has no footer: it was cut off, or is still being written"))
        }
    }
    let by = match session.group_by {
        GroupBy::Scheduler => "scheduler groups",
        GroupBy::Leaf => "cgroup v2 leaves",
    };
    page.text(
        "",
        Colour::None,
        &format!(
            "{}, Linux {}, {} of {} CPUs online; lagstop {}, grouped by {by}",
            or_unknown(&session.hostname),
            or_unknown(&session.kernel),
            session.cpus_online,
            session.cpus_possible,
            or_unknown(&session.lagstop_version)
        ),
    );
    if let Some(why) = &session.restricted {
        page.text("", Colour::Yellow, &format!("Nothing was measured with eBPF: {why}"));
    }
}

/// How much is in the recording: time, intervals, size and cgroups.
fn extent(page: &mut Page, contents: &Contents) {
    let Contents { session, intervals, summed_intervals, cgroups, .. } = contents;
    let to = contents.ended_at.as_deref().map_or_else(String::new, |end| format!(" to {end}"));
    page.labelled("time", &format!("{}, {}{to}", span(contents.span_ns), or_unknown(&session.started_at)));
    let missing = match contents.missing_intervals {
        None => String::new(),
        Some(0) => ", none missing".to_owned(),
        Some(missing) => format!(", {missing} missing in between"),
    };
    page.labelled("intervals", &format!("{intervals} of {}{missing}", span(session.interval_ns)));
    let ended = match &contents.footer {
        Some(footer) => footer.reason.clone(),
        None if contents.is_cut => "in the middle of a line, which is ignored".to_owned(),
        None => "after a complete line".to_owned(),
    };
    page.labelled("ended", &ended);
    let form = match contents.form {
        Form::Plain => "plain",
        Form::Compressed => "compressed",
    };
    let each =
        contents.bytes_per_cgroup.map_or_else(String::new, |each| format!(", {each:.1} B per cgroup and interval"));
    page.labelled("size", &format!("{}, {form}{each}", bytes(contents.bytes)));
    let counted = if cgroups.counted_intervals == *intervals {
        String::new()
    } else {
        format!(", counted in {} intervals", cgroups.counted_intervals)
    };
    page.labelled(
        "cgroups",
        &format!(
            "{} ran; at most {} at once, {:.0} on average{counted}",
            cgroups.ever, cgroups.most_at_once, cgroups.mean_at_once
        ),
    );
    if let Some(host) = &contents.host {
        let overhead = if_measured(host.overhead, percent);
        let rate = host.task_switches as f64 / host.duration_ns.seconds().max(f64::MIN_POSITIVE);
        page.labelled(
            "host",
            &format!("overhead {overhead}, {} of all CPUs used, {rate:.0} switches/s", percent(host.cpu_utilisation)),
        );
    }
    let counted = contents.lost.kinds().filter(|&(_, count)| count > 0);
    let lost: Vec<String> = counted.map(|(what, count)| format!("{count} {}", what.replace('_', " "))).collect();
    page.labelled("lost", if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") }.as_str());
    if summed_intervals != intervals {
        let note =
            format!("Long recording: all sums cover {summed_intervals} of {intervals} intervals, evenly spread.");
        page.text("    ", Colour::Yellow, &note);
    }
}

fn gaps(page: &mut Page, contents: &Contents) {
    if contents.gaps.is_empty() {
        return;
    }
    page.blank();
    page.text("", Colour::Bold, "Gaps, in which nothing was measured");
    for dated in &contents.gaps {
        let began = dated.began_at.clone().unwrap_or_else(|| format!("{} after the start", span(dated.gap.start_ns)));
        page.hanging("    ", &format!("{began}, {}: {}", span(dated.gap.duration_ns), dated.gap.reason));
    }
}

/// A list of cgroups, their names in `named` columns.
fn busiest(page: &mut Page, named: usize, title: &str, cgroups: &[CgroupSum], contents: &Contents) {
    let Some(host) = contents.host.as_ref().filter(|_| !cgroups.is_empty()) else { return };
    page.blank();
    page.text("", Colour::Bold, title);
    for cgroup in cgroups {
        let Cores(cpu) = cgroup.cpu_ns.cores(host.duration_ns);
        let cost = if_measured(cgroup.switch_cost_ns, |cost| {
            let Cores(cores) = cost.cores(host.duration_ns);
            format!("{cores:.3} cores")
        });
        let name = if cgroup.name.is_empty() { &cgroup.path } else { &cgroup.name };
        let first = format!("    {}  ", fit(&display_name(name), named));
        page.hanging(&first, &format!("CPU time {cpu:.2} cores, switch cost {cost}"));
    }
}

fn measures(page: &mut Page, session: &Session) {
    page.blank();
    page.text("", Colour::Bold, "Measures");
    for hook in &session.hooks {
        match &hook.way {
            Some(way) => page.row("ok    ", Colour::Green, &hook.name, &format!("{way}: {}", hook.detail)),
            None => {
                page.row("n/a   ", Colour::Yellow, &hook.name, &hook.detail);
                page.beside(&format!("lost: {}", hook.measures.join(", ")));
            }
        }
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "(unknown)" } else { text }
}

#[cfg(test)]
mod tests;
