//! `cargo xtask readme`: what the README shows of `lagstop top`, made from the program itself: the screen over a recording,
//! and the keys.

mod svg;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use lagstop::{
    recording::{ReadError, Reader},
    top::{App, Key, Settings, TopError, key_table},
};
use ratatui::{Terminal, backend::TestBackend};

use crate::workspace::Workspace;

/// Write what the README shows of `lagstop top`: docs/top.svg, drawn over a recording, and the table of keys
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Write nothing; fail where something would change
    #[arg(long)]
    check: bool,
}

/// Why it cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadmeError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The place for the keys is gone.
    #[error("README.md has no lines `{BEGIN}` and `{END}`, between which the keys go")]
    NoPlace,
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// It cannot be shown.
    #[error(transparent)]
    Top(#[from] TopError),
    /// What is there is not what would be made.
    #[error("{} is out of date: run `cargo xtask readme`", .0.display())]
    OutOfDate(PathBuf),
}

const BEGIN: &str = "<!-- keys: made by `cargo xtask readme` -->";
const END: &str = "<!-- end of keys -->";

/// The picture's size, in cells.
const SIZE: (u16, u16) = (126, 34);

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), ReadmeError> {
    let recording = workspace.root().join("lagstop/tests/fixtures/dense.jsonl");
    let readme = workspace.root().join("README.md");
    for (path, text) in [
        (workspace.root().join("docs/top.svg"), picture(&recording)?),
        (readme.clone(), with_keys(&read(&readme)?).ok_or(ReadmeError::NoPlace)?),
    ] {
        if !arguments.check {
            fs::write(&path, text).map_err(|source| ReadmeError::File { path, source })?;
        } else if read(&path).ok() != Some(text) {
            return Err(ReadmeError::OutOfDate(path));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, ReadmeError> {
    fs::read_to_string(path).map_err(|source| ReadmeError::File { path: path.to_owned(), source })
}

/// The screen near the end of the recording, with the pane of alerts.
fn picture(recording: &Path) -> Result<String, ReadmeError> {
    let mut app = App::replay(Reader::open(recording)?, &Settings::default())?;
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

/// The README with the keys of now.
fn with_keys(readme: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", key_table()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_screen_and_the_keys_of_now() {
        run(&Workspace::here(), &Arguments { check: true }).unwrap();
    }
}
