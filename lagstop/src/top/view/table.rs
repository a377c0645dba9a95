//! The table of cgroups.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use crate::report::display_name;
use crate::{
    model::{Cgroup, Interval},
    top::{
        column::Column,
        figure::Cell,
        sort::{By, Sort},
        state::State,
        text::{self, fit},
        theme::Theme,
    },
};

/// Columns of figures are left out before the name gets narrower than this.
const NARROWEST_NAME: u16 = 22;

/// Rows that `area` has room for below the titles.
pub(super) const fn rows(area: Rect) -> usize {
    area.height.saturating_sub(1) as usize
}

/// Which way the rows are sorted.
pub(super) const fn arrow(sort: Sort) -> char {
    if sort.ascending() { '▲' } else { '▼' }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, interval: &Interval, theme: &Theme) {
    let columns = columns(area.width, state.sort().by);
    let name_width = usize::from(area.width - columns.iter().map(|&column| taken(column)).sum::<u16>());
    let line_at = |y: usize| Rect { y: area.y + y as u16, height: 1, ..area };
    frame.render_widget(titles(name_width, &columns, state.sort(), theme), line_at(0));
    let selected = state.selected_row();
    for (y, (row, cgroup)) in state.rows_in_sight().enumerate() {
        let style = if selected == Some(row) { theme.selected() } else { Style::new() };
        let line = line(cgroup, interval, name_width, &columns, theme).style(style);
        frame.render_widget(line, line_at(y + 1));
    }
}

/// Cells of a column, with the gap before it.
const fn taken(column: Column) -> u16 {
    column.width() + 1
}

/// The columns that fit, of which the first ones are kept longest. The one that the rows are sorted by is always there:
/// an order that cannot be seen looks like none.
fn columns(width: u16, by: By) -> Vec<Column> {
    let needed = |column: Column| by == By::Figure(column);
    let mut left = width.saturating_sub(NARROWEST_NAME);
    left = left.saturating_sub(Column::ALL.into_iter().filter(|&column| needed(column)).map(taken).sum());
    let mut full = false;
    let fits = |column: &Column| {
        if needed(*column) {
            return true;
        }
        full |= taken(*column) > left;
        if !full {
            left -= taken(*column);
        }
        !full
    };
    Column::ALL.into_iter().filter(fits).collect()
}

fn titles(name_width: usize, columns: &[Column], sort: Sort, theme: &Theme) -> Line<'static> {
    let name = match sort.by {
        By::Name => format!("cgroup {}", arrow(sort)),
        By::Figure(_) => "cgroup".to_owned(),
    };
    let mut spans = vec![Span::styled(fit(&name, name_width), theme.title())];
    for &column in columns {
        let mark = if sort.by == By::Figure(column) { arrow(sort).to_string() } else { String::new() };
        let title = format!("{mark}{}", column.title());
        spans.push(Span::styled(format!("{title:>width$}", width = taken(column).into()), theme.title()));
    }
    Line::from(spans)
}

fn line(cgroup: &Cgroup, interval: &Interval, name_width: usize, columns: &[Column], theme: &Theme) -> Line<'static> {
    let mut spans = vec![Span::raw(fit(&display_name(text::name(cgroup)), name_width))];
    for &column in columns {
        let cell = column.cell(cgroup, interval);
        let style = if cell == Cell::NotMeasured { theme.label() } else { Style::new() };
        spans.push(Span::styled(format!("{cell:>width$}", width = taken(column).into()), style));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_terminals_lose_columns_from_the_end_but_not_the_sorted_one() {
        assert_eq!(columns(200, By::Name), Column::ALL);
        assert_eq!(columns(60, By::Name), Column::ALL[..4]);
        let mut kept = Column::ALL[..3].to_vec();
        kept.push(Column::Throttled);
        assert_eq!(columns(60, By::Figure(Column::Throttled)), kept);
        assert_eq!(columns(0, By::Name), []);
    }
}
