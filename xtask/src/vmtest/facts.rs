//! What `lagstop check` found out in the guests, kept in the sources: lagstop's unit tests decide by it how each kernel is
//! measured, where no VM is at hand.

use serde_json::{Map, Value, json};

use super::{
    error::Error,
    live_tests::MEASURES,
    matrix::{self, Layout},
    store::Checked,
    vm,
};
use crate::workspace::Workspace;

/// Where they are kept.
const DIRECTORY: &str = "lagstop/src/kernel/plan/facts";

/// Writes the facts of every kernel for which there are any, and gives the names of these kernels. How cgroups are
/// mounted makes no difference to the facts.
pub(super) fn record(workspace: &Workspace) -> Result<Vec<String>, Error> {
    let mut recorded = Vec::new();
    for run in matrix::whole().into_iter().filter(|run| run.layout == Layout::V2) {
        let Some(record) = Checked::read(workspace, run)?.and_then(|checked| of(&checked.check)) else { continue };
        let mut text = serde_json::to_string_pretty(&record)?;
        text.push('\n');
        vm::write(&workspace.root().join(DIRECTORY).join(format!("{run}.json")), text.as_bytes())?;
        recorded.push(run.to_string());
    }
    Ok(recorded)
}

/// The facts, and the way in which each measure was taken in the end.
fn of(check: &Value) -> Option<Value> {
    let found = check["measures"].as_array()?;
    let way = |measure: &str| found.iter().find(|found| found["measure"] == measure)?.get("way").cloned();
    let used: Map<String, Value> =
        MEASURES.iter().filter_map(|&measure| Some((measure.to_owned(), way(measure)?))).collect();
    let is_whole = check["tried"] == true && check["facts"].is_object() && used.len() == MEASURES.len();
    is_whole.then(|| json!({"used": used, "facts": check["facts"]}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmtest::measured::tests::report;

    #[test]
    fn facts_come_with_the_ways_that_were_used() {
        let ways = MEASURES.map(|measure| (measure, (measure != "pick").then_some("way"), ""));
        let mut check = report(&ways, &[]).check.unwrap();
        assert_eq!(of(&check), None, "nothing was attached");
        check["tried"] = true.into();
        let record = of(&check).unwrap();
        assert_eq!((&record["used"]["accept"], &record["used"]["pick"]), (&json!("way"), &Value::Null));
        assert_eq!(record["facts"]["release"], "6.12.1");
    }
}
