//! What an assistant may ask: one file a tool.

mod diagnose;
mod diff;
mod explain;
mod head;
mod overview;
mod recordings;
mod who_makes_wait;

use std::sync::Arc;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use self::{
    diagnose::Diagnose, diff::DiffTool, explain::Explain, overview::Overview, recordings::Recordings,
    who_makes_wait::WhoMakesWait,
};
use super::{answer::Answer, names::Names, shelf::Shelf, trouble::Trouble};

/// Something that an assistant may ask.
trait Tool {
    const NAME: &'static str;
    /// For people.
    const TITLE: &'static str;
    /// What it answers, and when to ask it.
    const ABOUT: &'static str;
    type Request: DeserializeOwned + JsonSchema + Send;
    type Reply: Serialize + JsonSchema;

    fn answer(shelf: &Shelf, request: Self::Request) -> impl Future<Output = Result<Answer, Trouble>> + Send;
}

/// A tool as clients are told of it.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// JSON Schemas.
    pub(super) input: Map<String, Value>,
    pub(super) output: Map<String, Value>,
}

/// All tools.
pub(super) fn declared() -> [Declared; 6] {
    [
        declare::<Overview>(),
        declare::<Diagnose>(),
        declare::<Explain>(),
        declare::<WhoMakesWait>(),
        declare::<DiffTool>(),
        declare::<Recordings>(),
    ]
}

/// Name, meaning and arguments of each tool, for the docs.
pub fn reference() -> impl Iterator<Item = [String; 3]> {
    declared().into_iter().map(|tool| {
        let properties = tool.input.get("properties").and_then(Value::as_object);
        let arguments: Vec<String> =
            properties.into_iter().flat_map(Map::keys).map(|name| format!("`{name}`")).collect();
        [format!("`{}`", tool.name), tool.about.to_owned(), arguments.join(", ")]
    })
}

/// Asks the tool of this name. `None` if there is none.
pub(super) async fn ask(
    shelf: Arc<Shelf>,
    name: &str,
    arguments: Map<String, Value>,
) -> Option<Result<Answer, Trouble>> {
    let shelf = &*shelf;
    Some(match name {
        Overview::NAME => ask_one::<Overview>(shelf, arguments).await,
        Diagnose::NAME => ask_one::<Diagnose>(shelf, arguments).await,
        Explain::NAME => ask_one::<Explain>(shelf, arguments).await,
        WhoMakesWait::NAME => ask_one::<WhoMakesWait>(shelf, arguments).await,
        DiffTool::NAME => ask_one::<DiffTool>(shelf, arguments).await,
        Recordings::NAME => ask_one::<Recordings>(shelf, arguments).await,
        _ => return None,
    })
}

async fn ask_one<T: Tool>(shelf: &Shelf, arguments: Map<String, Value>) -> Result<Answer, Trouble> {
    let request = serde_json::from_value(Value::Object(arguments));
    // The error quotes the client's own words: they are made harmless.
    let request = request.map_err(|error| Trouble::Arguments(Names::default().mark(&error.to_string())))?;
    T::answer(shelf, request).await
}

fn declare<T: Tool>() -> Declared {
    let settings = SchemaSettings::draft2020_12();
    let input = settings.clone().for_deserialize().into_generator().into_root_schema_for::<T::Request>();
    let output = settings.for_serialize().into_generator().into_root_schema_for::<T::Reply>();
    Declared { name: T::NAME, title: T::TITLE, about: T::ABOUT, input: brief(input), output: brief(output) }
}

/// Without the lists of all figures' names: they are long, are in docs/report.schema.json, and inputs of formulas have
/// others.
fn brief(schema: schemars::Schema) -> Map<String, Value> {
    const LONG: usize = 40;
    fn shorten(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                if fields.get("enum").and_then(Value::as_array).is_some_and(|values| values.len() > LONG) {
                    fields.remove("enum");
                }
                fields.values_mut().for_each(shorten);
            }
            Value::Array(items) => items.iter_mut().for_each(shorten),
            _ => {}
        }
    }
    let mut schema = schema.to_value();
    shorten(&mut schema);
    match schema {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
