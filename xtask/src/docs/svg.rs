//! A screen as a picture.

use std::fmt::Write;

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

/// Pixels of a cell, and around the screen.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 12.0;
const FONT: &str = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d8dce4";

/// `buffer` as an SVG document.
pub(super) fn write(buffer: &Buffer) -> String {
    let area = buffer.area;
    let size = |cells: u16, pixels: f64| f64::from(cells) * pixels + 2.0 * MARGIN;
    let (width, height) = (size(area.width, CELL.0), size(area.height, CELL.1));
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONT}\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let first = &buffer[(x, y)];
            let start = x;
            let mut text = String::new();
            while x < area.width && buffer[(x, y)].style() == first.style() {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            run(&mut svg, first, &text, (start, y), x - start);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Cells in a row that look alike.
fn run(svg: &mut String, cell: &Cell, text: &str, (x, y): (u16, u16), cells: u16) {
    let (left, top) = (MARGIN + f64::from(x) * CELL.0, MARGIN + f64::from(y) * CELL.1);
    let width = f64::from(cells) * CELL.0;
    let is_reversed = cell.modifier.contains(Modifier::REVERSED);
    let colour = colour(cell.fg);
    if is_reversed {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            CELL.1
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let mut style = format!("fill=\"{}\"", if is_reversed { BACKGROUND } else { colour });
    for (modifier, attribute) in [
        (Modifier::BOLD, " font-weight=\"bold\""),
        (Modifier::DIM, " opacity=\"0.6\""),
        (Modifier::UNDERLINED, " text-decoration=\"underline\""),
    ] {
        if cell.modifier.contains(modifier) {
            style.push_str(attribute);
        }
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" {style}>{text}</text>",
        top + CELL.1 - 4.5
    );
}

const fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Red => "#ff6b6b",
        Color::Yellow => "#f0c674",
        Color::Cyan => "#7ac7d9",
        Color::Blue | Color::LightBlue => "#7aa7ff",
        Color::Magenta => "#d29be0",
        _ => FOREGROUND,
    }
}
