//! `cargo xtask man` and `cargo xtask completions`: manual pages and shell completions, made from lagstop's command line.
//! They are made when a package is, and not committed: what is installed says what its binary takes.

use std::{fs, io, path::PathBuf};

use clap::Args;
use clap_complete::aot::{Shell, generate_to};

use crate::workspace::Workspace;

const NAME: &str = "lagstop";

/// Write the manual pages of lagstop and of each subcommand
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Directory to write to [default: target/man]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// Write the completions for Bash, Zsh, fish and Elvish
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// Directory to write to [default: target/completions]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// A page that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(crate) struct PagesError {
    path: PathBuf,
    source: io::Error,
}

pub(crate) fn man(workspace: &Workspace, arguments: ManArguments) -> Result<(), PagesError> {
    let path = arguments.output.unwrap_or_else(|| workspace.target().join("man"));
    let write = || {
        fs::create_dir_all(&path)?;
        clap_mangen::generate_to(lagstop::cli::command(), &path)
    };
    write().map_err(|source| PagesError { path, source })
}

pub(crate) fn completions(workspace: &Workspace, arguments: CompletionsArguments) -> Result<(), PagesError> {
    let path = arguments.output.unwrap_or_else(|| workspace.target().join("completions"));
    let write = || {
        fs::create_dir_all(&path)?;
        [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish]
            .into_iter()
            .try_for_each(|shell| generate_to(shell, &mut lagstop::cli::command(), NAME, &path).map(drop))
    };
    write().map_err(|source| PagesError { path, source })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::Path};

    use super::*;

    fn written(directory: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).unwrap()))
            .collect()
    }

    /// Subcommands by which lagstop calls itself.
    const HIDDEN: [&str; 3] = ["trial-watchdog", "keep-command", "bench-function"];

    #[test]
    fn each_subcommand_has_a_page_and_each_flag_is_in_it() {
        let home = tempfile::tempdir().unwrap();
        man(&Workspace::here(), ManArguments { output: Some(home.path().to_owned()) }).unwrap();
        let pages = written(home.path());
        let command = lagstop::cli::command();
        let subcommands: Vec<&clap::Command> = command.get_subcommands().collect();
        assert_eq!(pages.len(), subcommands.len() + 1, "{:?}", pages.keys());
        assert!(pages["lagstop.1"].contains("\nlagstop"), "it has a name");
        for subcommand in subcommands {
            let page = &pages[&format!("lagstop-{}.1", subcommand.get_name())];
            for flag in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(long) = flag.get_long() else { continue };
                let flag = format!("\\-\\-{}", long.replace('-', "\\-"));
                assert!(page.contains(&flag), "{} {flag}", subcommand.get_name());
            }
        }
        for (name, page) in pages {
            assert!(page.contains(".TH lagstop"), "{name}");
            assert!(HIDDEN.iter().all(|hidden| !page.replace('\\', "").contains(hidden)), "{name}");
        }
    }

    #[test]
    fn every_shell_completes_what_there_is_and_nothing_hidden() {
        let home = tempfile::tempdir().unwrap();
        completions(&Workspace::here(), CompletionsArguments { output: Some(home.path().to_owned()) }).unwrap();
        let files = written(home.path());
        assert_eq!(files.keys().collect::<Vec<_>>(), ["_lagstop", "lagstop.bash", "lagstop.elv", "lagstop.fish"]);
        for (name, text) in files {
            assert!(["diagnose", "max-cgroups"].iter().all(|word| text.contains(word)), "{name}");
            for hidden in HIDDEN {
                assert!(!text.contains(hidden), "{name}: {hidden}");
            }
        }
    }
}
