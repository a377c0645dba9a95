//! Everything about one cgroup.

mod waits;

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::chart;
use crate::{
    diagnosis::{AlertSubject, Severity},
    display::{self, display_name, fit, wrap},
    model::{Cgroup, CgroupLimits, CloserLook, Derived, Distribution, Listener, Nanos, Quota, Thread},
    top::{
        column::Column,
        frame,
        mark::Mark,
        quantity::{Cell, Quantity},
        state::{Detail, Mode, State},
        theme::{Theme, severity_mark},
    },
    units::{ending, if_measured},
};

/// Quantiles of distributions that are shown.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Lines of a distribution's chart: powers of two.
const MOST_BARS: usize = 14;
/// Threads that are listed.
const MOST_THREADS: usize = 12;
/// From this width on, charts stand side by side.
const WIDE: usize = 100;
/// Cells of a column of two.
const HALF: usize = 44;

pub(super) struct Content(Vec<Line<'static>>);

impl Content {
    /// `None` where no cgroup is looked at.
    pub(super) fn new(state: &State, width: u16, theme: &Theme) -> Option<Self> {
        let (detail, now) = (state.detail()?, state.frame()?);
        let mut page = Page { width: width.into(), theme: *theme, lines: Vec::new() };
        page.identity(detail, now);
        match now.cgroup(detail.id) {
            Some(cgroup) => {
                page.waits(cgroup, now, state);
                page.figures(detail, cgroup, now);
            }
            None => {
                page.plain("Idle in this interval: no task ran or waited.");
                page.history(detail);
            }
        }
        page.limits(detail, state);
        page.threads(detail, state);
        page.listeners(detail, now);
        page.findings(detail);
        Some(Self(page.lines))
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn draw(self, frame: &mut Frame<'_>, area: Rect, state: &State) {
        let top = state.detail().map_or(0, |detail| detail.scroll.top);
        for (y, line) in (0..area.height).zip(self.0.into_iter().skip(top)) {
            frame.render_widget(line, Rect { y: area.y + y, height: 1, ..area });
        }
    }
}

struct Page {
    width: usize,
    theme: Theme,
    lines: Vec<Line<'static>>,
}

impl Page {
    fn plain(&mut self, text: &str) {
        self.lines.extend(wrap(text, self.width).into_iter().map(Line::from));
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(Line::default());
        self.lines.push(Line::styled(fit(text, display::width(text).min(self.width)), self.theme.title()));
    }

    fn marked(&mut self, mark: &'static str, style: Style, text: &str) {
        for (n, line) in wrap(text, self.width.saturating_sub(3)).into_iter().enumerate() {
            let mark = if n == 0 { mark } else { "" };
            self.lines.push(Line::from(vec![Span::styled(format!("{mark:3}"), style), Span::raw(line)]));
        }
    }

    fn identity(&mut self, detail: &Detail, now: &frame::Frame) {
        match &detail.path {
            Some(path) => self.plain(&display_name(path)),
            None => self.plain("Path unknown: the cgroup has been idle so far."),
        }
        if let Some(mark) = Mark::of(detail.id, now) {
            self.marked(mark.letter(), self.theme.mark(mark), &mark.why());
        }
        let own = now.alerts().iter().filter(|active| active.alert.subject == AlertSubject::Cgroup(detail.id));
        let alerts: Vec<(Severity, String)> = own
            .map(|active| {
                let lasted = now.end().saturating_sub(active.since);
                let least = if active.is_longer { "at least " } else { "" };
                let what = super::alerts::described(&active.alert, now, usize::MAX);
                (active.alert.severity, format!("{what} for {least}{lasted}"))
            })
            .collect();
        for (severity, text) in alerts {
            self.marked(severity_mark(severity), self.theme.severity(severity), &text);
        }
    }

    /// Writes what this interval has of the cgroup.
    fn figures(&mut self, detail: &Detail, cgroup: &Cgroup, now: &frame::Frame) {
        let figure = |column: Column| column.cell(cgroup, &now.interval);
        self.heading("This interval");
        let mut pairs = vec![
            ("switch cost", figure(Column::SwitchCost), "% of a CPU"),
            ("of its CPU time", figure(Column::CostOfCpu), "%"),
            ("mean switch", figure(Column::MeanSwitch), ""),
            ("switches/s", figure(Column::SWITCHES), ""),
            (Derived::CPU.label, figure(Column::Cpu), "CPUs"),
            (Derived::RUNNABLE_LOAD.label, figure(Column::Load), "tasks"),
            (Derived::LOAD_CREDIT.label, figure(Column::Credit), "tasks"),
            (Derived::WAIT_PER_CPU.label, figure(Column::WaitPerCpu), "×"),
            ("mean wait", figure(Column::RunqWait), ""),
            ("migrations/s", figure(Column::MIGRATIONS), ""),
            ("  across LLCs/s", figure(Column::CROSS_LLC), ""),
            ("  across nodes/s", figure(Column::CROSS_NUMA), ""),
            ("threads seen", figure(Column::Threads), ""),
            ("accept wait", figure(Column::AcceptWait), ""),
            ("throttled", figure(Column::Throttled), "% of periods"),
            ("time throttled", figure(Column::ThrottledTime), ""),
        ];
        pairs.extend(Column::of_files().map(|column| (column.name(), figure(column), "%")));
        self.pairs(&pairs);
        let totals = &cgroup.totals;
        let ns = |time: Option<Nanos>| time.map(|time| time.0);
        let switching = totals.pick_ns.map(|pick| pick.saturating_sub(totals.kept_ns.unwrap_or_default()));
        self.history(detail);
        self.heading("What the switch cost is");
        self.shares(&[
            ("pick, switching", ns(switching)),
            ("pick, kept running", ns(totals.kept_ns)),
            ("swap", ns(totals.swap_ns)),
        ]);
        self.heading("Why it left the CPU");
        self.shares(&[
            ("voluntary", Some(totals.voluntary_switches)),
            ("involuntary", Some(totals.involuntary_switches)),
        ]);
        if let Some(crossing) = totals.cross_cgroup_switches {
            let share = Cell::share(Some(crossing), Some(totals.switches));
            self.plain(&format!("{share} % of its switches went to another cgroup."));
        }
        let mut charts = vec![
            self.distribution("Switch cost", cgroup.switch_cost.as_ref(), now.has_shapes),
            self.distribution("Run-queue wait", cgroup.runq_wait.as_ref(), now.has_shapes),
        ];
        if let Some(waits) = cgroup.accept_wait.as_ref().filter(|waits| waits.count() > 0) {
            charts.push(self.distribution("Accept wait", Some(waits), now.has_shapes));
        }
        self.beside(charts);
    }

    /// Blocks of lines two by two, where there is room.
    fn beside(&mut self, blocks: Vec<Vec<Line<'static>>>) {
        let columns = if self.width >= WIDE { 2 } else { 1 };
        for row in blocks.chunks(columns) {
            self.lines.push(Line::default());
            for n in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
                let mut spans = Vec::new();
                for block in row {
                    let line = block.get(n).cloned().unwrap_or_default();
                    let gap = (self.width / columns).saturating_sub(line.width());
                    spans.extend(line.spans);
                    spans.push(Span::raw(" ".repeat(gap)));
                }
                self.lines.push(Line::from(spans));
            }
        }
    }

    /// Cells of a block that stands beside another one where there is room.
    const fn block_cells(&self) -> usize {
        if self.width >= WIDE { self.width / 2 - 2 } else { self.width }
    }

    /// Labels with figures, side by side where there is room.
    fn pairs(&mut self, items: &[(&str, Cell, &str)]) {
        let columns = (self.width / HALF).clamp(1, 3);
        for row in items.chunks(columns) {
            let mut spans = Vec::new();
            for (label, cell, unit) in row {
                let (text, unit) = match cell {
                    Cell::Nothing => ("–".to_owned(), ""),
                    Cell::NotMeasured => (cell.to_string(), ""),
                    Cell::Quantity(_) => (cell.to_string(), *unit),
                };
                spans.push(Span::styled(fit(label, 18), self.theme.label()));
                spans.push(Span::styled(format!("{text:>9}"), self.theme.strong()));
                spans.push(Span::raw(fit(&format!(" {unit}"), HALF - 27)));
            }
            self.lines.push(Line::from(spans));
        }
    }

    /// Parts of a whole, with bars.
    fn shares(&mut self, parts: &[(&str, Option<u64>)]) {
        let whole: u64 = parts.iter().filter_map(|(_, part)| *part).sum();
        let cells = self.width.saturating_sub(30).min(40);
        for (label, part) in parts {
            let share = part.map(|part| if whole > 0 { part as f64 / whole as f64 } else { 0.0 });
            let figure: Cell = share.map(Quantity::Share).into();
            let unit = if share.is_some() { " %" } else { "" };
            self.lines.push(Line::from(vec![
                Span::styled(fit(label, 20), self.theme.label()),
                Span::styled(format!("{:>9} ", format!("{figure}{unit}")), self.theme.strong()),
                Span::styled(chart::bar(share.unwrap_or(0.0), cells), self.theme.bar()),
            ]));
        }
    }

    fn distribution(&self, title: &str, of: Option<&Distribution>, has_shape: bool) -> Vec<Line<'static>> {
        let cells = self.block_cells();
        let heading = |text: &str| Line::styled(fit(text, display::width(text).min(cells)), self.theme.title());
        let Some(of) = of else { return vec![heading(&format!("{title}: n/a"))] };
        let quantiles: Vec<String> =
            QUANTILES.iter().filter_map(|(name, share)| Some(format!("{name} {}", of.quantile(*share)?))).collect();
        let mut lines = vec![heading(&format!("{title}: {}", quantiles.join("  ")))];
        if !has_shape {
            lines.push(Line::styled("  older intervals keep quantiles only", self.theme.label()));
            return lines;
        }
        let octaves = octaves(of);
        let most = octaves.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        for (from, count) in octaves {
            let range = format!("{} – {}", Nanos(from), Nanos(from * 2));
            lines.push(Line::from(vec![
                Span::styled(format!("{range:>19} "), self.theme.label()),
                Span::raw(format!("{count:>7} ")),
                Span::styled(
                    chart::bar(count as f64 / most as f64, cells.saturating_sub(28).min(50)),
                    self.theme.bar(),
                ),
            ]));
        }
        lines
    }

    fn history(&mut self, detail: &Detail) {
        let cells = self.width.saturating_sub(39);
        let credit: Vec<Option<f64>> = detail.trend.iter().map(|point| point.load_credit).collect();
        let waiting: Vec<Option<f64>> = detail.trend.iter().map(|point| point.waiting).collect();
        self.heading("Lately");
        for (label, values) in [(Derived::LOAD_CREDIT.label, credit), (Derived::WAITING.label, waiting)] {
            let most = values.iter().flatten().copied().fold(0.0, f64::max);
            let last: Cell = values.last().copied().flatten().map(Quantity::Amount).into();
            self.lines.push(Line::from(vec![
                Span::styled(fit(label, 14), self.theme.label()),
                Span::styled(format!("{last:>5}"), self.theme.strong()),
                Span::raw(fit(&format!(" of at most ~{} ", Quantity::Amount(most)), 20)),
                Span::styled(chart::sparkline(&values, cells, 0.0), self.theme.bar()),
            ]));
        }
    }

    fn limits(&mut self, detail: &Detail, state: &State) {
        // Files have only current values.
        self.heading(if state.behind() > Nanos::ZERO { "Limits, as they are now" } else { "Limits" });
        match (&detail.look, state.mode()) {
            (Some(CloserLook { limits, .. }), _) => {
                for (label, said) in described_limits(limits) {
                    self.lines.push(Line::from(vec![
                        Span::styled(fit(label, 14), self.theme.label()),
                        Span::raw(fit(&display_name(&said), self.width.saturating_sub(14))),
                    ]));
                }
            }
            (None, Mode::Replay) => self.plain("n/a: limits are not in recordings."),
            (None, Mode::Live) if state.link().is_some() => {
                self.plain("n/a: limits are read on the host itself. Run `lagstop top` there.");
            }
            (None, Mode::Live) if state.looks_ended() => {
                self.plain(
                    "n/a: the reader of limits and threads crashed. This is a bug in lagstop. Please report it.",
                );
            }
            (None, Mode::Live) if detail.path.is_none() => self.plain("n/a until the cgroup runs."),
            (None, Mode::Live) => self.plain("being read…"),
        }
    }

    fn threads(&mut self, detail: &Detail, state: &State) {
        let Some(look) = &detail.look else {
            if state.mode() == Mode::Replay {
                self.heading("Threads");
                self.plain("n/a: threads are not in recordings.");
            } else if state.link().is_some() {
                self.heading("Threads");
                self.plain("n/a: threads are read on the host itself. Run `lagstop top` there.");
            }
            return;
        };
        let threads = match &look.threads {
            Ok(threads) => threads,
            Err(why) => {
                self.heading("Threads");
                return self.plain(&format!("n/a: {}", display_name(&why.to_string())));
            }
        };
        let mut threads: Vec<&Thread> = threads.iter().collect();
        threads.sort_by_key(|thread| std::cmp::Reverse((thread.runq_wait_ns, thread.cpu_ns)));
        let now = if state.behind() > Nanos::ZERO { ", now" } else { "" };
        let over = look.over_ns.map_or_else(|| now.to_owned(), |over| format!(", over {over}{now}"));
        self.heading(&format!("{} thread{}, by run-queue wait{over}", threads.len(), ending(threads.len())));
        for thread in threads.iter().take(MOST_THREADS) {
            let share = |time: Option<Nanos>| -> Cell {
                time.zip(look.over_ns).map(|(time, over)| Quantity::Share(time.cores(over).0)).into()
            };
            self.lines.push(Line::from(vec![
                Span::styled(format!("{:>9} ", thread.tid), self.theme.label()),
                Span::raw(fit(&display_name(&thread.name), 18)),
                Span::raw(format!(" waits {:>5} %  runs {:>5} %", share(thread.runq_wait_ns), share(thread.cpu_ns))),
            ]));
        }
        if threads.len() > MOST_THREADS {
            self.plain(&format!("… and {} more", threads.len() - MOST_THREADS));
        }
    }

    fn listeners(&mut self, detail: &Detail, now: &frame::Frame) {
        let own: Vec<&Listener> =
            now.interval.listeners.iter().filter(|listener| listener.cgroup == Some(detail.id)).collect();
        if own.is_empty() {
            return;
        }
        self.heading("Listeners");
        for listener in own {
            let backlog = listener.backlog.zip(listener.backlog_capacity);
            let backlog = if_measured(backlog, |(backlog, capacity)| format!("{backlog} of {capacity}"));
            let wait = Cell::mean(listener.totals.map(|it| it.accept_wait_ns), listener.totals.map(|it| it.accepts));
            let wait = if wait == Cell::Nothing { "–".to_owned() } else { wait.to_string() };
            self.plain(&format!("{}  backlog {backlog}, accept wait {wait}", listener.address));
        }
    }

    fn findings(&mut self, detail: &Detail) {
        let Some(span) = detail.found_over else { return };
        let over = format!("{} intervals ({})", span.intervals, span.duration_ns);
        self.heading(&format!("Findings over the last {over}"));
        if detail.findings.is_empty() {
            self.plain("None about this cgroup. `lagstop diagnose` reports on the whole host.");
        }
        for finding in &detail.findings {
            let mark = severity_mark(finding.severity);
            self.marked(mark, self.theme.severity(finding.severity), &display_name(&finding.verdict));
            for advice in &finding.advice {
                self.marked("", Style::new(), &display_name(&advice.text));
                for (mark, command) in advice.commands() {
                    self.marked(mark, self.theme.strong(), &display_name(command));
                }
            }
        }
    }
}

/// Counts by power of two, each with its lower end. Empty ones in between are included. Of too many, the last are kept.
fn octaves(of: &Distribution) -> Vec<(u64, u64)> {
    let octave = |value: Nanos| value.0.max(1).ilog2();
    let mut counts = std::collections::BTreeMap::new();
    for (value, count) in of.bins() {
        *counts.entry(octave(value)).or_insert(0) += u64::from(count);
    }
    let (Some((&first, _)), Some((&last, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return Vec::new();
    };
    let first = first.max((last + 1).saturating_sub(MOST_BARS as u32));
    // What is below the first goes into it: nothing is left out.
    let below: u64 = counts.range(..first).map(|(_, count)| count).sum();
    let count = |octave| counts.get(&octave).copied().unwrap_or(0) + if octave == first { below } else { 0 };
    (first..=last).map(|octave| (1 << octave, count(octave))).collect()
}

fn described_limits(limits: &CgroupLimits) -> Vec<(&'static str, String)> {
    let not_read = || "n/a".to_owned();
    let quota = match limits.quota {
        Some(Quota { quota_ns: Some(quota), period_ns }) => {
            format!("{} CPUs: {quota} each {period_ns}", Quantity::Amount(quota.cores(period_ns).0))
        }
        Some(Quota { quota_ns: None, .. }) => "unlimited".to_owned(),
        None => not_read(),
    };
    let weight = limits.weight.map_or_else(not_read, |weight| {
        let idle = if limits.idle == Some(true) { "; idle: hardly runs while a sibling wants to" } else { "" };
        format!("{weight} (default {}){idle}", limits.default_weight)
    });
    vec![("quota", quota), ("weight", weight), ("CPUs", limits.cpus.clone().unwrap_or_else(not_read))]
}
