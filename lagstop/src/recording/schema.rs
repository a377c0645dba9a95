//! The JSON Schema of a recording's lines.

use schemars::generate::SchemaSettings;

use super::Line;

/// What every line of a recording fits, also of older versions, made from the types that it is read into. Published as
/// `docs/recording.schema.json`.
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<Line>();
    schema.insert("title".to_owned(), "A line of a lagstop recording".into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        model::Nanos,
        recording::{Chunks, Gap, packed},
    };

    fn validator() -> jsonschema::Validator {
        jsonschema::validator_for(&schema()).unwrap()
    }

    fn lines(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_field_is_in_the_docs() {
        const DOCS: &str = include_str!("../../../docs/recording.md");
        fn collect(schema: &Value, fields: &mut BTreeSet<String>) {
            match schema {
                Value::Object(object) => {
                    let properties = object.get("properties").and_then(Value::as_object);
                    fields.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
                    object.values().for_each(|schema| collect(schema, fields));
                }
                Value::Array(schemas) => schemas.iter().for_each(|schema| collect(schema, fields)),
                _ => {}
            }
        }
        let mut fields = BTreeSet::new();
        collect(&schema(), &mut fields);
        fields.retain(|field| !DOCS.contains(&format!("`{field}`")));
        assert_eq!(fields, BTreeSet::new());
    }

    #[test]
    fn every_line_of_every_version_fits() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let mut kinds = 0;
        for entry in fs::read_dir(fixtures).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
            let bytes = if is_compressed { zstd::stream::decode_all(&*bytes).unwrap() } else { bytes };
            for line in lines(&String::from_utf8(bytes).unwrap()) {
                let error = validator().validate(&line).err().map(|error| error.to_string());
                assert_eq!(error, None, "{}: {}", path.display(), line["kind"]);
                kinds += 1;
            }
        }
        assert!(kinds > 10, "{kinds}");
    }

    #[test]
    fn every_line_that_is_packed_fits() {
        let validator = validator();
        let mut runner = TestRunner::deterministic();
        let mut chunks = Chunks::new();
        let mut bytes = Vec::new();
        for seq in 0..70 {
            let mut interval = packed::tests::interval().new_tree(&mut runner).unwrap().current();
            (interval.seq, interval.start_ns) = (seq, Nanos(seq));
            bytes.extend(chunks.compress(&Line::Interval(Box::new(interval))).unwrap());
        }
        bytes.extend(chunks.compress(&Line::Gap(Gap::default())).unwrap());
        bytes.extend(chunks.end_chunk().unwrap());
        let text = String::from_utf8(zstd::stream::decode_all(&*bytes).unwrap()).unwrap();
        let lines = lines(&text);
        for kind in ["names", "packed", "merged", "gap"] {
            assert!(lines.iter().any(|line| line["kind"] == kind), "{kind}");
        }
        for line in lines {
            let error = validator.validate(&line).err().map(|error| error.to_string());
            assert_eq!(error, None, "{line}");
        }
    }

    #[test]
    fn what_is_no_line_does_not_fit() {
        let validator = validator();
        let gap = json!({ "kind": "gap", "start_ns": 5, "duration_ns": 0, "reason": "suspended" });
        assert!(validator.is_valid(&gap));
        for (field, wrong) in
            [("kind", json!("pag")), ("start_ns", json!("5")), ("start_ns", json!(-1)), ("reason", json!(null))]
        {
            let mut line = gap.clone();
            line[field] = wrong;
            assert!(!validator.is_valid(&line), "{line}");
        }
        for line in [json!([]), json!({}), json!({ "kind": "interval" }), json!({ "kind": "header", "schema": 2 })] {
            assert!(!validator.is_valid(&line), "{line}");
        }
    }
}
