//! A number and what it counts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::{Nanos, six_figures, words};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Counted, or nanoseconds.
    Whole(u64),
    /// Computed.
    Real(f64),
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Part of a whole; 1 is all of it.
    Share,
    /// Difference between two shares; 0.01 is one percentage point.
    SharePoints,
    /// How many times as much.
    Factor,
    /// Nanoseconds.
    Ns,
    /// Seconds.
    Seconds,
    /// Each second.
    PerSecond,
    /// CPUs kept busy on average.
    Cores,
    /// Tasks on average; 1 is one that is always runnable.
    Tasks,
    /// Things counted.
    Count,
}

impl Value {
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<Nanos> for Value {
    fn from(value: Nanos) -> Self {
        Self::Whole(value.0)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// To six significant figures.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(value) => serializer.serialize_u64(value),
            Self::Real(value) => serializer.serialize_f64(six_figures(value)),
        }
    }
}

impl JsonSchema for Value {
    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "description": "A number, in the unit that goes with it." })
    }
}

impl Unit {
    /// `value` as people write it; `n/a` where it was not measured.
    pub fn show_if_measured(self, value: Option<impl Into<Value>>) -> String {
        words::if_measured(value, |value| self.show(value))
    }

    /// `value` as people write it.
    pub fn show(self, value: impl Into<Value>) -> String {
        let value = value.into();
        let real = value.as_f64();
        match self {
            Self::Share => words::percent(real),
            Self::SharePoints => words::points(real),
            Self::Factor => format!("× {}", words::number(real)),
            Self::Ns => Nanos(real.max(0.0) as u64).to_string(),
            Self::Seconds => format!("{} s", words::number(real)),
            Self::PerSecond => format!("{}/s", words::number(real)),
            Self::Cores => format!("{} cores", words::number(real)),
            Self::Tasks => format!("{} tasks", words::number(real)),
            Self::Count => match value {
                Value::Whole(count) => words::count(count),
                Value::Real(count) => words::number(count),
            },
        }
    }
}
