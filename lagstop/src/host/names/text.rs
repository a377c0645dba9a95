//! Text from files of runtimes.

use crate::display::is_hostile;

/// Characters that are kept of a name.
const LONGEST: usize = 128;

/// What Docker, Podman, nerdctl, containerd, LXC and Incus take for a name. Anything else was not written by them.
pub(super) fn identifier(text: &str) -> Option<&str> {
    let is_ordinary = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_one = text.len() <= LONGEST
        && text.bytes().all(is_ordinary)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    is_one.then_some(text)
}

/// A name that may hold anything: without what a terminal would obey, what would look like a path, and what is too long.
pub(super) fn foreign(text: &str) -> Option<String> {
    let clean = |c| if is_hostile(c) || c == '/' { char::REPLACEMENT_CHARACTER } else { c };
    let name: String = text.trim().chars().take(LONGEST).map(clean).collect();
    (!name.is_empty()).then_some(name)
}

/// A name in a unit's: systemd writes what it does not take as `\x2d`.
pub(super) fn unescaped(unit: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(unit.len());
    let mut rest = unit.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        match rest.strip_prefix(br"\x") {
            Some(code) => {
                let digits = std::str::from_utf8(code.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &code[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    foreign(&String::from_utf8_lossy(&bytes))
}

/// The value of `key` in lines of `KEY=value`. The first one counts.
pub(super) fn variable<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// The text that `key` has in the table `[table]` of TOML, where it stands alone in a line, as these files have it.
pub(super) fn setting(text: &str, table: &str, key: &str) -> Option<String> {
    let mut inside = table.is_empty();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            inside = header.split(']').next() == Some(table);
            continue;
        }
        let value = line.strip_prefix(key).map(str::trim_start).and_then(|rest| rest.strip_prefix('='));
        if let Some(value) = value.filter(|_| inside) {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            return Some(value[1..].split(quote).next()?.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_runtime_could_have_written_is_an_identifier() {
        for good in ["web", "web-1", "My_app.2", "0"] {
            assert_eq!(identifier(good), Some(good));
        }
        for bad in ["", "-a", "a b", "a/b", "a\u{1b}[2J", "ä", "a\n", &"a".repeat(129)] {
            assert_eq!(identifier(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn foreign_names_are_made_harmless() {
        assert_eq!(foreign(" my guest ").as_deref(), Some("my guest"));
        assert_eq!(foreign("a\u{1b}[2J/b\u{202e}").as_deref(), Some("a�[2J�b�"));
        assert_eq!(foreign(&"x".repeat(1_000)).unwrap().len(), LONGEST);
        assert_eq!(foreign(" "), None);
    }

    #[test]
    fn units_are_unescaped() {
        assert_eq!(unescaped(r"qemu\x2d1\x2dweb").as_deref(), Some("qemu-1-web"));
        assert_eq!(unescaped(r"a\x2f\x1b").as_deref(), Some("a��"));
        for broken in [r"\x", r"\xg0", r"\x1"] {
            assert_eq!(unescaped(broken), None);
        }
    }

    #[test]
    fn settings_are_found_in_their_table() {
        let text =
            "# graphroot = \"/no\"\n[other]\ngraphroot = \"/wrong\"\n[storage]\n  graphroot=\"/data\" # here\nx=1\n";
        assert_eq!(setting(text, "storage", "graphroot").as_deref(), Some("/data"));
        assert_eq!(setting(text, "storage", "x"), None);
        assert_eq!(setting(text, "storage", "runroot"), None);
        assert_eq!(variable("# x\nNAME=a\nNAME=b\n", "NAME"), Some("a"));
    }
}
