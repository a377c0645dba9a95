//! Which key does what. The footer's hints, the help and the README's table are made from this one.

use std::fmt;

/// A key, as far as the screen tells keys apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A character with the control key.
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Tab,
    Backspace,
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
            Self::Left => f.write_str("←"),
            Self::Right => f.write_str("→"),
            Self::PageUp => f.write_str("PgUp"),
            Self::PageDown => f.write_str("PgDn"),
            Self::Home => f.write_str("Home"),
            Self::End => f.write_str("End"),
            Self::Enter => f.write_str("Enter"),
            Self::Tab => f.write_str("Tab"),
            Self::Backspace => f.write_str("Backspace"),
            Self::Esc => f.write_str("Esc"),
        }
    }
}

/// Where keys are pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// Any view, and what lies over it.
    Anywhere,
    /// While columns are chosen. Keys that are not bound there do the same as anywhere.
    Columns,
    /// While a filter is typed; other keys are its text.
    Filter,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Suspend,
    Back,
    Move(Move),
    Open,
    Sideways(Side),
    View(View),
    NextView,
    NextSort,
    PreviousSort,
    Reverse,
    Tree,
    Fold,
    Filter,
    Regex,
    Columns,
    Alerts,
    Pause,
    Step(Step),
    Verdict,
    Help,
    Hooks,
    Toggle,
    Shift(Side),
    Reset,
    Accept,
    Cancel,
    Erase,
    Clear,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// How far in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Back,
    Forth,
    MinuteBack,
    MinuteForth,
}

/// What fills the screen below the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Cgroups,
    Cpus,
    Listeners,
    Alerts,
    Waits,
}

impl View {
    /// All, in the order of their keys.
    pub(super) const ALL: [Self; 5] = [Self::Cgroups, Self::Cpus, Self::Listeners, Self::Alerts, Self::Waits];

    /// As flags and the configuration call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cgroups => "cgroups",
            Self::Cpus => "cpus",
            Self::Listeners => "listeners",
            Self::Alerts => "alerts",
            Self::Waits => "waits",
        }
    }

    /// The next view. The first comes after the last.
    pub(super) fn next(self) -> Self {
        let here = Self::ALL.iter().position(|view| *view == self).unwrap_or_default();
        Self::ALL[(here + 1) % Self::ALL.len()]
    }
}

/// Keys that do the same.
pub(super) struct Binding {
    pub(super) context: Context,
    pub(super) keys: &'static [Key],
    pub(super) command: Command,
    /// One word for the footer. Neighbours with the same one share it; without one the key is in the help alone.
    pub(super) hint: Option<&'static str>,
    pub(super) help: &'static str,
}

const fn binding(keys: &'static [Key], command: Command, hint: Option<&'static str>, help: &'static str) -> Binding {
    Binding { context: Context::Anywhere, keys, command, hint, help }
}

const fn within(context: Context, keys: &'static [Key], command: Command, help: &'static str) -> Binding {
    Binding { context, keys, command, hint: None, help }
}

/// The key map, in the order of the help.
pub(super) const KEYS: &[Binding] = &[
    binding(&[Key::Char('q'), Key::Ctrl('c')], Command::Quit, Some("quit"), "quit"),
    binding(&[Key::Char('?'), Key::Char('h')], Command::Help, Some("help"), "this help"),
    binding(&[Key::Up, Key::Char('k')], Command::Move(Move::Up), Some("select"), "select the previous row"),
    binding(&[Key::Down, Key::Char('j')], Command::Move(Move::Down), Some("select"), "select the next row"),
    binding(&[Key::Enter], Command::Open, Some("open"), "show all details of the selected cgroup"),
    binding(
        &[Key::Char('v')],
        Command::Verdict,
        Some("verdict"),
        "show the evidence of the verdict; also ↑ from the first row, then Enter",
    ),
    binding(&[Key::Esc], Command::Back, None, "close overlay, then clear filter, then quit"),
    binding(&[Key::Char('s'), Key::Char('>')], Command::NextSort, Some("sort"), "sort by the next column"),
    binding(&[Key::Char('<')], Command::PreviousSort, None, "sort by the previous column"),
    binding(&[Key::Char('r')], Command::Reverse, None, "reverse the order"),
    binding(&[Key::Char('f')], Command::Filter, Some("filter"), "show only cgroups with this text in name or path"),
    binding(
        &[Key::Char('/')],
        Command::Regex,
        None,
        "show only cgroups whose name or path matches a regular expression",
    ),
    binding(
        &[Key::Char('t')],
        Command::Tree,
        Some("tree"),
        "toggle between list and tree; in the tree, each cgroup includes its subtree",
    ),
    binding(&[Key::Char('x')], Command::Fold, None, "fold or unfold the selected subtree"),
    binding(&[Key::Char('c')], Command::Columns, None, "choose columns and their order"),
    binding(
        &[Key::Char('a')],
        Command::Alerts,
        Some("alerts"),
        "show the worst crossed thresholds below the view, and since when",
    ),
    binding(
        &[Key::Char(' ')],
        Command::Pause,
        Some("pause"),
        "pause the view while measuring continues; play a recording",
    ),
    binding(&[Key::Char('[')], Command::Step(Step::Back), Some("time"), "one interval back"),
    binding(&[Key::Char(']')], Command::Step(Step::Forth), Some("time"), "one interval forward"),
    binding(&[Key::Char('{')], Command::Step(Step::MinuteBack), None, "one minute back"),
    binding(&[Key::Char('}')], Command::Step(Step::MinuteForth), None, "one minute forward"),
    binding(&[Key::Tab], Command::NextView, Some("view"), "next view"),
    binding(&[Key::Char('1')], Command::View(View::Cgroups), None, "cgroups"),
    binding(&[Key::Char('2')], Command::View(View::Cpus), None, "CPUs, and the cgroups that use them most"),
    binding(&[Key::Char('3')], Command::View(View::Listeners), None, "listeners and their backlogs"),
    binding(&[Key::Char('4')], Command::View(View::Alerts), None, "all alerts, with their cgroups and listeners"),
    binding(
        &[Key::Char('5')],
        Command::View(View::Waits),
        None,
        "waits for a CPU: which cgroups wait, and their causes",
    ),
    binding(&[Key::Char('m')], Command::Hooks, Some("measures"), "method of each measure, and why others are missing"),
    binding(&[Key::PageUp], Command::Move(Move::PageUp), None, "one page up"),
    binding(&[Key::PageDown], Command::Move(Move::PageDown), None, "one page down"),
    binding(&[Key::Home, Key::Char('g')], Command::Move(Move::First), None, "go to the first row"),
    binding(&[Key::End, Key::Char('G')], Command::Move(Move::Last), None, "go to the last row"),
    binding(&[Key::Left], Command::Sideways(Side::Left), None, "scroll columns to the left"),
    binding(&[Key::Right], Command::Sideways(Side::Right), None, "scroll columns to the right"),
    binding(&[Key::Ctrl('z')], Command::Suspend, None, "suspend to the background; `fg` resumes"),
    within(Context::Columns, &[Key::Char(' ')], Command::Toggle, "show or hide the column"),
    within(Context::Columns, &[Key::Left, Key::Char('-')], Command::Shift(Side::Left), "move the column left"),
    within(Context::Columns, &[Key::Right, Key::Char('+')], Command::Shift(Side::Right), "move the column right"),
    within(Context::Columns, &[Key::Char('d')], Command::Reset, "restore the initial columns"),
    within(Context::Columns, &[Key::Enter], Command::Back, "close the list"),
    within(Context::Filter, &[Key::Enter], Command::Accept, "keep the filter"),
    within(Context::Filter, &[Key::Esc, Key::Ctrl('c')], Command::Cancel, "restore the previous filter"),
    within(Context::Filter, &[Key::Backspace], Command::Erase, "delete the last character"),
    within(Context::Filter, &[Key::Ctrl('u')], Command::Clear, "delete all text"),
];

/// What `key` asks for in `context`.
pub(super) fn command(context: Context, key: Key) -> Option<Command> {
    let bound = |context| KEYS.iter().find(|binding| binding.context == context && binding.keys.contains(&key));
    let binding = match context {
        Context::Filter => bound(Context::Filter),
        _ => bound(context).or_else(|| bound(Context::Anywhere)),
    };
    binding.map(|binding| binding.command)
}

/// The first key of `command`, as it is written.
pub(super) fn key_of(command: Command) -> String {
    let binding = KEYS.iter().find(|binding| binding.command == command);
    binding.and_then(|binding| binding.keys.first()).map_or_else(String::new, ToString::to_string)
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

/// The keys, part by part, as the help and the README show them: a heading, and keys with what they do.
pub(super) fn parts() -> [(&'static str, Vec<(String, &'static str)>); 3] {
    [
        ("Keys", Context::Anywhere),
        ("While choosing columns", Context::Columns),
        ("While typing a filter", Context::Filter),
    ]
    .map(|(heading, context)| {
        let explain = |binding: &Binding| {
            let keys: Vec<String> = binding.keys.iter().map(ToString::to_string).collect();
            (keys.join(" "), binding.help)
        };
        (heading, KEYS.iter().filter(|binding| binding.context == context).map(explain).collect())
    })
}

/// The keys as Markdown, for the README.
pub fn markdown() -> String {
    let mut table = String::from("| key | what it does |\n| --- | --- |\n");
    for (heading, keys) in parts() {
        for (keys, help) in keys {
            let keys: Vec<String> = keys
                .split(' ')
                .map(|key| format!("<kbd>{}</kbd>", key.replace('<', "&lt;").replace('>', "&gt;")))
                .collect();
            let where_ = if heading == "Keys" { String::new() } else { format!("{}: ", heading.to_lowercase()) };
            table.push_str(&format!("| {} | {where_}{help} |\n", keys.join(" ").replace('|', "\\|")));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice() {
        for (n, binding) in KEYS.iter().enumerate() {
            for key in binding.keys {
                let mut others = KEYS[..n].iter().filter(|other| other.context == binding.context);
                assert!(others.all(|other| !other.keys.contains(key)), "{key} is bound twice");
            }
        }
    }

    #[test]
    fn hints_share_a_word_with_their_neighbour() {
        assert!(hints().contains(&("↑↓".to_owned(), "select")));
    }

    #[test]
    fn while_a_filter_is_typed_letters_are_letters() {
        assert_eq!(command(Context::Filter, Key::Char('q')), None);
        assert_eq!(command(Context::Columns, Key::Char('q')), Some(Command::Quit));
        assert_eq!(command(Context::Columns, Key::Char(' ')), Some(Command::Toggle));
        assert_eq!(command(Context::Anywhere, Key::Char(' ')), Some(Command::Pause));
    }
}
