//! The line in which a filter is typed.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::top) struct Prompt {
    text: String,
    /// The filter before, for when this one is given up.
    pub(super) before: String,
    /// Why the text is no filter yet.
    pub(in crate::top) error: Option<String>,
}

/// Longer filters match nothing that exists.
const LONGEST: usize = 256;

impl Prompt {
    /// Goes on from the filter `before`, or begins with `start`, where that is of another kind.
    pub(super) fn new(before: &str, start: &str) -> Self {
        let text = if before.starts_with(start) { before } else { start };
        Self { text: text.to_owned(), before: before.to_owned(), error: None }
    }

    pub(super) fn push(&mut self, char: char) {
        if self.text.len() < LONGEST {
            self.text.push(char);
        }
    }

    pub(super) fn erase(&mut self) {
        self.text.pop();
    }

    /// What a regular expression begins with stays.
    pub(super) fn clear(&mut self) {
        self.text.truncate(usize::from(self.text.starts_with('/')));
    }

    pub(in crate::top) fn text(&self) -> &str {
        &self.text
    }
}
