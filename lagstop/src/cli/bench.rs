//! `lagstop bench`

mod arguments;
mod preflight;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub(super) use arguments::Args;

use super::{Failure, block_on, listen, progress::StatusLine, say};
use crate::{
    bench::{self, BenchProgress},
    display::plain,
    host::{Hierarchy, Version},
    model::GroupBy,
    units::countdown,
};

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let settings = args.settings()?;
    let hierarchy = Hierarchy::find(GroupBy::Scheduler)?;
    let host = here(&hierarchy);
    // What can be refused is looked at before anything is started.
    let outputs = args.outputs()?;
    preflight::check(&settings, host.cpus, args.force())?;
    let swept = bench::sweep(&hierarchy).map_err(|error| format!("cannot read cgroups: {}", plain(&error)))?;
    for left in swept {
        say(format_args!("lagstop: removed {}, which was left by a killed benchmark\n", left.display()));
    }
    let bench = block_on(async {
        let mut endings = listen()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let mut running =
            tokio::task::spawn_blocking(move || bench::run(&settings, &hierarchy, host, &mut tell(), &seen));
        loop {
            tokio::select! {
                ended = &mut running => return Ok(ended??),
                () = endings.wait() => stop.store(true, Ordering::Relaxed),
            }
        }
    });
    let bench = bench?;
    for (output, format) in outputs {
        let written = format.render(&bench, output.options())?;
        output.write(&written)?;
    }
    Ok(if bench.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL) })
}

/// Exit code: only some of the runs were made.
const NOT_ALL: u8 = 3;

fn here(hierarchy: &Hierarchy) -> bench::BenchHost {
    let uname = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    bench::BenchHost {
        hostname: text(uname.nodename()),
        kernel: text(uname.release()),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        cgroup_version: match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        },
    }
}

/// Shows the progress if standard error is a terminal.
fn tell() -> impl FnMut(BenchProgress) + Send {
    let line = StatusLine::new();
    let mut last = None;
    move |progress: BenchProgress| {
        let BenchProgress { run, runs, functions, left } = progress;
        let left = left.as_secs();
        if last.replace((run, left)) != Some((run, left)) {
            line.say(format!("run {} of {runs}: {functions} functions; {}", run + 1, countdown(left)));
        }
    }
}
