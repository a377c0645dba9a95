//! Drawing for terminals and fonts that have ASCII alone.

use ratatui::buffer::Buffer;

/// Replaces each character that is not ASCII by the one that looks most like it, or by `?`.
pub(super) fn simplify(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let symbol = cell.symbol();
        if !symbol.is_ascii() {
            let simple = likeness(symbol);
            cell.set_symbol(simple);
        }
    }
}

pub(super) fn likeness(symbol: &str) -> &'static str {
    match symbol {
        "─" | "−" | "–" => "-",
        "│" => "|",
        "╭" | "╮" | "╰" | "╯" | "├" | "└" => "+",
        "…" => "~",
        "µ" => "u",
        "×" => "x",
        "▲" | "↑" => "^",
        "▼" | "↓" | "▽" => "v",
        "▸" | "→" => ">",
        "▾" => "v",
        "←" => "<",
        "▁" => "_",
        "▂" => ".",
        "▃" => ":",
        "▄" => "-",
        "▅" => "=",
        "▆" => "+",
        "▇" => "*",
        "█" | "▉" | "▊" | "▋" => "#",
        "▌" | "▍" | "▎" | "▏" => "|",
        "·" => ".",
        "Σ" => "S",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;

    #[test]
    fn nothing_but_ascii_is_left_and_columns_stay() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 16, 1));
        buffer.set_string(0, 0, "4 µs ▲ 日本 é|", ratatui::style::Style::new());
        simplify(&mut buffer);
        let line: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(line, "4 us ^ ? ?  ?|  ");
    }
}
