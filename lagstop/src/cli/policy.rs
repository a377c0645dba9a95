//! A policy, or none: what `trial` and `bench` try.

use std::sync::LazyLock;

use clap::{ValueEnum, builder::PossibleValue};

use crate::trial::Policy;

/// A change to scheduling, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PolicyOrNone(pub(super) Option<Policy>);

static ALL: LazyLock<Vec<PolicyOrNone>> =
    LazyLock::new(|| Policy::value_variants().iter().copied().map(Some).chain([None]).map(PolicyOrNone).collect());

impl ValueEnum for PolicyOrNone {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            Some(policy) => policy.to_possible_value(),
            None => Some(PossibleValue::new("none").help("Change nothing, to show how much results vary by chance")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_one_of_them() {
        let of = |text: &str| PolicyOrNone::from_str(text, false);
        assert_eq!(of("none"), Ok(PolicyOrNone(None)));
        assert_eq!(of("lags-static"), Ok(PolicyOrNone(Some(Policy::LagsStatic))));
        assert!(of("nonsense").is_err());
    }
}
