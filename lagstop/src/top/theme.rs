//! How things look. Colour only adds to what the text or its weight says already.

use ratatui::style::{Color, Modifier, Style};

/// The styles, with or without colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    colours: bool,
}

impl Theme {
    /// As the user wishes: see <https://no-color.org>.
    pub(super) fn from_environment() -> Self {
        Self { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    /// For tests of what is drawn.
    #[cfg(test)]
    pub(super) const fn new(colours: bool) -> Self {
        Self { colours }
    }

    fn coloured(self, style: Style, colour: Color) -> Style {
        if self.colours { style.fg(colour) } else { style }
    }

    /// What names a figure.
    pub(super) fn label(self) -> Style {
        // Dimmed and not grey: which grey can be read depends on the terminal's background.
        if self.colours { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
    }

    /// A figure of the host, the program's name.
    #[expect(clippy::unused_self, reason = "themes to come differ in it")]
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Titles of columns and parts.
    pub(super) fn title(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
    }

    /// A key in a hint.
    pub(super) fn key(self) -> Style {
        self.title()
    }

    /// The row that is selected.
    #[expect(clippy::unused_self, reason = "themes to come differ in it")]
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A state that is easily forgotten: paused, ended.
    pub(super) fn badge(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD.union(Modifier::REVERSED)), Color::Yellow)
    }

    /// Worth knowing.
    pub(super) fn warning(self) -> Style {
        self.coloured(Style::new(), Color::Yellow)
    }

    /// Figures may be wrong.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red)
    }
}
