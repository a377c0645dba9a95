//! `lagstop mcp`

#[cfg(feature = "mcp")]
mod served;

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[cfg(feature = "mcp")]
pub(super) use served::run;

use super::{connect::ConnectArgs, measure::MeasureArgs, thresholds::ThresholdArgs};

const EXAMPLES: &str = "\
Examples:
  lagstop mcp                               This host: measure when the assistant asks
  lagstop mcp incident.jsonl.zst            A recording
  lagstop mcp /var/lib/lagstop/recordings   All recordings in a directory, new ones included
  lagstop mcp --connect https://node:9185   A host that runs `lagstop serve`

An MCP client starts this and talks to it on standard input and output. docs/mcp.md shows what to write into its \
configuration. No tool changes anything on the host. On this host, nothing is attached until a tool measures.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recordings, or directories of recordings, to answer from instead of measuring
    #[arg(value_name = "FILE", conflicts_with_all = ["connect", "interval", "group_by", "max_cgroups", "load_credit_time", "hooks", "light", "btf"])]
    files: Vec<PathBuf>,

    #[command(flatten)]
    thresholds: ThresholdArgs,

    #[command(flatten)]
    connect: ConnectArgs,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

#[cfg(not(feature = "mcp"))]
pub(super) fn run(_: &Args, _: &super::config::Config) -> Result<std::process::ExitCode, super::Failure> {
    Err("this build of lagstop has no MCP server. Use a release, or build with --features mcp".into())
}
