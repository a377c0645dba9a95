//! How each metric is measured on this kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measure;

/// A measure, with its measurement method, or the reason why it is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// Name of the measure, as in `--hooks`.
    pub name: String,
    /// State of the measure.
    pub state: HookState,
    /// Measurement method, as in `--hooks`. Costs of different methods cannot be compared.
    #[serde(default)]
    pub way: Option<String>,
    /// How the method works, what it misses, and why no better method is used. If not measured, the reason.
    pub detail: String,
    /// The metrics that need it.
    #[serde(with = "comma_joined")]
    #[schemars(with = "String")]
    pub measures: Vec<String>,
}

impl Hook {
    /// `measure`, taken by `way`, or not at all.
    pub fn new(measure: Measure, way: Option<&str>, detail: String) -> Self {
        Self {
            name: measure.name().to_owned(),
            state: if way.is_some() { HookState::On } else { HookState::Off },
            way: way.map(str::to_owned),
            detail,
            measures: measure.gives().iter().copied().map(str::to_owned).collect(),
        }
    }

    /// The measure. `None` in recordings of versions that used another name.
    pub fn measure(&self) -> Option<Measure> {
        self.name.parse().ok()
    }
}

/// Whether a measure is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookState {
    /// Measured.
    On,
    /// Not measured. Its metrics are `n/a`.
    Off,
}

/// A list that is one text in JSON.
mod comma_joined {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const COMMA: &str = ", ";
    /// Beyond that, the last has the rest of the text: two bytes of an untrusted recording must not become a string each.
    const MOST: usize = 64;

    pub(super) fn serialize<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        list.join(COMMA).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(String::deserialize(deserializer)?.splitn(MOST, COMMA).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_it_measures_is_one_text_in_recordings() {
        let hook = Hook::new(Measure::Accept, None, String::new());
        let written = serde_json::to_value(&hook).unwrap();
        assert_eq!(written["measures"], "accept wait, service of listeners");
        assert_eq!(serde_json::from_value::<Hook>(written).unwrap(), hook);
        for text in ["", ", ", "a,b, ,c", &", ".repeat(1_000)] {
            let written = json!({"name": "", "state": "off", "way": null, "detail": "", "measures": text});
            let hook: Hook = serde_json::from_value(written.clone()).unwrap();
            assert!(hook.measures.len() <= 64);
            assert_eq!(serde_json::to_value(hook).unwrap(), written);
        }
    }
}
