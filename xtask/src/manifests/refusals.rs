//! What the chart must not be rendered with, because it would be open to everybody or do nothing, and nobody would know.

use std::{path::Path, process::Command};

use super::{ManifestsError, renderings::HELM};
use crate::command::{CommandError, stdout};

/// Values, and what the sentence that refuses them says.
const ALL: [(&[&str], &str); 2] = [
    (&["--set-json", "networkPolicy.from=[]"], "networkPolicy.from is empty"),
    (&["--set", "networkPolicy.from=null"], "networkPolicy.from is empty"),
];

/// Has helm refuse each of them.
pub(super) fn check(deploy: &Path) -> Result<(), ManifestsError> {
    for (values, why) in ALL {
        match stdout(Command::new("helm").args(HELM).args(values).current_dir(deploy)) {
            Err(CommandError::Failed { stderr, .. }) if stderr.contains(why) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(ManifestsError::NotRefused(values.join(" "))),
        }
    }
    Ok(())
}
