//! Figures as people write them in flags and configuration files.

use crate::model::Nanos;

/// A figure that people set.
pub(super) trait Setting: Sized {
    /// Reads it.
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it so that it is read back.
    fn write(&self) -> String;
}

impl Setting for f64 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<Self>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        match text.trim().strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(text),
        }
        .ok_or_else(|| format!("{text:?} is neither a number such as 0.05 nor a percentage such as 5%"))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for Nanos {
    fn parse(text: &str) -> Result<Self, String> {
        let time = humantime::parse_duration(text.trim())
            .map_err(|error| format!("{text:?} is no time: {error}; write it as 10us, 5ms or 2s"))?;
        u64::try_from(time.as_nanos()).map(Self).map_err(|_| format!("{text:?} is longer than can be counted"))
    }

    fn write(&self) -> String {
        humantime::format_duration(std::time::Duration::from_nanos(self.0)).to_string().replace(' ', "")
    }
}

impl Setting for u64 {
    fn parse(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("{text:?} is no whole number"))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for usize {
    fn parse(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("{text:?} is no whole number"))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}
