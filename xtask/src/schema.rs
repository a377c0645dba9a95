//! `cargo xtask schema`: the published schemas of recordings, reports, reports on several hosts, fleets, benchmarks, runs, trials and the page of serve, made from the types that they are written from.

use std::{fs, io, path::PathBuf};

use clap::Args;

use crate::workspace::Workspace;

/// Write docs/recording.schema.json, docs/report.schema.json, docs/hosts.schema.json, docs/fleet.schema.json, docs/bench.schema.json, docs/run.schema.json, docs/trial.schema.json and docs/moment.schema.json
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
    File { path: PathBuf, source: io::Error },
    /// What is there is not what would be made.
    #[error("{} is out of date: run `cargo xtask schema`", .0.display())]
    OutOfDate(PathBuf),
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), SchemaError> {
    let schemas = [
        ("recording", lagstop::recording::schema()),
        ("report", lagstop::report::json::schema()),
        ("hosts", lagstop::report::hosts::schema()),
        ("fleet", lagstop::report::fleet::schema()),
        ("bench", lagstop::report::bench::schema()),
        ("run", lagstop::report::run::schema()),
        ("trial", lagstop::report::trial::schema()),
        ("moment", lagstop::serve::schema()),
    ];
    for (name, schema) in schemas {
        let path = workspace.root().join(format!("docs/{name}.schema.json"));
        let text = format!("{schema:#}\n");
        if !arguments.check {
            fs::write(&path, text).map_err(|source| SchemaError::File { path, source })?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            return Err(SchemaError::OutOfDate(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        run(&Workspace::here(), &Arguments { check: true }).unwrap();
    }
}
