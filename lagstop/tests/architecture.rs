//! Whether the code is laid out as docs/architecture.md draws it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const DRAWN: &str = include_str!("../../docs/architecture.md");

/// The names of a file, from the folder of the crate down: `cli/record.rs` is that of the module `cli::record`.
type Module = Vec<String>;

/// The floor of each room, counted from the top.
fn floors() -> BTreeMap<String, usize> {
    let drawing = DRAWN.split("```").nth(1).and_then(|block| block.strip_prefix("text\n")).unwrap();
    let rooms = |(floor, line): (usize, &str)| {
        let names = line.split(' ').map_while(|word| word.strip_suffix('/').or_else(|| word.strip_suffix(".rs")));
        names.map(|name| (name.to_owned(), floor)).collect::<Vec<_>>()
    };
    drawing.lines().enumerate().flat_map(rooms).collect()
}

/// All modules of the crate in that folder of the workspace, but those of tests, each with its code.
fn modules(of: &str) -> BTreeMap<Module, String> {
    fn add(directory: &Path, inside: &Module, all: &mut BTreeMap<Module, String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let module: Module = inside.iter().cloned().chain([name]).collect();
            if path.is_dir() {
                add(&path, &module, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.insert(module, code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut all = BTreeMap::new();
    add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src"), &Module::new(), &mut all);
    all.retain(|module, _| module.iter().all(|name| !["main", "lib", "tests", "fixture"].contains(&name.as_str())));
    all
}

/// A file without comments, and without what is for tests alone: each such item is written as rustfmt has it.
fn code(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let is_last = |next: &str| indent(next) == indent(line) && next.ends_with([';', '}']);
            lines.by_ref().find(|next| is_last(next));
            continue;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The paths that code names, from `crate`, `super` or `self` on, or from the name that an import begins with.
fn paths(code: &str) -> Vec<Vec<String>> {
    let begins = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let named =
        ["crate::", "super::", "self::"].into_iter().flat_map(|root| code.match_indices(root).map(|(at, _)| at));
    let imported = code.match_indices("use ").map(|(at, found)| (at, at + found.len())).filter(|&(at, _)| begins(at));
    let mut all = Vec::new();
    for at in named.filter(|&at| begins(at)).chain(imported.map(|(_, behind)| behind)) {
        tree(&code[at..], &[], &mut all);
    }
    all
}

/// Reads a path, or several in braces, of which each goes on from `before`. Gives what comes behind.
fn tree<'t>(text: &'t str, before: &[String], all: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 && &rest[..end] != "self" || path.is_empty() {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        let Some(more) = rest.strip_prefix("::") else { break };
        rest = more;
        if let Some(list) = rest.strip_prefix('{') {
            rest = list;
            while !rest.trim_start().starts_with('}') {
                rest = tree(rest, &path, all);
                // Behind `as` and a new name.
                let Some(end) = rest.find([',', '}']) else { return "" };
                rest = rest[end..].trim_start_matches(',');
                if rest.trim().is_empty() {
                    return "";
                }
            }
            return &rest.trim_start()[1..];
        }
    }
    all.push(path);
    rest
}

/// Which file each path is of.
struct Resolver<'m> {
    modules: &'m BTreeMap<Module, String>,
    /// What a module passes on from the modules inside of it, by the name that it has there: whoever uses that name
    /// means the inner item.
    passed_on: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl<'m> Resolver<'m> {
    fn new(modules: &'m BTreeMap<Module, String>) -> Self {
        let mut this = Self { modules, passed_on: BTreeMap::new() };
        for (module, code) in modules {
            let inside = paths(code).into_iter().filter_map(|path| this.absolute(module, &path));
            let inside = inside.filter(|path| path.len() > module.len() + 1 && path.starts_with(module));
            let by_name = inside.filter_map(|path| Some((path.last()?.clone(), path))).collect();
            this.passed_on.insert(module.clone(), by_name);
        }
        this
    }

    /// The path from the crate down. `None` where it belongs to another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let first = path.first()?;
        if first == "crate" {
            return Some(path[1..].to_vec());
        }
        let up = path.iter().take_while(|name| *name == "super").count();
        let own = usize::from(first == "self");
        let child: Module = module.iter().chain([first]).cloned().collect();
        let is_own = up + own > 0 || self.modules.contains_key(&child);
        let above = module.len().checked_sub(up).filter(|_| is_own)?;
        Some(module[..above].iter().chain(&path[up + own..]).cloned().collect())
    }

    /// The file that defines `path`.
    fn file(&self, path: &[String]) -> Option<Module> {
        let length = (1..=path.len()).rev().find(|&length| self.modules.contains_key(&path[..length]))?;
        let module = path[..length].to_vec();
        let passed_on = path.get(length).and_then(|name| self.passed_on[&module].get(name));
        match passed_on.filter(|inside| *inside != path) {
            Some(inside) => self.file(inside),
            None => Some(module),
        }
    }

    /// The files that a module names.
    fn named_in(&self, module: &Module) -> BTreeSet<Module> {
        let absolute = paths(&self.modules[module]).into_iter().filter_map(|path| self.absolute(module, &path));
        absolute.filter_map(|path| self.file(&path)).collect()
    }
}

#[test]
fn every_room_uses_only_what_stands_below_it() {
    let floors = floors();
    let modules = modules("lagstop");
    let mut seen = BTreeSet::new();
    for (module, code) in &modules {
        let room = &module[0];
        let floor = *floors.get(room).unwrap_or_else(|| panic!("docs/architecture.md does not draw {room}"));
        let named = paths(code).into_iter().filter(|path| path[0] == "crate" && path.len() > 1);
        for other in named.map(|path| path[1].clone()) {
            let below = floors.get(&other).is_none_or(|&other| other > floor);
            assert!(other == *room || below, "{} uses {other}, which does not stand below {room}", module.join("/"));
        }
        seen.insert(room.clone());
    }
    let drawn: BTreeSet<String> = floors.into_keys().collect();
    assert_eq!(drawn, seen, "what is drawn is there, and nothing else");
}

/// Of two files or folders beside each other, one may use the other, but not both each other, not even through others:
/// then neither can be read before the other. A folder uses whatever any file in it uses. A file and the folder of its
/// name may use each other: the file is what those in the folder share, and says what they are.
#[test]
fn no_files_beside_each_other_are_in_a_circle() {
    let of = |name| circles(&modules(name)).into_iter().map(move |circle| format!("{name}: {circle}"));
    let circles: Vec<String> =
        ["lagstop", "lagstop-ebpf", "lagstop-scheduler-ebpf", "xtask"].into_iter().flat_map(of).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

fn circles(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let resolver = Resolver::new(modules);
    let mut folders: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for module in modules.keys() {
        for other in resolver.named_in(module) {
            let common = module.iter().zip(&other).take_while(|(a, b)| a == b).count();
            if let (Some(one), Some(other)) = (module.get(common), other.get(common)) {
                let uses = folders.entry(module[..common].to_vec()).or_default();
                uses.entry(one.clone()).or_default().insert(other.clone());
            }
        }
    }
    let told = |(folder, uses): (&Module, &BTreeMap<String, BTreeSet<String>>)| {
        Some(format!("{}/: {}", folder.join("/"), circle(uses)?.join(" -> ")))
    };
    folders.iter().filter_map(told).collect()
}

/// A file or folder that is in a circle, followed by those that are used in turn.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = uses.clone();
    let next = |left: &BTreeMap<String, BTreeSet<String>>, one: &str| {
        left[one].iter().find(|other| left.contains_key(*other)).cloned()
    };
    while let Some(end) = left.keys().find(|one| next(&left, one).is_none()).cloned() {
        left.remove(&end);
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let other = next(&left, way.last()?)?;
        let from = way.iter().position(|one| *one == other);
        way.push(other);
        if let Some(from) = from {
            return Some(way.split_off(from));
        }
    }
}

#[test]
fn paths_are_found() {
    let text = "use crate::{\n    a::{b, c::{self, d}},\n    e as f,\n};\npub use child::Name;\nfn f() { super::super::g::h(); } \
                // crate::i\n#[cfg(test)]\nuse crate::j;\nuse self::k;\n#[cfg(test)]\nmod tests {\n    use crate::l;\n}\n";
    let mut found: Vec<String> = paths(&code(text)).iter().map(|path| path.join("::")).collect();
    found.sort();
    found.dedup();
    let expected =
        ["child::Name", "crate::a::b", "crate::a::c", "crate::a::c::d", "crate::e", "self::k", "super::super::g::h"];
    assert_eq!(found, expected);
}

#[test]
fn a_path_is_of_the_file_that_says_what_it_is() {
    let code =
        [("a", "pub use b::Name;"), ("a/b", ""), ("a/c", "use super::Name; use crate::a::b;"), ("d", "use std::a;")];
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let modules = code.map(|(path, code)| (module(path), code.to_owned())).into();
    let resolver = Resolver::new(&modules);
    assert_eq!(resolver.named_in(&module("a/c")), [module("a/b")].into());
    assert_eq!((resolver.named_in(&module("a")), resolver.named_in(&module("d"))), ([module("a/b")].into(), [].into()));
}

#[test]
fn circles_are_found_whatever_hangs_on_them() {
    let uses = |all: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (one, other) in all {
            uses.entry((*one).to_owned()).or_default().insert((*other).to_owned());
        }
        circle(&uses).map(|way| way.join(" "))
    };
    assert_eq!(uses(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
    assert_eq!(uses(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"), ("d", "e")]).as_deref(), Some("b c d b"));
}
