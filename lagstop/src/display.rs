//! Foreign text made harmless, and text that fits. Widths are in cells of a terminal.
//!
//! A cgroup's name may hold any bytes but `/`, NUL and newline, and containers name themselves. What could move the cursor, clear
//! the screen, reorder or hide text becomes U+FFFD: one cell each, and unlike `\x1b` nothing that systemd could have written
//! in a unit's name.

use std::{
    borrow::Cow,
    io,
    time::{Duration, UNIX_EPOCH},
};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Shown in place of a hostile character.
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

/// Cells that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Pads `text` with blanks at its end to `cells` cells. Wider text stays as it is.
pub fn pad(text: &str, cells: usize) -> String {
    format!("{text}{}", " ".repeat(cells.saturating_sub(width(text))))
}

/// Pads `text` with blanks in front to `cells` cells. Wider text stays as it is.
pub fn pad_left(text: &str, cells: usize) -> String {
    format!("{}{text}", " ".repeat(cells.saturating_sub(width(text))))
}

/// Shortens `text` to at most `cells` cells by leaving out its middle: both ends tell a name from its neighbours, the pod at the
/// front, the container or the number at the back.
pub fn shorten(text: &str, cells: usize) -> Cow<'_, str> {
    if width(text) <= cells {
        return Cow::Borrowed(text);
    }
    let Some(room) = cells.checked_sub(1) else { return Cow::Borrowed("") };
    let front = take(text.graphemes(true), room.div_ceil(2));
    let used: usize = front.iter().map(|symbol| width(symbol)).sum();
    let mut back = take(text.graphemes(true).rev(), room - used);
    back.reverse();
    Cow::Owned(format!("{}…{}", front.concat(), back.concat()))
}

/// [`display_name`] of a name from outside, [shortened](shorten).
pub fn short_name(name: &str, cells: usize) -> Cow<'_, str> {
    match display_name(name) {
        Cow::Borrowed(name) => shorten(name, cells),
        Cow::Owned(name) => Cow::Owned(shorten(&name, cells).into_owned()),
    }
}

/// `text` in exactly `cells` cells: filled up with blanks, or [shortened](shorten).
pub fn fit(text: &str, cells: usize) -> String {
    pad(&shorten(text, cells), cells)
}

/// As many of `graphemes` as fit into `cells`.
fn take<'a>(graphemes: impl Iterator<Item = &'a str>, cells: usize) -> Vec<&'a str> {
    let fits = |used: &mut usize, grapheme: &'a str| {
        *used += width(grapheme);
        (*used <= cells).then_some(grapheme)
    };
    graphemes.scan(0, fits).collect()
}

/// Cuts off the end of `text` beyond `cells` cells: for sentences, which are read from the front.
pub fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    take(text.graphemes(true), room).concat() + "…"
}

/// `text` in lines of at most `cells` cells, broken between words; a longer word is broken between graphemes. A single one that is
/// wider goes beyond.
pub fn wrap(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let mut word = word;
        while !word.is_empty() {
            let Some(line) = lines.last_mut() else { break };
            let gap = usize::from(!line.is_empty());
            if width(line) + gap + width(word) <= cells {
                if gap == 1 {
                    line.push(' ');
                }
                line.push_str(word);
                break;
            }
            if gap == 1 {
                lines.push(String::new());
                continue;
            }
            let head: usize = take(word.graphemes(true), cells).iter().map(|symbol| symbol.len()).sum();
            // A grapheme wider than the line goes beyond it.
            let end = if head == 0 { word.graphemes(true).next().map_or(word.len(), str::len) } else { head };
            line.push_str(&word[..end]);
            word = &word[end..];
            if !word.is_empty() {
                lines.push(String::new());
            }
        }
    }
    lines
}

/// `seconds` since 1970 as RFC 3339 in UTC, at most the end of the year 9999.
pub fn utc(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST))).to_string()
}

/// The system's error message without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
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
        assert_eq!(fit("checkout-7d9f/worker-12", 15), "checkou…rker-12");
        assert_eq!(fit("日本語日本語", 8), "日本…語 ");
        assert_eq!((&*fit("web", 5), &*fit("web", 0)), ("web  ", ""));
        assert_eq!((&*pad_left("日本", 5), &*pad("long", 2)), (" 日本", "long"));
    }

    #[test]
    fn lines_break_between_words_where_they_can() {
        assert_eq!(wrap("no such tracepoint", 8), ["no such", "tracepoi", "nt"]);
        assert_eq!(wrap("日本語 x", 4), ["日本", "語 x"]);
    }

    #[test]
    fn the_systems_numbers_are_left_out() {
        assert_eq!(plain(&io::Error::from_raw_os_error(libc::ENOSPC)), "No space left on device");
        assert_eq!(plain(&io::Error::other("of our own")), "of our own");
    }

    proptest! {
        #[test]
        fn nothing_hostile_is_left(name in any::<String>(), cells in 0usize..20) {
            let shown = display_name(&name);
            prop_assert_eq!(shown.chars().count(), name.chars().count());
            prop_assert!(!shown.contains(is_hostile));
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(width(&short_name(&name, cells)) <= cells);
        }

        #[test]
        fn fitted_text_is_as_wide_as_it_should_be(text in any::<String>(), cells in 0usize..40) {
            prop_assert_eq!(width(&fit(&display_name(&text), cells)), cells);
        }

        #[test]
        fn cut_text_is_no_wider_than_it_may(text in any::<String>(), cells in 0usize..40) {
            let text = display_name(&text);
            let cut = cut(&text, cells);
            prop_assert!(width(&cut) <= cells);
            prop_assert!(text.starts_with(cut.trim_end_matches('…')));
        }

        #[test]
        fn wrapped_lines_are_no_wider_than_they_may_and_lose_nothing(text in any::<String>(), cells in 2usize..40) {
            let text = display_name(&text);
            let lines = wrap(&text, cells);
            let fits = |line: &String| width(line) <= cells || line.graphemes(true).count() == 1;
            prop_assert!(lines.iter().all(fits), "{lines:?}");
            let squeezed = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(squeezed(&lines.concat()), squeezed(&text));
        }
    }
}
