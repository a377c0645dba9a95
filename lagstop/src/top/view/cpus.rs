//! The view of CPUs: what each did, and which cgroups crowd it, by NUMA node and last-level cache.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{chart, waits::cgroup_name};
use crate::{
    display::{self, fit},
    model::{Cpu, Crowding, Nanos, Place},
    top::{
        column, frame,
        quantity::{Cell, Quantity},
        state::State,
        theme::Theme,
    },
    units::ending,
};

/// A figure of a CPU.
struct Column {
    title: &'static str,
    /// With the gap before it.
    cells: usize,
    /// It is left out of narrower screens.
    from_width: usize,
    cell: fn(&Cpu, &frame::Frame) -> Cell,
}

const COLUMNS: [Column; 5] = [
    Column {
        title: column::Column::SWITCHES.title(),
        cells: 10,
        from_width: 70,
        cell: |cpu, now| cpu.totals.switches.map(|switches| Quantity::Rate(now.interval.per_second(switches))).into(),
    },
    Column {
        title: column::Column::SwitchCost.title(),
        cells: 8,
        from_width: 0,
        cell: |cpu, now| share(cpu.switch_cost(), now),
    },
    Column { title: "/call", cells: 9, from_width: 110, cell: |cpu, _| Cell::mean(cpu.switch_cost(), calls(cpu)) },
    Column {
        title: column::Column::Waiting.title(),
        cells: 9,
        from_width: 0,
        cell: |cpu, now| tasks(cpu.totals.runq_wait_ns, now),
    },
    Column {
        title: column::Column::RunqWait.title(),
        cells: 9,
        from_width: 110,
        cell: |cpu, _| Cell::mean(cpu.totals.runq_wait_ns, cpu.totals.runq_waits),
    },
];

/// Calls of `__schedule()`: what the switch cost of a CPU is of. Where those that kept the running task are not measured, they are not
/// in the cost either.
fn calls(cpu: &Cpu) -> Option<u64> {
    cpu.totals.switches.map(|switches| switches.saturating_add(cpu.totals.kept_calls.unwrap_or_default()))
}

fn share(time: Option<Nanos>, now: &frame::Frame) -> Cell {
    time.map(|time| Quantity::Share(time.cores(now.interval.duration_ns).0)).into()
}

fn tasks(time: Option<Nanos>, now: &frame::Frame) -> Cell {
    time.map(|time| Quantity::Amount(time.cores(now.interval.duration_ns).0)).into()
}

/// Those that there is room for.
fn columns(width: usize) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |column| width >= column.from_width)
}

/// Cells of a CPU's number; of the share that is busy; and of the bar before it.
const NUMBER: usize = 5;
const BUSY: usize = 7;
const BAR: usize = 8;

/// Lines that `area` has room for below the titles.
pub(super) const fn rows(area: Rect) -> usize {
    area.height.saturating_sub(1) as usize
}

pub(super) struct Content {
    titles: Line<'static>,
    lines: Vec<Line<'static>>,
}

impl Content {
    pub(super) fn new(state: &State, width: u16, theme: &Theme) -> Self {
        let mut titles = format!("{:>NUMBER$} {:>cells$}", "CPU", "busy %", cells = BAR + BUSY);
        titles.extend(columns(width.into()).map(|column| format!("{:>cells$}", column.title, cells = column.cells)));
        titles.push_str("  main users: CPUs run + tasks waiting");
        let titles = Line::styled(display::cut(&titles, width.into()), theme.title());
        let lines = state.frame().map_or_else(Vec::new, |now| lines(now, state, width.into(), theme));
        Self { titles, lines }
    }

    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn draw(self, frame: &mut Frame<'_>, area: Rect, state: &State) {
        frame.render_widget(self.titles, Rect { height: 1, ..area });
        let seen = self.lines.into_iter().skip(state.cpus.top).take(rows(area));
        for (y, line) in (1..).zip(seen) {
            frame.render_widget(line, Rect { y: area.y + y, height: 1, ..area });
        }
    }
}

fn lines(now: &frame::Frame, state: &State, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    if now.interval.cpus.is_empty() {
        return vec![Line::from("Per-CPU metrics were not recorded.")];
    }
    let place = |cpu: &Cpu| {
        let places = &state.session().topology;
        places.iter().find(|place| place.cpu == cpu.cpu).copied().unwrap_or(Place { cpu: cpu.cpu, ..Place::default() })
    };
    let mut cpus: Vec<(Place, &Cpu)> = now.interval.cpus.iter().map(|cpu| (place(cpu), cpu)).collect();
    cpus.sort_by_key(|(place, cpu)| (place.numa, place.llc, cpu.cpu));
    let mut lines = Vec::new();
    for group in cpus.chunk_by(|(a, _), (b, _)| (a.numa, a.llc) == (b.numa, b.llc)) {
        let (Place { numa, llc, .. }, _) = group[0];
        let heading = format!("NUMA node {numa}, last-level cache of CPU {llc}: {}", counted(group.len()));
        lines.push(Line::styled(fit(&heading, display::width(&heading).min(width)), theme.strong()));
        lines.extend(group.iter().map(|(_, cpu)| line(cpu, now, width, theme)));
    }
    lines
}

fn counted(cpus: usize) -> String {
    format!("{cpus} CPU{}", ending(cpus))
}

fn line(cpu: &Cpu, now: &frame::Frame, width: usize, theme: &Theme) -> Line<'static> {
    let busy = cpu.totals.busy_ns.cores(cpu.totals.busy_ns.saturating_add(cpu.totals.idle_ns)).0;
    let mut spans = vec![
        Span::styled(format!("{:>NUMBER$} ", cpu.cpu), theme.strong()),
        Span::styled(chart::bar(busy, BAR), theme.bar()),
        Span::raw(format!("{:>BUSY$}", Quantity::Share(busy).to_string())),
    ];
    for column in columns(width) {
        let cell = (column.cell)(cpu, now);
        let style = if cell == Cell::NotMeasured { theme.label() } else { Style::new() };
        let text = cell.to_string();
        spans.push(Span::raw(" ".repeat(column.cells.saturating_sub(display::width(&text)))));
        spans.push(Span::styled(text, style));
    }
    let used: usize = NUMBER + 1 + BAR + BUSY + columns(width).map(|column| column.cells).sum::<usize>();
    spans.push(Span::raw(format!("  {}", crowd(cpu, now, width.saturating_sub(used + 2)))));
    Line::from(spans)
}

/// As many of the cgroups that crowd it as there is room for, the worst first.
fn crowd(cpu: &Cpu, now: &frame::Frame, room: usize) -> String {
    let count = cpu.crowd.len().min(room / NARROWEST_CROWDER).max(1);
    let each = (room + 2) / count;
    cpu.crowd
        .iter()
        .take(count)
        .map(|crowding| crowder(crowding, now, each.saturating_sub(2)))
        .collect::<Vec<_>>()
        .join("  ")
}

fn crowder(crowding: &Crowding, now: &frame::Frame, cells: usize) -> String {
    let cores = |time: Nanos| Quantity::Amount(time.cores(now.interval.duration_ns).0);
    let wait = crowding.runq_wait_ns.map_or_else(String::new, |wait| format!("+{}", cores(wait)));
    let figures = format!(" {}{wait}", cores(crowding.cpu_ns));
    let name = cgroup_name(crowding.id, now);
    let room = cells.saturating_sub(display::width(&figures));
    fit(&name, display::width(&name).min(room)) + &figures
}

/// With less than this a cgroup's name and figures cannot be read.
const NARROWEST_CROWDER: usize = 26;
