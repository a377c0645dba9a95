//! Numbers as people write them.

use std::time::Duration;

use super::Nanos;

/// Stands for what was not measured, and for what is not a number: it was divided by 0.
const NONE: &str = "n/a";
/// Share of a whole from which on "most of it" is said: half.
pub(crate) const MOSTLY: f64 = 0.5;

/// What was measured, as `show` writes it.
pub(crate) fn if_measured<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), show)
}

/// A share in percent, with as many decimals as it needs to be told from its neighbours.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return NONE.to_owned();
    }
    if percent > 0.0 && percent < 0.005 {
        return "< 0.01 %".to_owned();
    }
    let decimals = match percent.abs() {
        0.0 => 0,
        p if p < 0.095 => 2,
        p if p < 99.95 => 1,
        _ => 0,
    };
    format!("{percent:.decimals$} %")
}

/// A share in whole percent.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A change of something by a share of it, with its sign; as a factor where it is many times as much.
pub fn signed_percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        p if p < 0.05 => "0 %".to_owned(),
        p if p < 9.95 => format!("{percent:+.1} %"),
        p if p < 999.5 => format!("{percent:+.0} %"),
        _ => format!("× {:.0}", share + 1.0),
    }
}

/// A difference of two shares, with its sign.
pub fn points(difference: f64) -> String {
    format!("{:+.2} points", difference * 100.0)
}

/// About three figures; thousands and millions by letter.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value > 0.0 && value < 0.0005 {
        return "< 0.001".to_owned();
    }
    let (value, letter) = match value.abs() {
        v if v < 9_999.5 => (value, ""),
        v if v < 999_950.0 => (value / 1e3, " k"),
        v if v < 999_950_000.0 => (value / 1e6, " M"),
        _ => (value / 1e9, " G"),
    };
    let decimals = match value.abs() {
        0.0 => 0,
        v if v < 0.0995 => 3,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{letter}")
}

/// At an axis, where room is short and neighbours tell the size.
pub(crate) fn on_axis(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{:.1}M", value / 1e6),
        large if large >= 1e3 => format!("{:.1}k", value / 1e3),
        large if large >= 10.0 || large == 0.0 => format!("{value:.0}"),
        large if large >= 1.0 => format!("{value:.1}"),
        large if large >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The size of a file.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = UNITS.into_iter().find(|&(_, unit)| bytes as f64 >= unit);
    unit.map_or_else(|| format!("{bytes} B"), |(name, unit)| format!("{:.1} {name}", bytes as f64 / unit))
}

/// A time as long as a recording.
pub(crate) fn span(time: Nanos) -> String {
    const SHORT: Nanos = Nanos(60 * Nanos::SECOND.0);
    if time < SHORT {
        let text = time.to_string();
        return text.replace(".00", "").replace(".0 ", " ");
    }
    humantime::format_duration(Duration::from_secs(time.0 / Nanos::SECOND.0)).to_string()
}

/// What is left of a time, in minutes and seconds.
pub(crate) fn countdown(seconds: u64) -> String {
    format!("{}:{:02} left", seconds / 60, seconds % 60)
}

/// A count, exact while it is short.
pub fn count(value: u64) -> String {
    if value < 10_000 { value.to_string() } else { number(value as f64) }
}

/// What a noun ends in after so many.
pub fn ending<T: PartialEq + From<u8>>(count: T) -> &'static str {
    if count == T::from(1) { "" } else { "s" }
}

/// "1 interval", "2 intervals".
pub fn plural(value: u64, one: &str) -> String {
    format!("{} {one}{}", count(value), ending(value))
}

/// "1.00 CPU", "2.50 CPUs".
pub fn cpus(cores: f64) -> String {
    format!("{} CPU{}", number(cores), if (cores - 1.0).abs() < 0.005 { "" } else { "s" })
}

/// "12.3 times".
pub fn times(factor: f64) -> String {
    format!("{} times", number(factor))
}

/// `text` with a capital, and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// A name that came from outside, told apart from the sentence around it.
pub fn quoted(name: &str) -> String {
    format!("“{name}”")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!((percent(f64::NAN), number(f64::INFINITY)), (NONE.to_owned(), NONE.to_owned()));
        assert_eq!((percent(1e-6), number(1e-6)), ("< 0.01 %".to_owned(), "< 0.001".to_owned()));
        assert_eq!([0.0, 0.00042, 0.0512, 0.25, 1.0].map(percent), ["0 %", "0.04 %", "5.1 %", "25.0 %", "100 %"]);
        assert_eq!(
            [0.0, 0.012, 1.5, 12.34, 830.2, 12_340.0, 2.1e6].map(number),
            ["0", "0.012", "1.50", "12.3", "830", "12.3 k", "2.10 M"]
        );
        assert_eq!([0.0123, -0.004].map(points), ["+1.23 points", "-0.40 points"]);
        assert_eq!(
            [1, 2, 12_000].map(|n| plural(n, "switch").replace("switchs", "switches")),
            ["1 switch", "2 switches", "12.0 k switches"]
        );
    }
}
