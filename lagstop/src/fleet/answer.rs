//! What a server answers: Prometheus's HTTP API, version 1.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};

/// The envelope of every answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<T> {
    pub data: Option<T>,
    #[serde(default)]
    pub error: String,
    #[serde(default, rename = "errorType")]
    pub error_type: String,
    /// What the server says beside it: parts that it could not reach, above all.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What a range query gives.
#[derive(Debug, Deserialize)]
pub(super) struct Matrix {
    pub result: Vec<PrometheusSeries>,
}

/// A series with its samples.
#[derive(Debug, Deserialize)]
pub(super) struct PrometheusSeries {
    #[serde(default)]
    pub metric: HashMap<String, String>,
    #[serde(default)]
    pub values: Vec<PrometheusSample>,
}

impl PrometheusSeries {
    /// A label's value; none is the same as an empty one.
    pub(super) fn label(&self, name: &str) -> &str {
        self.metric.get(name).map_or("", String::as_str)
    }
}

/// Time in seconds since 1970, and value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PrometheusSample(pub f64, pub f64);

/// Whether it is an answer with series, or with names. For fuzzing.
#[doc(hidden)]
pub fn check_answer(body: &[u8]) -> bool {
    let is_series = serde_json::from_slice::<Answer<Matrix>>(body).is_ok();
    is_series || serde_json::from_slice::<Answer<Vec<String>>>(body).is_ok()
}

/// `[time, "value"]`; values are strings, so that they can be `NaN` and `+Inf`. What is neither is no number.
impl<'de> Deserialize<'de> for PrometheusSample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = PrometheusSample;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time and a value")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PrometheusSample, A::Error> {
                let time = seq.next_element::<f64>()?.unwrap_or(f64::NAN);
                let value = seq.next_element::<Number>()?.map_or(f64::NAN, |number| number.0);
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(PrometheusSample(time, value))
            }
        }
        deserializer.deserialize_seq(Pair)
    }
}

struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number in a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().unwrap_or(f64::NAN)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_can_be_no_numbers() {
        let text = r#"{"status":"success","warnings":["part is missing"],"data":{"resultType":"matrix","result":[
            {"metric":{"instance":"a"},"values":[[1.5,"2"],[2,"NaN"],[3,"+Inf"],[4,"-Inf"],[5,"two"],[6,"1e-3"]]},
            {"metric":{}},{"values":[]}]}}"#;
        let answer: Answer<Matrix> = serde_json::from_str(text).unwrap();
        assert_eq!(answer.warnings, ["part is missing"]);
        let series = answer.data.unwrap().result;
        let values: Vec<f64> = series[0].values.iter().map(|sample| sample.1).collect();
        assert_eq!((values[0], values[2], values[3], values[5]), (2.0, f64::INFINITY, f64::NEG_INFINITY, 0.001));
        assert!(values[1].is_nan() && values[4].is_nan() && series[0].values[0].0 == 1.5);
        assert_eq!((series[0].label("instance"), series[1].label("instance"), series.len()), ("a", "", 3));
    }

    #[test]
    fn what_is_something_else_is_an_error_and_no_panic() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"data":[1]}"#,
            r#"{"data":{"result":[{"values":[[1]]}]}}"#,
            r#"{"data":{"result":[{"values":[["1",2]]}]}}"#,
        ] {
            let answer: Result<Answer<Matrix>, _> = serde_json::from_str(text);
            if let Ok(answer) = answer {
                let samples = answer.data.unwrap().result.remove(0).values;
                assert!(samples[0].1.is_nan(), "{text}");
            }
        }
        let error: Answer<Matrix> =
            serde_json::from_str(r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#).unwrap();
        assert_eq!(
            (error.error_type.as_str(), error.error.as_str(), error.data.is_none()),
            ("bad_data", "parse error", true)
        );
    }
}
