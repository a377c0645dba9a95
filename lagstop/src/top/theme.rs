//! How things look. Colour only adds to what the text, a mark or its weight says already.

use ratatui::style::{Color, Modifier, Style};

use super::mark::Mark;
use crate::diagnosis::Severity;

/// The colours that there are. Those of the terminal's own sixteen, so that its own theme holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Palette {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light one: yellow and cyan cannot be read there.
    Light,
    /// None at all: see <https://no-color.org>.
    None,
}

impl Palette {
    const ALL: [(&'static str, Self); 3] = [("dark", Self::Dark), ("light", Self::Light), ("none", Self::None)];

    pub(super) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, palette)| *palette)
    }

    pub(super) fn names() -> [&'static str; 3] {
        Self::ALL.map(|(name, _)| name)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    palette: Palette,
}

impl Theme {
    pub(super) const fn new(palette: Palette) -> Self {
        Self { palette }
    }

    /// `NO_COLOR` wins over what was chosen.
    pub(super) fn from_environment(palette: Palette) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(if no_colour { Palette::None } else { palette })
    }

    const fn coloured(self, style: Style, dark: Color, light: Color) -> Style {
        match self.palette {
            Palette::Dark => style.fg(dark),
            Palette::Light => style.fg(light),
            Palette::None => style,
        }
    }

    /// What names a figure.
    pub(super) fn label(self) -> Style {
        // Dimmed and not grey: which grey can be read depends on the terminal's background.
        if self.palette == Palette::None { Style::new() } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// A figure of the host, the program's name.
    #[expect(clippy::unused_self, reason = "like the others, so that a palette may differ in it")]
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Titles of columns and parts.
    pub(super) fn title(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan, Color::Blue)
    }

    /// A key in a hint.
    pub(super) fn key(self) -> Style {
        self.title()
    }

    /// The row that is selected.
    #[expect(clippy::unused_self, reason = "like the others, so that a palette may differ in it")]
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A state that is easily forgotten: paused, in the past, ended.
    pub(super) fn badge(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD.union(Modifier::REVERSED));
        self.coloured(bold, Color::Yellow, Color::Magenta)
    }

    /// All is well.
    pub(super) fn good(self) -> Style {
        self.coloured(Style::new(), Color::Green, Color::Green)
    }

    /// Worth knowing.
    pub(super) fn warning(self) -> Style {
        self.coloured(Style::new(), Color::Yellow, Color::Magenta)
    }

    /// Figures may be wrong, or something is critical.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red, Color::Red)
    }

    /// A figure that crosses a threshold.
    pub(super) fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.alarm().add_modifier(Modifier::UNDERLINED),
            Severity::Warning => self.warning().add_modifier(Modifier::UNDERLINED),
            Severity::Ok | Severity::Info | Severity::NotEnoughData => Style::new(),
        }
    }

    /// Bars of distributions and histories.
    pub(super) fn bar(self) -> Style {
        self.coloured(Style::new(), Color::Cyan, Color::Blue)
    }

    /// The mark of a cgroup. Nearly everybody can distinguish blue and yellow.
    pub(super) fn mark(self, mark: Mark<'_>) -> Style {
        match mark {
            Mark::Bully | Mark::Throttled => self.alarm(),
            Mark::Light(_) => self.coloured(Style::new(), Color::LightBlue, Color::Blue),
            Mark::Heavy(_) => self.coloured(Style::new(), Color::Yellow, Color::Magenta),
        }
    }
}

/// The mark of a crossed threshold: two cells.
pub(super) const fn severity_mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "!!",
        Severity::Warning => "! ",
        Severity::Ok | Severity::Info | Severity::NotEnoughData => "  ",
    }
}
