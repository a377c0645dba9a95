//! `lagstop trial`, as users run it, and what it says.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use lagstop::trial::Policy;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::{block::Block, error::Error};
use crate::{interrupt::Interrupt, tenants::quiet};

/// How to try a policy.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) lagstop: PathBuf,
    pub(super) before: Duration,
    pub(super) duration: Duration,
}

/// What a trial's JSON says, as far as it is needed: docs/trial.schema.json.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TrialReport {
    pub(super) light: Vec<String>,
    pub(super) heavy: Vec<String>,
    pub(super) pairs: usize,
    pub(super) figures: Vec<TrialFigure>,
    pub(super) ended: Option<String>,
    pub(super) not_undone: Vec<String>,
    pub(super) blocks: Option<Vec<Block>>,
}

/// One of its figures.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TrialFigure {
    pub(super) name: String,
    pub(super) change: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) why_not: Option<String>,
    pub(super) predicted: Option<f64>,
    pub(super) predicted_low: Option<f64>,
    pub(super) predicted_high: Option<f64>,
    pub(super) predicted_why_not: Option<String>,
}

pub(super) enum Ended {
    /// With figures.
    Outcome(Box<TrialReport>),
    /// It did not begin: the policy is not for this kernel or these cgroups.
    Refused(String),
    /// It failed in another way.
    Failed(String),
}

/// What a trial takes beside its times, for loading programs and undoing changes, on an overloaded host.
const SLACK: Duration = Duration::from_secs(30);
/// How long it may take to undo its changes when it is interrupted.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

impl Trial {
    /// How long it can take.
    pub(super) fn longest(&self) -> Duration {
        self.before + self.duration + SLACK + ENDS_WITHIN
    }

    /// How long it takes where nothing is in the way.
    pub(super) fn usual(&self) -> Duration {
        self.before + self.duration + Duration::from_secs(2)
    }

    /// Tries the policy. `light` names the cgroups that are to go first; without it, diagnose names them.
    pub(super) fn run(&self, policy: Policy, light: Option<&str>, interrupt: &Interrupt) -> Result<Ended, Error> {
        let seconds = |time: Duration| format!("{}ms", time.as_millis());
        let mut command = Command::new(&self.lagstop);
        command.args(["trial", "--apply", "--format", "json", "--policy", policy.name()]);
        command.args(["--before", &seconds(self.before), "--duration", &seconds(self.duration)]);
        if let Some(light) = light {
            command.args(["--light", light]);
        }
        let (status, stdout, stderr) =
            finish(command, self.before + self.duration + SLACK, interrupt).map_err(Error::file("lagstop trial"))?;
        let said = stderr.trim().to_owned();
        let Some(status) = status else {
            self.restore();
            return Ok(Ended::Failed(format!("it did not end in time, and was ended. {said}")));
        };
        match serde_json::from_str::<TrialReport>(&stdout) {
            Ok(outcome) if !outcome.not_undone.is_empty() => {
                self.restore();
                Ok(Ended::Failed(format!("not everything was undone: {}", outcome.not_undone.join("; "))))
            }
            Ok(outcome) => Ok(Ended::Outcome(Box::new(outcome))),
            Err(_) => Ok(match said.lines().find_map(|line| Some(line.split_once("cannot be tried: ")?.1)) {
                Some(why) => Ended::Refused(why.to_owned()),
                None => Ended::Failed(format!("it ended with {status}. {said}")),
            }),
        }
    }

    /// Puts back what the watchdog has not put back.
    fn restore(&self) {
        let _ = quiet(Command::new(&self.lagstop)).args(["trial", "--restore"]).status();
    }
}

/// Runs it to its end and gives its status and what it wrote. The status is `None` where it did not end in time.
fn finish(
    mut command: Command,
    time: Duration,
    interrupt: &Interrupt,
) -> io::Result<(Option<ExitStatus>, String, String)> {
    let home = tempfile::tempdir()?;
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| home.path().join(name));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let mut child = Running(command.spawn()?);
    let mut status = interrupt.wait(time, || child.ended());
    if status.is_none() {
        let is_late = !interrupt.has_come();
        kill_process(Pid::from_child(&child.0), Signal::INT)?;
        // It is not interrupted a second time: meanwhile it puts back what it changed.
        let end = std::time::Instant::now() + ENDS_WITHIN;
        while status.is_none() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
            status = child.ended();
        }
        status = status.filter(|_| !is_late);
    }
    drop(child);
    Ok((status, fs::read_to_string(stdout)?, fs::read_to_string(stderr)?))
}

/// Killed when dropped; its watchdog undoes then what it has changed.
struct Running(Child);

impl Running {
    fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What comes of a program that does this instead of lagstop.
    fn of(script: &str) -> Ended {
        let home = tempfile::tempdir().unwrap();
        let lagstop = home.path().join("lagstop");
        fs::write(&lagstop, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&lagstop, fs::Permissions::from_mode(0o755)).unwrap();
        let trial = Trial { lagstop, before: Duration::from_secs(2), duration: Duration::from_secs(10) };
        trial.run(Policy::Weight, None, &Interrupt::never()).unwrap()
    }

    #[test]
    fn a_refusal_is_told_from_a_failure() {
        let refused = of("echo 'lagstop: weight cannot be tried: this kernel has no weights' >&2; exit 1");
        assert!(matches!(refused, Ended::Refused(why) if why == "this kernel has no weights"));
        let failed = of("echo 'lagstop: another trial goes on' >&2; exit 1");
        assert!(matches!(failed, Ended::Failed(why) if why.contains("another trial")));
    }

    const JSON: &str = r#"{"kernel": "6", "light": [], "heavy": [], "pairs": 1, "figures": [], "ended": null"#;

    #[test]
    fn what_could_not_be_undone_is_no_result() {
        assert!(matches!(of(&format!(r#"echo '{JSON}, "not_undone": []}}'"#)), Ended::Outcome(_)));
        let failed = of(&format!(r#"echo '{JSON}, "not_undone": ["a file"]}}'; exit 1"#));
        assert!(matches!(failed, Ended::Failed(why) if why.contains("a file")));
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let began = std::time::Instant::now();
        let (status, ..) = finish(command, Duration::from_millis(100), &Interrupt::never()).unwrap();
        assert!(status.is_none() && began.elapsed() < Duration::from_secs(10));
    }
}
