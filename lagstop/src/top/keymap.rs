//! Which key does what. The footer's hints and the help are made from this table.

use std::fmt;

/// A key, as far as the screen tells keys apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Esc,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Char(' ') => f.write_str("space"),
            Self::Char(char) => write!(f, "{char}"),
            Self::Ctrl(char) => write!(f, "Ctrl-{}", char.to_ascii_uppercase()),
            Self::Up => f.write_str("↑"),
            Self::Down => f.write_str("↓"),
            Self::PageUp => f.write_str("PgUp"),
            Self::PageDown => f.write_str("PgDn"),
            Self::Home => f.write_str("Home"),
            Self::End => f.write_str("End"),
            Self::Esc => f.write_str("Esc"),
        }
    }
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Back,
    Move(Move),
    NextSort,
    PreviousSort,
    Reverse,
    Pause,
    Help,
    Hooks,
}

/// Where the selection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// Keys that do the same.
pub(super) struct Binding {
    pub(super) keys: &'static [Key],
    pub(super) command: Command,
    /// One word for the footer. Neighbours with the same one share it; without one the key is in the help alone.
    pub(super) hint: Option<&'static str>,
    /// A line for the help.
    pub(super) help: &'static str,
}

const fn binding(keys: &'static [Key], command: Command, hint: Option<&'static str>, help: &'static str) -> Binding {
    Binding { keys, command, hint, help }
}

/// The key map, in the order of the help.
pub(super) const KEYS: &[Binding] = &[
    binding(&[Key::Char('q'), Key::Ctrl('c')], Command::Quit, Some("quit"), "quit"),
    binding(&[Key::Char('h'), Key::Char('?')], Command::Help, Some("help"), "this help"),
    binding(&[Key::Esc], Command::Back, None, "close what lies over the table, or else quit"),
    binding(&[Key::Up, Key::Char('k')], Command::Move(Move::Up), Some("select"), "one up"),
    binding(&[Key::Down, Key::Char('j')], Command::Move(Move::Down), Some("select"), "one down"),
    binding(&[Key::PageUp], Command::Move(Move::PageUp), None, "one page up"),
    binding(&[Key::PageDown], Command::Move(Move::PageDown), None, "one page down"),
    binding(&[Key::Home], Command::Move(Move::First), None, "to the first"),
    binding(&[Key::End], Command::Move(Move::Last), None, "to the last"),
    binding(&[Key::Char('s'), Key::Char('>')], Command::NextSort, Some("sort"), "sort by the next column"),
    binding(&[Key::Char('<')], Command::PreviousSort, None, "sort by the column before"),
    binding(&[Key::Char('r')], Command::Reverse, Some("reverse"), "reverse the order"),
    binding(&[Key::Char(' ')], Command::Pause, Some("pause"), "hold the view; measuring goes on"),
    binding(&[Key::Char('m')], Command::Hooks, Some("measures"), "how everything is measured, what is not, and why"),
];

/// What `key` asks for.
pub(super) fn command(key: Key) -> Option<Command> {
    KEYS.iter().find(|binding| binding.keys.contains(&key)).map(|binding| binding.command)
}

/// The footer's hints: keys, and what they do.
pub(super) fn hints() -> Vec<(String, &'static str)> {
    let mut hints: Vec<(String, &'static str)> = Vec::new();
    for binding in KEYS {
        let (Some(hint), Some(key)) = (binding.hint, binding.keys.first()) else { continue };
        match hints.last_mut() {
            Some((keys, last)) if *last == hint => keys.push_str(&key.to_string()),
            _ => hints.push((key.to_string(), hint)),
        }
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice() {
        let keys: Vec<Key> = KEYS.iter().flat_map(|binding| binding.keys.iter().copied()).collect();
        for (n, key) in keys.iter().enumerate() {
            assert!(!keys[..n].contains(key), "{key} is bound twice");
        }
    }

    #[test]
    fn hints_share_a_word_with_their_neighbour() {
        assert!(hints().contains(&("↑↓".to_owned(), "select")));
    }
}
