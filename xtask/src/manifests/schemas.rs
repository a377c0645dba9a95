//! The published schemas of what the manifests have: out of Kubernetes' OpenAPI and the Prometheus operator's CRD, both in Go
//! modules, whose checksums go verifies. What no manifest has is left out: the test that reads them takes it for unknown.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};

use super::{ManifestsError, file, read};
use crate::command::stdout;

/// Where the definitions are, and which kinds are wanted.
const KUBERNETES: (&str, &[(&str, &[&str])]) = (
    "k8s.io/kubernetes@v1.36.3",
    &[
        ("api/openapi-spec/v3/api__v1_openapi.json", &["Namespace", "ServiceAccount"]),
        ("api/openapi-spec/v3/apis__apps__v1_openapi.json", &["DaemonSet"]),
        ("api/openapi-spec/v3/apis__networking.k8s.io__v1_openapi.json", &["NetworkPolicy"]),
    ],
);
const POD_MONITOR: (&str, &str) =
    ("github.com/prometheus-operator/prometheus-operator@v0.85.0", "jsonnet/prometheus-operator/podmonitors-crd.json");

/// Makes docs/deploy/schemas.
pub(super) fn write(deploy: &Path) -> Result<(), ManifestsError> {
    let names = names_in(&[deploy.join("kubernetes"), deploy.join("rendered")])?;
    let (module, files) = KUBERNETES;
    let directory = download(module)?;
    let mut kept = BTreeMap::new();
    for (file, kinds) in files {
        let path = directory.join(file);
        let published = parse(&path)?;
        let definitions = published.pointer("/components/schemas").and_then(Value::as_object);
        let definitions = definitions.ok_or_else(|| lacks(&path, "components.schemas"))?;
        for kind in *kinds {
            let name = named(definitions, kind).ok_or_else(|| lacks(&path, kind))?;
            keep(definitions, name, &names, &mut kept).map_err(|name| lacks(&path, &name))?;
        }
    }
    put(deploy, "kubernetes.json", module, json!({ "schemas": kept }))?;

    let (module, file) = POD_MONITOR;
    let path = download(module)?.join(file);
    let crd = parse(&path)?;
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let version = versions.and_then(|all| all.iter().find(|version| version["name"] == "v1"));
    let schema = version.and_then(|version| version.pointer("/schema/openAPIV3Schema"));
    let mut schema = schema.cloned().ok_or_else(|| lacks(&path, "a schema of v1"))?;
    undescribe(&mut schema);
    prune(&mut schema, &names);
    put(deploy, "podmonitor.json", module, json!({ "schemas": { "PodMonitor": schema } }))
}

/// The directory of a module, downloaded if need be.
fn download(module: &str) -> Result<PathBuf, ManifestsError> {
    let said = stdout(Command::new("go").args(["mod", "download", "-json", module]))?;
    let said: Value = serde_json::from_str(&said).unwrap_or_default();
    said["Dir"].as_str().map(PathBuf::from).ok_or_else(|| lacks(Path::new(module), "a directory"))
}

fn parse(path: &Path) -> Result<Value, ManifestsError> {
    serde_json::from_str(&read(path)?)
        .map_err(|error| ManifestsError::Schema { path: path.to_owned(), what: error.to_string() })
}

fn lacks(path: &Path, what: &str) -> ManifestsError {
    ManifestsError::Schema { path: path.to_owned(), what: format!("there is no {what}") }
}

fn put(deploy: &Path, name: &str, module: &str, mut content: Value) -> Result<(), ManifestsError> {
    content["source"] =
        json!(format!("Go module {module}, Apache-2.0; what is not needed, and descriptions, left out"));
    super::write(&deploy.join("schemas").join(name), &format!("{content:#}\n"))
}

/// The definition of a kind.
fn named<'d>(definitions: &'d Map<String, Value>, kind: &str) -> Option<&'d str> {
    let is_it = |definition: &Value| {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.len() == 1 && kinds[0]["kind"] == kind)
    };
    definitions.iter().find(|(_, definition)| is_it(definition)).map(|(name, _)| name.as_str())
}

/// What stands before a colon in the YAML files of these directories.
fn names_in(directories: &[PathBuf]) -> Result<BTreeSet<String>, ManifestsError> {
    let mut names = BTreeSet::new();
    let mut left = directories.to_vec();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).map_err(file(&path))?;
            left.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = read(&path)?;
            let before_colons = text.lines().flat_map(|line| line.split([' ', '{', ',']));
            names.extend(before_colons.filter_map(|word| word.strip_suffix(':')).map(str::to_owned));
        }
    }
    Ok(names)
}

/// Keeps the properties of these names alone.
fn prune(schema: &mut Value, names: &BTreeSet<String>) {
    match schema {
        Value::Object(entries) => {
            if let Some(properties) = entries.get_mut("properties").and_then(Value::as_object_mut) {
                properties.retain(|name, _| names.contains(name));
            }
            entries.values_mut().for_each(|entry| prune(entry, names));
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| prune(entry, names)),
        _ => {}
    }
}

/// Keeps the definition `name` and those that it refers to, with properties of these names. An error names one that is missing.
fn keep(
    definitions: &Map<String, Value>,
    name: &str,
    names: &BTreeSet<String>,
    kept: &mut BTreeMap<String, Value>,
) -> Result<(), String> {
    let mut wanted = BTreeSet::from([name.to_owned()]);
    while let Some(name) = wanted.pop_first() {
        if kept.contains_key(&name) {
            continue;
        }
        let mut definition = definitions.get(&name).cloned().ok_or_else(|| name.clone())?;
        undescribe(&mut definition);
        prune(&mut definition, names);
        references(&definition, &mut wanted);
        kept.insert(name, definition);
    }
    Ok(())
}

fn references(schema: &Value, to: &mut BTreeSet<String>) {
    match schema {
        Value::Object(entries) => {
            if let Some(name) = entries.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) {
                to.insert(name.to_owned());
            }
            entries.values().for_each(|entry| references(entry, to));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| references(entry, to)),
        _ => {}
    }
}

/// Takes descriptions out: they are strings, properties of that name are not.
fn undescribe(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            if entries.get("description").is_some_and(Value::is_string) {
                entries.remove("description");
            }
            entries.values_mut().for_each(undescribe);
        }
        Value::Array(entries) => entries.iter_mut().for_each(undescribe),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_referred_to_is_kept_without_descriptions_and_what_is_not_used() {
        let definitions = json!({
            "a": {
                "description": "left out", "x-kubernetes-group-version-kind": [{ "kind": "A" }],
                "properties": {
                    "b": { "$ref": "#/components/schemas/b" },
                    "unused": { "$ref": "#/components/schemas/c" },
                    "description": { "type": "string", "description": "left out" },
                },
            },
            "b": { "items": { "allOf": [{ "$ref": "#/components/schemas/a" }] } },
            "c": {},
        });
        let definitions = definitions.as_object().unwrap();
        let mut kept = BTreeMap::new();
        let name = named(definitions, "A").unwrap();
        let names = ["b", "description"].map(str::to_owned).into();
        keep(definitions, name, &names, &mut kept).unwrap();
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(kept["a"]["properties"]["description"], json!({ "type": "string" }));
        assert_eq!(kept["a"].get("description"), None);
        assert_eq!(kept["a"]["properties"].get("unused"), None);
        assert_eq!(keep(definitions, "gone", &names, &mut kept), Err("gone".to_owned()));
    }
}
