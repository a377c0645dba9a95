//! `--threshold`: what figures are held against.

use std::error::Error;

use clap::Args;

use crate::diagnosis::Thresholds;

const LONG_HELP: &str = "\
Override a threshold: NAME=VALUE (repeatable). Write shares as 5% or 0.05, times as 10us or 5ms. \
docs/config.md lists the names and defaults. docs/diagnose.md explains the defaults.

  --threshold overhead_warn=3% --threshold light_wait_p99=5ms";

/// What figures are held against.
#[derive(Args, Clone, Debug)]
pub(super) struct ThresholdArgs {
    /// Override a threshold, e.g. overhead_warn=3%
    #[arg(long = "threshold", value_name = "NAME=VALUE", long_help = LONG_HELP, value_parser = setting)]
    thresholds: Vec<(String, String)>,
}

impl ThresholdArgs {
    /// `thresholds`, overridden by those that were given as flags.
    pub(super) fn over(&self, mut thresholds: Thresholds) -> Thresholds {
        for (name, value) in &self.thresholds {
            // The value was checked when the arguments were parsed.
            let _ = thresholds.set(name, value);
        }
        thresholds
    }
}

fn setting(text: &str) -> Result<(String, String), Box<dyn Error + Send + Sync>> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not a threshold: write NAME=VALUE, e.g. overhead_warn=3%"))?;
    Thresholds::default().set(name.trim(), value)?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_checked_and_set() {
        let args = ThresholdArgs { thresholds: vec![setting("overhead_warn = 3%").unwrap()] };
        assert_eq!(args.over(Thresholds::default()).overhead_warn, 0.03);
        assert!(setting("overhead_warn").unwrap_err().to_string().contains("NAME=VALUE"));
        assert!(setting("overhead=3").unwrap_err().to_string().contains("overhead_critical"));
        assert!(setting("overhead_warn=x").unwrap_err().to_string().contains("5%"));
    }
}
