//! `lagstop check`

use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};

use super::{Failure, hooks::HookArgs, print, terminal_options};
use crate::{
    check::{self, Verdict},
    host::Surroundings,
    kernel::Facts,
    report,
};

const EXAMPLES: &str = "\
Examples:
  lagstop check
  lagstop check --format json | jq -r '.measures[] | [.measure, .way] | @tsv'
  lagstop check --hooks switch-cost=kprobe:schedule

Exit code: 0 when everything is measured, 3 when some of it is n/a, 4 when nothing can be measured in the kernel:
top alone runs then, and shows what the kernel's files tell.
It works without privileges, and then says what can be told without trying.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// For people or for programs
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Attach nothing: say what can be told without
    #[arg(long)]
    without_trying: bool,

    #[command(flatten)]
    pub(super) hooks: HookArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A list to read
    Text,
    /// One JSON document
    Json,
}

/// Some of what there is to measure is n/a.
const DEGRADED: u8 = 3;
/// Nothing can be measured in the kernel.
const UNUSABLE: u8 = 4;

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let facts = Facts::probe(args.hooks.btf.as_deref());
    let found = check::run(facts, &Surroundings::look(), &args.hooks.wishes(), !args.without_trying);
    let text = match args.format {
        Format::Text => report::check::render(&found, terminal_options()),
        Format::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    let printed = print(&text);
    Ok(match found.verdict {
        _ if printed != ExitCode::SUCCESS => printed,
        Verdict::Full => ExitCode::SUCCESS,
        Verdict::Degraded => ExitCode::from(DEGRADED),
        Verdict::Unusable => ExitCode::from(UNUSABLE),
    })
}
