//! `lagstop check`

use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};

use super::{Failure, hooks::HookArgs, output::ResultArgs};
use crate::{
    check::{self, CheckVerdict},
    host::Surroundings,
    kernel::Facts,
    report,
};

const EXAMPLES: &str = "\
Examples:
  lagstop check
  lagstop check --format json | jq -r '.measures[] | [.measure, .way] | @tsv'
  lagstop check --hooks switch-cost=kprobe:schedule

Exit code: 0 if everything can be measured, 3 if some metrics are n/a, 4 if measuring in the kernel is impossible.
With exit code 4 only `lagstop top` and `lagstop run` work; they read /proc and cgroup files.
Without privileges, check attaches no programs and reports what it can determine.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: ResultArgs,

    /// Attach no programs; report what can be determined without them
    #[arg(long)]
    without_trying: bool,

    #[command(flatten)]
    pub(super) hooks: HookArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A list for a terminal
    Text,
    /// One JSON document
    Json,
}

/// Exit code: some measures are n/a.
const DEGRADED: u8 = 3;
/// Exit code: nothing can be measured in the kernel.
const UNUSABLE: u8 = 4;

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let output = args.output.open()?;
    let facts = Facts::probe(args.hooks.btf.as_deref());
    let found = check::run(facts, &Surroundings::look(), &args.hooks.wishes(), !args.without_trying);
    let text = match args.format {
        Format::Text => report::check::render(&found, output.options()),
        Format::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    output.write(&text)?;
    Ok(match found.verdict {
        CheckVerdict::Full => ExitCode::SUCCESS,
        CheckVerdict::Degraded => ExitCode::from(DEGRADED),
        CheckVerdict::Unusable => ExitCode::from(UNUSABLE),
    })
}
