//! Checks that help and errors are in plain English, in short sentences.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};

use super::Cli;

/// Words and phrases that made texts hard to read.
const UNWANTED: [&str; 24] = [
    "dear",
    "dearer",
    "dearest",
    "anew",
    "is none",
    "are none",
    "it is no",
    "nothing that",
    "apart",
    "crowd",
    "crowds",
    "crowded",
    "spell",
    "spells",
    "but for",
    "who",
    "whom",
    "whoever",
    "anybody",
    "somebody",
    "nobody",
    "everybody",
    "doubts",
    "meanwhile",
];
/// The most words in a sentence of help.
const LONGEST: usize = 25;

/// The first unwanted word of `text`.
fn unwanted(text: &str) -> Option<&'static str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !"'-_".contains(c)).filter(|word| !word.is_empty());
    let words = format!(" {} ", words.collect::<Vec<_>>().join(" ").to_lowercase());
    UNWANTED.into_iter().find(|word| words.contains(&format!(" {word} ")))
}

/// The sentences of `text` that are longer than they may be. Indented lines are examples.
fn too_long(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("  ")).collect();
    let text = lines.join(" ");
    let sentences = text.split_inclusive(['.', '?', '!']).fold(vec![String::new()], |mut all, part| {
        // A dot inside a word, as in a file name, does not end a sentence.
        if part.starts_with(' ') {
            all.push(String::new());
        }
        if let Some(last) = all.last_mut() {
            last.push_str(part);
        }
        all
    });
    sentences.into_iter().filter(|sentence| sentence.split_whitespace().count() > LONGEST).collect()
}

/// Every text of help of `command` and its subcommands: where it is, and what it says.
fn helps(command: &Command, path: &str) -> Vec<(String, String)> {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    let own = [command.get_about(), command.get_long_about(), command.get_after_help(), command.get_after_long_help()];
    let mut all: Vec<_> = own.into_iter().flatten().map(|text| (path.clone(), text.to_string())).collect();
    for argument in command.get_arguments() {
        let place = format!("{path} --{}", argument.get_id());
        let texts = [argument.get_help(), argument.get_long_help()];
        all.extend(texts.into_iter().flatten().map(|text| (place.clone(), text.to_string())));
        let values = argument.get_possible_values();
        all.extend(values.iter().filter_map(|value| Some((place.clone(), value.get_help()?.to_string()))));
    }
    all.extend(command.get_subcommands().flat_map(|command| helps(command, &path)));
    all
}

/// All source files below `directory`.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The texts of errors in `source`, as attributes of thiserror say them.
fn errors(source: &str) -> Vec<String> {
    // Split in two, so that this file does not contain the pattern itself.
    let attributes = source.split(concat!("#[error", "(")).skip(1);
    let literals = attributes.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    literals
        .map(|rest| {
            let mut escaped = false;
            let text = rest.chars().take_while(|c| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                !ends
            });
            text.collect::<String>().replace("\\\n", "")
        })
        .collect()
}

#[test]
fn help_is_plain_english() {
    let all = helps(&Cli::command(), "");
    assert!(all.len() > 100, "{}", all.len());
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|(place, text)| {
            let word = unwanted(text).map(|word| format!("{place}: \"{word}\" in: {text}"));
            let long = too_long(text).into_iter().map(move |text| format!("{place}: over {LONGEST} words: {text}"));
            word.into_iter().chain(long)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn errors_are_plain_english() {
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let all: Vec<(PathBuf, String)> = files
        .into_iter()
        .flat_map(|file| {
            let texts = errors(&fs::read_to_string(&file).unwrap());
            texts.into_iter().map(move |text| (file.clone(), text)).collect::<Vec<_>>()
        })
        .collect();
    assert!(all.len() > 100, "{}", all.len());
    let wrong = all
        .iter()
        .filter_map(|(file, text)| unwanted(text).map(|word| format!("{}: \"{word}\" in: {text}", file.display())));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unwanted_words_and_long_sentences_are_found() {
    assert_eq!(unwanted("Tell cgroups apart."), Some("apart"));
    assert_eq!(unwanted("There is none: try again"), Some("is none"));
    assert_eq!(unwanted("The crowdfunded whole is separate; a figure"), None);
    let sentence = |words: usize| vec!["word"; words].join(" ");
    let (longest, longer) = (sentence(LONGEST), sentence(LONGEST + 1));
    assert_eq!(too_long(&format!("Short. {longer}. Short, as in docs/a.md.\n  {longer}")).len(), 1);
    assert!(too_long(&format!("{longest}. {longest}")).is_empty());
    let source = format!("{}\n    \"one \\\n     \\\"two\\\"\",\n    x\n)]", concat!("#[error", "("));
    assert_eq!(errors(&source), ["one      \\\"two\\\""]);
}
