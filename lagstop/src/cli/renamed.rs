//! Old names of flags. They are still accepted, hidden from the help, and answered with the new name.

use std::ffi::OsString;

/// The command, the flag's old name with its value, and what to write instead.
const RENAMED: [(&str, &str, &str); 8] = [
    ("bench", "--json FILE", "--format json --output FILE"),
    ("bench", "--csv FILE", "--format csv --output FILE"),
    ("bench", "--html FILE", "--format html --output FILE"),
    ("cut", "--cgroup GLOB", "--cgroups GLOB"),
    ("diff", "--cgroups NUMBER", "--rows NUMBER"),
    ("record", "--attach-cmd", "lagstop run --record FILE"),
    ("schedule", "--for TIME", "--duration TIME"),
    ("trial", "--for TIME", "--duration TIME"),
];

/// A sentence for each old name among `words`, the command line of `command`.
pub(super) fn hints(command: &str, words: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let words: Vec<OsString> = words.into_iter().take_while(|word| word != "--").collect();
    let is_given = |old: &str| {
        let flag = old.split(' ').next().unwrap_or(old);
        words.iter().any(|word| word.to_string_lossy().split('=').next() == Some(flag))
    };
    let given = RENAMED.iter().filter(|(of, old, _)| *of == command && is_given(old));
    given.map(|(_, old, new)| format!("{old} is now {new}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Vec<String> {
        let mut words = line.split(' ').map(OsString::from);
        let command = words.next().unwrap();
        hints(&command.to_string_lossy(), words)
    }

    #[test]
    fn old_names_are_answered_with_the_new() {
        assert_eq!(said("bench --json a"), ["--json FILE is now --format json --output FILE"]);
        assert_eq!(said("trial --for=2m --apply"), ["--for TIME is now --duration TIME"]);
        assert_eq!(said("bench --csv a --html b").len(), 2);
        assert_eq!(said("record --attach-cmd -- --for"), ["--attach-cmd is now lagstop run --record FILE"]);
        for line in ["serve --cgroups a", "cut a --cgroups b", "trial --force", "run -- --attach-cmd"] {
            assert!(said(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn old_names_are_still_accepted() {
        for (command, old, _) in RENAMED {
            let command = super::super::command().find_subcommand(command).unwrap().clone();
            let flag = old.split(' ').next().unwrap().trim_start_matches("--");
            let mut all = command.get_arguments();
            let is_known = all.any(|argument| {
                argument.get_long() == Some(flag) && argument.is_hide_set()
                    || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&flag))
            });
            assert!(is_known, "{old}");
        }
    }
}
