//! Which functions kprobes can be put on, from `/proc/kallsyms`. The names are shown to everybody, only the addresses are
//! not.

use std::{collections::BTreeSet, path::Path};

use super::super::{
    answer::{Answer, not_read},
    way::{At, WAYS},
};

const KALLSYMS: &str = "/proc/kallsyms";

/// The symbols of functions that a way puts kprobes on.
pub(super) fn of_interest() -> Answer<BTreeSet<String>> {
    match std::fs::read(KALLSYMS) {
        Ok(text) if text.is_empty() => Answer::Unknown(format!("{KALLSYMS} is empty")),
        Ok(text) => Answer::Known(among(&String::from_utf8_lossy(&text))),
        Err(error) => Answer::Unknown(not_read(Path::new(KALLSYMS), &error)),
    }
}

fn among(kallsyms: &str) -> BTreeSet<String> {
    let wanted: BTreeSet<&str> = WAYS
        .iter()
        .flat_map(|way| way.probes)
        .filter(|probe| matches!(probe.at, At::Kprobe(_) | At::Kretprobe(_)))
        .map(|probe| probe.at.target())
        .collect();
    let is_code = |kind: &str| kind.eq_ignore_ascii_case("t");
    kallsyms
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (kind, name) = (words.nth(1)?, words.next()?);
            (is_code(kind) && wanted.contains(plain(name))).then(|| name.to_owned())
        })
        .collect()
}

/// `name` without the suffix that the compiler added. A `.cold` part is a function of its own.
fn plain(name: &str) -> &str {
    if name.ends_with(".cold") { name } else { name.split_once('.').map_or(name, |(plain, _)| plain) }
}

/// The symbol of `function`: its own name before one with a suffix.
pub(super) fn find<'s>(symbols: &'s BTreeSet<String>, function: &str) -> Option<&'s String> {
    symbols.get(function).or_else(|| symbols.iter().find(|symbol| plain(symbol) == function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_the_compiler_are_seen_through() {
        let symbols = among(
            "0000000000000000 t finish_task_switch.isra.0\n0000000000000000 t finish_task_switch.isra.0.cold\n\
             0000000000000000 T schedule\n0000000000000000 D schedule_idle\n0000000000000000 T other\n",
        );
        assert_eq!(find(&symbols, "finish_task_switch").unwrap(), "finish_task_switch.isra.0");
        assert_eq!(find(&symbols, "schedule").unwrap(), "schedule");
        assert_eq!((find(&symbols, "schedule_idle"), symbols.len()), (None, 2), "data is no function");
    }
}
