//! A row of a table.

use std::sync::Arc;

use crate::model::{Cores, Distribution, KERNEL_LOAD, Nanos, Tasks};

/// What is in a column in one row. `None` is not measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Count(Option<u64>),
    Real(Option<f64>),
    Text(Option<Arc<str>>),
    /// Since 1970, UTC.
    Time(Option<Nanos>),
}

/// A value, and the name of its column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    prefix: &'static str,
    name: &'static str,
    pub(super) value: Value,
}

impl Cell {
    /// What its column is called.
    pub(super) fn column(&self) -> String {
        format!("{}{}", self.prefix, self.name)
    }
}

/// A row that is built from left to right, so that names and values stay in step.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    cells: Vec<Cell>,
    prefix: &'static str,
}

impl Row {
    /// Quantiles of durations, with their names.
    const QUANTILES: [(&'static str, f64); 4] =
        [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)];

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    pub(super) const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Removes all cells from index `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.cells.truncate(len);
    }

    /// From here on, names begin with `prefix`.
    pub(super) const fn prefix(&mut self, prefix: &'static str) {
        self.prefix = prefix;
    }

    fn push(&mut self, name: &'static str, value: Value) {
        self.cells.push(Cell { prefix: self.prefix, name, value });
    }

    pub(super) fn count(&mut self, name: &'static str, value: impl Into<Option<u64>>) {
        self.push(name, Value::Count(value.into()));
    }

    pub(super) fn nanos(&mut self, name: &'static str, value: impl Into<Option<Nanos>>) {
        self.push(name, Value::Count(value.into().map(|nanos| nanos.0)));
    }

    /// In the kernel's unit, as fine as recordings have it.
    pub(super) fn tasks(&mut self, name: &'static str, value: Option<Tasks>) {
        let load = |tasks: Tasks| (tasks.0 * KERNEL_LOAD * 1e3).round() / 1e3;
        self.push(name, Value::Real(value.map(load)));
    }

    pub(super) fn cores(&mut self, name: &'static str, value: Option<Cores>) {
        self.push(name, Value::Real(value.map(|cores| (cores.0 * 1e6).round() / 1e6)));
    }

    pub(super) fn text(&mut self, name: &'static str, value: impl Into<Option<Arc<str>>>) {
        self.push(name, Value::Text(value.into()));
    }

    pub(super) fn time(&mut self, name: &'static str, value: Option<Nanos>) {
        self.push(name, Value::Time(value));
    }

    /// Counters under their declared names. `None` if none of them is known.
    pub(super) fn counters<const N: usize>(
        &mut self,
        prefix: &'static str,
        names: [&'static str; N],
        figures: Option<[Option<u64>; N]>,
    ) {
        self.prefix(prefix);
        for (name, figure) in names.into_iter().zip(figures.unwrap_or([None; N])) {
            self.count(name, figure);
        }
        self.prefix("");
    }

    /// How many durations there are, and their quantiles.
    pub(super) fn distribution(&mut self, prefix: &'static str, of: Option<&Distribution>) {
        self.prefix(prefix);
        self.count("count", of.map(Distribution::count));
        for (name, quantile) in Self::QUANTILES {
            self.nanos(name, of.and_then(|distribution| distribution.quantile(quantile)));
        }
        self.prefix("");
    }
}
