//! What the user chose before the screen comes up: flags and the configuration file.

use std::time::Duration;

use thiserror::Error;

use super::{
    column::Column,
    filter::{Filter, NoRegex},
    keymap::View,
    sort::{By, Sort},
    theme::Palette,
    timeline::HistoryLimits,
    waits,
};
use crate::{
    diagnosis::Thresholds,
    model::{Nanos, Session},
};

/// What the user chose before the screen comes up.
#[derive(Clone, Debug)]
pub struct TopSettings {
    pub(super) columns: Vec<Column>,
    /// Nobody chose the columns: where guests run, one more is shown.
    pub(super) adds_columns: bool,
    pub(super) sort: Sort,
    pub(super) tree: bool,
    pub(super) filter: String,
    pub(super) view: View,
    pub(super) alerts: bool,
    pub(super) palette: Palette,
    pub(super) ascii: bool,
    pub(super) history: HistoryLimits,
    pub(super) thresholds: Thresholds,
    pub(super) rows: usize,
}

impl Default for TopSettings {
    fn default() -> Self {
        Self {
            columns: Column::DEFAULT.to_vec(),
            adds_columns: true,
            sort: Sort::default(),
            tree: false,
            filter: String::new(),
            view: View::default(),
            alerts: false,
            palette: Palette::default(),
            ascii: false,
            history: HistoryLimits { time: Nanos(15 * 60 * Nanos::SECOND.0), bytes: 48 << 20 },
            thresholds: Thresholds::default(),
            rows: usize::MAX,
        }
    }
}

impl TopSettings {
    /// What `session` measures comes first, unless something else was chosen.
    pub(super) fn of_session(&self, session: &Session) -> Self {
        let mut settings = self.clone();
        let is_restricted = session.restricted.is_some();
        if settings.columns == Column::DEFAULT {
            match is_restricted {
                true => settings.columns = Column::OF_FILES.to_vec(),
                false if waits::are_measured(session) => {}
                // It is wide, and would be `n/a` all over.
                false => settings.columns.retain(|column| *column != Column::Behind),
            }
        }
        if is_restricted && settings.sort == Sort::default() {
            settings.sort.by = By::Column(Column::Load);
        }
        settings
    }
}

/// Sorting by name, where flags and the configuration name a column.
const NAME: &str = "name";

impl TopSettings {
    /// Names of columns, as flags and the configuration take them, with what each says.
    pub fn column_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        Column::all().map(|column| (column.key(), column.meaning()))
    }

    /// The columns that are shown, by name.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.key())
    }

    /// Shows these columns, in this order.
    ///
    /// # Errors
    /// When there is no such column, or one comes twice, or none at all.
    pub fn set_columns<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Result<(), TopSettingError> {
        let mut columns = Vec::new();
        for name in names {
            let column = column(name)?;
            if columns.contains(&column) {
                return Err(TopSettingError::Twice(name.to_owned()));
            }
            columns.push(column);
        }
        if columns.is_empty() {
            return Err(TopSettingError::NoColumn);
        }
        // The default columns are no choice, even if somebody wrote them down.
        self.adds_columns = columns == Column::DEFAULT;
        self.columns = columns;
        Ok(())
    }

    /// Sorts by this column, or by `name`; from the other end with `-` before it.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn set_sort(&mut self, name: &str) -> Result<(), TopSettingError> {
        let (name, reversed) = name.strip_prefix('-').map_or((name, false), |name| (name, true));
        let by = if name == NAME { By::Name } else { By::Column(column(name)?) };
        self.sort = Sort { by, reversed };
        Ok(())
    }

    /// Shows the tree of cgroups instead of the flat list.
    pub const fn set_tree(&mut self, tree: bool) {
        self.tree = tree;
    }

    pub const fn is_tree(&self) -> bool {
        self.tree
    }

    /// Shows only cgroups that match.
    ///
    /// # Errors
    /// When it is no regular expression.
    pub fn set_filter(&mut self, filter: &str) -> Result<(), TopSettingError> {
        Filter::parse(filter).map_err(|source| TopSettingError::Filter { filter: filter.to_owned(), source })?;
        filter.clone_into(&mut self.filter);
        Ok(())
    }

    /// Starts with this view.
    ///
    /// # Errors
    /// When there is no such view.
    pub fn set_view(&mut self, name: &str) -> Result<(), TopSettingError> {
        let known = View::ALL.into_iter().find(|view| view.name() == name);
        self.view = known.ok_or_else(|| TopSettingError::View(name.to_owned()))?;
        Ok(())
    }

    /// Shows the alerts from the start.
    pub const fn set_alerts(&mut self, alerts: bool) {
        self.alerts = alerts;
    }

    /// Draws in these colours: `dark`, `light` or `none`.
    ///
    /// # Errors
    /// When there is no such theme.
    pub fn set_theme(&mut self, name: &str) -> Result<(), TopSettingError> {
        self.palette = Palette::by_name(name).ok_or_else(|| TopSettingError::Theme(name.to_owned()))?;
        Ok(())
    }

    /// Draws with ASCII characters alone.
    pub const fn set_ascii(&mut self, ascii: bool) {
        self.ascii = ascii;
    }

    /// Keeps the last intervals of this time to step back to.
    pub fn set_history(&mut self, time: Duration) {
        self.history.time = Nanos::from(time);
    }

    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Prints so many cgroups at most, where the table is printed as text.
    pub const fn set_rows(&mut self, rows: usize) {
        self.rows = rows;
    }
}

fn column(name: &str) -> Result<Column, TopSettingError> {
    Column::by_key(name).ok_or_else(|| TopSettingError::Column(name.to_owned()))
}

/// Why something cannot be chosen.
#[derive(Debug, Error)]
pub enum TopSettingError {
    #[error("unknown column {0}; known columns: {known}", known = Column::all().map(Column::key).collect::<Vec<_>>().join(", "))]
    Column(String),
    #[error("the column {0} is named twice")]
    Twice(String),
    #[error("at least one column must be shown")]
    NoColumn,
    #[error("the filter {filter:?} is not a regular expression: {source}")]
    Filter { filter: String, source: NoRegex },
    #[error("unknown view {0}; known views: {known}", known = views())]
    View(String),
    #[error("unknown theme {0}; known themes: {known}", known = Palette::names().join(", "))]
    Theme(String),
}

fn views() -> String {
    let all = View::ALL.map(View::name);
    let (last, others) = all.split_last().unwrap_or((&"", &[]));
    format!("{} and {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        let mut settings = TopSettings::default();
        assert!(
            settings
                .set_columns(["cpu", "cost"])
                .unwrap_err()
                .to_string()
                .contains("known columns: switch-cost, mean-switch-cost")
        );
        assert_eq!(settings.set_columns(["cpu", "cpu"]).unwrap_err().to_string(), "the column cpu is named twice");
        assert!(settings.set_columns([]).is_err() && settings.set_view("disks").is_err());
        assert_eq!(
            settings.set_theme("pink").unwrap_err().to_string(),
            "unknown theme pink; known themes: dark, light, none"
        );
        assert!(settings.set_filter("/(").is_err() && settings.set_sort("-nothing").is_err());
        assert_eq!(settings.columns, Column::DEFAULT, "as before");
        settings.set_sort("-runq-wait-p99").unwrap();
        assert_eq!(settings.sort, Sort { by: By::Column(Column::RunqWaitP99), reversed: true });
        settings.set_sort("name").unwrap();
        assert_eq!(settings.sort.by, By::Name);
    }
}
