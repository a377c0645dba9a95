//! Lines within a width.

use crate::display::{self, display_name, pad, pad_left, width};

/// How to write for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOptions {
    /// Columns to stay within. Commands are never broken.
    pub width: usize,
    /// Colour severities. Each is written as a word, too.
    pub colour: bool,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}

/// Plain ANSI SGR colours: they follow the terminal's own palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    None,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Colour {
    const fn sgr(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bold => "\u{1b}[1m",
            Self::Dim => "\u{1b}[2m",
            Self::Red => "\u{1b}[1;31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[1;33m",
            Self::Cyan => "\u{1b}[36m",
        }
    }
}

/// Lines so far. All text is made harmless here, so that this cannot be forgotten elsewhere.
pub(super) struct Page {
    options: PageOptions,
    lines: String,
}

/// Where the text beside "threshold", "confidence" and the like begins.
const LABELLED: usize = 16;

/// Width of the name in a row, and where the text beside it begins.
const NAMED: usize = 26;
const BESIDE: usize = 2 + 6 + 1 + NAMED + 1;

/// The least width of text in columns, however narrow the terminal.
const LEAST: usize = 20;

impl Page {
    pub(super) const fn new(options: PageOptions) -> Self {
        Self { options, lines: String::new() }
    }

    pub(super) fn finish(self) -> String {
        self.lines
    }

    pub(super) fn blank(&mut self) {
        self.lines.push('\n');
    }

    /// A paragraph, each line after `indent`.
    pub(super) fn text(&mut self, indent: &str, colour: Colour, text: &str) {
        for line in self.wrap(text, width(indent)) {
            let line = self.painted(colour, &line);
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A line of cells, each in its colour. It is not wrapped.
    pub(super) fn cells(&mut self, cells: &[(Colour, &str)]) {
        let cells: String = cells.iter().map(|(colour, text)| self.painted(*colour, &clean(text))).collect();
        self.line(&cells);
    }

    /// A table that is not wrapped: the first column is words, the others are numbers.
    pub(super) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) {
        let widest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
            cells.chain([width(headings[column])]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(widest).collect();
        let line = |row: &mut dyn Iterator<Item = &str>| {
            let cell = |(column, (cell, &width)): (usize, (&str, &usize))| {
                if column == 0 { pad(cell, width) } else { pad_left(cell, width) }
            };
            row.zip(&widths).enumerate().map(cell).collect::<Vec<_>>().join("  ")
        };
        self.cells(&[(Colour::Dim, &line(&mut headings.iter().copied()))]);
        for row in rows {
            let row = line(&mut row.iter().map(String::as_str));
            self.cells(&[(Colour::None, &row)]);
        }
    }

    /// A coloured tag, and a paragraph that hangs from it.
    pub(super) fn tagged(&mut self, tag: &str, colour: Colour, text: &str) {
        let tag_width = width(tag) + 1;
        for (i, line) in self.wrap(&format!("{} {text}", "\u{2007}".repeat(tag_width - 1)), 0).iter().enumerate() {
            let line = if i == 0 {
                let rest: String = line.chars().skip(tag_width).collect();
                format!("{} {}", self.painted(colour, tag), self.painted(Colour::Bold, &rest))
            } else {
                self.painted(Colour::Bold, line)
            };
            self.line(&line);
        }
    }

    /// A paragraph that hangs from a word.
    pub(super) fn labelled(&mut self, label: &str, text: &str) {
        let first = format!("    {}", pad(label, LABELLED - 4));
        self.hanging(&first, text);
    }

    /// A paragraph that hangs from `first`.
    pub(super) fn hanging(&mut self, first: &str, text: &str) {
        let first = clean(first);
        let indent = width(&first);
        let lines = self.wrap(text, indent);
        self.line(&format!("{first}{}", lines.first().map_or("", String::as_str)));
        for line in lines.iter().skip(1) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// A coloured tag, a name, and a paragraph beside them.
    pub(super) fn row(&mut self, tag: &str, colour: Colour, name: &str, text: &str) {
        let tag = self.painted(colour, tag);
        let indent = BESIDE;
        let name = pad(&clean(name), NAMED);
        for (i, line) in self.wrap(text, indent).iter().enumerate() {
            let first = if i == 0 { format!("  {tag} {name} ") } else { " ".repeat(indent) };
            self.line(&format!("{first}{line}"));
        }
    }

    /// Continues the text column of the last row.
    pub(super) fn beside(&mut self, text: &str) {
        self.text(&" ".repeat(BESIDE), Colour::Dim, text);
    }

    /// What to do about the last row, unbroken, so that it can be copied.
    pub(super) fn remedy(&mut self, remedy: &str) {
        let remedy = clean(remedy);
        self.line(&format!("{:BESIDE$}→ {remedy}", ""));
    }

    /// A command after its `mark`, unbroken, so that it can be copied.
    pub(super) fn command(&mut self, mark: &str, command: &str) {
        self.marked(&" ".repeat(LABELLED), mark, command);
    }

    /// The same at the left edge.
    pub(super) fn short_command(&mut self, mark: &str, command: &str) {
        self.marked("  ", mark, command);
    }

    fn marked(&mut self, indent: &str, mark: &str, command: &str) {
        let command = self.painted(Colour::Bold, &clean(command));
        self.line(&format!("{indent}{mark} {command}"));
    }

    fn painted(&self, colour: Colour, text: &str) -> String {
        match colour {
            Colour::None => text.to_owned(),
            _ if !self.options.colour || text.is_empty() => text.to_owned(),
            _ => format!("{}{text}\u{1b}[0m", colour.sgr()),
        }
    }

    fn line(&mut self, line: &str) {
        self.lines += line.trim_end();
        self.lines.push('\n');
    }

    /// Wraps `text` to the width that `indent` leaves. Longer words are broken.
    fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        display::wrap(&clean(text), self.options.width.saturating_sub(indent).max(LEAST))
    }
}

/// Makes text from outside harmless.
pub(super) fn clean(text: &str) -> String {
    display_name(text).into_owned()
}
