//! What there is to answer from, and until when.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use super::Args;
use crate::{
    cli::{Failure, config::Config, connect::follow, listen, runtime, say},
    diagnosis::Thresholds,
    display::plain,
    kernel::Capabilities,
    mcp::{Library, Measurer, MeasuringTime, Shelf, serve},
    source::{Begin, ConnectOptions},
};

/// Live: the time before the request is unknown. Many clients wait at most a minute for an answer.
const LIVE: MeasuringTime = MeasuringTime { default: 10, most: 45, looks_back: false };
/// Another host: the time before is known, usually in intervals of some seconds. A verdict needs several.
const BACK: MeasuringTime = MeasuringTime { default: 60, most: 3_600, looks_back: true };

pub(in crate::cli) fn run(args: &Args, config: &Config) -> Result<ExitCode, Failure> {
    if io::stdin().is_terminal() {
        say(format_args!(
            "lagstop: this speaks the Model Context Protocol, which is for programs. docs/mcp.md shows how a client starts it \
             (Ctrl-C ends)\n"
        ));
    }
    let shelf = args.shelf(config)?;
    // The thread that talks to the client needs no privileges.
    if args.files.is_empty() {
        let given_up = Capabilities::NONE.keep_of_held();
        given_up.map_err(|error| format!("cannot drop privileges: {}. Please report it", plain(&error)))?;
    }
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let mut endings = listen()?;
        tokio::select! {
            served = serve(shelf) => Ok(served?),
            () = endings.wait() => Ok(()),
        }
    });
    // A normal shutdown would wait for the read of standard input.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

impl Args {
    fn shelf(&self, config: &Config) -> Result<Shelf, Failure> {
        let thresholds: Thresholds = self.thresholds.over(config.thresholds.0.clone());
        if !self.files.is_empty() {
            return Ok(Shelf::of_recordings(Library::new(self.files.clone())?, thresholds));
        }
        let thread =
            |error: io::Error| format!("cannot start a thread: {}. Raise the limit of processes", plain(&error));
        let measurer = match self.connect.options(Begin::Last, Some(Duration::ZERO))? {
            Some(options) => {
                let default = if let Begin::Ago(back) = options.begin {
                    back.as_secs().clamp(1, BACK.most)
                } else {
                    BACK.default
                };
                Measurer::new(MeasuringTime { default, ..BACK }, move |back| {
                    let options = ConnectOptions { begin: Begin::Ago(back), ..options.clone() };
                    Ok(follow(options)?)
                })
            }
            None => {
                let (measure, config) = (self.measure.clone(), config.measure.clone());
                Measurer::new(LIVE, move |duration| Ok(measure.start(Some(duration), &config)?))
            }
        };
        Ok(Shelf::of_measurements(measurer.map_err(thread)?, thresholds))
    }
}
