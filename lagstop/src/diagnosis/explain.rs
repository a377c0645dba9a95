//! How each figure of a finding came about: its formula, what went into it, and where that is from.

mod inputs;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Figure, Finding, Observations};

/// How a finding came about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    pub finding: Finding,
    pub figures: Vec<Explained>,
    /// What the formulas speak of.
    pub inputs: Vec<Input>,
}

/// How a figure came about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    pub figure: Figure,
    /// How it is computed, of inputs and of other figures by their names.
    pub formula: &'static str,
    /// Where the formula is from.
    pub source: &'static str,
}

/// Something that was measured and goes into formulas.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Input {
    /// Its name in formulas.
    #[serde(flatten)]
    pub figure: Figure,
    /// Where it is from: the kernel, and the field of a recording.
    pub source: &'static str,
}

impl Observations {
    /// How `finding` came about.
    pub fn explain(&self, finding: &Finding) -> Explanation {
        let explained = |figure: &Figure| {
            let definition = finding.rule.figures().iter().find(|definition| definition.name == figure.name);
            let (formula, source) = definition.map(|it| (it.formula, it.source)).unwrap_or_default();
            Explained { figure: figure.clone(), formula, source }
        };
        let figures: Vec<Explained> = finding.measured.iter().map(explained).collect();
        let is_used = |input: &Input| figures.iter().any(|explained| speaks_of(explained.formula, input.figure.name));
        let inputs = inputs::of(self, finding).into_iter().filter(is_used).collect();
        Explanation { finding: finding.clone(), figures, inputs }
    }
}

/// Is `name` one of the words of `formula`?
fn speaks_of(formula: &str, name: &str) -> bool {
    formula.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{
            Rule, Thresholds,
            fixture::{CONFINED, bullied, bullied_in, confined, unfair},
        },
        model::fixture,
    };

    #[test]
    fn every_figure_has_a_formula_and_what_it_speaks_of_is_there() {
        let mut recordings = fixture::without_content();
        recordings.extend([fixture::overloaded(60), fixture::idle(60), fixture::full_of_problems()]);
        recordings.extend([unfair(), bullied(60), bullied_in(20..35), confined(&CONFINED, 2)]);
        let mut seen = std::collections::BTreeSet::new();
        for intervals in recordings {
            let mut observations = Observations::new(fixture::session());
            intervals.iter().for_each(|interval| observations.add(interval));
            for finding in observations.diagnose(&Thresholds::default()).findings {
                let Explanation { figures, inputs, .. } = observations.explain(&finding);
                let words = |it: &str| {
                    Thresholds::ALL.iter().any(|threshold| threshold.name == it)
                        || figures.iter().any(|other| other.figure.name == it)
                        || inputs.iter().any(|input| input.figure.name == it)
                };
                for explained in &figures {
                    let name = explained.figure.name;
                    assert!(!explained.formula.is_empty() && !explained.source.is_empty(), "{}: {name}", finding.rule);
                    let spoken = explained.formula.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                    // Letters of formulas, as c_s and P_K, are short.
                    let unknown: Vec<&str> =
                        spoken.filter(|it| it.contains('_') && it.len() > 4 && !words(it)).collect();
                    assert!(unknown.is_empty(), "{}: {name} speaks of {unknown:?}", finding.rule);
                    seen.insert((finding.rule, name));
                }
            }
        }
        let known: std::collections::BTreeSet<_> = Rule::ALL
            .into_iter()
            .flat_map(|rule| rule.figures().iter().map(move |figure| (rule, figure.name)))
            .collect();
        assert_eq!(
            known.difference(&seen).collect::<Vec<_>>(),
            Vec::<&(Rule, &str)>::new(),
            "formulas that nothing shows"
        );
    }

    #[test]
    fn words_are_whole() {
        assert!(speaks_of("a_ns / (b + c)", "b") && speaks_of("a_ns / b", "a_ns") && !speaks_of("a_ns / b", "a"));
    }
}
