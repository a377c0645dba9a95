//! A figure with its unit.

use schemars::JsonSchema;
use serde::Serialize;

use super::Subject;
use crate::{
    model::Derived,
    units::{Unit, Value},
};

/// What was measured, or why it could not be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Its name in JSON; stable.
    #[schemars(with = "FigureName")]
    pub name: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// Whose it is, where that is not the finding's subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Subject>,
    /// `None` is not measured; `missing` says why.
    pub value: Option<Value>,
    /// What the value counts.
    pub unit: Unit,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// What helps to read it: what it is a share of, how it was got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What is a figure's name, for the schema. The rules know which there are.
pub(super) struct FigureName;

/// What a figure of a rule is, declared once: the finding, `--explain` and the docs have it from here.
#[derive(Debug)]
pub struct FigureDefinition {
    /// In JSON and in formulas; stable.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    pub unit: Unit,
    /// How it is computed, of inputs and of other figures by their names.
    pub formula: &'static str,
    /// Where the formula is from.
    pub source: &'static str,
}

impl FigureDefinition {
    pub(super) const fn new(
        name: &'static str,
        label: &'static str,
        unit: Unit,
        formula: &'static str,
        source: &'static str,
    ) -> Self {
        Self { name, label, unit, formula, source }
    }

    pub(super) const fn of_derived(name: &'static str, derived: Derived, source: &'static str) -> Self {
        Self::new(name, derived.label, derived.unit, derived.formula, source)
    }

    /// A value that was measured. One that is no number, for it divides by nothing, counts as not measured.
    pub(super) fn is(&self, value: impl Into<Value>) -> Figure {
        Figure::new(self.name, self.label, value, self.unit)
    }

    /// A value that may not have been measured, and why it was not.
    pub(super) fn measured<V: Into<Value>>(&self, value: Option<V>, why_not: &str) -> Figure {
        Figure::measured(self.name, self.label, value, self.unit, why_not)
    }

    /// The figure of this definition: the first one, where several cgroups have it.
    pub(super) fn among<'a>(&self, figures: &'a [Figure]) -> Option<&'a Figure> {
        figures.iter().find(|figure| figure.name == self.name)
    }
}

/// Declares the figures of a rule: name, unit, label, formula, and where that is from; of one that is [`Derived`], only name and source. Those
/// that other rules show too are `shared`.
macro_rules! figures {
    (
        $([shared $($shared:path),+])?
        $($name:ident $(: $unit:ident, $label:tt = $formula:expr, $source:tt)? $(= $derived:ident, $from:tt)?;)*
    ) => {
        #[allow(non_upper_case_globals, reason = "called as in JSON")]
        #[allow(unused_parens, reason = "a label that is no literal is in brackets")]
        pub(super) mod figures {
            #[allow(clippy::wildcard_imports, reason = "where a rule's sources are from")]
            use super::*;
            use crate::diagnosis::FigureDefinition;

            $(pub(in crate::diagnosis) static $name: FigureDefinition =
                $(FigureDefinition::new(
                    stringify!($name),
                    $label,
                    crate::units::Unit::$unit,
                    $formula,
                    $source,
                ))?
                $(FigureDefinition::of_derived(stringify!($name), crate::model::Derived::$derived, $from))?;)*

            pub(in crate::diagnosis) static ALL: &[&FigureDefinition] = &[$(&$name,)* $($(&$shared,)+)?];
        }
    };
}
pub(super) use figures;

/// Sources of formulas.
pub(super) mod sources {
    pub(in crate::diagnosis) const COUNTED: &str = "counted";
    pub(in crate::diagnosis) const LAGS: &str = "CFS-LAGS paper, arXiv 2508.15703";
    pub(in crate::diagnosis) const SIMULATED: &str = "trace-driven simulation: docs/diagnose.md";
    pub(in crate::diagnosis) const DRAWN: &str = "bootstrap over intervals: docs/diagnose.md";
    pub(in crate::diagnosis) const LMDI: &str = "LMDI: B. W. Ang, Energy Policy 33, 2005";
}

impl Figure {
    /// A value that was measured. One that is no number, for it divides by nothing, counts as not measured.
    pub(super) fn new(name: &'static str, label: &'static str, value: impl Into<Value>, unit: Unit) -> Self {
        let value = Some(value.into()).filter(|value| value.as_f64().is_finite());
        let missing = value.is_none().then(|| "divided by zero".to_owned());
        Self { name, label, of: None, value, unit, missing, note: None }
    }

    /// A value that may not have been measured, and why it was not.
    pub(super) fn measured<V: Into<Value>>(
        name: &'static str,
        label: &'static str,
        value: Option<V>,
        unit: Unit,
        why_not: &str,
    ) -> Self {
        match value {
            Some(value) => Self::new(name, label, value, unit),
            None => Self { name, label, of: None, value: None, unit, missing: Some(why_not.to_owned()), note: None },
        }
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// As the figure of `subject`.
    #[must_use]
    pub fn of(mut self, subject: Subject) -> Self {
        self.of = Some(subject);
        self
    }

    /// Its name for people, in a list of figures of `subject`.
    pub fn label_beside(&self, subject: &Subject) -> String {
        match &self.of {
            Some(of) if of != subject => format!("{}: {of}", self.label),
            _ => self.label.to_owned(),
        }
    }

    /// What stands beside it: why there is no value, or what helps to read it.
    pub fn remark(&self) -> &str {
        self.missing.as_ref().or(self.note.as_ref()).map_or("", String::as_str)
    }

    /// The value as people write it; `n/a` where it was not measured.
    pub fn shown(&self) -> String {
        self.unit.show_if_measured(self.value)
    }
}
