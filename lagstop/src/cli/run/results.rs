//! Output of the results.

use std::{
    env,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Args, Format};
use crate::{
    cli::{
        Failure,
        output::{WholeFile, cannot},
        say,
    },
    report,
    run::RunSeries,
};

/// Placeholder for the file that the variable names.
pub(super) const STEP_SUMMARY: &str = "$GITHUB_STEP_SUMMARY";

/// Files that were opened before the command was run.
pub(super) struct Results {
    format: Format,
    file: Option<WholeFile>,
    summary: Option<(File, PathBuf)>,
    repeats: bool,
}

impl Results {
    pub(super) fn open(args: &Args) -> Result<Self, Failure> {
        let file = args.output.as_ref().map(|path| WholeFile::create(path, args.force)).transpose()?;
        let summary = args.export_github.as_deref().map(summary).transpose()?;
        Ok(Self { format: args.format, file, summary, repeats: args.repeat.is_some() })
    }

    /// Writes them. The line is always printed, unless the full document goes to the same place.
    pub(super) fn write(self, series: &RunSeries) -> Result<(), Failure> {
        let text = self.text(series);
        let json = (self.format == Format::Json).then(|| report::run::json(series)).transpose()?;
        if let Some((mut file, path)) = self.summary {
            file.write_all(report::run::github(series).as_bytes()).map_err(|error| cannot(&path, "written", &error))?;
        }
        match (self.file, json) {
            (None, Some(json)) => {
                // If this fails, lagstop goes on: perhaps nobody is there to read it.
                let _ = io::stderr().lock().write_all(json.as_bytes());
            }
            (file, json) => {
                text.lines().for_each(|line| say(format_args!("lagstop: {line}\n")));
                if let Some(file) = file {
                    file.write(&json.unwrap_or(text))?;
                }
            }
        }
        Ok(())
    }

    /// The line of the run. With several runs, each line was printed when its run ended.
    fn text(&self, series: &RunSeries) -> String {
        if self.repeats {
            return report::run::summary(series);
        }
        series.runs.iter().map(|run| report::run::line(run) + "\n").collect()
    }
}

/// Opens what a summary is appended to.
fn summary(path: &Path) -> Result<(File, PathBuf), Failure> {
    let path = if path == Path::new(STEP_SUMMARY) {
        let named = env::var_os("GITHUB_STEP_SUMMARY").filter(|name| !name.is_empty());
        named.map(PathBuf::from).ok_or("$GITHUB_STEP_SUMMARY is not set. Name a file: --export-github FILE")?
    } else {
        path.to_owned()
    };
    let file =
        File::options().append(true).create(true).open(&path).map_err(|error| cannot(&path, "written", &error))?;
    Ok((file, path))
}
