//! What changed, for a terminal.

use super::cells::Cells;
use crate::{
    diff::{Change, ChangeVerdict, Diff, Lone, Recorded},
    display::{pad, pad_left, short_name, width},
    report::page::{Colour, Page, PageOptions, clean},
    units::Unit,
};

/// The comparison for a terminal.
pub fn render(comparison: &Diff, options: PageOptions) -> String {
    let mut page = Page::new(options);
    page.text("", if comparison.is_worse() { Colour::Yellow } else { Colour::Bold }, &comparison.verdict());
    let worth = |of: fn(&Change) -> Option<f64>| worth(comparison.host.iter().filter_map(of));
    for (when, recorded, worth) in [
        ("before", &comparison.before, worth(|change| change.effective_before)),
        ("after", &comparison.after, worth(|change| change.effective_after)),
    ] {
        page.hanging(&format!("{when:<8}"), &format!("{}{worth}", heading(recorded)));
    }
    if !comparison.doubts.is_empty() {
        page.blank();
        for doubt in &comparison.doubts {
            page.tagged("[CAVEAT]", Colour::Yellow, doubt);
        }
    }
    let table = Table::of(comparison, options.width);
    table.write(&mut page, "host", &comparison.host, &[]);
    for cgroup in &comparison.cgroups {
        table.write(&mut page, &cgroup.name, &cgroup.changes, &comparison.host);
    }
    page.blank();
    not_listed(&mut page, comparison);
    lone(&mut page, "Only after", comparison.counts.appeared, &comparison.appeared);
    lone(&mut page, "Only before", comparison.counts.gone, &comparison.gone);
    footer(&mut page, comparison);
    page.finish()
}

fn heading(recorded: &Recorded) -> String {
    let session = &recorded.session;
    let or_unknown = |text: &str| if text.is_empty() { "(unknown)".to_owned() } else { text.to_owned() };
    format!(
        "{}, Linux {}, {}; {} intervals, {} from {}",
        or_unknown(&session.hostname),
        or_unknown(&session.kernel),
        session.cpus(session.cpus_online),
        recorded.intervals,
        Unit::Seconds.show(recorded.duration_ns.seconds()),
        or_unknown(&session.started_at)
    )
}

/// The effective sample size of the recording: from the least to the most of the host's figures.
fn worth(effective: impl Iterator<Item = f64> + Clone) -> String {
    let (least, most) = (effective.clone().fold(f64::INFINITY, f64::min), effective.fold(0.0, f64::max));
    match [least, most].map(|effective| format!("{effective:.0}")) {
        _ if least > most => String::new(),
        [least, most] if least == most => format!("; effective sample size {least}"),
        [least, most] => format!("; effective sample size {least} to {most}, by metric"),
    }
}

/// The columns of all tables: they stand one below the other.
struct Table {
    label: usize,
    before: usize,
    after: usize,
    share: usize,
    change: usize,
    /// The terminal is narrow: changes have lines of their own.
    is_narrow: bool,
}

/// Headings of the columns.
const HEADS: [&str; 4] = ["before", "after", "change", "change [interval]"];
/// Indent of each line, and the gap between columns that are not right-aligned.
const GAP: usize = 2;

impl Table {
    fn of(comparison: &Diff, cells: usize) -> Self {
        let changes = comparison.host.iter().chain(comparison.cgroups.iter().flat_map(|cgroup| &cgroup.changes));
        let rows: Vec<(Cells, usize)> = changes.map(|change| (change.into(), width(change.verdict.words()))).collect();
        let widest = |head: &str, of: fn(&Cells) -> &str| {
            rows.iter().map(|(cells, _)| width(of(cells))).max().unwrap_or_default().max(width(head))
        };
        let mut table = Self {
            label: widest("", |cells| &cells.label),
            before: widest(HEADS[0], |cells| &cells.before),
            after: widest(HEADS[1], |cells| &cells.after),
            share: widest(HEADS[2], |cells| &cells.share),
            change: widest(HEADS[3], |cells| &cells.change),
            is_narrow: false,
        };
        let verdict = rows.iter().map(|(_, verdict)| *verdict).max().unwrap_or_default();
        let columns = table.label + 3 + table.before + table.after + table.share;
        table.is_narrow = GAP + columns + GAP + table.change + GAP + verdict > cells;
        table
    }

    /// Writes the figures of `name`. Omits those that are n/a for the same reason as the same figure in `said`.
    fn write(&self, page: &mut Page, name: &str, changes: &[Change], said: &[Change]) {
        page.blank();
        let name = clean(name);
        let title = short_name(&name, GAP + self.label);
        let figures = self.figures(&title, HEADS[0], HEADS[1], HEADS[2], GAP + self.label);
        page.cells(&[(Colour::Bold, &figures), (Colour::Dim, if self.is_narrow { "" } else { "  change [interval]" })]);
        if title != name {
            page.text("  ", Colour::Dim, &name);
        }
        let mut last: Option<&String> = None;
        for change in changes {
            let is_said = |host: &Change| host.name == change.name && host.missing == change.missing;
            if change.missing.is_some() && change.change.is_none() && said.iter().any(is_said) {
                continue;
            }
            self.row(page, change);
            if let Some(why) = &change.missing {
                let why = if last == Some(why) { "for the same reason" } else { why };
                page.text("      ", Colour::Dim, why);
                last = change.missing.as_ref();
            }
        }
    }

    fn row(&self, page: &mut Page, change: &Change) {
        let cells = Cells::from(change);
        let label = format!("{:GAP$}{}", "", cells.label);
        let figures = self.figures(&label, &cells.before, &cells.after, &cells.share, GAP + self.label);
        let (colour, words) = (colour(change.verdict), change.verdict.words());
        if self.is_narrow {
            page.cells(&[(Colour::None, &figures)]);
            if !cells.change.is_empty() {
                page.cells(&[(Colour::None, &format!("      {}  ", cells.change)), (colour, words)]);
            }
        } else {
            let change = format!("{:GAP$}{}{:GAP$}", "", pad(&cells.change, self.change), "");
            page.cells(&[(Colour::None, &format!("{figures}{change}")), (colour, words)]);
        }
    }

    fn figures(&self, label: &str, before: &str, after: &str, share: &str, cells: usize) -> String {
        let Self { before: b, after: a, share: s, .. } = self;
        format!("{} {} {} {}", pad(label, cells), pad_left(before, *b), pad_left(after, *a), pad_left(share, *s))
    }
}

const fn colour(verdict: ChangeVerdict) -> Colour {
    match verdict {
        ChangeVerdict::Worse => Colour::Red,
        ChangeVerdict::Better => Colour::Green,
        ChangeVerdict::More | ChangeVerdict::Less => Colour::Cyan,
        ChangeVerdict::NoSignificantChange | ChangeVerdict::NotEnoughIntervals | ChangeVerdict::NotComparable => {
            Colour::Dim
        }
    }
}

fn not_listed(page: &mut Page, comparison: &Diff) {
    let listed = &comparison.cgroups;
    let more = comparison.counts.compared - listed.len();
    if more > 0 {
        let changed = comparison.counts.changed - listed.iter().filter(|cgroup| cgroup.is_significant()).count();
        let said = if changed > 0 { format!("{changed} of them changed") } else { "no significant change".to_owned() };
        page.text("", Colour::None, &format!("Not listed, in both recordings: {more}, {said}. --all lists them."));
    }
}

fn lone(page: &mut Page, which: &str, count: usize, lone: &[Lone]) {
    if count == 0 {
        return;
    }
    let names: Vec<String> =
        lone.iter().map(|lone| format!("{} ({})", lone.name, Unit::Cores.show(lone.cpu_cores))).collect();
    let more = match count - lone.len() {
        0 => String::new(),
        more if names.is_empty() => format!("{more} cgroups"),
        more => format!(" and {more} more"),
    };
    page.hanging(&format!("{which:<13}"), &format!("{}{more}", names.join(", ")));
}

fn footer(page: &mut Page, comparison: &Diff) {
    let settings = &comparison.settings;
    page.text(
        "",
        Colour::Dim,
        &format!(
            "{} confidence intervals from {} draws of {} and {} blocks of intervals (seed {}). Verdicts account for multiple \
             comparisons. See docs/diff.md.",
            Unit::Share.show(settings.confidence),
            settings.resamples,
            comparison.before.blocks,
            comparison.after.blocks,
            settings.seed
        ),
    );
}

#[cfg(test)]
mod tests;
