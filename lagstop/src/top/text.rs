//! Text that fits.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use ratatui::{style::Style, text::Span};

use crate::model::{Cgroup, CgroupId, Nanos, Session};

/// The end of the year 9999, since 1970.
const LAST_MOMENT: Duration = Duration::from_secs(253_402_300_799);

/// What `cgroup` is called on the screen; not yet harmless.
pub(super) fn name(cgroup: &Cgroup) -> &str {
    called(cgroup.id, &cgroup.name, &cgroup.path)
}

/// The same, of what is known of a cgroup that is idle.
pub(super) fn called<'a>(id: CgroupId, name: &'a str, path: &'a str) -> &'a str {
    match (id, name, path) {
        (CgroupId::OTHER, ..) => "(other)",
        (_, "", "") => "(no name)",
        (_, "", path) => path,
        (_, name, _) => name,
    }
}

/// [`name`], without a copy where there is one already.
pub(super) fn shared_name(cgroup: &Cgroup) -> Arc<str> {
    match name(cgroup) {
        name if *name == *cgroup.name => Arc::clone(&cgroup.name),
        name if *name == *cgroup.path => Arc::clone(&cgroup.path),
        name => name.into(),
    }
}

/// The time of day, UTC, at which the stream's clock said `at`.
pub(super) fn clock_time(session: &Session, at: Nanos) -> Option<String> {
    let started = humantime::parse_rfc3339_weak(&session.started_at).ok()?;
    let moment = started.checked_add(Duration::from_nanos(at.0))?;
    // A time that four digits cannot write is of no recording made here.
    let text = humantime::format_rfc3339_seconds(moment.min(UNIX_EPOCH + LAST_MOMENT)).to_string();
    text.get(11..).map(str::to_owned)
}

/// Cells that `text` takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// `text` in exactly `cells` cells: filled up with blanks, or without its middle. Both ends of a cgroup's name tell it
/// from its neighbours: the pod at the front, the container or the number at the back.
pub(super) fn fit(text: &str, cells: usize) -> String {
    let missing = cells.saturating_sub(width(text));
    if width(text) <= cells {
        return format!("{text}{}", " ".repeat(missing));
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let span = Span::raw(text);
    let graphemes: Vec<&str> = span.styled_graphemes(Style::new()).map(|grapheme| grapheme.symbol).collect();
    let front = take(graphemes.iter().copied(), room.div_ceil(2));
    let used: usize = front.iter().map(|symbol| width(symbol)).sum();
    let mut back = take(graphemes.iter().rev().copied(), room - used);
    let used = used + back.iter().map(|symbol| width(symbol)).sum::<usize>();
    back.reverse();
    format!("{}…{}{}", front.concat(), back.concat(), " ".repeat(room - used))
}

/// As many of `graphemes` as fit into `cells`.
fn take<'a>(graphemes: impl Iterator<Item = &'a str>, cells: usize) -> Vec<&'a str> {
    let fits = |used: &mut usize, grapheme: &'a str| {
        *used += width(grapheme);
        (*used <= cells).then_some(grapheme)
    };
    graphemes.scan(0, fits).collect()
}

/// `text` in at most `cells` cells, without its end where it is longer: for sentences, which are read from the front.
pub(super) fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let span = Span::raw(text);
    take(span.styled_graphemes(Style::new()).map(|grapheme| grapheme.symbol), room).concat() + "…"
}

/// `text` in lines of at most `cells` cells, broken between words; a longer word is broken anywhere.
pub(super) fn wrap(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
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
            let span = Span::raw(word);
            let head = take(span.styled_graphemes(Style::new()).map(|grapheme| grapheme.symbol), cells).concat();
            // A grapheme wider than the line, or one that the terminal never shows.
            let end = if head.is_empty() || !word.starts_with(&head) { word.len() } else { head.len() };
            line.push_str(&head);
            word = &word[end..];
            if !word.is_empty() {
                lines.push(String::new());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::display_name;

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(fit("checkout-7d9f/worker-12", 15), "checkou…rker-12");
        assert_eq!(fit("日本語日本語", 8), "日本…語 ");
        assert_eq!(fit("web", 5), "web  ");
        assert_eq!(fit("web", 0), "");
    }

    #[test]
    fn lines_break_between_words_where_they_can() {
        assert_eq!(wrap("no such tracepoint", 8), ["no such", "tracepoi", "nt"]);
    }

    proptest! {
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
        fn wrapped_lines_are_no_wider_than_they_may(text in any::<String>(), cells in 2usize..40) {
            for line in wrap(&display_name(&text), cells) {
                prop_assert!(width(&line) <= cells, "{line:?}");
            }
        }
    }
}
