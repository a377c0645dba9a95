//! A policy, or none: what `trial` and `bench` try.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory},
    error::ErrorKind,
};

use crate::trial::{Policy, SchedulerProgram};

/// A change to scheduling, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PolicyOrNone(pub(super) Option<Policy>);

/// Reads one: a name, or a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyParser;

/// How help shows that a program can be named.
const PROGRAM: &str = "scx:PROGRAM";

impl ValueParserFactory for PolicyOrNone {
    type Parser = PolicyParser;

    fn value_parser() -> PolicyParser {
        PolicyParser
    }
}

/// All that can be named.
fn values() -> impl Iterator<Item = PossibleValue> {
    let named = Policy::value_variants().iter().filter_map(Policy::to_possible_value);
    named.chain([
        PossibleValue::new(PROGRAM)
            .help("The sched_ext scheduler that an installed program loads: a path, or a name in PATH"),
        PossibleValue::new("none").help("Change nothing, to show how much results vary by chance"),
    ])
}

impl TypedValueParser for PolicyParser {
    type Value = PolicyOrNone;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<PolicyOrNone, Error> {
        if let Some(program) = value.to_str().and_then(|value| value.strip_prefix(SchedulerProgram::PREFIX)) {
            let named = SchedulerProgram::named(program);
            let wrong = |why| Error::raw(ErrorKind::ValueValidation, format!("{why}\n")).with_cmd(command);
            return Ok(PolicyOrNone(Some(Policy::Scx(named.map_err(wrong)?))));
        }
        // The parser only accepts the names, or none.
        let name = PossibleValuesParser::new(values()).parse_ref(command, arg, value)?;
        Ok(PolicyOrNone(Policy::from_str(&name, false).ok()))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(values()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_name_or_a_program() {
        let of = |text: &str| PolicyParser.parse_ref(&Command::new("trial"), None, text.as_ref());
        assert_eq!(of("none").unwrap(), PolicyOrNone(None));
        assert_eq!(of("lags-static").unwrap(), PolicyOrNone(Some(Policy::LagsStatic)));
        assert_eq!(of("lags").unwrap(), PolicyOrNone(Some(Policy::Lags)));
        let PolicyOrNone(Some(program)) = of("scx:/usr/bin/scx_lavd").unwrap() else { panic!() };
        assert_eq!(program.name(), "scx:/usr/bin/scx_lavd");
        for wrong in ["nonsense", "scx:", "scx:a\nb", "LAGS", ""] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        let said = of("nonsense").unwrap_err().to_string();
        assert!(said.contains("lags-dynamic") && said.contains(PROGRAM), "{said}");
    }
}
