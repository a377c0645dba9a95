//! Whether the code is laid out as docs/architecture.md draws it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const DRAWN: &str = include_str!("../../docs/architecture.md");

/// The floor of each room, counted from the top.
fn floors() -> BTreeMap<String, usize> {
    let drawing = DRAWN.split("```").nth(1).and_then(|block| block.strip_prefix("text\n")).unwrap();
    let rooms = |(floor, line): (usize, &str)| {
        let names = line.split(' ').map_while(|word| word.strip_suffix('/').or_else(|| word.strip_suffix(".rs")));
        names.map(|name| (name.to_owned(), floor)).collect::<Vec<_>>()
    };
    drawing.lines().enumerate().flat_map(rooms).collect()
}

fn sources(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// The rooms that a file speaks of, but for its tests.
fn imports(text: &str) -> BTreeSet<String> {
    let code: String = text.split("#[cfg(test)]").next().unwrap_or_default().lines().map(without_comment).collect();
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (_, after) in code.match_indices("crate::").map(|(at, found)| (at, &code[at + found.len()..])) {
        let Some(list) = after.strip_prefix('{') else {
            found.insert(name(after));
            continue;
        };
        let (mut depth, mut is_first) = (0, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                c if is_first && !c.is_whitespace() => {
                    found.insert(name(&list[at..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn without_comment(line: &str) -> String {
    line.split("//").next().unwrap_or_default().to_owned() + "\n"
}

#[test]
fn every_room_uses_only_what_stands_below_it() {
    let floors = floors();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut seen = BTreeSet::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let room = path.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let is_test = path.iter().any(|part| ["tests", "tests.rs", "fixture.rs"].iter().any(|name| part == *name));
        if ["main", "lib"].contains(&&*room) || is_test {
            continue;
        }
        let floor = *floors.get(&room).unwrap_or_else(|| panic!("docs/architecture.md does not draw {room}"));
        for other in imports(&fs::read_to_string(&file).unwrap()) {
            let below = floors.get(&other).is_none_or(|&other| other > floor);
            assert!(other == room || below, "{} uses {other}, which does not stand below {room}", path.display());
        }
        seen.insert(room);
    }
    let drawn: BTreeSet<String> = floors.into_keys().collect();
    assert_eq!(drawn, seen, "what is drawn is there, and nothing else");
}

#[test]
fn imports_are_found() {
    let text = "use crate::{\n    a::{b, c::{d}},\n    e,\n};\nfn f() { crate::g::h(); } // crate::i\n#[cfg(test)]\nuse crate::j;";
    assert_eq!(imports(text).into_iter().collect::<Vec<_>>(), ["a", "e", "g"]);
}
