//! The runs of the command, one after the other.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::{Args, End, Measuring, OWN_FAILURE};
use crate::{
    cli::{
        Failure,
        command::{Command, Ended},
        say,
    },
    display::plain,
    host::{Cpus, Identity},
    model::Nanos,
    recording::now,
    report,
    run::{CommandStatus, EndedRun, Method, Run, RunSeries, Unmeasured, Work, judge},
    signals::{Caught, ForCommand},
};

/// A command that is run once or several times.
pub(super) struct Turns {
    command: Command,
    measuring: Measuring,
    signals: ForCommand,
    series: RunSeries,
    /// The signal that asked to end. There is no further turn after it.
    interrupted: Option<i32>,
    /// Is the result of each run printed when it ends?
    tells: bool,
}

impl Turns {
    pub(super) fn new(
        args: &Args,
        command: Command,
        measuring: Measuring,
        signals: ForCommand,
    ) -> Result<Self, Failure> {
        let Identity { hostname, kernel, .. } = Identity::read()?;
        let wanted = args.repeat.unwrap_or(1);
        let restricted = measuring.restricted().map(Unmeasured::to_string);
        let series = RunSeries {
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            method: if restricted.is_some() { Method::Files } else { Method::Ebpf },
            restricted,
            lagstop_version: env!("CARGO_PKG_VERSION").to_owned(),
            hostname,
            kernel,
            cpus_online: Cpus::read()?.online.len() as u64,
            started_at: now(),
            limits: args.limits(),
            wanted,
            at_most: if args.repeat.is_some() {
                args.at_most.unwrap_or(wanted.saturating_mul(super::ATTEMPTS))
            } else {
                1
            },
            runs: Vec::new(),
        };
        Ok(Self { command, measuring, signals, series, interrupted: None, tells: args.repeat.is_some() })
    }

    /// Runs it as often as needed, and leaves nothing behind.
    pub(super) async fn run(mut self) -> Result<(RunSeries, End), Failure> {
        loop {
            let Some(ended) = self.turn().await? else { break };
            let work = self.measuring.finish(ended.ended_ns).await;
            let run = self.judged(ended, work);
            if self.tells {
                say(format_args!("lagstop: {}\n", report::run::numbered_line(&run)));
            }
            self.series.runs.push(run);
            if !self.series.wants_more() || self.is_interrupted() {
                break;
            }
            self.command.again().await?;
            if self.is_interrupted() {
                break;
            }
        }
        let Self { command, measuring, series, interrupted, .. } = self;
        // Detached before the cgroup is removed, which may take a while.
        drop(measuring);
        let keeper = command
            .finish()
            .map_err(|error| format!("the exit status of the command is unknown: {}", plain(&error)))?;
        let end = match series.runs.last() {
            // It could not be run, as its keeper has reported.
            None => keepers_end(keeper),
            Some(run) => match (run.status, interrupted) {
                (CommandStatus { signal: Some(signal), .. }, _) => End::Signal(signal),
                (CommandStatus { exit_code: Some(0), .. }, Some(signal))
                    if !series.is_enough() && series.wanted > 1 =>
                {
                    End::Signal(signal)
                }
                (CommandStatus { exit_code, .. }, _) => End::Code(exit_code.and_then(code).unwrap_or(OWN_FAILURE)),
            },
        };
        Ok((series, end))
    }

    /// Has a signal asked to end? One that came between two runs is for lagstop alone.
    fn is_interrupted(&mut self) -> bool {
        while let Some(caught) = self.signals.has_come() {
            self.note(caught);
        }
        self.interrupted.is_some()
    }

    fn note(&mut self, caught: Caught) {
        if caught.asks_to_end() {
            self.interrupted = Some(caught.signal);
        }
    }

    /// Runs it once. `None` if that was not possible.
    async fn turn(&mut self) -> Result<Option<Ended>, Failure> {
        self.measuring.begin(self.command.place()).await;
        self.command.let_go(self.measuring.restricted().is_some())?;
        loop {
            tokio::select! {
                ended = self.command.ended() => return Ok(ended),
                () = self.measuring.next() => {}
                caught = self.signals.next() => {
                    self.note(caught);
                    // Signals from the terminal have reached the command already.
                    if caught.is_sent {
                        self.command.pass_on(caught.signal);
                    }
                }
            }
        }
    }

    fn judged(&self, ended: Ended, work: Result<Work, Unmeasured>) -> Run {
        let Ended { status, began_ns, ended_ns, cpu_ns, host, cgroup, seen } = ended;
        let ended = EndedRun {
            number: self.series.runs.len() as u32 + 1,
            status: status_of(ExitStatus::from_raw(status)),
            wall_ns: Nanos(ended_ns.0.saturating_sub(began_ns.0)),
            cpu_ns,
            work,
            seen,
            host,
            cgroup,
        };
        judge(ended, &self.series.limits)
    }
}

fn status_of(status: ExitStatus) -> CommandStatus {
    CommandStatus { exit_code: status.code(), signal: status.signal() }
}

fn code(code: i32) -> Option<u8> {
    u8::try_from(code).ok()
}

/// How lagstop ends if the keeper could not run the command: with the exit codes of shells.
fn keepers_end(status: ExitStatus) -> End {
    End::Code(status.code().and_then(code).filter(|code| [126, 127].contains(code)).unwrap_or(OWN_FAILURE))
}
