//! `cargo xtask docs`: what the docs and the README show that is made from the program itself: tables of figures, metrics,
//! columns, thresholds and keys, and the screen over a recording.

mod svg;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use lagstop::{
    recording::{ReadError, Reader},
    reference::{self, DocTable},
    top::{App, Key, TopError, TopSettings},
};
use ratatui::{Terminal, backend::TestBackend};

use crate::workspace::Workspace;

/// Write the tables of the docs and the README, and docs/top.svg, drawn over a recording
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Write nothing; fail where something would change
    #[arg(long)]
    check: bool,
}

/// Why it cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A page has a place for a table that does not exist, or only a part of such a place.
    #[error("{}: {_1}", .0.display())]
    Page(PathBuf, String),
    /// No page has a place for this table.
    #[error("no page of the docs has a place for the table {0:?}: `<!-- {0}{MADE}` and `<!-- end of {0} -->`")]
    NoPlace(String),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// It cannot be shown.
    #[error(transparent)]
    Top(#[from] TopError),
    /// What is there is not what would be made.
    #[error("{} is out of date: run `cargo xtask docs`", .0.display())]
    OutOfDate(PathBuf),
}

/// What a table is between: `<!-- keys: made by `cargo xtask docs` -->` and `<!-- end of keys -->`.
const MADE: &str = ": made by `cargo xtask docs` -->";

/// The picture's size, in cells.
const SIZE: (u16, u16) = (126, 34);

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), DocsError> {
    let recording = workspace.root().join("lagstop/tests/fixtures/dense.jsonl");
    let mut files = vec![(workspace.root().join("docs/top.svg"), picture(&recording)?)];
    let tables = reference::tables();
    let mut missing: BTreeSet<&str> = tables.iter().map(|table| &*table.name).collect();
    for path in pages(workspace)? {
        let text =
            with_tables(&read(&path)?, &tables, &mut missing).map_err(|why| DocsError::Page(path.clone(), why))?;
        files.push((path, text));
    }
    if let Some(name) = missing.first() {
        return Err(DocsError::NoPlace((*name).to_owned()));
    }
    for (path, text) in files {
        let is_made = read(&path).ok().as_ref() == Some(&text);
        if !is_made && arguments.check {
            return Err(DocsError::OutOfDate(path));
        } else if !is_made {
            fs::write(&path, text).map_err(|source| DocsError::File { path, source })?;
        }
    }
    Ok(())
}

/// All pages that may have tables in them.
fn pages(workspace: &Workspace) -> Result<Vec<PathBuf>, DocsError> {
    let docs = workspace.root().join("docs");
    let listed = fs::read_dir(&docs).map_err(|source| DocsError::File { path: docs, source })?;
    let mut pages: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(workspace.root().join("README.md"));
    pages.sort();
    Ok(pages)
}

/// A page with the tables of now.
fn with_tables(page: &str, tables: &[DocTable], missing: &mut BTreeSet<&str>) -> Result<String, String> {
    let mut made = String::new();
    let mut rest = page;
    while let Some((before, from)) = rest.split_once(MADE) {
        let (_, name) = before.rsplit_once("<!-- ").ok_or("a table has no beginning")?;
        let table =
            tables.iter().find(|table| table.name == name).ok_or_else(|| format!("there is no table {name}"))?;
        let end = format!("<!-- end of {name} -->");
        let (_, after) = from.split_once(&end).ok_or_else(|| format!("the table {name} has no end"))?;
        missing.remove(name);
        made += &format!("{before}{MADE}\n\n{}\n{end}", table.markdown);
        rest = after;
    }
    Ok(made + rest)
}

fn read(path: &Path) -> Result<String, DocsError> {
    fs::read_to_string(path).map_err(|source| DocsError::File { path: path.to_owned(), source })
}

/// The screen near the end of the recording, with the pane of alerts.
fn picture(recording: &Path) -> Result<String, DocsError> {
    let mut app = App::replay(Reader::open(recording)?, &TopSettings::default())?;
    for key in [']'; 8].into_iter().chain(['a']) {
        app.on_key(Key::Char(key))?;
    }
    let mut terminal = match Terminal::new(TestBackend::new(SIZE.0, SIZE.1)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    };
    match terminal.draw(|frame| app.draw(frame)) {
        Ok(drawn) => Ok(svg::write(drawn.buffer)),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_are_made_of_what_they_are_about() {
        run(&Workspace::here(), &Arguments { check: true }).unwrap();
    }
}
