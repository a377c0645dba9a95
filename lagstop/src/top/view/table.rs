//! The table of cgroups.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use crate::{
    diagnosis::AlertSubject,
    display::{self, display_name, fit},
    top::{
        column::Column,
        frame,
        mark::Mark,
        quantity::Cell,
        rows::{Row, RowKey},
        sort::{By, Sort},
        state::State,
        theme::{Theme, severity_mark},
    },
    units::ending,
};

/// Columns of figures are left out before the name gets narrower than this.
const NARROWEST_NAME: u16 = 22;
/// Cells of the marks before a name.
const MARKS: usize = 4;
/// Cells by which a level of the tree is further right, and levels after which it is not.
const INDENT: (usize, usize) = (1, 12);

/// Rows that `area` has room for below the titles and above the note.
pub(super) const fn rows(area: Rect) -> usize {
    area.height.saturating_sub(2) as usize
}

/// Which way the rows are sorted.
const fn arrow(sort: Sort) -> char {
    if sort.ascending() { '▲' } else { '▼' }
}

/// How many cgroups, how sorted, how much of it.
pub(super) fn title(state: &State, width: u16) -> String {
    let table = &state.table;
    let sort = table.sort();
    let mut parts = Vec::new();
    if let Some(now) = state.frame() {
        let all = now.interval.cgroups.len();
        let plural = ending(all);
        parts.push(match table.filter_text() {
            "" => format!("{all} active cgroup{plural}"),
            // In a tree, rows are also what those that match are inside of.
            filter if table.is_tree() => format!("{all} active cgroup{plural}, filter {}", display_name(filter)),
            filter => {
                format!("{} of {all} active cgroup{plural}, filter {}", table.rows().len(), display_name(filter))
            }
        });
    }
    parts.push(format!("by {} {}", sort.by.name(), arrow(sort)));
    if table.is_tree() {
        parts.push("tree".to_owned());
    }
    let (shown, all) = (visible(state, width).len(), table.columns().len());
    if shown < all {
        parts.push(format!("columns {}–{} of {all}", table.skipped() + 1, (table.skipped() + shown).min(all)));
    }
    // Whole parts: the last ones can be seen elsewhere too.
    while parts.len() > 1 && display::width(&parts.join(", ")) + 6 > width.into() {
        parts.pop();
    }
    format!(" {} ", parts.join(", "))
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: &frame::Frame, theme: &Theme) {
    let columns = visible(state, area.width);
    let name_width = usize::from(area.width - columns.iter().map(|&column| taken(column)).sum::<u16>());
    let line_at = |y: usize| Rect { y: area.y + y as u16, height: 1, ..area };
    frame.render_widget(titles(name_width, &columns, state.table.sort(), theme), line_at(0));
    let selected = state.table.selected_row();
    for (y, (n, row)) in state.table.rows_in_sight().enumerate() {
        let style = if selected == Some(n) { theme.selected() } else { Style::new() };
        frame.render_widget(line(row, now, name_width, &columns, theme).style(style), line_at(y + 1));
    }
    if state.table.rows().is_empty() {
        let none = if state.table.filter_text().is_empty() { "No cgroup ran." } else { "No active cgroup matches." };
        frame.render_widget(Line::from(none).centered(), line_at(1));
    }
    let note = selected.and_then(|n| state.table.rows().get(n)).map(|row| note(row, now, theme, area.width.into()));
    frame.render_widget(note.unwrap_or_default(), line_at(usize::from(area.height) - 1));
}

/// Cells of a column, with the gap before it.
const fn taken(column: Column) -> u16 {
    column.width() + 1
}

/// The columns that are in sight.
fn visible(state: &State, width: u16) -> Vec<Column> {
    let table = &state.table;
    columns(&table.columns()[table.skipped().min(table.columns().len())..], width, table.sort().by)
}

/// Those of `chosen` that fit, of which the first ones are kept longest. The one that the rows are sorted by is always
/// there if it was not scrolled away: an order that cannot be seen looks like none.
fn columns(chosen: &[Column], width: u16, by: By) -> Vec<Column> {
    let needed = |column: Column| by == By::Column(column);
    let mut left = width.saturating_sub(NARROWEST_NAME);
    left = left.saturating_sub(chosen.iter().copied().filter(|&column| needed(column)).map(taken).sum());
    let mut full = false;
    let fits = |column: &Column| {
        if needed(*column) {
            return true;
        }
        if taken(*column) > left {
            // One that has a name in it is so wide that others find room where it does not.
            full |= *column != Column::Behind;
            return false;
        }
        if !full {
            left -= taken(*column);
        }
        !full
    };
    chosen.iter().copied().filter(fits).collect()
}

fn titles(name_width: usize, columns: &[Column], sort: Sort, theme: &Theme) -> Line<'static> {
    let name = match sort.by {
        By::Name => format!("cgroup {}", arrow(sort)),
        By::Column(_) => "cgroup".to_owned(),
    };
    let name = format!("{}{}", " ".repeat(MARKS), fit(&name, name_width.saturating_sub(MARKS)));
    let mut spans = vec![Span::styled(name, theme.title())];
    for &column in columns {
        let mark = if sort.by == By::Column(column) { arrow(sort).to_string() } else { String::new() };
        let title = format!("{mark}{}", column.title());
        spans.push(Span::styled(format!("{title:>width$}", width = taken(column).into()), theme.title()));
    }
    Line::from(spans)
}

fn line(row: &Row, now: &frame::Frame, name_width: usize, columns: &[Column], theme: &Theme) -> Line<'static> {
    let mut spans = marks(row, now, theme);
    let indent = INDENT.0 * usize::from(row.depth).min(INDENT.1);
    let fold = match row.folded {
        Some(true) => "▸ ",
        Some(false) => "▾ ",
        None if row.depth > 0 => "  ",
        None => "",
    };
    let name = format!("{}{fold}{}", " ".repeat(indent), display_name(row.label()));
    spans.push(Span::raw(fit(&name, name_width.saturating_sub(MARKS))));
    for &column in columns {
        let cell = row.cell(column, &now.interval);
        let severity = match (&row.key, column.alert()) {
            // A sum is not the figure that the alert is about.
            (RowKey::Cgroup(id), Some(kind)) if row.is_one() => now.severity(AlertSubject::Cgroup(*id), kind),
            _ => None,
        };
        let style = match (cell, severity) {
            (Cell::NotMeasured, _) => theme.label(),
            (_, Some(severity)) => theme.severity(severity),
            _ => Style::new(),
        };
        let text = match row.culprit(column, &now.interval) {
            Some(culprit) => culprit_cell(&culprit, cell, column.width().into()),
            None => cell.to_string(),
        };
        spans.push(Span::raw(" ".repeat(usize::from(taken(column)).saturating_sub(display::width(&text)))));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// The name is shortened and the share is not.
fn culprit_cell(culprit: &str, share: Cell, cells: usize) -> String {
    let share = format!(" {share:>4}");
    display::shorten(culprit, cells.saturating_sub(display::width(&share))).into_owned() + &share
}

/// Who would gain or pay, and whether a threshold is crossed; of a folded part of the tree by anybody in it.
fn marks(row: &Row, now: &frame::Frame, theme: &Theme) -> Vec<Span<'static>> {
    let own = match &row.key {
        RowKey::Cgroup(id) => Some(*id),
        RowKey::Path(_) => None,
    };
    let worst = if row.folded == Some(true) {
        row.members(&now.interval).filter_map(|cgroup| now.worst(cgroup.id)).max()
    } else {
        own.and_then(|id| now.worst(id))
    };
    let mark = own.and_then(|id| Mark::of(id, now));
    vec![
        mark.map_or_else(|| Span::raw(" "), |mark| Span::styled(mark.letter(), theme.mark(mark))),
        worst.map_or_else(|| Span::raw("  "), |worst| Span::styled(severity_mark(worst), theme.severity(worst))),
        Span::raw(" "),
    ]
}

/// What there is no room for in the row: why it is marked, and its path.
fn note(row: &Row, now: &frame::Frame, theme: &Theme, cells: usize) -> Line<'static> {
    let mark = match &row.key {
        RowKey::Cgroup(id) => Mark::of(*id, now),
        RowKey::Path(_) => None,
    };
    let text = match mark {
        Some(mark) => display::cut(&format!("{} {}", mark.letter(), mark.why()), cells),
        None => {
            let path = display_name(&row.path);
            fit(&path, cells.min(display::width(&path)))
        }
    };
    Line::styled(text, theme.label())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_terminals_lose_columns_from_the_end_but_not_the_sorted_one() {
        let all = &Column::DEFAULT;
        assert_eq!(columns(all, 200, By::Name), all);
        assert_eq!(columns(all, 60, By::Name), all[..4]);
        let mut kept = all[..3].to_vec();
        kept.push(Column::Throttled);
        assert_eq!(columns(all, 60, By::Column(Column::Throttled)), kept);
        assert_eq!(columns(all, 0, By::Name), []);
        assert_eq!(columns(all, 80, By::Name), all[..8]);
        assert_eq!(columns(all, 120, By::Name).last(), Some(&Column::Behind));
        assert_eq!(columns(all, 119, By::Name).last(), Some(&Column::MIGRATIONS), "others find room");
    }
}
