//! `cargo xtask schema`: the published schema of recordings, made from the types that they are written from.

use std::{fs, io, path::PathBuf};

use clap::Args;

use crate::workspace::Workspace;

/// Write docs/recording.schema.json
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Write nothing; fail where something would change
    #[arg(long)]
    check: bool,
}

/// Why it cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is not what would be made.
    #[error("{} is out of date: run `cargo xtask schema`", .0.display())]
    OutOfDate(PathBuf),
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), SchemaError> {
    let path = workspace.root().join("docs/recording.schema.json");
    let text = format!("{:#}\n", lagstop::recording::schema());
    if arguments.check {
        match fs::read_to_string(&path) {
            Ok(found) if found == text => Ok(()),
            _ => Err(SchemaError::OutOfDate(path)),
        }
    } else {
        fs::write(&path, text).map_err(|source| SchemaError::File { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_types() {
        run(&Workspace::here(), &Arguments { check: true }).unwrap();
    }
}
