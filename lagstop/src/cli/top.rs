//! `lagstop top`

use clap::Args as ClapArgs;

use super::{Failure, block_on, measure::MeasureArgs};
use crate::top;

const EXAMPLES: &str = "\
Examples:
  lagstop top
  lagstop top --interval 5s --group-by leaf

? shows the keys, m what this kernel does not let lagstop measure, q quits.
Without the privileges to measure it shows what the kernel's files tell: CPU time, switches, waits, Load Credit.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    top::check_terminal()?;
    block_on(async { Ok(top::run(args.measure.start_or_read()?).await?) })
}
