//! `--hooks`, `--light` and `--btf`: what is measured, and how.

use std::path::PathBuf;

use clap::Args;

use crate::{
    kernel::{Facts, Plan, Wish, Wishes},
    model::Measure,
};

const LONG_HELP: &str = "\
Choose how each measure is taken, or switch it off: MEASURE=WAY or MEASURE=off, with commas between. Without a value: list all \
measures and ways, and what would be used here. A measure that is not named is taken in the best way that this kernel has.

  --hooks pick=off                     Leave out the extra hooks on the pick path
  --hooks blame=off                    Do not measure what each wait was caused by
  --hooks accept=syscalls,migrations=off";

/// What is measured, and how.
#[derive(Args, Clone, Debug)]
pub(super) struct HookArgs {
    /// Choose how something is measured, or switch it off; without a value, list what there is
    #[arg(long, value_name = "MEASURE=WAY", num_args = 0..=1, default_missing_value = LIST, long_help = LONG_HELP, value_parser = choices)]
    hooks: Option<Choices>,

    /// Measure switches, waits and CPU time only: no switch cost, no causes of waits, no migrations, no accept waits
    #[arg(long, conflicts_with = "hooks")]
    light: bool,

    /// Take the kernel's types from FILE, where the kernel shows none (no /sys/kernel/btf/vmlinux)
    #[arg(long, value_name = "FILE")]
    pub(super) btf: Option<PathBuf>,
}

/// What a bare `--hooks` stands for.
const LIST: &str = "list";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choices {
    List,
    Wishes(Wishes),
}

impl HookArgs {
    /// What to measure and how, where not as it is best.
    pub(super) fn wishes(&self) -> Wishes {
        match &self.hooks {
            Some(Choices::Wishes(wishes)) => wishes.clone(),
            _ if self.light => Wishes::light(),
            _ => Wishes::default(),
        }
    }

    /// Was nothing chosen?
    pub(super) const fn are_default(&self) -> bool {
        self.hooks.is_none() && !self.light && self.btf.is_none()
    }

    /// The list that was asked for instead of a measurement.
    pub(super) fn list(&self) -> Option<String> {
        (self.hooks == Some(Choices::List)).then(|| list(&Facts::probe(self.btf.as_deref())))
    }
}

fn choices(text: &str) -> Result<Choices, String> {
    if text == LIST {
        return Ok(Choices::List);
    }
    let mut wishes = Wishes::default();
    for choice in text.split(',') {
        let (measure, way) = choice.split_once('=').ok_or(format!(
            "`{choice}` is no choice: write MEASURE=WAY or MEASURE=off, as in pick=off; --hooks alone lists them"
        ))?;
        let measure: Measure = measure.trim().parse()?;
        wishes.set(measure, wish(measure, way.trim())?);
    }
    Ok(Choices::Wishes(wishes))
}

fn wish(measure: Measure, way: &str) -> Result<Wish, String> {
    match way {
        "off" if measure == Measure::Switches => Err("without switches there is nothing to measure".to_owned()),
        "off" => Ok(Wish::Off),
        name => measure.ways().find(|way| way.name == name).map(|way| Wish::Way(way.name)).ok_or_else(|| {
            let names: Vec<&str> = measure.ways().map(|way| way.name).collect();
            format!("`{name}` is no way to measure {measure}; there is {}, and off", names.join(", "))
        }),
    }
}

/// Every measure with its ways, best first, and what would be used here.
fn list(facts: &Facts) -> String {
    let plan = Plan::ignoring_privileges(facts, &Wishes::default());
    let mut text = String::new();
    for measure in Measure::ALL {
        text.push_str(&format!("{measure}  ({})\n", measure.gives()));
        for way in measure.ways() {
            let is_used = plan.as_ref().is_ok_and(|plan| plan.way(measure) == Some(way));
            let mark = if is_used { '*' } else { ' ' };
            text.push_str(&format!("  {mark} {:<28} {}\n", way.name, way.note));
        }
    }
    text.push_str(match plan {
        Ok(_) => "\n* what would be tried first here, by what can be known without trying; `lagstop check` tries it\n",
        Err(_) => "\nNone of them can be used here; `lagstop check` says why\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        let mut expected = Wishes::default();
        expected.set(Measure::Pick, Wish::Off);
        expected.set(Measure::Accept, Wish::Way("syscalls"));
        assert_eq!(choices("pick=off, accept=syscalls"), Ok(Choices::Wishes(expected)));
        assert_eq!(choices("list"), Ok(Choices::List));
        for (wrong, said) in [
            ("pick", "pick=off"),
            ("pik=off", "switch-cost"),
            ("accept=guess", "syscalls"),
            ("switches=off", "nothing to measure"),
        ] {
            let error = choices(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
