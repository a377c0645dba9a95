//! `--hooks`, `--light` and `--btf`: what is measured, and how.

use std::path::PathBuf;

use clap::Args;

use crate::{
    kernel::{AttachPlan, Facts, Wish, Wishes},
    model::{Measure, UnknownMeasure},
};

const LONG_HELP: &str = "\
Choose the method of each measure, or turn it off: MEASURE=METHOD or MEASURE=off, separated by commas. Without a value, list \
all measures and methods, and mark those that would be used here. For all other measures, lagstop uses the best method that \
this kernel supports.

  --hooks pick=off                     Omit the extra hooks on the pick path
  --hooks blame=off                    Omit the causes of waits
  --hooks accept=syscalls,migrations=off";

/// What is measured, and how.
#[derive(Args, Clone, Debug)]
pub(super) struct HookArgs {
    /// Choose the method of a measure, or turn it off; without a value, list all measures and methods
    #[arg(long, value_name = "MEASURE=METHOD", num_args = 0..=1, default_missing_value = LIST, long_help = LONG_HELP, value_parser = choices)]
    hooks: Option<Choices>,

    /// Measure switches, waits and CPU time only: no switch cost, no causes of waits, no migrations, no accept waits
    #[arg(long, conflicts_with = "hooks")]
    light: bool,

    /// Read the kernel's types (BTF) from FILE, for kernels without /sys/kernel/btf/vmlinux
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
    /// What was asked for. Everything else is measured by the best method that this kernel supports.
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
            "cannot read `{choice}`: write MEASURE=METHOD or MEASURE=off, e.g. pick=off. --hooks without a value lists them"
        ))?;
        let measure = measure.trim().parse().map_err(|unknown: UnknownMeasure| unknown.to_string())?;
        wishes.set(measure, wish(measure, way.trim())?);
    }
    Ok(Choices::Wishes(wishes))
}

fn wish(measure: Measure, way: &str) -> Result<Wish, String> {
    match way {
        "off" if measure == Measure::Switches => {
            Err("switches cannot be turned off: all other measures need them".to_owned())
        }
        "off" => Ok(Wish::Off),
        name => measure.ways().find(|way| way.name == name).map(|way| Wish::Way(way.name)).ok_or_else(|| {
            let names: Vec<&str> = measure.ways().map(|way| way.name).collect();
            format!("unknown method `{name}` for {measure}; known methods: {}, off", names.join(", "))
        }),
    }
}

/// Every measure with its ways, best first, and what would be used here.
fn list(facts: &Facts) -> String {
    let plan = AttachPlan::ignoring_privileges(facts, &Wishes::default());
    let mut text = String::new();
    for measure in Measure::ALL {
        text.push_str(&format!("{measure}  ({})\n", measure.gives().join(", ")));
        for way in measure.ways() {
            let is_used = plan.as_ref().is_ok_and(|plan| plan.way(measure) == Some(way));
            let mark = if is_used { '*' } else { ' ' };
            text.push_str(&format!("  {mark} {:<28} {}\n", way.name, way.note));
        }
    }
    text.push_str(match plan {
        Ok(_) => "\n* first choice on this kernel, not yet tested; `lagstop check` tests it\n",
        Err(_) => "\nThis kernel supports none of these methods; run `lagstop check` for the reasons\n",
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
            ("switches=off", "cannot be turned off"),
        ] {
            let error = choices(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
