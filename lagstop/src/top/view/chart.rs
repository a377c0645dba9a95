//! Small charts of block characters.

/// Eighths of a cell, from nothing to full.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same, to the right.
const BAR: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The last of `values`, one in each cell. The top is at `most`, or at the highest value if that is more. `·` is unknown.
pub(super) fn sparkline(values: &[Option<f64>], cells: usize, most: f64) -> String {
    let values = &values[values.len().saturating_sub(cells)..];
    let most = values.iter().flatten().copied().filter(|value| value.is_finite()).fold(most, f64::max);
    let symbol = |value: &Option<f64>| match value {
        Some(value) if value.is_finite() && most > 0.0 => {
            // Anything above 0 is visible.
            let eighths = (value / most * 8.0).round().clamp(if *value > 0.0 { 1.0 } else { 0.0 }, 8.0);
            EIGHTHS[eighths as usize]
        }
        Some(_) => EIGHTHS[0],
        None => '·',
    };
    format!("{:>cells$}", values.iter().map(symbol).collect::<String>())
}

/// A bar that fills a share of `cells`. Anything above 0 is visible.
pub(super) fn bar(share: f64, cells: usize) -> String {
    let least = if share > 0.0 { 1.0 } else { 0.0 };
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round().max(least).min(cells as f64 * 8.0) as usize;
    let mut bar = String::new();
    bar.extend(std::iter::repeat_n(BAR[8], eighths / 8));
    if !eighths.is_multiple_of(8) {
        bar.push(BAR[eighths % 8]);
    }
    format!("{bar:<cells$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_show_the_last_values() {
        assert_eq!(sparkline(&[Some(9.0), Some(0.0), Some(1.0), None, Some(8.0)], 4, 0.0), " ▁·█");
        assert_eq!(sparkline(&[Some(1.0)], 4, 2.0), "   ▄");
        assert_eq!(sparkline(&[Some(f64::NAN), Some(0.0)], 2, 0.0), "  ");
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(0.0001, 4), "▏   ");
        assert_eq!(bar(0.0, 4), "    ");
        assert_eq!(bar(7.0, 4), "████");
        assert_eq!(bar(0.5, 0), "");
    }
}
