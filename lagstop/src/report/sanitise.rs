//! Names from hostile places, made harmless for a terminal.
//!
//! A cgroup's name may hold any bytes but `/`, NUL and newline, and containers name themselves. What could move the cursor, clear
//! the screen, reorder or hide text becomes U+FFFD: one column each, so that lengths stay what they are, and unlike
//! `\x1b` nothing that systemd could have written in a unit's name.

use std::borrow::Cow;

/// Stands for what is not shown.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Would `c` do more in a terminal than take up its columns?
pub const fn is_hostile(c: char) -> bool {
    matches!(c,
        // C0, DEL, C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Bidirectional marks, embeddings, overrides and isolates.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Line and paragraph separators.
        | '\u{2028}' | '\u{2029}'
        // Invisible: soft hyphen, fillers, zero-width and other format characters, interlinear annotation, musical
        // formatting, tags.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// `name` as it may be written to a terminal.
pub fn display_name(name: &str) -> Cow<'_, str> {
    if name.contains(is_hostile) {
        Cow::Owned(name.chars().map(|c| if is_hostile(c) { REPLACEMENT } else { c }).collect())
    } else {
        Cow::Borrowed(name)
    }
}

/// [`display_name`] in at most `width` characters: the middle goes, for both ends tell names apart.
pub fn short_name(name: &str, width: usize) -> Cow<'_, str> {
    let name = display_name(name);
    let length = name.chars().count();
    if length <= width {
        return name;
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let ellipsis = if width > 0 { "…" } else { "" };
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
    Cow::Owned(format!("{start}{ellipsis}{end}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        for (name, shown) in [
            ("plain-1.service", "plain-1.service"),
            (r"dev-disk\x2dby.device", r"dev-disk\x2dby.device"),
            ("café 容器 🚀", "café 容器 🚀"),
            ("a\u{1b}[2Jb", "a\u{fffd}[2Jb"),
            ("a\u{9b}31mb\u{7f}", "a\u{fffd}31mb\u{fffd}"),
            ("x\n\r\ty", "x\u{fffd}\u{fffd}\u{fffd}y"),
            ("gpj.\u{202e}exe", "gpj.\u{fffd}exe"),
            ("\u{2066}a\u{2069}\u{200f}\u{2028}", "\u{fffd}a\u{fffd}\u{fffd}\u{fffd}"),
            ("web\u{200b}", "web\u{fffd}"),
        ] {
            assert_eq!(display_name(name), shown);
        }
    }

    #[test]
    fn both_ends_of_a_long_name_stay() {
        assert_eq!(short_name("kubepods-burstable-pod1234.slice", 11), "kubep…slice");
        assert_eq!(["abc", "abcd"].map(|name| short_name(name, 3)), ["abc", "a…d"]);
        assert_eq!(short_name("abc", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_hostile_is_left(name in any::<String>(), width in 0usize..20) {
            let shown = display_name(&name);
            prop_assert_eq!(shown.chars().count(), name.chars().count());
            prop_assert!(!shown.contains(is_hostile));
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(short_name(&name, width).chars().count() <= width);
        }
    }
}
