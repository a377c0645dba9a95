//! `cargo xtask manifests`: what runs lagstop on Kubernetes, rendered by kustomize and Helm; and Kubernetes' schemas, which a
//! test holds it against.
//!
//! Renderings are committed, each with a hash of its sources: that they are of now is tested without these programs.

mod refusals;
mod renderings;
mod schemas;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{command::CommandError, workspace::Workspace};

/// Render docs/deploy/kubernetes and docs/deploy/helm into docs/deploy/rendered, where tests read them
#[derive(Args, Debug)]
#[command(after_help = "Needs kubectl or kustomize, and helm.

Exit codes:
  0  rendered, or --check found the committed renderings to be what their sources give
  1  something failed, or --check found a difference
  2  wrong usage
  3  a program is missing: nothing was rendered or compared")]
pub(crate) struct Arguments {
    /// Render and compare with what is committed, without writing it
    #[arg(long)]
    check: bool,
    /// Make docs/deploy/schemas anew instead, from the Go modules that Kubernetes and the Prometheus operator publish; needs go
    #[arg(long, conflicts_with = "check")]
    schemas: bool,
}

/// Why it cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A program is missing or failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// What is there is not what would be made.
    #[error("{} is out of date: run `cargo xtask manifests`", .0.display())]
    OutOfDate(PathBuf),
    /// The chart takes what it must not.
    #[error("helm renders the chart with {0}, which it is to refuse")]
    NotRefused(String),
    /// What was published is not as expected.
    #[error("{}: {what}", path.display())]
    Schema { path: PathBuf, what: String },
}

impl ManifestsError {
    /// Whether nothing is wrong but that a program is not installed.
    pub(crate) fn is_for_want_of_tools(&self) -> bool {
        matches!(self, Self::Command(CommandError::Absent { .. }))
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), ManifestsError> {
    let deploy = workspace.root().join("docs/deploy");
    if arguments.schemas {
        return schemas::write(&deploy);
    }
    for rendering in &renderings::ALL {
        let path = rendering.path(&deploy);
        let text = rendering.render(&deploy)?;
        if !arguments.check {
            write(&path, &text)?;
        } else if read(&path)? != text {
            return Err(ManifestsError::OutOfDate(path));
        }
    }
    refusals::check(&deploy)
}

fn read(path: &Path) -> Result<String, ManifestsError> {
    fs::read_to_string(path).map_err(file(path))
}

fn write(path: &Path, text: &str) -> Result<(), ManifestsError> {
    path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text)).map_err(file(path))
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> ManifestsError {
    move |source| ManifestsError::File { path: path.to_owned(), source }
}
