//! Runs other programs and says in a sentence what went wrong.

use std::{
    io,
    process::{Command, Output, Stdio},
};

/// A program that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("`{program}` is not in PATH: install it")]
    Absent { program: String },
    #[error("`{program}` could not be started: {source}")]
    Start { program: String, source: io::Error },
    /// It ended with an error.
    #[error("`{line}` failed ({status}){stderr}")]
    Failed { line: String, status: std::process::ExitStatus, stderr: String },
}

/// Runs it with its output shown.
pub(crate) fn run(command: &mut Command) -> Result<(), CommandError> {
    let status = command.stdin(Stdio::null()).status().map_err(|source| not_started(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(CommandError::Failed { line: line(command), status, stderr: String::new() })
}

/// Runs it and gives back what it printed.
pub(crate) fn stdout(command: &mut Command) -> Result<String, CommandError> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(|source| not_started(command, source))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let stderr = if stderr.trim().is_empty() { String::new() } else { format!(":\n{}", stderr.trim_end()) };
    Err(CommandError::Failed { line: line(command), status, stderr })
}

pub(crate) fn not_started(command: &Command, source: io::Error) -> CommandError {
    let program = command.get_program().to_string_lossy().into_owned();
    match source.kind() {
        io::ErrorKind::NotFound => CommandError::Absent { program },
        _ => CommandError::Start { program, source },
    }
}

pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_program() {
        let absent = stdout(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(absent.to_string(), "`no-such-program-anywhere` is not in PATH: install it");
        let failed = stdout(Command::new("sh").args(["-c", "echo oops >&2; exit 4"])).unwrap_err();
        assert!(failed.to_string().ends_with("oops"), "{failed}");
    }
}
